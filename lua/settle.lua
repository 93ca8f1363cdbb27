-- settle: what did this request finally cost? Once per request id, whatever happened.
--
-- uses     clock, line, ring, quotas
-- KEYS[1]  account    hash    money, overdraft
-- KEYS[2]  record     hash    the client key: spend_mark
-- KEYS[3]  balance    string  nano-dollars
-- KEYS[4]  reserved   hash    request id → nano-dollars, total
-- KEYS[5]  request    hash    the open request; its receipt afterwards, 24 h
-- KEYS[6]  spend      string  nano-dollars spent in the period it was admitted in
-- KEYS[7]  leases     zset    request id by expiry ms
-- KEYS[8]  waiters    zset    the line
-- KEYS[9]  alive      zset    its places
-- KEYS[10] ledger     stream
-- KEYS[11] day        hash    sums of the day it was admitted on, KEY:MODEL → requests, input, output, cost
-- KEYS[12] tpm        hash    a ring of one-second slices: thousandths of tokens that settled requests used
-- KEYS[13] held       hash    a counter's key (tpm, spend, quota) → what open requests hold of it
-- KEYS[n+13] quota    string  one key a quota it was admitted under; of a sliding window a ring
-- ARGV[1]  mode       settle | lapsed (the rest of the figures is then taken from the last progress)
-- ARGV[2]  request_id
-- ARGV[3]  key_id
-- ARGV[4]  label      of the spend period; '': none
-- ARGV[5]  end_ms     of that period; 0: never
-- ARGV[6]  wake_prefix
-- ARGV[7]  rows       kept in the ledger, about
-- ARGV[8]  model
-- ARGV[9]  served_model
-- ARGV[10] connection
-- ARGV[11] input      tokens
-- ARGV[12] cached_input
-- ARGV[13] cache_write
-- ARGV[14] output
-- ARGV[15] reasoning
-- ARGV[16] cost       nano-dollars
-- ARGV[17] basis
-- ARGV[18] outcome
-- ARGV[19] cache_write_1h
-- ARGV[20] input_audio
-- ARGV[21] output_audio
-- ARGV[22] upstream   reached | spared: a request that reached no upstream counts in no quota of requests
-- ARGV[23] weighed    thousandths of tokens, for the limit of tokens per minute
-- ARGV[24] weighed_output  what of them was answered
-- ARGV[a]   kind      four arguments a quota (a = 25, 29 …): requests | tokens | cost
-- ARGV[a+1] mark      its field in the record
-- ARGV[a+2] label     of its period; '': a sliding window
-- ARGV[a+3] ends      ms of that period, 0: never; of a window the length of a slice in ms
-- returns  {'settled', 1 if there is a balance, nanos, nanos charged} | {'already'} | {'alive'} | {'dropped'}
-- holds    One ledger row and one charge a request id. A request Redis knows nothing of is settled too. Mode lapsed touches
--          only a lease that lapsed; a request that never reported progress is dropped without charge or row. A counter
--          that was lost is not conjured up again. With overdraft none, what is charged is at most the balance less the holds
--          of the others; the rest is waived, and the row says so. What it held of limits is free again, whatever it used.
-- caller   shared/src/state/settlement.rs
local function settle(KEYS, ARGV)
  local account, record, balance_key, reserved, open_request = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
  local spend, leases, waiters, alive, ledger, day = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
  local mode, request_id, key_id, label, end_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
  local wake_prefix, rows = ARGV[6], ARGV[7]
  local model, served_model, connection = ARGV[8], ARGV[9], ARGV[10]
  local input, cached_input, cache_write, output, reasoning = ARGV[11], ARGV[12], ARGV[13], ARGV[14], ARGV[15]
  local cost, basis, outcome, spared, weighed = ARGV[16], ARGV[17], ARGV[18], ARGV[22] == 'spared', tonumber(ARGV[23])
  local cache_write_1h, input_audio, output_audio = ARGV[19], ARGV[20], ARGV[21]
  local tpm_ring, held_by_all = KEYS[12], KEYS[13]
  local call = redis.call
  local now = clock()

  local open = call('HMGET', open_request, 'settled_at', 'money', 'overdraft', 'admitted_at', spend, tpm_ring, unpack(KEYS, 14))
  if open[1] then return {'already'} end
  local dropped = false
  if mode == 'lapsed' then
    local ends = tonumber(call('ZSCORE', leases, request_id))
    if not ends then return {'already'} end
    if ends > now then return {'alive'} end
    local last = call('HMGET', open_request, 'renewed_at', 'model', 'served_model', 'connection', 'input', 'cached_input',
      'cache_write', 'output', 'reasoning', 'cost', 'cache_write_1h', 'input_audio', 'output_audio', 'weighed')
    dropped = not last[1]
    spared, weighed = dropped, tonumber(last[14]) or 0
    model, served_model, connection, input, cached_input = last[2] or '', last[3] or '', last[4] or '', last[5], last[6]
    cache_write, output, reasoning, cost, basis = last[7], last[8], last[9], last[10] or '0', 'estimated'
    cache_write_1h, input_audio, output_audio = last[11], last[12], last[13]
    outcome = (tonumber(output) or 0) + (tonumber(reasoning) or 0) > 0 and 'upstream_broken' or 'failed'
  end

  local freed = call('ZREM', leases, request_id)
  local known = open[2]
  local owner = known and {open[2], open[3]} or call('HMGET', account, 'money', 'overdraft')
  local limited = owner[1] ~= 'unlimited'
  local reserves, held = limited and owner[2] == 'none', nil
  if limited and (not known or owner[2] ~= 'soft') then
    local hold = tonumber(call('HGET', reserved, request_id))
    if hold then
      call('HDEL', reserved, request_id)
      held, reserves = call('HINCRBY', reserved, 'total', -hold), true
    end
  end
  if open[5] then hold_free(held_by_all, spend, open[5]) end
  if open[6] then hold_free(held_by_all, tpm_ring, open[6]) end
  local quotas = {}
  for n = 1, #KEYS - 13 do
    local a = 21 + n * 4
    local quota = {key = KEYS[n + 13], kind = ARGV[a], mark = ARGV[a + 1], label = ARGV[a + 2], ends = tonumber(ARGV[a + 3])}
    if quota.kind ~= 'requests' then
      hold_free(held_by_all, quota.key, open[n + 6])
    elseif spared and open[n + 6] then
      quota_uncount(quota, tonumber(open[4]), now)
    end
    quotas[n] = quota
  end
  if dropped then
    call('DEL', open_request)
    line_wake(waiters, alive, now, wake_prefix)
    return {'dropped'}
  end

  local balance = limited and tonumber(call('GET', balance_key))
  local waived = 0
  if balance and reserves and tonumber(cost) > 0 then
    held = held or tonumber(call('HGET', reserved, 'total')) or 0
    waived = math.max(tonumber(cost) - math.max(balance - held, 0), 0)
    if waived > 0 then cost = tonumber(cost) - waived end
  end
  local charged = tonumber(cost) > 0
  if balance and charged then balance = call('DECRBY', balance_key, cost) end
  if charged and label ~= '' then
    quota_spend({key = spend, mark = 'spend_mark', label = label, ends = end_ms}, record, cost, now)
  end
  local function total(counts)
    local sum = 0
    for i = 1, #counts do sum = sum + (tonumber(counts[i]) or 0) end
    return sum
  end
  local all_input = total({input, cached_input, cache_write, cache_write_1h, input_audio})
  local all_output = total({output, reasoning, output_audio})
  for i = 1, #quotas do
    local used = quotas[i].kind == 'cost' and tonumber(cost) or quotas[i].kind == 'tokens' and all_input + all_output or 0
    if used > 0 then quota_spend(quotas[i], record, string.format('%.0f', used), now) end
  end
  if open[6] and weighed > 0 then ring_spend(tpm_ring, weighed, tonumber(ARGV[24]), now) end
  -- Redis prints a number as a float, which costs more than the command: the text is printed once.
  local now_text = string.format('%.0f', now)
  local row = {
    'id', request_id, 'at', now_text, 'key', key_id, 'model', model, 'served_model', served_model, 'connection', connection,
    'input', input, 'cached_input', cached_input, 'cache_write', cache_write, 'output', output, 'reasoning', reasoning,
    'cost', cost, 'basis', basis, 'outcome', outcome,
  }
  -- Most requests have none of these.
  local rare = {'cache_write_1h', cache_write_1h, 'input_audio', input_audio, 'output_audio', output_audio}
  for i = 1, 6, 2 do
    if tonumber(rare[i + 1] or 0) > 0 then row[#row + 1], row[#row + 2] = rare[i], rare[i + 1] end
  end
  if waived > 0 then row[#row + 1], row[#row + 2] = 'waived', waived end
  call('XADD', ledger, 'MAXLEN', '~', rows, '*', unpack(row))
  -- The rows of the ledger go; the sums of the day stay, and are written in the same step.
  local answered = served_model ~= '' and served_model or model
  -- One field of four numbers: four fields would cost Redis a tenth of the whole settlement.
  local day_field = key_id .. ':' .. answered
  local sums = call('HGET', day, day_field)
  local n, i, o, c = string.match(sums or '', '(%d+) (%d+) (%d+) (%d+)')
  if not n then n, i, o, c = 0, 0, 0, 0 end
  call('HSET', day, day_field, string.format('%.0f %.0f %.0f %.0f', n + 1, i + all_input, o + all_output, c + tonumber(cost)))
  if not sums then call('PEXPIRE', day, '3456000000') end
  call('DEL', open_request)
  call('HSET', open_request, 'settled_at', now_text, 'cost', cost, 'outcome', outcome)
  call('PEXPIRE', open_request, '86400000')
  if freed == 1 then line_wake(waiters, alive, now, wake_prefix) end
  return {'settled', balance and 1 or 0, balance or 0, tonumber(cost)}
end
