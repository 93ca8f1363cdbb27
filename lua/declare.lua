local function declare(KEYS, ARGV) return {'unfinished'} end
