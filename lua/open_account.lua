-- open_account: make an account at run time.
--
-- uses     nothing
-- KEYS[1]  account    hash  money, overdraft, residency, source
-- KEYS[2]  reserved   hash  request id → nano-dollars, total
-- ARGV[1]  money      limited | unlimited
-- ARGV[2]  overdraft  soft | none
-- ARGV[3]  residency
-- returns  {'opened'} | {'exists', source}
-- holds    An account that exists is not touched. Its balance is opened by credit, under the receipt of all opening balances.
-- caller   shared/src/state/roster.rs
local function open_account(KEYS, ARGV)
  local account, reserved = KEYS[1], KEYS[2]
  local money, overdraft, residency = ARGV[1], ARGV[2], ARGV[3]
  local call = redis.call

  local before = call('HMGET', account, 'money', 'source')
  if before[1] then return {'exists', before[2] or 'file'} end
  call('HSET', account, 'money', money, 'overdraft', overdraft, 'residency', residency, 'source', 'runtime')
  if overdraft == 'none' then call('HSETNX', reserved, 'total', 0) end
  return {'opened'}
end
