local function renew(KEYS, ARGV) return {'unfinished'} end
