-- turns: a line in which those who wait take turns.
--
-- waiters  zset  REPLICA|REQUEST|FLOW by turn, within one by arrival; FLOW, ACCOUNT|PRIORITY: those who share turns
-- alive    zset  the same by the ms at which the place ends, as in a line
-- turns    hash  served: the last turn that was served; FLOW: its last turn; FLOW|n: how many of it stand
--
-- Start-time fair queueing: a newcomer's turn comes after the last one that was served and after those of its flow that
-- stand; so of flows that wait each is served once a turn. Who leaves unserved costs those of its flow nothing. A step of
-- priority lets four turns of others go before, no more: turns go on, and nobody waits for ever. A line is a table {waiters,
-- alive, turns} of keys.

-- Of so many scores is one turn: those of one turn stand in order of arrival.
local TURN = 1048576

-- Who shares turns with a member, and how many turns its priority lets go before.
local function turn_flow(member)
  local flow = string.match(member, '|[^|]*|(.*)$')
  return flow, 4 * tonumber(string.sub(flow, -1))
end

-- The score of a newcomer.
local function turn_score(line, member)
  local flow, behind = turn_flow(member)
  local last = redis.call('HMGET', line.turns, 'served', flow)
  local turn = math.max(tonumber(last[1]) or 0, tonumber(last[2]) or 0) + 1
  local first = (turn + behind) * TURN
  local same = redis.call('ZREVRANGEBYSCORE', line.waiters, first + TURN - 1, first, 'WITHSCORES', 'LIMIT', '0', '1')
  return same[2] and math.min(tonumber(same[2]) + 1, first + TURN - 1) or first
end

-- Counts out one of a flow; `unserved`: 1 if its turn goes back to the flow.
local function turn_count_out(line, flow, unserved)
  if redis.call('HINCRBY', line.turns, flow .. '|n', '-1') < 1 then
    redis.call('HDEL', line.turns, flow, flow .. '|n')
  elseif unserved == 1 then
    redis.call('HINCRBY', line.turns, flow, '-1')
  end
end

-- Gives up the places of those who were not served here: whoever of their flow stands behind moves up, each to the place of
-- the one before it, so of a flow's places those that are freed are the last. Answers how many there were.
local function turn_leave(line, members)
  local gone, left, first = {}, 0, nil
  for i = 1, #members do
    local score = tonumber(redis.call('ZSCORE', line.waiters, members[i]))
    if score then
      gone[members[i]], left = true, left + 1
      if not first or score < first then first = score end
    end
  end
  if left == 0 then return 0 end
  local rest = redis.call('ZRANGEBYSCORE', line.waiters, string.format('%.0f', first), '+inf', 'WITHSCORES')
  local freed, moved = {}, {}
  for i = 1, #rest, 2 do
    local member, place = rest[i], rest[i + 1]
    local flow = turn_flow(member)
    local places = freed[flow]
    if gone[member] then
      redis.call('ZREM', line.waiters, member)
      redis.call('ZREM', line.alive, member)
      turn_count_out(line, flow, 1)
      if places then places[#places + 1] = place else freed[flow] = {next = 1, place} end
    elseif places then
      moved[#moved + 1], moved[#moved + 2] = places[places.next], member
      places.next, places[#places + 1] = places.next + 1, place
    end
  end
  for i = 1, #moved, 2000 do redis.call('ZADD', line.waiters, unpack(moved, i, math.min(i + 1999, #moved))) end
  return left
end

-- How many live callers stand before `member` (before the place it would take, if it has none), its score (nil if nobody
-- stands), and whether it has a place.
local function turn_ahead(line, member, now)
  local dead = redis.call('ZRANGEBYSCORE', line.alive, '-inf', now)
  if #dead > 0 then
    turn_leave(line, dead)
    redis.call('ZREMRANGEBYSCORE', line.alive, '-inf', now)
  end
  if redis.call('EXISTS', line.waiters) == 0 then return 0, nil, false end
  local score = tonumber(redis.call('ZSCORE', line.waiters, member))
  if score then return redis.call('ZRANK', line.waiters, member), score, true end
  score = turn_score(line, member)
  return redis.call('ZCOUNT', line.waiters, '-inf', string.format('%.0f', score)), score, false
end

-- Takes a place, or keeps the one that `member` has. score: of turn_ahead.
local function turn_stand(line, member, now, score, stands)
  if not stands then
    score = score or turn_score(line, member)
    local flow, behind = turn_flow(member)
    redis.call('ZADD', line.waiters, string.format('%.0f', score), member)
    redis.call('HSET', line.turns, flow, math.floor(score / TURN) - behind)
    redis.call('HINCRBY', line.turns, flow .. '|n', '1')
  end
  redis.call('ZADD', line.alive, string.format('%.0f', now + 2000), member)
  -- All three end together: a count is never older than what it counts.
  redis.call('PEXPIRE', line.waiters, '4000')
  redis.call('PEXPIRE', line.alive, '4000')
  redis.call('PEXPIRE', line.turns, '4000')
end

-- The turn of `score` is served: newcomers come after it, and nobody moves up. Also for one who never stood but went before
-- others. Answers how many places it gave up: 1 or 0.
local function turn_served(line, member, score)
  local flow, behind = turn_flow(member)
  local turn = math.floor(score / TURN) - behind
  if turn > (tonumber(redis.call('HGET', line.turns, 'served')) or 0) then
    redis.call('HSET', line.turns, 'served', turn)
    redis.call('PEXPIRE', line.turns, '4000', 'NX')
  end
  redis.call('ZREM', line.alive, member)
  local left = redis.call('ZREM', line.waiters, member)
  if left == 1 then turn_count_out(line, flow, 0) end
  return left
end
