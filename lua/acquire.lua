-- acquire: which of these candidates, in this order of preference, has a slot now?
--
-- uses       clock, window, line, turns, closures, ring, tokens, pins
-- KEYS[k+1]  lock         hash  of the whole connection (k = 0, 8, 16 … : eight keys a candidate)
-- KEYS[k+2]  bucket_lock  hash  of the candidate's bucket
-- KEYS[k+3]  cooldown     hash  of the candidate's model
-- KEYS[k+4]  leases       zset  lease by expiry ms
-- KEYS[k+5]  rpm          list  ms of the last attempts
-- KEYS[k+6]  waiters      zset  the line
-- KEYS[k+7]  alive        zset  its places
-- KEYS[k+8]  turns        hash  its turns
-- KEYS[e+i]  endpoint     hash  cooldown of an endpoint (after all candidates: each one's endpoints in their order)
-- KEYS[t+1]  tpm          hash  a ring, see `tokens` (after the endpoints: two keys a candidate with a limit of tokens per minute)
-- KEYS[t+2]  held         hash  what its attempts hold of that
-- KEYS[#KEYS]  pin        string  after the candidates': the conversation's preferred connection; only if it has one
-- ARGV[1]    lease        request:attempt
-- ARGV[2]    member       REPLICA|REQUEST|FLOW, in lines
-- ARGV[3]    max_lock     ms after which a closure lets probes through
-- ARGV[4]    max_wait     ms the caller may stand in line; -1: not at all
-- ARGV[5]    wake_prefix
-- ARGV[6]    count        of candidates
-- ARGV[a+1]  max_concurrent   -1: no limit (a = 6, 10, 14 … : four arguments a candidate)
-- ARGV[a+2]  rpm              -1: no limit
-- ARGV[a+3]  credential_mark
-- ARGV[a+4]  endpoints        how many of its endpoints have a cooldown
-- ARGV[b+1]  bound        stated | assumed: whether the request says how much it may be answered (after the candidates; this and
--                         the next ones only if a candidate has a limit of tokens per minute)
-- ARGV[b+2]  input        thousandths of tokens, weighed, that the request is estimated to use
-- ARGV[b+3]  output       the same
-- ARGV[b+4+index]  tpm    one argument a candidate; -1: no limit
-- ARGV[#ARGV-1]  names    of the candidates that may be preferred, as `pins` wants them; empty: no pin is named
-- ARGV[#ARGV]  pin_wait   ms the caller still waits for the preferred one alone
-- returns    {'acquired', index, begun_ms, expires_ms, probe, endpoint} | {'pinned', position}: the preferred one is only full
--            | {'full', wait_ms or -1, position, state, wait_ms …} | {'closed', wait_ms, state, wait_ms …}
--            state: a lock's cause, cooling, endpoints (all of them cool), probing_limits, probing_failures, full,
--            over_rate or over_tokens; endpoint: the first that is open or due for a probe, from 0
-- holds      A refusal writes nothing but the caller's own places in line, who moves up when it gives one up, and the removal of
--            lapsed leases. The same lease again: same answer, no second slot. Nobody overtakes a live caller in line but by its
--            turn. One probe at a time. What ended attempts used of a limit of tokens, and what the others hold, is never more
--            than it when one begins.
-- caller     shared/src/state/capacity.rs
local function acquire(KEYS, ARGV)
  local lease, member, wake_prefix = ARGV[1], ARGV[2], ARGV[5]
  local max_lock, max_wait = tonumber(ARGV[3]), tonumber(ARGV[4])
  local call = redis.call
  local now, us = clock()
  local count = tonumber(ARGV[6])
  local pinned, pin_wait = nil, tonumber(ARGV[#ARGV])
  if ARGV[#ARGV - 1] ~= '' then pinned = pin_place(KEYS[#KEYS], ARGV[#ARGV - 1]) end

  local rare, ends, e = {}, {}, count * 8
  for index = 0, count - 1 do
    local k, endpoints = index * 8, tonumber(ARGV[10 + index * 4])
    local expires = tonumber(call('ZSCORE', KEYS[k + 4], lease))
    if expires then
      local endpoint, probe = endpoint_held(KEYS, e, endpoints, now, max_lock, lease)
      for i = 1, 3 do
        if call('HGET', KEYS[k + i], 'probe_id') == lease then probe = 1 end
      end
      return {'acquired', index, expires - 15000, expires, probe, endpoint}
    end
    local r = #rare
    rare[r + 1], rare[r + 2], rare[r + 3], rare[r + 4] = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], KEYS[k + 6]
    for i = 1, endpoints do rare[r + 4 + i] = KEYS[e + i] end
    ends[index], e = e, e + endpoints
  end
  local b, limits = 6 + count * 4, {}
  if #ARGV > b + 2 then
    local t = e
    for index = 0, count - 1 do
      local k, tpm = index * 8, tonumber(ARGV[b + 4 + index])
      if tpm >= 0 then
        limits[index] = {key = KEYS[t + 1], held = KEYS[t + 2], leases = KEYS[k + 4], most = tpm * 1000}
        t = t + 2
      end
    end
  end
  -- One look for all: most of the time nothing is closed and nobody waits.
  local quiet = call('EXISTS', unpack(rare)) == 0

  local states, aheads, scores, standing, full, soonest = {}, {}, {}, {}, false, -1
  local function line_of(k) return {waiters = KEYS[k + 6], alive = KEYS[k + 7], turns = KEYS[k + 8]} end
  -- Whoever is first in a line that was left may find a slot that nobody told it of.
  local function wake_next(index)
    local k, a = index * 8, 6 + index * 4
    local slots = tonumber(ARGV[a + 1])
    local free = slots < 0 and 1 or slots - call('ZCARD', KEYS[k + 4])
    if free > 0 then line_wake(KEYS[k + 6], KEYS[k + 7], now, wake_prefix, limits[index] and 1 or free) end
  end
  for turn = 0, count - 1 do
    -- The preferred one first, the others in their order.
    local index = turn
    if pinned and turn <= pinned then index = turn == 0 and pinned or turn - 1 end
    local k, a, e = index * 8, 6 + index * 4, ends[index]
    local lock, bucket_lock, cooldown, leases, rpm_log = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], KEYS[k + 4], KEYS[k + 5]
    local max_concurrent, rpm, mark = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), ARGV[a + 3]
    local word, wait, due, newest, endpoint, endpoints = nil, 0, false, nil, 0, tonumber(ARGV[a + 4])
    if not quiet then
      word, wait, due = rung_state(lock, bucket_lock, cooldown, now, max_lock, mark)
      if not word and endpoints > 0 then
        endpoint, wait = endpoint_first(KEYS, e, endpoints, now, max_lock)
        if not endpoint then word = 'endpoints' end
      end
    end
    if not word then
      local ahead, score, stands, held = 0, nil, false, 0
      if not quiet then ahead, score, stands = turn_ahead(line_of(k), member, now) end
      local limit, takes, tokens_wait = limits[index], nil, 0
      if limit then
        takes, tokens_wait =
          tokens_room(limit, tonumber(ARGV[b + 2]), tonumber(ARGV[b + 3]), ARGV[b + 1] == 'assumed', now)
      end
      if max_concurrent >= 0 then held = call('ZCARD', leases) end
      if max_concurrent < 0 or held + ahead >= max_concurrent then
        held = held - call('ZREMRANGEBYSCORE', leases, '-inf', now)
      end
      if max_concurrent >= 0 and held + ahead >= max_concurrent then
        word = 'full'
      elseif rpm >= 0 then
        wait, newest = window_wait(rpm_log, rpm, now, ahead)
        if wait > 0 then word = 'over_rate' end
      end
      if limit and word ~= 'full' then
        if tokens_wait > wait then
          word, wait = 'over_tokens', tokens_wait
        elseif not word and (not takes or ahead > 0) then
          -- What others hold comes free nobody knows when, and what those ahead will want nobody knows: only the head is served.
          word = 'full'
        end
      end
      if not word then
        local expires = now + 15000
        call('ZADD', leases, string.format('%.0f', expires), lease)
        call('PEXPIRE', leases, '80000')
        if rpm >= 0 then window_add(rpm_log, rpm, us, newest) end
        if limit then tokens_hold(limit.held, lease, takes) end
        if due then
          for i = 1, 3 do
            if closure_state(KEYS[k + i], now, max_lock, mark) == 'due' then
              call('HSET', KEYS[k + i], 'probe', expires, 'probe_id', lease)
            end
          end
        end
        if score and turn_served(line_of(k), member, score) > 0 then wake_next(index) end
        if not quiet and endpoints > 0 and closure_state(KEYS[e + endpoint + 1], now, max_lock) == 'due' then
          call('HSET', KEYS[e + endpoint + 1], 'probe', expires, 'probe_id', lease)
          due = true
        end
        if not quiet then
          for other = 0, count - 1 do
            if other ~= index and turn_leave(line_of(other * 8), {member}) > 0 then wake_next(other) end
          end
        end
        return {'acquired', index, now, expires, due and 1 or 0, endpoint}
      end
      if index == pinned and pin_wait > 0 and wait < pin_wait then
        turn_stand(line_of(k), member, now, score, stands)
        return {'pinned', ahead + 1}
      end
      full, aheads[index], scores[index], standing[index] = true, ahead, score, stands
    end
    states[index * 2 + 1], states[index * 2 + 2] = word, wait
    if word ~= 'full' and (soonest < 0 or wait < soonest) then soonest = wait end
  end

  local position, kept = 0, {}
  for index = 0, count - 1 do
    local k, ahead = index * 8, aheads[index]
    if ahead and max_wait > 0 and states[index * 2 + 2] <= max_wait then
      if not kept[KEYS[k + 6]] then turn_stand(line_of(k), member, now, scores[index], standing[index]) end
      kept[KEYS[k + 6]] = true
      if position == 0 or ahead + 1 < position then position = ahead + 1 end
    end
  end
  -- A place where it would not be served now, closed or not for so long, is in the way of others.
  if not quiet then
    for index = 0, count - 1 do
      local k = index * 8
      local may_stand = standing[index] ~= false and not kept[KEYS[k + 6]]
      if may_stand and turn_leave(line_of(k), {member}) > 0 then wake_next(index) end
    end
  end
  local reply = full and {'full', soonest, position} or {'closed', soonest}
  local first = #reply
  for i = 1, #states do reply[first + i] = states[i] end
  return reply
end
