-- clock: Redis TIME, the only clock between replicas.

-- Answers ms (rounded down) and µs since 1970.
local function clock()
  local time = redis.call('TIME')
  local us = time[1] * 1000000 + time[2]
  return (us - us % 1000) / 1000, us
end
