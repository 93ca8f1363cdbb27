-- pins: the connection that a conversation prefers.

-- Which of the candidates it is, counted from 0; nil: none of them. `names`: the ids of those that may be preferred, each
-- between bars, an empty place for one that may not.
local function pin_place(key, names)
  local name = redis.call('GET', key)
  local at = name and name ~= '' and string.find(names, '|' .. name .. '|', 1, true)
  if not at then return nil end
  local _, bars = string.gsub(string.sub(names, 1, at - 1), '|', '')
  return bars
end

-- Binds a conversation to a connection for an hour from now.
local function pin_bind(key, name)
  redis.call('SET', key, name, 'PX', '3600000')
end
