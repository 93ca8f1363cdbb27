-- closures: locks and cooldowns, each a hash.
--
-- until        ms; absent: open (only the level is remembered)
-- set_at       ms; what began earlier neither clears nor raises it
-- level        how often it was set again; one less per 5 min after its end
-- cause        rate_limited | billing | auth (locks)
-- credential   mark of the credential that was refused (cause auth)
-- probe        ms at which the probe under way lapses; probe_id: its lease
-- reopened_at  ms of the success that cleared it
-- fails, oks   attempts since `since` (open cooldowns)

-- The state of one hash: nil (open) | 'closed' or 'probing', wait_ms, cause (of a lock) | 'due' (the next attempt is its probe).
-- A closure that lasted `max_lock` lets probes through however far its end.
local function closure_state(key, now, max_lock, mark)
  local c = redis.call('HMGET', key, 'until', 'set_at', 'probe', 'cause', 'credential')
  local ends = tonumber(c[1])
  if not ends then return nil end
  if c[4] == 'auth' and mark and c[5] and c[5] ~= '' and c[5] ~= mark then return nil end
  local opens = math.min(ends, tonumber(c[2]) + max_lock)
  if now < opens then return 'closed', opens - now, c[4] end
  local probe = tonumber(c[3])
  if probe and now < probe then return 'probing', probe - now, c[4] end
  return 'due', 0
end

-- The same for those who only look: open | closed | probing | probe_due, a lock's cause or '', wait_ms.
local function closure_told(key, now, max_lock, mark)
  local state, wait, cause = closure_state(key, now, max_lock, mark)
  return state == 'due' and 'probe_due' or state or 'open', cause or '', wait or 0
end

-- What keeps a rung closed, as a word of the reply and its wait: of its three hashes the one that ends last. nil: open; the
-- third value tells whether the next attempt is a probe. A probe's word tells what it is about: a limit (rate_limited,
-- billing) or a failure (auth, a cooldown).
local function rung_state(lock, bucket_lock, cooldown, now, max_lock, mark)
  if redis.call('EXISTS', lock, bucket_lock, cooldown) == 0 then return nil, 0, false end
  local word, wait, due = nil, 0, false
  for i = 1, 3 do
    local key = i == 1 and lock or i == 2 and bucket_lock or cooldown
    local state, left, cause = closure_state(key, now, max_lock, mark)
    if state == 'due' then
      due = true
    elseif state and left > wait then
      word, wait = cause or 'cooling', left
      if state == 'probing' then
        word = (cause == 'rate_limited' or cause == 'billing') and 'probing_limits' or 'probing_failures'
      end
    end
  end
  return word, wait, due
end

-- The first of a rung's endpoints (KEYS[e + 1] …) that is open or due for a probe, from 0; nil and the soonest wait if all cool.
local function endpoint_first(KEYS, e, endpoints, now, max_lock)
  local soonest = 0
  for i = 1, endpoints do
    local state, left = closure_state(KEYS[e + i], now, max_lock)
    if not state or state == 'due' then return i - 1, 0 end
    if i == 1 or left < soonest then soonest = left end
  end
  return nil, soonest
end

-- The endpoint of a lease that is held already: the one it probes (and 1), else the one it would be given now (and 0).
local function endpoint_held(KEYS, e, endpoints, now, max_lock, lease)
  for i = 1, endpoints do
    if redis.call('HGET', KEYS[e + i], 'probe_id') == lease then return i - 1, 1 end
  end
  return endpoint_first(KEYS, e, endpoints, now, max_lock) or 0, 0
end

-- The level after the time since the end.
local function closure_level(level, ended, now)
  if not level then return 0 end
  if not ended or now <= ended then return level end
  return math.max(0, level - math.floor((now - ended) / 300000))
end

-- `base` doubled with each level up to 5 min, stretched by the jitter.
local function closure_length(base, level, jitter)
  return math.floor(math.min(base * 2 ^ (level - 1), 300000) * jitter / 100)
end

-- Remembers a closure past its end, so that its level counts and probes stay single.
local function closure_keep(key, now, ends, max_lock)
  redis.call('PEXPIRE', key, math.max(ends - now, 0) + math.max(max_lock, 900000))
end

-- Sets a lock. The later end wins. What began before `set_at` may move the end but not raise the level: a burst counts once.
-- length: ms as told, 0 for doubling.
local function closure_lock(key, now, begun, max_lock, length, jitter, cause, credential)
  local c = redis.call('HMGET', key, 'until', 'set_at', 'level', 'reopened_at', 'cause', 'credential')
  local ends, set_at, level = tonumber(c[1]), tonumber(c[2]), tonumber(c[3]) or 0
  if c[5] == 'auth' and c[6] and c[6] ~= credential then ends = nil end -- refused another credential
  local newer = not set_at or begun > set_at
  if length == 0 then
    if newer then level = closure_level(level, ends or tonumber(c[4]), now) + 1 end
    length = closure_length(2000, math.max(level, 1), jitter)
  end
  if ends and ends >= now + length then
    if not newer then return end
    cause, credential = c[5], c[6] or ''
  else
    ends = now + length
  end
  redis.call('HSET', key, 'until', ends, 'set_at', now, 'level', level, 'cause', cause, 'credential', credential)
  redis.call('HDEL', key, 'probe', 'probe_id', 'reopened_at')
  closure_keep(key, now, ends, max_lock)
end

-- Counts a failure. The third within 60 s closes if it is at least a tenth of that minute's attempts (a sole connection: most
-- of them); a failure after a cooldown that no success has cleared closes at once.
local function closure_fail(key, now, begun, max_lock, jitter, sole)
  local c = redis.call('HMGET', key, 'until', 'set_at', 'level', 'reopened_at', 'fails', 'oks', 'since')
  local ends, set_at, level = tonumber(c[1]), tonumber(c[2]), tonumber(c[3])
  if set_at and begun <= set_at then return end
  if not ends then
    local fails, oks, since = tonumber(c[5]) or 0, tonumber(c[6]) or 0, tonumber(c[7])
    if not since or now - since >= 60000 then fails, oks, since = 0, 0, now end
    fails = fails + 1
    if fails < 3 or fails * 9 < oks or (sole and fails <= oks) then
      redis.call('HSET', key, 'fails', fails, 'oks', oks, 'since', since)
      redis.call('PEXPIRE', key, level and math.max(max_lock, 900000) or 60000)
      return
    end
  end
  level = closure_level(level, ends or tonumber(c[4]), now) + 1
  ends = math.max(ends or 0, now + closure_length(10000, level, jitter))
  redis.call('HSET', key, 'until', ends, 'set_at', now, 'level', level)
  redis.call('HDEL', key, 'probe', 'probe_id', 'reopened_at', 'fails', 'oks', 'since')
  closure_keep(key, now, ends, max_lock)
end

-- Rests an endpoint for `length` ms. What began before it was set adds nothing: a burst counts once.
local function closure_rest(key, now, begun, max_lock, length)
  local c = redis.call('HMGET', key, 'until', 'set_at')
  if c[2] and begun <= tonumber(c[2]) then return end
  local ends = math.max(tonumber(c[1]) or 0, now + length)
  redis.call('HSET', key, 'until', ends, 'set_at', now)
  redis.call('HDEL', key, 'probe', 'probe_id', 'reopened_at')
  closure_keep(key, now, ends, max_lock)
end

-- Clears a closure that was set before `begun`; its level is remembered. A stale success clears nothing.
local function closure_reopen(key, now, begun, max_lock)
  local c = redis.call('HMGET', key, 'until', 'set_at')
  if not c[1] or begun <= tonumber(c[2]) then return end
  redis.call('HDEL', key, 'until', 'cause', 'credential', 'probe', 'probe_id', 'fails', 'oks', 'since')
  redis.call('HSET', key, 'reopened_at', now)
  closure_keep(key, now, now, max_lock)
end

-- Gives back the turn of a probe that brought no verdict.
local function closure_unprobe(key, lease)
  if redis.call('HGET', key, 'probe_id') == lease then redis.call('HDEL', key, 'probe', 'probe_id') end
end
