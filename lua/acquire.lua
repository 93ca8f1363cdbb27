local function acquire(KEYS, ARGV) return {'unfinished'} end
