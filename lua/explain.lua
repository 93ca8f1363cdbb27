-- explain: how would each of these rungs answer a newcomer now, and why?
--
-- uses       clock, window, closures
-- KEYS[k+1]  lock         hash  of the whole connection (k = 0, 6, 12 … : six keys a rung)
-- KEYS[k+2]  bucket_lock  hash  of the rung's bucket
-- KEYS[k+3]  cooldown     hash  of the rung's model
-- KEYS[k+4]  leases       zset  lease by expiry ms
-- KEYS[k+5]  rpm          list  ms of the last attempts
-- KEYS[k+6]  alive        zset  the places in its line
-- KEYS[e+i]  endpoint     hash  cooldown of an endpoint (after all rungs: each one's endpoints in their order)
-- ARGV[1]    max_lock     ms after which a closure lets probes through
-- ARGV[a+1]  max_concurrent   -1: no limit (a = 1, 5, 9 … : four arguments a rung)
-- ARGV[a+2]  rpm              -1: no limit
-- ARGV[a+3]  credential_mark
-- ARGV[a+4]  endpoints        how many of its endpoints have a cooldown
-- returns    {'explain', now_ms, row …}; a row: state, wait_ms, probe, endpoint, live leases, callers in line, attempts of the
--            last 60 s, then {state, a lock's cause, wait_ms} of its three closures and of each endpoint. The row's state is
--            `open` where acquire would take the rung, else acquire's word and wait; probe and endpoint as acquire would answer
-- holds      Writes nothing. Tokens per minute are not looked at: it depends on the newcomer whether it fits.
-- caller     shared/src/state/explain.rs
local function explain(KEYS, ARGV)
  local max_lock = tonumber(ARGV[1])
  local call = redis.call
  local now = clock()
  local count = (#ARGV - 1) / 4

  local reply, e = {'explain', now}, count * 6
  for index = 0, count - 1 do
    local k, a = index * 6, 1 + index * 4
    local leases, rpm_log, alive = KEYS[k + 4], KEYS[k + 5], KEYS[k + 6]
    local max_concurrent, rpm, mark, endpoints = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), ARGV[a + 3], tonumber(ARGV[a + 4])
    local live, ahead = call('ZCOUNT', leases, now + 1, '+inf'), call('ZCOUNT', alive, now + 1, '+inf')
    local word, wait, due = rung_state(KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], now, max_lock, mark)
    local endpoint = 0
    if not word and endpoints > 0 then
      endpoint, wait = endpoint_first(KEYS, e, endpoints, now, max_lock)
      if not endpoint then
        word, endpoint = 'endpoints', 0
      elseif closure_state(KEYS[e + endpoint + 1], now, max_lock) == 'due' then
        due = true
      end
    end
    if not word and max_concurrent >= 0 and live + ahead >= max_concurrent then
      word = 'full'
    elseif not word and rpm >= 0 then
      local newest = tonumber(call('LINDEX', rpm_log, '0'))
      if newest and newest - now > 60000 then
        -- TIME stepped back by more than a window: acquire would date all entries anew, as just admitted.
        if call('LLEN', rpm_log) + ahead >= rpm then wait = 60000 end
      else
        wait = window_wait(rpm_log, rpm, now, ahead)
      end
      if wait > 0 then word = 'over_rate' end
    end
    local row = {word or 'open', wait, due and 1 or 0, endpoint, live, ahead, (window_used(rpm_log, now))}
    for i = 1, 3 do row[7 + i] = {closure_told(KEYS[k + i], now, max_lock, mark)} end
    for i = 1, endpoints do row[10 + i] = {closure_told(KEYS[e + i], now, max_lock)} end
    reply[index + 3] = row
    e = e + endpoints
  end
  return reply
end
