local function survey(KEYS, ARGV) return {'unfinished'} end
