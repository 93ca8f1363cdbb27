local function admit(KEYS, ARGV) return {'unfinished'} end
