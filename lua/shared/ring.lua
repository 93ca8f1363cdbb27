-- ring: what was used in the last 60 slices of time, counted by slice: a hash.
--
-- total  of all slices
-- at     number of the newest slice: ms since 1970, divided by a slice's length
-- 0…60   what was used in the slice whose number leaves this remainder of 61
--
-- An amount counts until the whole of its slice is 60 slices old: the true window never holds more than is counted.

-- How it stands; writes nothing. A table: used, slice (the one that is written now), at (nil: there is no ring), mine (used in
-- `slice`), gone (fields that ran out), usual (a field of the caller's own), astray (none of its fields can be dated).
local function ring_look(key, slice_ms, now)
  local slice = math.floor(now / slice_ms)
  local h = redis.call('HMGET', key, 'total', 'at', slice % 61, 'usual')
  local at, used, mine, gone, astray = tonumber(h[2]), tonumber(h[1]) or 0, tonumber(h[3]) or 0, {}, false
  if at and at < slice then
    for s = math.max(at + 1, slice - 60), slice - 1 do gone[#gone + 1] = s % 61 end
    used, mine = used - mine, 0
    local old = #gone > 0 and redis.call('HMGET', key, unpack(gone)) or gone
    for i = 1, #old do used = used - (tonumber(old[i]) or 0) end
  elseif at and at - slice > 61 then
    -- TIME stepped back by more than a window. Nothing can be dated any more: all of it counts as just used.
    at, mine, astray = slice, used, true
  elseif at and at > slice then
    slice, mine = at, tonumber(redis.call('HGET', key, at % 61)) or 0
  end
  return {key = key, ms = slice_ms, slice = slice, at = at, used = used, mine = mine, gone = gone, usual = tonumber(h[4]),
    astray = astray}
end

-- The same for one that will be written.
local function ring_read(key, slice_ms, now)
  local ring = ring_look(key, slice_ms, now)
  if ring.astray then
    redis.call('DEL', key)
    redis.call('HSET', key, 'total', ring.used, 'at', ring.slice, ring.slice % 61, ring.used)
    redis.call('PEXPIRE', key, slice_ms * 75)
  end
  return ring
end

-- How many ms until `excess` of it has run out.
local function ring_wait(ring, excess, now)
  if excess <= 0 then return 0 end
  local fields, sum = {}, 0
  for s = ring.slice - 60, ring.at or ring.slice do fields[#fields + 1] = s % 61 end
  local amounts = #fields > 0 and redis.call('HMGET', ring.key, unpack(fields)) or fields
  for i = 1, #amounts do
    sum = sum + (tonumber(amounts[i]) or 0)
    if sum >= excess then return (ring.slice + i) * ring.ms - now end
  end
  return 61 * ring.ms
end

-- Adds what was used now. What follows are fields of the caller's own and their values.
local function ring_add(ring, amount, ...)
  if #ring.gone > 0 then redis.call('HDEL', ring.key, unpack(ring.gone)) end
  redis.call('HSET', ring.key, 'total', string.format('%.0f', ring.used + amount), 'at', string.format('%.0f', ring.slice),
    ring.slice % 61, string.format('%.0f', ring.mine + amount), ...)
  if ring.at ~= ring.slice then redis.call('PEXPIRE', ring.key, ring.ms * 75) end
end

-- Adds what was used at an earlier time, if that still counts. Then the ring must be read again.
local function ring_add_at(ring, amount, at)
  local slice = math.min(math.floor(at / ring.ms), ring.slice)
  if slice < ring.slice - 60 then return end
  ring_add(ring, 0)
  local text = string.format('%.0f', amount)
  redis.call('HINCRBY', ring.key, slice % 61, text)
  redis.call('HINCRBY', ring.key, 'total', text)
end

-- Adds tokens that were used now; `answered` of them were output, of which the usual figure is the moving average.
local function ring_spend(key, amount, answered, now)
  local ring = ring_read(key, 1000, now)
  local usual = answered > 0 and (ring.usual and math.floor((ring.usual * 3 + answered) / 4) or answered) or ring.usual
  ring_add(ring, amount, 'usual', usual and string.format('%.0f', usual) or '')
end
