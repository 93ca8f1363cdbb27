-- window: a list of the last `cap` admissions, newest first; in no 60 s are there more than `cap`.
--
-- Entries are stamped in ms rounded up and read against a clock rounded down, so that none is admitted a hair early. Only
-- two entries are ever read: the newest, which serves as clock when TIME steps back, and the one whose place would be taken.

-- How many ms until there is room for one more, after `ahead` others were served first (0: there is room now), and the
-- newest stamp, which window_add wants to know.
local function window_wait(key, cap, now, ahead)
  if cap < 1 then return 60000 end
  local laps = math.floor(ahead / cap)
  local newest = tonumber(redis.call('LINDEX', key, '0'))
  if not newest then return laps * 60000 end
  if newest - now > 60000 then
    -- TIME stepped back by more than a window. The entries cannot be dated any more: count them all as just admitted.
    for _ = 1, redis.call('LLEN', key) do
      redis.call('RPUSH', key, now)
      redis.call('LPOP', key)
    end
    redis.call('PEXPIRE', key, 75000)
    newest = now
  end
  local index = cap - 1 - ahead % cap
  local oldest = index == 0 and newest or tonumber(redis.call('LINDEX', key, index))
  -- The newest stamp was rounded up: one less is a time that has really passed.
  local time = newest - 1 > now and newest - 1 or now
  local wait = 0
  if oldest and oldest + 60000 > time then
    wait = oldest + 60000 - now
    -- The stamp of an entry of this very ms is rounded up to the next: nobody waits for longer than the window.
    if laps == 0 and wait == 60001 then wait = 60000 end
  elseif laps > 0 and newest > now then
    wait = newest - now
  end
  return laps * 60000 + wait, newest
end

-- Logs one admission. `newest` comes from window_wait.
local function window_add(key, cap, us, newest)
  local stamp = math.ceil(us / 1000)
  if newest and newest > stamp then stamp = newest end
  if redis.call('LPUSH', key, string.format('%.0f', stamp)) > cap then redis.call('LTRIM', key, '0', cap - 1) end
  -- The first entry of each 10 s keeps the key for 75 s; that covers the 60 s of all entries of those 10 s.
  if not newest or math.floor(newest / 10000) ~= math.floor(stamp / 10000) then redis.call('PEXPIRE', key, '75000') end
end

-- How many of the logged admissions are younger than 60 s, and the ms until the oldest of them is not. Only looks.
local function window_used(key, now)
  -- The log is sorted: halve until the first entry older than the window is found.
  local low, high = 0, redis.call('LLEN', key)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if now - tonumber(redis.call('LINDEX', key, middle)) < 60000 then low = middle + 1 else high = middle end
  end
  if low == 0 then return 0, 0 end
  return low, math.min(tonumber(redis.call('LINDEX', key, low - 1)) + 60000 - now, 60000)
end
