-- line: callers that wait, in order of arrival over all replicas.
--
-- waiters  zset  REPLICA|REQUEST by arrival in µs
-- alive    zset  the same by the ms at which the place ends: 2 s after it was last asked for

-- How many live callers stand before `member` (all of them if it has no place), and whether it has a place.
local function line_ahead(waiters, alive, member, now)
  local length = redis.call('ZCARD', waiters)
  if length == 0 then return 0, false end
  local dead = redis.call('ZRANGEBYSCORE', alive, '-inf', now)
  for i = 1, #dead do
    redis.call('ZREM', waiters, dead[i])
    redis.call('ZREM', alive, dead[i])
  end
  local rank = redis.call('ZRANK', waiters, member)
  if rank then return rank, true end
  return length - #dead, false
end

-- The score of a newcomer: its arrival, but behind everyone who is there, also when TIME stepped back.
local function line_score(waiters, us)
  local last = tonumber(redis.call('ZRANGE', waiters, -1, -1, 'WITHSCORES')[2])
  return last and last >= us and last + 1 or us
end

-- Takes a place, or keeps the one that `member` has.
local function line_stand(waiters, alive, member, now, us, stands)
  if not stands then redis.call('ZADD', waiters, line_score(waiters, us), member) end
  redis.call('ZADD', alive, now + 2000, member)
  redis.call('PEXPIRE', waiters, 4000)
  redis.call('PEXPIRE', alive, 4000)
end

-- Gives a place up. Answers 1 if there was one.
local function line_leave(waiters, alive, member)
  redis.call('ZREM', alive, member)
  return redis.call('ZREM', waiters, member)
end

-- Wakes the first live callers, as many as there are free slots (one unless said): each one's replica is told its request.
local function line_wake(waiters, alive, now, wake_prefix, free)
  free = math.max(free or 1, 1)
  local heads = redis.call('ZRANGE', waiters, 0, free + 6)
  for i = 1, #heads do
    local ends = tonumber(redis.call('ZSCORE', alive, heads[i]))
    if ends and ends > now then
      local replica, request = string.match(heads[i], '^([^|]*)|([^|]*)')
      redis.call('PUBLISH', wake_prefix .. replica, request)
      free = free - 1
      if free == 0 then return end
    end
  end
end
