"""What the daemon asks of the kernel for an object of a cold epoch: system calls by their names, under strace."""
import collections
import contextlib
import os
import re

from harness import fixtures, headrace, proc
from harness.case import test
from harness.scene import scene

CONNECTIONS = 16
READ_ALL = """
import os, sys
paths = sorted(os.path.join(here, name) for here, _, names in os.walk(sys.argv[1]) for name in names)
print(sum(len(open(path, "rb").read()) for path in paths))
"""
# One file an object: written once, stamped once.
ONCE = ("pwrite64", "utimensat")
# What the cache's folders take: 64 of them in 16 places, once for 16,384 objects; the numbers may begin at the end of
# those. Apart from them a few files of listings and states.
FOLDER_CALLS = ("mkdir", "chmod", "rename")
FOLDERS_MOST = 2 * 64 + 16 + 24
# How threads wake each other goes by how they meet: 3.8 to 4.2 an object, and not bounded closely.
WAKES = ("futex", "write", "read", "epoll_wait")
WAKES_MOST = 10
# The rest of what is called for most objects does not: open, pwrite, utimensat, fstat, close; send and recv. 7.2 to 7.3
# here; one call more for every object shows.
OTHERS_MOST = 8.0


@contextlib.contextmanager
def traced(job, log):
    """The job's daemon under strace, from before its first request."""
    os.makedirs(job.cache, 0o700)
    argv = ["strace", "-f", "-qq", "-o", log, job.program, "daemon", "--cache-dir", job.cache]
    child = proc.start(argv, log + ".out", env=job.env())
    try:
        proc.wait_until(lambda: os.path.exists(os.path.join(job.cache, "sock")), 20, "the daemon's socket")
        yield
    finally:
        job.stop()
        proc.expect_equal(child.wait(20), 0, "status of the daemon")


def calls_between(log, first, last):
    """Names of the calls from the first line with one text to the last with the other, aside from what was not there."""
    with open(log, errors="replace") as file:
        lines = [line for line in file if " resumed>" not in line and " ENOENT " not in line]
    begin = next(at for at, line in enumerate(lines) if first in line)
    end = max(at for at, line in enumerate(lines) if last in line)
    found = (re.match(r"\d+ +(\w+)\(", line) for line in lines[begin:end + 1])
    return collections.Counter(one.group(1) for one in found if one)


@test(("strace", "nginx", "rclone"), timeout=120, tries=2)
def test_system_calls_an_object():
    with scene(connections=CONNECTIONS) as s:
        log = os.path.join(proc.temp_folder(), "strace")
        with traced(s.job, log):
            read = int(s.job.python(READ_ALL, s.data))
            headrace.wait_idle(s.job)
        want = fixtures.tree_digests(s.local)
        proc.expect_equal(read, sum(os.path.getsize(os.path.join(s.local, name)) for name in want), "bytes read")
        calls = calls_between(log, '"GET /', "utimensat(")
        for name in ONCE:
            count = sum(count for call, count in calls.items() if call.startswith(name))
            proc.expect(len(want) <= count <= len(want) + 8, "%d of %s for %d objects" % (count, name, len(want)), calls)
        for name in FOLDER_CALLS:
            count = sum(calls.pop(call) for call in list(calls) if call.startswith(name))
            proc.expect(count <= FOLDERS_MOST, "%d of %s" % (count, name), calls)
        proc.expect(calls["connect"] <= 2 * CONNECTIONS, "%d connections" % calls["connect"], calls)
        # A connection is made by libcurl, and looked at once; its requests need no look, and no new place in epoll.
        proc.expect(calls["poll"] <= 4 * CONNECTIONS, "%d polls" % calls["poll"], calls)
        proc.expect(calls["epoll_ctl"] <= 8 * CONNECTIONS, "%d changes of what epoll looks at" % calls["epoll_ctl"], calls)
        wakes = sum(calls[name] for name in WAKES) / len(want)
        others = sum(count for name, count in calls.items() if name not in WAKES and count > len(want) / 2) / len(want)
        proc.expect_well(others <= OTHERS_MOST and wakes <= WAKES_MOST, "%.2f calls an object, and %.1f to wake and to wait" % (
            others, wakes), calls)
