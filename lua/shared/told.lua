-- told: what upstreams told of a bucket's limits, in one hash: LIMIT:limit, LIMIT:remaining, LIMIT:resets_at (ms), told_at (ms).
--
-- What was told last stands; a part that was not told keeps its last value until the limit resets.

-- Notes what is told from ARGV[q + 1] on: name, limit, remaining, ms to the reset; -1: not told.
local function told_note(key, now, ARGV, q)
  local fields, keep = {'told_at', string.format('%.0f', now)}, 3600000
  for i = q, #ARGV - 4, 4 do
    local name, resets_in = ARGV[i + 1], tonumber(ARGV[i + 4])
    for part, text in pairs({limit = ARGV[i + 2], remaining = ARGV[i + 3]}) do
      if text ~= '-1' then
        fields[#fields + 1], fields[#fields + 2] = name .. ':' .. part, text
      end
    end
    if resets_in >= 0 then
      fields[#fields + 1], fields[#fields + 2] = name .. ':resets_at', string.format('%.0f', now + resets_in)
      keep = math.max(keep, resets_in)
    end
  end
  redis.call('HSET', key, unpack(fields))
  if redis.call('PTTL', key) < keep then redis.call('PEXPIRE', key, keep) end
end
