local function settle(KEYS, ARGV) return {'unfinished'} end
