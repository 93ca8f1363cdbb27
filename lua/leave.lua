-- leave: a request gives up its places in the lines of a group's connections.
--
-- uses       clock, line, turns
-- KEYS[k+1]  waiters  zset  the line (k = 0, 3, 6 … : three keys a connection)
-- KEYS[k+2]  alive    zset  its places
-- KEYS[k+3]  turns    hash  its turns
-- ARGV[1]    member   REPLICA|REQUEST|FLOW
-- ARGV[2]    wake_prefix
-- returns    {'left', lines}
-- holds      A slot that the leaver may have been woken for is offered to the next. The second time there is nothing to leave.
-- caller     shared/src/state/capacity/leave.rs
local function leave(KEYS, ARGV)
  local member, wake_prefix = ARGV[1], ARGV[2]
  local call = redis.call
  local now = clock()
  local left = 0

  for k = 0, #KEYS - 3, 3 do
    local waiters, alive, turns = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3]
    local first = call('ZRANK', waiters, member) == 0
    left = left + turn_leave({waiters = waiters, alive = alive, turns = turns}, {member})
    if first then line_wake(waiters, alive, now, wake_prefix) end
  end
  return {'left', left}
end
