local function record(KEYS, ARGV) return {'unfinished'} end
