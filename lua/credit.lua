local function credit(KEYS, ARGV) return {'unfinished'} end
