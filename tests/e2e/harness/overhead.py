"""Costs of a call with the preload and without: tests/bench/overhead.c, timed or counted by callgrind."""
import os
import re

from . import paths, proc

SOURCE = os.path.join(paths.ROOT, "tests", "bench", "overhead.c")
OPERATIONS = ("stat", "lstat", "fstat", "access", "open+close", "read", "getcwd", "readdir", "fopen+fclose")
MAP = "/data=s3://bucket/prefix"
COUNTED = re.compile(rb"Collected : (\d+)")


def program():
    made = os.path.join(proc.temp_folder("hr-cost-"), "overhead")
    done = proc.run(["gcc", "-O2", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-o", made, SOURCE], 60)
    proc.expect(done.returncode == 0, "gcc failed", proc.tail(done.stderr))
    return made


def environment(preload="", maps=MAP, cache="/nonexistent-cache"):
    """As few variables as can be: they shift the stack. Maps are configured either way."""
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "HEADRACE_MAP": maps, "HEADRACE_CACHE_DIR": cache}
    return dict(env, LD_PRELOAD=preload) if preload else env


def lines(done):
    proc.expect(done.returncode == 0, "overhead: status %d" % done.returncode, proc.tail(done.stdout, done.stderr))
    return [line.split() for line in done.stdout.decode().splitlines()]


def time_ns(made, mode, file, folder, env):
    """Operation -> ns a call (readdir: an entry). mode: time or warm."""
    return {name: float(value) for name, value in lines(proc.run([made, mode, file, folder], 120, env=env))}


def start_us(made, times, command, envs):
    """(least, median) microseconds from spawn to exit of a command, for each environment in turn."""
    texts = ["\n".join("%s=%s" % pair for pair in env.items()) for env in envs]
    rows = lines(proc.run([made, "start", str(times), command, *texts], 300))
    return [(float(least), float(median)) for _, least, median in rows]


def counting(made, name, times, file, folder):
    return ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", made, "count", name, str(times), file, folder]


def collected(argv, name, env):
    done = proc.run(argv, 120, env=env)
    found = COUNTED.search(done.stderr)
    proc.expect(done.returncode == 0 and found, "callgrind of " + name, proc.tail(done.stderr))
    return int(found.group(1))


def counted(made, name, times, file, folder, preload):
    return collected(counting(made, name, times, file, folder), name, environment(preload))


def warm_instructions(job, made, name, file, folder, few=200, many=1200):
    """Instructions of one call on a file of a map, which is in the cache."""
    costs = [collected(job.run_argv(counting(made, name, times, file, folder)), name, job.env()) for times in (few, many)]
    return (costs[1] - costs[0]) / (many - few)


def instructions(made, name, file, folder, preload, few=200, many=1200):
    """Instructions of one call, library code included, the kernel's not."""
    return (counted(made, name, many, file, folder, preload) - counted(made, name, few, file, folder, preload)) / (many - few)


def added(made, name, file, folder):
    """What the preload adds to one call."""
    return instructions(made, name, file, folder, paths.LIBRARY) - instructions(made, name, file, folder, "")
