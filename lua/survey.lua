-- survey: what stands in Redis now?
--
-- uses       clock, window, ring, closures, health
-- KEYS[i]    whatever is looked at
-- ARGV[1]    max_lock  ms
-- ARGV[i+1]  kind      balance | amount | reserved | leases | lapsed | waiters (the places) | rate | closure | health | held | a
--                      number: a ring, of slices that many ms long
-- returns    {'survey', now_ms, row …}; rows by kind: {1 if there, nanos} for the first three; {live, lapsed}; request ids;
--            {callers}; {admissions of the last 60 s, ms until the oldest of them is older}; {state, a lock's cause, wait_ms};
--            {oks, fails, usual and recent ms to the first token or -1}; a counter's key and what is held of it, for each; {used,
--            ms until the oldest of it runs out or 0}
-- holds      Writes nothing.
-- caller     shared/src/state/survey.rs
local function survey(KEYS, ARGV)
  local max_lock = tonumber(ARGV[1])
  local call = redis.call
  local now = clock()
  local reply = {'survey', now}

  for i = 1, #KEYS do
    local key, kind, row = KEYS[i], ARGV[i + 1], nil
    if kind == 'balance' or kind == 'amount' or kind == 'reserved' then
      local nanos = kind == 'reserved' and call('HGET', key, 'total') or kind ~= 'reserved' and call('GET', key)
      row = {nanos and 1 or 0, tonumber(nanos) or 0}
    elseif kind == 'leases' then
      row = {call('ZCOUNT', key, now + 1, '+inf'), call('ZCOUNT', key, '-inf', now)}
    elseif kind == 'lapsed' then
      row = call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, 500)
    elseif kind == 'waiters' then
      row = {call('ZCOUNT', key, now + 1, '+inf')}
    elseif kind == 'rate' then
      row = {window_used(key, now)}
    elseif kind == 'closure' then
      row = {closure_told(key, now, max_lock)}
    elseif kind == 'held' then
      row = call('HGETALL', key)
    elseif tonumber(kind) then
      local ring = ring_look(key, tonumber(kind), now)
      -- What cannot be dated counts as just used.
      local oldest = ring.astray and ring.ms * 61 or ring.used > 0 and ring_wait(ring, 1, now) or 0
      row = {ring.used, oldest}
    else
      row = {health_told(health_read(key, now))}
    end
    reply[i + 2] = row
  end
  return reply
end
