-- declare: write the account and client keys of the file.
--
-- uses       nothing
-- KEYS[1]    account     hash   money, overdraft, residency, source
-- KEYS[2]    keys        set    ids of the account's client keys
-- KEYS[3]    reserved    hash   request id → nano-dollars, total
-- KEYS[i+3]  record      hash   one per client key
-- ARGV[1]    money       limited | unlimited; keep: the account is no longer in the file and stays as it is
-- ARGV[2]    overdraft   soft | none
-- ARGV[3]    residency
-- ARGV[a]    key_id      per client key: its id,
-- ARGV[a+1]  standing    declared | gone (no longer in the file),
-- ARGV[a+2]  count       how many fields follow,
-- ARGV[f]    field       each with its value
-- ARGV[f+1]  value
-- returns    {'declared', secret that lost its meaning …}
-- holds      All at once. The same again changes nothing. What requests wrote (the marks) stays; balances are not touched. A
--            gone key is disabled if it came from the file; one made at run time gets a new rev if its account changed, for what
--            replicas remember of it holds the account's terms, too.
-- caller     shared/src/state/records.rs
local function declare(KEYS, ARGV)
  local account, keys, reserved = KEYS[1], KEYS[2], KEYS[3]
  local money, overdraft, residency = ARGV[1], ARGV[2], ARGV[3]
  local call = redis.call
  local reply = {'declared'}

  local was = call('HMGET', account, 'money', 'overdraft', 'residency')
  local moved = money ~= 'keep' and was[1] and (was[1] ~= money or was[2] ~= overdraft or was[3] ~= residency)
  if money ~= 'keep' then
    call('HSET', account, 'money', money, 'overdraft', overdraft, 'residency', residency, 'source', 'file')
    if overdraft == 'none' then call('HSETNX', reserved, 'total', 0) end
  end
  local a = 4
  for i = 1, #KEYS - 3 do
    local record, key_id, standing, count = KEYS[i + 3], ARGV[a], ARGV[a + 1], tonumber(ARGV[a + 2])
    local before = call('HMGET', record, 'secret', 'source', 'status', 'rev')
    if standing == 'declared' then
      call('HDEL', record, 'rpm', 'tpm', 'max_concurrent', 'spend_limit', 'spend_period', 'spend_zone', 'quotas',
        'models', 'byok')
      for f = a + 3, a + 2 + count * 2, 2 do call('HSET', record, ARGV[f], ARGV[f + 1]) end
      call('SADD', keys, key_id)
      if before[1] and before[1] ~= call('HGET', record, 'secret') then reply[#reply + 1] = before[1] end
    elseif before[2] == 'file' then
      call('HSET', record, 'status', 'disabled')
      if before[1] and before[3] == 'active' then reply[#reply + 1] = before[1] end
    elseif before[4] and moved then
      call('HSET', record, 'rev', redis.sha1hex(table.concat({before[4], money, overdraft, residency}, ' ')))
    end
    a = a + 3 + count * 2
  end
  return reply
end
