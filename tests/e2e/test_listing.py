"""Listing at scale: many lanes, counted by a synthetic server of our own (tests/scale/listd.c) and by real ones."""
import json
import os
import re
import signal

from harness import build, fixtures, headrace, proc
from harness.case import test
from harness.scene import scene

KEYS = 300000
PAGES = KEYS // 1000

WALK = """
import os, sys
files = dirs = length = 0
for here, below, names in os.walk(sys.argv[1]):
    dirs += len(below)
    files += len(names)
    length += sum(map(len, names))
print(files, dirs, length)
"""


class Listd:
    """The synthetic server: shape, number of keys, options."""

    def __init__(self, shape, count=KEYS, *options):
        self.folder = proc.temp_folder("hr-listd-")
        program = build.compile_files(os.path.join(self.folder, "listd"), ["tests/scale/listd.c"], "-lpthread")
        self.port = proc.free_port()
        self.log = os.path.join(self.folder, "log")
        self.child = proc.start([program, shape, str(count), "port=%d" % self.port, *options], self.log)
        proc.wait_port(self.port, self.child)
        self.url = "http://127.0.0.1:%d" % self.port

    def counts(self):
        """Ends it; its counters."""
        self.child.send_signal(signal.SIGTERM)
        self.child.wait(20)
        with open(self.log) as file:
            return json.loads(file.read().splitlines()[-1])

    def __enter__(self):
        return self

    def __exit__(self, *what):
        proc.stop(self.child)


def listed(shape, *options, lanes=48, count=KEYS):
    """Files, folders and bytes of names as a program sees them; the server's counters; the daemon's log."""
    with Listd(shape, count, *options) as store:
        data = os.path.join(proc.temp_folder(), "data")
        with headrace.Job("%s=s3://bkt/" % data, store.url, access="a", secret="b", list_lanes=lanes) as job:
            seen = [int(word) for word in job.python(WALK, data).split()]
            with open(os.path.join(job.cache, "daemon.log")) as file:
                log = file.read()
        return seen, store.counts(), log


@test(timeout=60)
def test_lanes_list_every_key_once():
    """ImageNet-like keys behind 5 ms: as page by page, in nearly as few pages, many at once."""
    plain, alone, _ = listed("imagenet", lanes=1)
    proc.expect_equal((plain[0], alone["probes"], alone["pages"]), (KEYS, 0, PAGES), "one lane: keys, probes, pages")
    seen, counts, log = listed("imagenet", "latency_ms=5")
    proc.expect_equal(seen, plain, "files, folders, bytes of names")
    proc.expect(counts["pages"] <= 1.25 * PAGES, "%(pages)d pages" % counts)
    proc.expect(counts["probes"] <= 3 * PAGES, "%(probes)d probes" % counts)
    lanes = int(re.search(r" keys=%d pages=\d+ probes=\d+ lanes=(\d+)" % KEYS, log).group(1))
    proc.expect(lanes >= 24, "%d lanes" % lanes)
    proc.expect("page by page" not in log, log[-1500:])


@test(timeout=60)
def test_lanes_stores_that_do_not_allow_them():
    """Without start-after or max-keys, and with disorder far behind: complete all the same, and said once."""
    for option, why, keys in (("no_start_after", "start-after", 30000), ("no_max_keys", "max-keys", 30000),
                              ("disorder", "bytewise order", 60000)):
        seen, counts, log = listed("sequential", option, count=keys)
        proc.expect_equal(seen[0], keys, "keys of a store with " + option)
        said = [line for line in log.splitlines() if "listed page by page" in line]
        proc.expect(len(said) == 1 and why in said[0], "%s: %s" % (option, said))
        proc.expect(counts["pages"] <= 3 * keys // 1000, "%s: %s" % (option, counts))


@test(timeout=60)
def test_lanes_under_throttling():
    """Every 40th request is refused: nothing is lost."""
    seen, counts, _ = listed("deep", "slow_down=40", count=50000)
    proc.expect_equal(seen[0], 50000, "keys")
    proc.expect(counts["refused"] > 0, "nothing was refused")


def write_many(half):
    root = os.path.join(half, fixtures.BUCKET, fixtures.PREFIX)
    for number in range(5000):
        folder = os.path.join(root, "%02d" % (number % 40), "a-b" if number % 3 else "a")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "%d.txt" % number), "w") as out:
            out.write(str(number))


@test(("nginx", "rclone"), timeout=60)
def test_lanes_rclone_5000_objects():
    with scene(fixtures.in_order("many-v1", write_many)) as s:
        want = proc.run(["/usr/bin/python3", "-c", WALK, s.local]).stdout.decode()
        proc.expect_equal(s.job.python(WALK, s.data), want, "files, folders, bytes of names")
