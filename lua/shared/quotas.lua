-- quotas: what a client key may use in a period or in a sliding window. A spend limit is one, too. Needs `ring`.
--
-- counter  string (period) or ring (window): what counts for good
-- held     hash: a counter's key → what open requests hold of it, so that together they never use more than there is
-- mark     field of the key's record: the last period (or slice) something was counted in; a counter that is gone though its
--          mark stands is lost
--
-- A quota is a table here: key, kind (requests | tokens | cost | spend), limit, mark, marked (what stands there), label (of the period; '': a window), ends
-- (ms of the period, 0: never; of a window the length of a slice).

-- Whether the counter must be there: its mark is of this period, or younger than the window.
local function quota_marked(quota, marked, slice)
  if quota.label ~= '' then return marked == quota.label end
  return marked and slice - tonumber(marked) <= 60
end

-- What counts already; nil if that is lost.
local function quota_used(quota, now)
  if quota.label ~= '' then
    return tonumber(redis.call('GET', quota.key)) or not quota_marked(quota, quota.marked) and 0 or nil
  end
  quota.ring = ring_read(quota.key, quota.ends, now)
  return (quota.ring.at or not quota_marked(quota, quota.marked, quota.ring.slice)) and quota.ring.used or nil
end

-- Measures all of them against what a request wants, by kind (nil: it is not asked). An elastic wish for tokens or money takes
-- what is left. Answers nothing if all have room, and each one's `takes` is set; 'lost'; 'over', a quota whose rest does not
-- suffice; or 'held', one whose rest is held by open requests. `used` and `resets` of that quota are set.
local function quotas_measure(quotas, held, wants, elastic, now)
  local counters, short = {}, nil
  for i = 1, #quotas do counters[i] = quotas[i].key end
  counters = redis.call('HMGET', held, unpack(counters))
  for i = 1, #quotas do
    local quota = quotas[i]
    local used, want, open = quota_used(quota, now), wants[quota.kind], tonumber(counters[i]) or 0
    if not used then return 'lost' end
    if want then
      local left, least = quota.limit - used, elastic and quota.kind ~= 'requests' and math.min(want, 1) or want
      if left <= 0 or least > left then
        quota.used, quota.resets = used, quota.ends
        if quota.label == '' then quota.resets = now + ring_wait(quota.ring, math.max(least, 1) - left, now) end
        return 'over', quota
      end
      quota.takes = math.min(want, left - open)
      if least > left - open then
        short, quota.used, quota.resets = short or quota, used + open, quota.label ~= '' and quota.ends or now + quota.ends
      end
    end
  end
  if short then return 'held', short end
end

-- Counts an admitted request.
local function quota_count(quota, record, now)
  if quota.label == '' then
    if quota.ring.at ~= quota.ring.slice then redis.call('HSET', record, quota.mark, quota.ring.slice) end
    ring_add(quota.ring, 1)
  elseif redis.call('INCR', quota.key) == 1 then
    if quota.ends > 0 then redis.call('PEXPIRE', quota.key, quota.ends - now + 86400000) end
    redis.call('HSET', record, quota.mark, quota.label)
  end
end

-- Gives an admitted request back.
local function quota_uncount(quota, admitted_at, now)
  if quota.label ~= '' then
    if (tonumber(redis.call('GET', quota.key)) or 0) > 0 then redis.call('DECR', quota.key) end
    return
  end
  local ring, slice = ring_read(quota.key, quota.ends, now), math.floor(admitted_at / quota.ends)
  if not ring.at or slice > ring.at or slice < ring.slice - 60 then return end
  if (tonumber(redis.call('HGET', quota.key, slice % 61)) or 0) > 0 then
    redis.call('HINCRBY', quota.key, slice % 61, -1)
    redis.call('HINCRBY', quota.key, 'total', -1)
  end
end

-- Counts what a settled request used, more than nothing. A counter that was lost is not conjured up again.
local function quota_spend(quota, record, amount, now)
  if quota.label == '' then
    local ring = ring_read(quota.key, quota.ends, now)
    if ring.at ~= ring.slice then
      local key = redis.call('HMGET', record, 'status', quota.mark)
      if not ring.at and quota_marked(quota, key[2], ring.slice) then return end
      if key[1] then redis.call('HSET', record, quota.mark, ring.slice) end
    end
    ring_add(ring, amount)
  elseif redis.call('INCRBY', quota.key, amount) == tonumber(amount) then
    -- The first charge of a period, or the counter was lost.
    local key = redis.call('HMGET', record, 'status', quota.mark)
    if quota_marked(quota, key[2]) then
      redis.call('DEL', quota.key)
    else
      if quota.ends > 0 then redis.call('PEXPIRE', quota.key, math.max(quota.ends - now, 0) + 86400000) end
      if key[1] and (quota.ends == 0 or now < quota.ends) then redis.call('HSET', record, quota.mark, quota.label) end
    end
  end
end

-- Frees what a request held of a counter, a text.
local function hold_free(held, counter, amount)
  if not amount or amount == '0' then return end
  if redis.call('HINCRBY', held, counter, '-' .. amount) <= 0 then redis.call('HDEL', held, counter) end
end
