-- tokens: a connection's tokens per minute. Needs `ring`.
--
-- key   hash  a ring of one-second slices: thousandths of tokens that ended attempts used
-- held  hash  lease → thousandths that its attempt may use, and their `total`
--
-- A limit is a table: key, held, leases (the connection's), most (thousandths). What an attempt may use is held until its lease is
-- given back. That of a lease which lapsed was used, for all we know, when the lease ended.

-- Frees what a lease held. Answers how much that was.
local function tokens_free(held, lease)
  local amount = redis.call('HGET', held, lease)
  if not amount then return 0 end
  redis.call('HDEL', held, lease)
  if redis.call('HINCRBY', held, 'total', '-' .. amount) <= 0 then redis.call('HDEL', held, 'total') end
  return tonumber(amount)
end

-- Removes lapsed leases. Answers the ring and what the others hold.
local function tokens_read(limit, now)
  local ring = ring_read(limit.key, 1000, now)
  local lapsed = redis.call('ZRANGEBYSCORE', limit.leases, '-inf', now, 'WITHSCORES')
  for i = 1, #lapsed, 2 do
    local amount = tokens_free(limit.held, lapsed[i])
    if amount > 0 then
      ring_add_at(ring, amount, tonumber(lapsed[i + 1]))
      ring = ring_read(limit.key, 1000, now)
    end
  end
  if #lapsed > 0 then redis.call('ZREMRANGEBYSCORE', limit.leases, '-inf', now) end
  local open = tonumber(redis.call('HGET', limit.held, 'total')) or 0
  if open > 0 and redis.call('HLEN', limit.held) - 1 > redis.call('ZCARD', limit.leases) then
    -- Leases are kept for longer than a window after they lapsed: what these used is over.
    local leases = redis.call('HKEYS', limit.held)
    for i = 1, #leases do
      if leases[i] ~= 'total' and not redis.call('ZSCORE', limit.leases, leases[i]) then
        open = open - tokens_free(limit.held, leases[i])
      end
    end
  end
  return ring, open
end

-- What an attempt takes that is estimated to use so many thousandths (elastic: its output is what answers had of late, if that is
-- known); nil if that does not fit. And how long until it may fit at the soonest: 0 if only what is held stands in the way.
local function tokens_room(limit, input, output, elastic, now)
  local ring, open = tokens_read(limit, now)
  -- An estimate above the limit counts as the limit: it needs an empty window.
  local takes = math.min(input + (elastic and ring.usual or output), limit.most)
  local excess = ring.used + takes - limit.most
  if excess > 0 then return nil, math.max(ring_wait(ring, excess, now), 1) end
  if excess + open > 0 then return nil, 0 end
  return takes, 0
end

-- Holds what an attempt may use.
local function tokens_hold(held, lease, takes)
  if takes <= 0 then return end
  local amount = string.format('%.0f', takes)
  redis.call('HSET', held, lease, amount)
  redis.call('HINCRBY', held, 'total', amount)
  redis.call('PEXPIRE', held, '86400000')
end

-- An attempt has ended: what it held is free, what it used counts. answered: that of it which was output.
local function tokens_spend(key, held, lease, used, answered, now)
  tokens_free(held, lease)
  if used <= 0 then return end
  ring_spend(key, used, answered, now)
end
