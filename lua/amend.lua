-- amend: make, change or revoke one client key at run time.
--
-- uses     clock
-- KEYS[1]  account  hash  money, source
-- KEYS[2]  keys     set   ids of the account's client keys
-- KEYS[3]  record   hash  the client key
-- ARGV[1]  mode     create | update | revoke
-- ARGV[2]  key_id
-- ARGV[3]  rev      mode update: of the record that is changed
-- ARGV[f]  field    modes create and update: all limits and rights, each with its value,
-- ARGV[f+1] value   and a new rev
-- returns  {'amended'} | {'no_account'} | {'exists'} | {'missing'} | {'from_file'} | {'revoked'} | {'changed'}
-- holds    A key of the file is never touched, nor one that was revoked. Limits that are not given are gone; secret, source,
--          created_at and the marks stay. admit reads this very record, so what is written here counts at once everywhere.
-- caller   shared/src/state/roster.rs
local function amend(KEYS, ARGV)
  local account, keys, record = KEYS[1], KEYS[2], KEYS[3]
  local mode, key_id, rev = ARGV[1], ARGV[2], ARGV[3]
  local call = redis.call
  local now = clock()

  if not call('HGET', account, 'money') then return {'no_account'} end
  local before = call('HMGET', record, 'source', 'status', 'rev')
  if mode == 'create' then
    if before[2] then return {'exists'} end
    call('HSET', record, 'source', 'runtime', 'created_at', string.format('%.0f', now))
    call('SADD', keys, key_id)
  else
    if not before[2] then return {'missing'} end
    if before[1] == 'file' then return {'from_file'} end
    if before[2] == 'revoked' then return {'revoked'} end
    if mode == 'revoke' then
      call('HSET', record, 'status', 'revoked', 'revoked_at', string.format('%.0f', now))
      return {'amended'}
    end
    if before[3] ~= rev then return {'changed'} end
    call('HDEL', record, 'rpm', 'tpm', 'max_concurrent', 'spend_limit', 'spend_period', 'spend_zone', 'quotas',
      'models', 'byok')
  end
  for f = 4, #ARGV, 2 do call('HSET', record, ARGV[f], ARGV[f + 1]) end
  return {'amended'}
end
