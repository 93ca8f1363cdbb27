-- admit: may this client key start this request now?
--
-- uses     clock, window, line
-- KEYS[1]  account    hash    money, overdraft
-- KEYS[2]  record     hash    the client key: status, secret, rev, limits
-- KEYS[3]  balance    string  nano-dollars
-- KEYS[4]  reserved   hash    request id → nano-dollars, total
-- KEYS[5]  request    hash    this request, once admitted
-- KEYS[6]  spend      string  nano-dollars spent in the period
-- KEYS[7]  rpm        list    ms of the last admissions
-- KEYS[8]  leases     zset    request id by expiry ms; lapsed ones stay until they are settled
-- KEYS[9]  waiters    zset    the line
-- KEYS[10] alive      zset    its places
-- ARGV[1]  request_id
-- ARGV[2]  replica
-- ARGV[3]  key_id
-- ARGV[4]  secret     sha256 hex
-- ARGV[5]  rev        of the record the caller knows
-- ARGV[6]  model
-- ARGV[7]  hold       nano-dollars; -1: the model is free
-- ARGV[8]  label      of the spend period; '': none
-- ARGV[9]  start_ms   of that period
-- ARGV[10] end_ms     of that period; 0: never
-- ARGV[11] max_wait   ms the caller may stand in line; -1: not at all
-- ARGV[12] wake_prefix
-- returns  {'admitted', now_ms, expires_ms} | {'already'} | {'disabled'} | {'changed'} | {'lost'} | {'period_passed', now_ms}
--          | {'no_balance', nanos} | {'over_spend', limit, used, resets_ms} | {'over_rate', wait_ms, limit, position}
--          | {'over_concurrency', limit, position}
-- holds    All limits are taken or none. A refusal writes nothing but the caller's own place in line. The same request_id
--          again: same answer, no second hit. What must exist and is missing is 'lost', never "no limit".
-- caller   shared/src/state/admission.rs
local function admit(KEYS, ARGV)
  local account, record, balance_key, reserved, open_request = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
  local spend, rpm_log, leases, waiters, alive = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
  local request_id, replica, key_id, secret, rev, model = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
  local hold, label, start_ms, end_ms = tonumber(ARGV[7]), ARGV[8], tonumber(ARGV[9]), tonumber(ARGV[10])
  local max_wait, wake_prefix = tonumber(ARGV[11]), ARGV[12]
  local call = redis.call
  local now, us = clock()

  local before = call('HMGET', open_request, 'settled_at', 'admitted_at', 'expires_at')
  if before[1] then return {'already'} end
  if before[2] then return {'admitted', tonumber(before[2]), tonumber(before[3])} end

  local owner = call('HMGET', account, 'money', 'overdraft')
  local key = call('HMGET', record, 'status', 'secret', 'rev', 'rpm', 'max_concurrent', 'spend_limit', 'spend_mark')
  if not owner[1] or not key[1] then return {'lost'} end
  if key[1] ~= 'active' or key[2] ~= secret then return {'disabled'} end
  local limited, reserves = owner[1] ~= 'unlimited', owner[2] ~= 'soft'
  local rpm, max_concurrent, spend_limit = tonumber(key[4]), tonumber(key[5]), tonumber(key[6])
  if key[3] ~= rev or (spend_limit and label == '') then return {'changed'} end
  if label ~= '' and (now < start_ms or (end_ms > 0 and now >= end_ms)) then return {'period_passed', now} end

  if limited then
    local left = tonumber(call('GET', balance_key))
    local held = reserves and tonumber(call('HGET', reserved, 'total')) or not reserves and 0
    if not left or not held then return {'lost'} end
    left = left - held
    if hold >= 0 and (left <= 0 or (reserves and hold > left)) then return {'no_balance', left} end
  end
  if spend_limit then
    local used = tonumber(call('GET', spend))
    if not used and key[7] == label then return {'lost'} end
    if hold >= 0 and (used or 0) >= spend_limit then return {'over_spend', spend_limit, used or 0, end_ms} end
  end

  local ahead, stands, wait, newest, live = 0, false, 0, nil, 0
  local member = replica .. '|' .. request_id
  if rpm or max_concurrent then ahead, stands = line_ahead(waiters, alive, member, now) end
  if rpm then wait, newest = window_wait(rpm_log, rpm, now, ahead) end
  if max_concurrent and wait == 0 then live = call('ZCOUNT', leases, string.format('(%.0f', now), '+inf') end
  local full = max_concurrent and wait == 0 and live + ahead >= max_concurrent
  if wait > 0 or full then
    local position = 0
    if max_wait > 0 and wait <= max_wait then
      line_stand(waiters, alive, member, now, us, stands)
      position = ahead + 1
    elseif stands then
      line_leave(waiters, alive, member)
    end
    if full then return {'over_concurrency', max_concurrent, position} end
    return {'over_rate', wait, rpm, position}
  end

  local expires = now + 15000
  local reserve = limited and reserves and math.max(hold, 0) or 0
  if rpm then window_add(rpm_log, rpm, us, newest) end
  -- Redis prints a number as a float, which costs more than the command: texts are printed once.
  local now_text, expires_text = string.format('%.0f', now), string.format('%.0f', expires)
  call('ZADD', leases, expires_text, request_id)
  call('PEXPIRE', leases, '86400000')
  call('HSET', open_request, 'key', key_id, 'model', model, 'replica', replica, 'admitted_at', now_text, 'expires_at', expires_text,
    'money', owner[1], 'overdraft', reserves and 'none' or 'soft', 'spend_label', label, 'spend_start', ARGV[9],
    'spend_end', ARGV[10])
  call('PEXPIRE', open_request, '86400000')
  if reserve > 0 then
    call('HSET', reserved, request_id, reserve)
    call('HINCRBY', reserved, 'total', reserve)
  end
  if stands then
    line_leave(waiters, alive, member)
    if max_concurrent and live + 1 < max_concurrent then line_wake(waiters, alive, now, wake_prefix) end
  end
  return {'admitted', now, expires}
end
