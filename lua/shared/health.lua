-- health: a connection's recent past in one hash; what is 30 s old counts half.
--
-- oks, fails   thousandths
-- at           ms of the last note
-- first_token  ms, the usual time to the first token

-- The counts as they stand now.
local function health_read(key, now)
  local h = redis.call('HMGET', key, 'oks', 'fails', 'at', 'first_token')
  local at = tonumber(h[3])
  local keep = at and 0.5 ^ (math.max(now - at, 0) / 30000) or 0
  return (tonumber(h[1]) or 0) * keep, (tonumber(h[2]) or 0) * keep, tonumber(h[4]), at
end

-- Notes one attempt. first_token: ms, -1 if unknown.
local function health_note(key, now, ok, first_token)
  local oks, fails, usual, at = health_read(key, now)
  if ok then oks = oks + 1000 else fails = fails + 1000 end
  if first_token >= 0 then usual = usual and usual * 0.9 + first_token * 0.1 or first_token end
  redis.call('HSET', key, 'oks', string.format('%d', oks), 'fails', string.format('%d', fails), 'at', string.format('%.0f', now),
    'first_token', usual and string.format('%d', usual + 0.5) or '')
  -- The first note of each 10 min keeps the hash for 70 min.
  if not at or math.floor(at / 600000) ~= math.floor(now / 600000) then redis.call('PEXPIRE', key, 4200000) end
end
