"""Listing at scale: many lanes, counted by a synthetic server of our own (tests/scale/listd.c) and by real ones."""
import json
import os
import re
import signal

from harness import build, fixtures, headrace, paths, proc
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


def listed(shape, *options, lanes=48, count=KEYS, again=False):
    """Files, folders and bytes of names as a program sees them; the server's counters; the daemon's log. again: listed twice."""
    with Listd(shape, count, *options) as store:
        data = os.path.join(proc.temp_folder(), "data")
        with headrace.Job("%s=s3://bkt/" % data, store.url, access="a", secret="b", list_lanes=lanes) as job:
            seen = [int(word) for word in job.python(WALK, data).split()]
            if again:
                done = job.command("refresh", data)
                proc.expect(b"0 added, 0 removed, 0 changed" in done.stdout, done.stdout, done.stderr)
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
    # A million keys stay within 1.25 (tests/unit/list/test_lanes.c); fewer have fewer pages for as many lanes' ends.
    proc.expect(counts["pages"] <= 1.3 * PAGES, "%(pages)d pages" % counts)
    proc.expect(counts["probes"] <= 3 * PAGES, "%(probes)d probes" % counts)
    lanes = int(re.search(r" keys=%d pages=\d+ probes=\d+ lanes=(\d+)" % KEYS, log).group(1))
    proc.expect(lanes >= 24, "%d lanes" % lanes)
    proc.expect("page by page" not in log, log[-1500:])


def listed_page_by_page(option, why, keys):
    """All names are there, why no lanes are used is said once, and the next listing begins as the first one ended."""
    seen, counts, log = listed("sequential", option, count=keys, again=True)
    proc.expect_equal(seen[0], keys, "keys of a store with " + option)
    said = [line for line in log.splitlines() if "listed page by page" in line]
    proc.expect(len(said) == 1 and why in said[0], "%s: %s" % (option, said))
    ends = re.findall(r"listing ended .* keys=(\d+) pages=(\d+) probes=(\d+) lanes=(\d+)", log)
    proc.expect_equal(ends[1:], [(str(keys), str(keys // 1000), "0", "1")], "the second listing, " + option)
    proc.expect(counts["pages"] <= 5 * keys // 1000, "%s: %s" % (option, counts))


@test(timeout=60)
def test_store_without_start_after():
    listed_page_by_page("no_start_after", "start-after", 30000)


@test(timeout=60)
def test_store_that_ignores_max_keys():
    """A request for one key brings a page there."""
    listed_page_by_page("no_max_keys", "max-keys", 30000)


@test(timeout=60)
def test_store_in_disorder():
    """Found out far behind, when many lanes list."""
    listed_page_by_page("disorder", "bytewise order", 120000)


@test(timeout=60)
def test_store_that_answers_all_in_one_page():
    """200,000 keys in one answer, as AIStore does it: one request, every key, and no more memory than that answer takes."""
    keys = 200000
    with Listd("imagenet", keys, "whole") as store:
        data = os.path.join(proc.temp_folder(), "data")
        with headrace.Job("%s=s3://bkt/" % data, store.url, access="a", secret="b") as job:
            files, folders, length = map(int, job.python(WALK, data).split())
            with open("/proc/%d/status" % job.daemon_pid()) as file:
                peak_kib = int(re.search(r"VmHWM:\s+(\d+)", file.read()).group(1))
            log = job.log_tail(10**6)
        counts = store.counts()
    paged, _, _ = listed("imagenet", lanes=1, count=keys)
    proc.expect_equal([files, folders, length], paged, "files, folders, bytes of names")
    proc.expect_equal((counts["pages"], counts["probes"], counts["keys"]), (1, 0, keys), "pages, probes, keys")
    said = [line for line in log.splitlines() if "listed page by page" in line]
    proc.expect(len(said) == 1 and "all keys in one answer" in said[0], said)
    proc.expect(peak_kib < 256 << 10, "%d KiB of memory" % peak_kib)


@test(timeout=60)
def test_lanes_under_throttling():
    """Every 40th request is refused: nothing is lost."""
    seen, counts, _ = listed("deep", "slow_down=40", count=50000)
    proc.expect_equal(seen[0], 50000, "keys")
    proc.expect(counts["refused"] > 0, "nothing was refused")


@test(timeout=60)
def test_listing_outlasts_a_storm():
    """Every request from the 60th to the 140th is refused: all keys, each once."""
    seen, counts, log = listed("hex", "storm_from=60", "storm_to=140", count=120000)
    proc.expect_equal(seen[0], 120000, "keys")
    proc.expect_equal(counts["refused"], 80, "requests refused")
    proc.expect(" keys=120000 " in log, "keys counted before they are sorted", log[-1500:])


@test(timeout=60)
def test_endless_storm_names_the_page():
    """Nothing but refusals from the second request on, so that no directory can be listed alone: an error within timeout_s that
    names the page, and no name."""
    with Listd("imagenet", 200000, "storm_from=2", "storm_to=1000000000") as store:
        data = os.path.join(proc.temp_folder(), "data")
        with headrace.Job("%s=s3://bkt/" % data, store.url, access="a", secret="b", timeout_s=2) as job:
            done = job.run([paths.PYTHON, "-c", "import os, sys; os.listdir(sys.argv[1])", data])
            said = done.stderr.decode() + job.log_tail(4000)
            proc.expect(done.returncode == 1 and "[Errno 5]" in said, "status %d" % done.returncode, said)
            proc.expect(re.search(r"listing, page \d+: ", said), "no page is named", said)


@test(timeout=60)
def test_listing_while_keys_come_and_go():
    """Every tenth key comes and goes: the others are all there, none was listed twice."""
    code = ("import os, sys\n"
            "names = [n for _, _, files in os.walk(sys.argv[1]) for n in files]\n"
            "there = {int(n[4:12]) for n in names}\n"
            "print(len(names), len(there), len([n for n in range(60000) if n % 10 != 3 and n not in there]))")
    for lanes in (1, 48):
        with Listd("sequential", 60000, "flicker") as store:
            data = os.path.join(proc.temp_folder(), "data")
            with headrace.Job("%s=s3://bkt/" % data, store.url, access="a", secret="b", list_lanes=lanes) as job:
                names, there, missing = map(int, job.python(code, data).split())
                proc.expect_equal((names - there, missing), (0, 0), "names twice, names missing; %d lanes" % lanes)
                proc.expect(54000 <= there <= 60000, "%d names" % there)
                counted = int(re.search(r"listing ended .* keys=(\d+)", job.log_tail(10**6)).group(1))
                proc.expect_equal(counted, names, "keys that came, with those that came twice")


@test(timeout=60)
def test_daemon_dies_while_it_lists():
    """kill -9 in the middle: who waits gets the whole listing of the next daemon."""
    with Listd("deep", 60000, "latency_ms=20") as store:
        data = os.path.join(proc.temp_folder(), "data")
        with headrace.Job("%s=s3://bkt/" % data, store.url, access="a", secret="b", list_lanes=2) as job:
            log = os.path.join(proc.temp_folder(), "out")
            child = job.start([paths.PYTHON, "-c", WALK, data], log=log)
            proc.wait_until(job.daemon_pid, 20, "a daemon")
            job.kill_daemon()
            proc.expect_equal(child.wait(40), 0, "status of the walk")
            job.note_daemon()
            with open(log) as file:
                proc.expect_equal(int(file.read().splitlines()[-1].split()[0]), 60000, "files after a daemon's death")


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
