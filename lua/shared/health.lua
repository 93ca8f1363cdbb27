-- health: a connection's recent past in one hash; what is 30 s old counts half.
--
-- oks, fails   thousandths
-- at           ms of the last note
-- recent       ms to the first token of late; without notes it goes back to the usual time by halves in 30 s
-- first_token  ms, the usual time to the first token: the mean of the first 20, then it follows `recent` by halves in 30 min
-- seen         how many were noted, up to 20
-- moved        ms at which the usual time last followed

-- The figures as they stand now: oks, fails, usual, recent; and what a note needs: at, seen, moved.
local function health_read(key, now)
  local h = redis.call('HMGET', key, 'oks', 'fails', 'at', 'first_token', 'recent', 'seen', 'moved')
  local at, usual, recent = tonumber(h[3]), tonumber(h[4]), tonumber(h[5])
  local keep = at and 0.5 ^ (math.max(now - at, 0) / 30000) or 0
  if usual then recent = usual + ((recent or usual) - usual) * keep end
  return (tonumber(h[1]) or 0) * keep, (tonumber(h[2]) or 0) * keep, usual, recent, at, tonumber(h[6]) or 0, tonumber(h[7])
end

-- The same as a reply tells them: whole numbers, -1 for a time that is not known.
local function health_told(oks, fails, usual, recent)
  if not usual then return math.floor(oks), math.floor(fails), -1, -1 end
  return math.floor(oks), math.floor(fails), math.floor(usual + 0.5), math.floor(recent + 0.5)
end

-- Notes one attempt and answers the figures after it. first_token: ms, -1 if unknown.
local function health_note(key, now, ok, first_token)
  local oks, fails, usual, recent, at, seen, moved = health_read(key, now)
  if ok then oks = oks + 1000 else fails = fails + 1000 end
  if first_token >= 0 then
    -- However dense or sparse the notes: those of the last 5 s weigh most, one note never less than 2 % nor more than half.
    local weight = 1 - 0.5 ^ ((at and math.max(now - at, 0) or 0) / 5000)
    weight = math.max(math.min(weight, 0.5), seen < 20 and 1 / (seen + 1) or 0.02)
    recent = usual and recent + (first_token - recent) * weight or first_token
    if seen < 20 then
      usual = usual and usual + (first_token - usual) / (seen + 1) or first_token
      seen, moved = seen + 1, now
    elseif not moved or now - moved >= 1000 then
      usual = usual + (recent - usual) * (1 - 0.5 ^ (math.min(moved and now - moved or 0, 60000) / 1800000))
      moved = now
    end
  end
  redis.call('HSET', key, 'oks', string.format('%d', oks), 'fails', string.format('%d', fails), 'at', string.format('%.0f', now),
    'first_token', usual and string.format('%.3f', usual) or '', 'recent', usual and string.format('%.3f', recent) or '',
    'seen', seen, 'moved', moved and string.format('%.0f', moved) or '')
  -- The first note of each 10 min keeps the hash for 70 min.
  if not at or math.floor(at / 600000) ~= math.floor(now / 600000) then redis.call('PEXPIRE', key, 4200000) end
  return health_told(oks, fails, usual, recent)
end
