"""Several processes read small and large objects at random out of a cache that holds a third of them: no error, no wrong
byte, and nothing is left over."""
import os
import random

from harness import fixtures, headrace, paths, proc
from harness.case import test
from harness.scene import scene
from test_programs import program
from test_sanitized import Daemon

NEEDS = ("nginx", "rclone")
SMALL, SMALL_BYTES = 48, 1 << 20
LARGE, LARGE_BYTES = 3, (41 << 20) + 12345
READERS = 8


def write_objects(half):
    root = os.path.join(half, fixtures.BUCKET, fixtures.PREFIX)
    os.makedirs(root)
    rng = random.Random(5)
    for kind, count, size in (("s", SMALL, SMALL_BYTES), ("l", LARGE, LARGE_BYTES)):
        for number in range(count):
            with open(os.path.join(root, "%s%02d" % (kind, number)), "wb") as out:
                out.write(rng.randbytes(size))


def read_all(s, steps, seconds, seed=0):
    """What the readers say when they have ended, each with status 0."""
    logs = [os.path.join(proc.temp_folder(), "out%d" % number) for number in range(READERS)]
    argv = [paths.PYTHON, program("pressure.py"), s.data, s.local]
    children = [proc.start(s.job.run_argv(argv + [str(seed + number), str(steps), str(seconds)]), log, env=s.job.env())
                for number, log in enumerate(logs)]
    for child, log in zip(children, logs):
        status = child.wait(seconds + 100)
        with open(log, "rb") as file:
            said = file.read()
        proc.expect(status == 0 and said.startswith(b"wholes "), "a reader ended with %s" % status, proc.tail(said))


def files_of(cache, folder):
    return [os.path.join(here, name) for here, _, names in os.walk(os.path.join(cache, folder)) for name in names]


def check_end(s):
    """All files that are left are the cache's, and they fit."""
    headrace.wait_idle(s.job)
    status = s.job.status()
    proc.expect(status["cache.evictions"] > 0, "evictions", status["cache"])
    proc.expect_equal(status["errors"], 0, "errors")
    s.job.stop()
    left = files_of(s.job.cache, "objects")
    proc.expect_equal(len(left), status["cache.objects"] + status["cache.faces"] + status["cache.segments"], "files left")
    proc.expect(sum(os.path.getsize(path) for path in left) <= 64 << 20, "bytes left")
    proc.expect_equal(files_of(s.job.cache, "spool"), [], "files in spool")


@test(NEEDS)
def test_pressure():
    with scene(fixtures.in_order("pressure-v1", write_objects), cache_size="64M") as s:
        read_all(s, 6, 40)
        check_end(s)


@test(NEEDS, timeout=300, slow=True)
def test_pressure_for_a_minute():
    with scene(fixtures.in_order("pressure-v1", write_objects), cache_size="64M") as s:
        read_all(s, 10 ** 9, 20)
        early = s.job.rss_anon_bytes()
        read_all(s, 10 ** 9, 40, READERS)
        late = s.job.rss_anon_bytes()
        proc.expect(late <= early + (16 << 20), "RssAnon after 20 s and after 60 s", early, late)
        check_end(s)


@test(NEEDS + ("build-address",), timeout=150)
def test_pressure_sanitized():
    with scene(fixtures.in_order("pressure-v1", write_objects), cache_size="64M") as s:
        daemon = Daemon(s.job)
        read_all(s, 4, 100)
        proc.expect_equal(s.job.daemon_pid(), daemon.child.pid, "pid of the daemon that served")
        daemon.finish()
