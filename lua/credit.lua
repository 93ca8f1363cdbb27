-- credit: add money to an account, once per receipt.
--
-- uses     nothing
-- KEYS[1]  balance  string  nano-dollars
-- KEYS[2]  receipt  string  the amount credited under it; kept for ever
-- ARGV[1]  amount   nano-dollars, may be negative
-- returns  {'credited', balance} | {'already', balance} | {'too_large', balance}
-- holds    The same receipt again changes nothing. No balance passes what is kept exactly (2^53).
-- caller   shared/src/state/credit.rs
local function credit(KEYS, ARGV)
  local balance_key, receipt, amount = KEYS[1], KEYS[2], ARGV[1]
  local call = redis.call

  local balance = tonumber(call('GET', balance_key)) or 0
  if call('EXISTS', receipt) == 1 then return {'already', balance} end
  if math.abs(balance + tonumber(amount)) > 9007199254740991 then return {'too_large', balance} end
  call('SET', receipt, amount)
  return {'credited', call('INCRBY', balance_key, amount)}
end
