-- record: what does the outcome of an attempt close or reopen?
--
-- uses       clock, line, closures, health, told, ring, tokens, pins
-- KEYS[1]    lock         hash  of the whole connection
-- KEYS[2]    bucket_lock  hash  of its bucket
-- KEYS[3]    cooldown     hash  of its model
-- KEYS[4]    leases       zset  lease by expiry ms
-- KEYS[5]    waiters      zset  the line
-- KEYS[6]    alive        zset  its places
-- KEYS[7]    health       hash
-- KEYS[8]    endpoint     hash  cooldown of its endpoint; the same as KEYS[3] where endpoints have none
-- KEYS[9]    quota        hash  what the upstream told of its limits
-- KEYS[10]   tpm          hash  a ring, see `tokens`; this and the next only if `used` is given
-- KEYS[11]   held         hash  what attempts hold of that
-- KEYS[k+1]  lock         hash  of another connection that serves the model (k after those, three keys each; only if mark is
-- KEYS[k+2]  bucket_lock  hash  failure)
-- KEYS[k+3]  cooldown     hash
-- KEYS[#KEYS]  pin        string  the conversation's preferred connection; only if mark is success and `pinned` names one
-- ARGV[1]    lease        request:attempt
-- ARGV[2]    mark         nothing | committed | success | lock_bucket | lock_connection | failure | endpoint
-- ARGV[3]    begun_ms     when the attempt began
-- ARGV[4]    jitter       percent
-- ARGV[5]    max_lock     ms
-- ARGV[6]    wake_prefix
-- ARGV[7]    cause        of a lock
-- ARGV[8]    length       of a lock in ms as told; 0: doubling; of an endpoint's rest
-- ARGV[9]    credential   its mark
-- ARGV[10]   sole         'sole' if there is no other connection; it counts as sole too if all that KEYS names are closed now
-- ARGV[11]   first_token  ms; -1: unknown
-- ARGV[12]   pinned       the connection that answered, if its conversation is to stay there; else empty
-- ARGV[13]   slots        of the connection; -1: no limit
-- ARGV[14]   used         thousandths of tokens, weighed, that the attempt used; '': the connection has no limit of tokens per minute
-- ARGV[15]   answered     what of them was output
-- and from the sixteenth on, four for each limit that the upstream told of: its name, limit, remaining, ms to its reset; -1: not
--            told
-- returns    {'recorded', wait_ms or -1} and, if the mark is success, failure or endpoint, the connection's health: oks, fails,
--            usual and recent ms to the first token or -1 | {'already'}
-- holds      Only the holder's word counts, once: without the lease nothing is changed ('committed' keeps it). The later end
--            wins. Only a success that began after a closure was set clears it; a failure that began before counts nothing. The
--            last connection that is usable cools only when most of its attempts failed.
-- caller     shared/src/state/capacity/outcome.rs
local function record(KEYS, ARGV)
  local lock, bucket_lock, cooldown, leases = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
  local waiters, alive, health, endpoint, quota = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
  local lease, mark, begun, jitter = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
  local max_lock, wake_prefix, cause, length = tonumber(ARGV[5]), ARGV[6], ARGV[7], tonumber(ARGV[8])
  local credential, sole, first_token, pinned = ARGV[9], ARGV[10] == 'sole', tonumber(ARGV[11]), ARGV[12]
  local slots, used, others = tonumber(ARGV[13]), tonumber(ARGV[14]), 9
  local call = redis.call
  local now = clock()

  if mark == 'committed' then
    if not call('ZSCORE', leases, lease) then return {'already'} end
  elseif call('ZREM', leases, lease) == 0 then
    return {'already'}
  end
  if used then
    others = 11
    if mark ~= 'committed' then tokens_spend(KEYS[10], KEYS[11], lease, used, tonumber(ARGV[15]), now) end
  end

  local closed = -1
  if mark == 'success' or mark == 'committed' then
    if call('EXISTS', lock, bucket_lock, cooldown, endpoint) > 0 then
      for i = 1, 3 do closure_reopen(KEYS[i], now, begun, max_lock) end
      closure_reopen(endpoint, now, begun, max_lock)
      local since = mark == 'success' and tonumber(call('HGET', cooldown, 'since'))
      if since and now - since < 60000 then call('HINCRBY', cooldown, 'oks', 1) end
      local word, wait = rung_state(lock, bucket_lock, cooldown, now, max_lock)
      if word then closed = wait end
    end
  else
    if mark == 'lock_bucket' then
      closure_lock(bucket_lock, now, begun, max_lock, length, jitter, cause, credential)
    elseif mark == 'lock_connection' then
      closure_lock(lock, now, begun, max_lock, length, jitter, cause, credential)
    elseif mark == 'failure' then
      local usable = #KEYS == others
      for k = others, #KEYS - 3, 3 do
        usable = usable or not rung_state(KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], now, max_lock)
      end
      closure_fail(cooldown, now, begun, max_lock, jitter, sole or not usable)
    elseif mark == 'endpoint' then
      closure_rest(endpoint, now, begun, max_lock, math.floor(length * jitter / 100))
    end
    -- A failed probe of a lock keeps its turn to its end: nobody else tries sooner. Any other outcome gives the turn back.
    if mark ~= 'failure' then
      for i = 1, 3 do closure_unprobe(KEYS[i], lease) end
      closure_unprobe(endpoint, lease)
    end
    local word, wait = rung_state(lock, bucket_lock, cooldown, now, max_lock)
    if word then closed = wait end
  end

  if #ARGV > 15 then told_note(quota, now, ARGV, 15) end
  if mark == 'success' and pinned ~= '' then pin_bind(KEYS[#KEYS], pinned) end
  if mark ~= 'committed' and call('EXISTS', waiters) == 1 then
    -- Not only the first: it may have been told of another slot and not have come yet. Of tokens only the first can be served.
    line_wake(waiters, alive, now, wake_prefix, used and 1 or slots - call('ZCARD', leases))
  end
  if mark == 'success' or mark == 'failure' or mark == 'endpoint' then
    return {'recorded', closed, health_note(health, now, mark == 'success', first_token)}
  end
  return {'recorded', closed}
end
