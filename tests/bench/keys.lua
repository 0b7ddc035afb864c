-- wrk: GETs over a list of keys (one path a line in the file that the environment's KEYS names), each thread from a
-- place of its own.
local threads = 0

function setup(thread)
    thread:set("number", threads)
    threads = threads + 1
end

function init(args)
    keys = {}
    for line in io.lines(os.getenv("KEYS")) do
        keys[#keys + 1] = line
    end
    at = number * math.floor(#keys / 2)
end

function request()
    at = at % #keys + 1
    return wrk.format("GET", keys[at])
end
