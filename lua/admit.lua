-- admit: may this client key start this request now?
--
-- uses      clock, window, line, ring, quotas
-- KEYS[1]   account    hash    money, overdraft
-- KEYS[2]   record     hash    the client key: status, secret, rev, limits
-- KEYS[3]   balance    string  nano-dollars
-- KEYS[4]   reserved   hash    request id → nano-dollars, total
-- KEYS[5]   request    hash    this request, once admitted
-- KEYS[6]   spend      string  nano-dollars spent in the period
-- KEYS[7]   rpm        list    ms of the last admissions
-- KEYS[8]   leases     zset    request id by expiry ms; lapsed ones stay until they are settled
-- KEYS[9]   waiters    zset    the line
-- KEYS[10]  alive      zset    its places
-- KEYS[11]  tpm        hash    a ring of one-second slices: thousandths of tokens that settled requests used
-- KEYS[12]  held       hash    a counter's key (tpm, spend, quota) → what open requests hold of it
-- KEYS[n+12] quota     string  one key a quota; of a sliding window a ring
-- ARGV[1]   request_id
-- ARGV[2]   replica
-- ARGV[3]   key_id
-- ARGV[4]   secret     sha256 hex
-- ARGV[5]   rev        of the record the caller knows
-- ARGV[6]   model
-- ARGV[7]   hold       nano-dollars; -1: the model is free
-- ARGV[8]   label      of the spend period; '': none
-- ARGV[9]   start_ms   of that period
-- ARGV[10]  end_ms     of that period; 0: never
-- ARGV[11]  max_wait   ms the caller may stand in line; -1: not at all
-- ARGV[12]  wake_prefix
-- ARGV[13]  bound      stated | assumed: whether the request says how much it may be answered
-- ARGV[14]  tokens     it is estimated to use
-- ARGV[15]  input      thousandths of tokens, weighed, of that estimate
-- ARGV[16]  output     the same
-- ARGV[17]  quotas     the quotas as a text, kept with the open request
-- ARGV[a]   kind       six arguments a quota (a = 18, 24 …): requests | tokens | cost
-- ARGV[a+1] limit
-- ARGV[a+2] mark       its field in the record
-- ARGV[a+3] label      of its period; '': a sliding window
-- ARGV[a+4] start_ms   of that period
-- ARGV[a+5] ends       ms of that period, 0: never; of a window the length of a slice in ms
-- returns   {'admitted', now_ms, expires_ms} | {'already'} | {'disabled'} | {'changed'} | {'lost'} | {'period_passed', now_ms}
--           | {'no_balance', nanos} | {'over_spend', limit, used, resets_ms, position}
--           | {'over_quota', index from 0, used, resets_ms, position} | {'over_rate', wait_ms, limit, position}
--           | {'over_tokens', wait_ms, soonest_ms, limit, position} | {'over_concurrency', limit, position}
-- holds     All limits are taken or none. A refusal writes nothing but the caller's own place in line. The same request_id
--           again: same answer, no second hit. What must exist and is missing is 'lost', never "no limit". A position other than
--           0 is a place in line. What open requests hold and what was used is never more than a limit.
-- caller    shared/src/state/admission.rs
local function admit(KEYS, ARGV)
  local account, record, balance_key, reserved, open_request = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
  local spend, rpm_log, leases, waiters, alive, tpm_ring, held = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
  local request_id, replica, key_id, secret, rev, model = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
  local hold, label, start_ms, end_ms = tonumber(ARGV[7]), ARGV[8], tonumber(ARGV[9]), tonumber(ARGV[10])
  local max_wait, wake_prefix, elastic = tonumber(ARGV[11]), ARGV[12], ARGV[13] == 'assumed'
  local call = redis.call
  local now, us = clock()

  local before = call('HMGET', open_request, 'settled_at', 'admitted_at', 'expires_at')
  if before[1] then return {'already'} end
  if before[2] then return {'admitted', tonumber(before[2]), tonumber(before[3])} end

  local owner = call('HMGET', account, 'money', 'overdraft')
  local quotas, marks = {}, {}
  for n = 1, #KEYS - 12 do
    local a = 12 + n * 6
    quotas[n] = {key = KEYS[n + 12], kind = ARGV[a], limit = tonumber(ARGV[a + 1]), mark = ARGV[a + 2], label = ARGV[a + 3],
      starts = tonumber(ARGV[a + 4]), ends = tonumber(ARGV[a + 5]), index = n - 1}
    marks[n] = ARGV[a + 2]
  end
  local key = call('HMGET', record, 'status', 'secret', 'rev', 'rpm', 'max_concurrent', 'spend_limit', 'tpm', 'spend_mark',
    unpack(marks))
  if not owner[1] or not key[1] then return {'lost'} end
  if key[1] ~= 'active' or key[2] ~= secret then return {'disabled'} end
  local limited, reserves = owner[1] ~= 'unlimited', owner[2] ~= 'soft'
  local rpm, max_concurrent, spend_limit, tpm = tonumber(key[4]), tonumber(key[5]), tonumber(key[6]), tonumber(key[7])
  if key[3] ~= rev or (spend_limit and label == '') then return {'changed'} end
  if label ~= '' and (now < start_ms or (end_ms > 0 and now >= end_ms)) then return {'period_passed', now} end

  for n = 1, #quotas do
    local one = quotas[n]
    if one.label ~= '' and (now < one.starts or (one.ends > 0 and now >= one.ends)) then return {'period_passed', now} end
    one.marked = key[n + 8]
  end
  if spend_limit then
    quotas[#quotas + 1] = {key = spend, kind = 'spend', limit = spend_limit, mark = 'spend_mark', marked = key[8], label = label,
      ends = end_ms}
  end

  if limited then
    local left = tonumber(call('GET', balance_key))
    local total = reserves and tonumber(call('HGET', reserved, 'total')) or not reserves and 0
    if not left or not total then return {'lost'} end
    left = left - total
    if hold >= 0 and (left <= 0 or (reserves and hold > left)) then return {'no_balance', left} end
  end
  local short, quota = nil, nil
  if #quotas > 0 then
    local money = hold >= 0 and hold or nil
    local wants = {requests = 1, tokens = tonumber(ARGV[14]), cost = money, spend = money}
    short, quota = quotas_measure(quotas, held, wants, elastic, now)
    if short == 'lost' then return {'lost'} end
  end

  local ahead, stands, wait, newest, live = 0, false, 0, nil, 0
  local member = replica .. '|' .. request_id
  if short ~= 'over' then
    if rpm or max_concurrent or tpm or short then ahead, stands = line_ahead(waiters, alive, member, now) end
    if rpm then wait, newest = window_wait(rpm_log, rpm, now, ahead) end
    if max_concurrent and wait == 0 then live = call('ZCOUNT', leases, string.format('(%.0f', now), '+inf') end
  end
  local full = max_concurrent and wait == 0 and live + ahead >= max_concurrent
  -- Nobody knows how many tokens those ahead will want: under a limit of tokens only the head of the line is served.
  local takes, tokens_wait, soonest, behind = 0, 0, 0, tpm and ahead > 0
  if tpm and short ~= 'over' then
    local ring, open = ring_read(tpm_ring, 1000, now), tonumber(call('HGET', held, tpm_ring)) or 0
    -- An estimate above the cap counts as the cap: it needs an empty window.
    takes = math.min(tonumber(ARGV[15]) + (elastic and ring.usual or tonumber(ARGV[16])), tpm * 1000)
    local excess = ring.used + open + takes - tpm * 1000
    if excess > 0 then
      soonest = math.min(ring_wait(ring, excess - open, now), 60000)
      tokens_wait = math.min(math.max(ring_wait(ring, excess, now), 1), 60000)
    end
  end
  if short or wait > 0 or full or tokens_wait > 0 or behind then
    local position = 0
    if max_wait > 0 and short ~= 'over' and math.max(wait, soonest) <= max_wait then
      line_stand(waiters, alive, member, now, us, stands)
      position = ahead + 1
    elseif stands then
      line_leave(waiters, alive, member)
    end
    if short ~= 'over' then
      if tokens_wait > wait then return {'over_tokens', tokens_wait, soonest, tpm, position} end
      if full then return {'over_concurrency', max_concurrent, position} end
      if wait > 0 then return {'over_rate', wait, rpm, position} end
      if behind then return {'over_tokens', 1, 0, tpm, position} end
    end
    if quota.kind == 'spend' then return {'over_spend', spend_limit, quota.used, quota.resets, position} end
    return {'over_quota', quota.index, quota.used, quota.resets, position}
  end

  local expires = now + 15000
  local reserve = limited and reserves and math.max(hold, 0) or 0
  if rpm then window_add(rpm_log, rpm, us, newest) end
  local kept, holds = {}, false
  if #KEYS > 12 then kept[1], kept[2] = 'quotas', ARGV[17] end
  if tpm then quotas[#quotas + 1] = {key = tpm_ring, takes = takes} end
  for i = 1, #quotas do
    local one = quotas[i]
    local amount = one.takes and string.format('%.0f', one.takes)
    if one.kind == 'requests' then
      quota_count(one, record, now)
    elseif amount and amount ~= '0' then
      call('HINCRBY', held, one.key, amount)
      holds = true
    end
    if amount then kept[#kept + 1], kept[#kept + 2] = one.key, amount end
  end
  if holds then call('PEXPIRE', held, '86400000') end
  -- Redis prints a number as a float, which costs more than the command: texts are printed once.
  local now_text, expires_text = string.format('%.0f', now), string.format('%.0f', expires)
  call('ZADD', leases, expires_text, request_id)
  call('PEXPIRE', leases, '86400000')
  call('HSET', open_request, 'key', key_id, 'model', model, 'replica', replica, 'admitted_at', now_text, 'expires_at', expires_text,
    'money', owner[1], 'overdraft', reserves and 'none' or 'soft', 'spend_label', label, 'spend_start', ARGV[9],
    'spend_end', ARGV[10], unpack(kept))
  call('PEXPIRE', open_request, '86400000')
  if reserve > 0 then
    call('HSET', reserved, request_id, reserve)
    call('HINCRBY', reserved, 'total', reserve)
  end
  if stands then
    line_leave(waiters, alive, member)
    if (tpm or max_concurrent) and (not max_concurrent or live + 1 < max_concurrent) then
      line_wake(waiters, alive, now, wake_prefix)
    end
  end
  return {'admitted', now, expires}
end
