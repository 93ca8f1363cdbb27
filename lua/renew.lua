-- renew: are these leases still mine?
--
-- uses       clock
-- KEYS[i]    leases       zset  mode connections: one key a lease
-- KEYS[k+1]  leases       zset  mode keys: three keys a lease (k = 0, 3, 6 …)
-- KEYS[k+2]  record       hash  the client key: max_concurrent
-- KEYS[k+3]  request      hash  the open request
-- ARGV[1]    mode         connections | keys
-- ARGV[i+1]  lease        mode connections: one argument a lease
-- ARGV[a+1]  request_id   mode keys: thirteen arguments a lease (a = 1, 14, 27 …)
-- ARGV[a+2]  served_model
-- ARGV[a+3]  connection
-- ARGV[a+4]  input        tokens so far
-- ARGV[a+5]  cached_input
-- ARGV[a+6]  cache_write
-- ARGV[a+7]  output
-- ARGV[a+8]  reasoning
-- ARGV[a+9]  cost         nano-dollars so far
-- ARGV[a+10] cache_write_1h
-- ARGV[a+11] input_audio
-- ARGV[a+12] output_audio
-- ARGV[a+13] weighed      thousandths of tokens so far, for the limit of tokens per minute
-- returns    {'renewed', index of a lost lease …}
-- holds      A lease that was removed is lost. One that lapsed but is still there is renewed, unless its slot went to another.
-- caller     shared/src/state/leases.rs
local function renew(KEYS, ARGV)
  local mode = ARGV[1]
  local call = redis.call
  local now = clock()
  local expires = now + 15000
  local reply = {'renewed'}

  if mode == 'connections' then
    for i = 1, #KEYS do
      local leases, lease = KEYS[i], ARGV[i + 1]
      -- Nothing changes also if it was renewed in this very ms.
      if call('ZADD', leases, 'XX', 'CH', expires, lease) == 0 and not call('ZSCORE', leases, lease) then
        reply[#reply + 1] = i - 1
      end
      if leases ~= KEYS[i + 1] then call('PEXPIRE', leases, 80000) end
    end
    return reply
  end

  for index = 0, #KEYS / 3 - 1 do
    local k, a = index * 3, 1 + index * 13
    local leases, record, open_request, request_id = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], ARGV[a + 1]
    local ends = tonumber(call('ZSCORE', leases, request_id))
    if ends and ends <= now then
      -- Lapsed: others may have been admitted in its place.
      local cap = tonumber(call('HGET', record, 'max_concurrent'))
      if cap and call('ZCOUNT', leases, now + 1, '+inf') >= cap then ends = nil end
    end
    if ends then
      call('ZADD', leases, 'XX', expires, request_id)
      call('PEXPIRE', leases, 86400000)
      call('HSET', open_request, 'renewed_at', now, 'served_model', ARGV[a + 2], 'connection', ARGV[a + 3],
        'input', ARGV[a + 4], 'cached_input', ARGV[a + 5], 'cache_write', ARGV[a + 6], 'output', ARGV[a + 7],
        'reasoning', ARGV[a + 8], 'cost', ARGV[a + 9], 'cache_write_1h', ARGV[a + 10], 'input_audio', ARGV[a + 11],
        'output_audio', ARGV[a + 12], 'weighed', ARGV[a + 13])
      call('PEXPIRE', open_request, 86400000)
    else
      reply[#reply + 1] = index
    end
  end
  return reply
end
