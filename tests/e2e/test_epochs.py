"""Shuffled epochs through DataLoader equal the local copy's, with one GET an object, whoever shares the cache."""
from harness import fixtures, front, headrace, proc, servers, training
from harness.case import test
from harness.scene import scene

import os

from test_cache import BLOBS, write_blobs

NEEDS = ("torch", "torchvision", "nginx", "rclone")


def check_epochs(method, variants, epochs=1):
    want = training.local(fixtures.tree(fixtures.images()), "--workers", 0)
    for workers, persistent in variants:
        with scene(delay_ms=5) as s:
            args = ["--workers", workers, "--method", method, "--epochs", 2 if persistent else epochs]
            have = training.mapped(s.job, s.data, *args, *(["--persistent"] if persistent else []))
            training.expect_same(have, want, 2 if persistent else epochs)
            headrace.wait_idle(s.job)
            training.expect_one_get_each(s.front.log(), s.job, s.fixture)


@test(NEEDS, timeout=150)
def test_epoch_digest_fork():
    check_epochs("fork", [(0, False), (1, False), (4, False), (4, True)])


@test(NEEDS, timeout=240)
def test_epoch_digest_spawn():
    check_epochs("spawn", [(1, False), (4, True)])


@test(NEEDS, timeout=240)
def test_epoch_digest_forkserver():
    check_epochs("forkserver", [(1, True), (4, False)])


@test(NEEDS, timeout=120)
def test_epoch_workers_forked_anew_each_epoch():
    check_epochs("fork", [(4, False)], epochs=3)


@test(("nginx", "rclone"))
def test_epoch_digest_stand_in_loader():
    want = training.local(fixtures.tree(fixtures.images()), "--workers", 0, script=training.STAND_IN)
    for method in ("fork", "spawn"):
        with scene(delay_ms=5) as s:
            have = training.mapped(s.job, s.data, "--method", method, script=training.STAND_IN)
            training.expect_same(have, want)
            headrace.wait_idle(s.job)
            training.expect_one_get_each(s.front.log(), s.job, s.fixture)


@test(("nginx", "rclone"))
def test_prefetch_off_fetches_exactly_what_is_opened():
    with scene(prefetch="off") as s:
        out = s.job.python(
            "import os, sys\n"
            "names = sorted(os.listdir(sys.argv[1] + '/n003'))[:40]\n"
            "print(sum(len(open(sys.argv[1] + '/n003/' + n, 'rb').read()) for n in names))", s.data)
        names = sorted(os.listdir(s.local + "/n003"))[:40]
        proc.expect_equal(int(out), sum(os.path.getsize(s.local + "/n003/" + n) for n in names), "bytes read")
        training.expect_one_get_each(s.front.log(), s.job, s.fixture, opened=40)


@test(("nginx", "rclone"))
def test_listing_alone_fetches_nothing():
    with scene() as s:
        s.job.good(["find", s.data, "-type", "f", "-size", "+0"])
        s.job.good(["ls", "-lR", s.data])
        log = s.front.log()
        proc.expect_equal(len(log.gets), 0, "GETs of find and ls -lR")
        proc.expect(1 <= len(log.lists) <= 3, "LISTs of 400 keys", log)


@test(("nginx", "rclone"))
def test_sweep_starts_with_the_16th_open():
    with scene() as s:
        code = ("import os, sys, time\n"
                "root = sys.argv[1] + '/n000/'\n"
                "for n in sorted(os.listdir(root))[:int(sys.argv[2])]: open(root + n, 'rb').read()\n"
                "while not os.path.exists(sys.argv[3]): time.sleep(0.01)")
        s.job.python(code, s.data, "15", "/")
        headrace.wait_idle(s.job)
        proc.expect_equal(len(s.front.log().keys()), 15, "keys fetched after 15 opens")
        enough = os.path.join(proc.temp_folder(), "enough")  # the sweep ends with its job
        child = s.job.start(["/usr/bin/python3", "-c", code, s.data, "17", enough])
        proc.wait_until(lambda: len(s.front.log().keys()) == 400, 20, "the sweep brings all")
        open(enough, "w").close()
        proc.expect_equal(child.wait(20), 0, "status of the job")
        headrace.wait_idle(s.job)
        training.expect_one_get_each(s.front.log(), s.job, s.fixture)


@test(("nginx", "rclone"), timeout=90)
def test_two_jobs_one_bucket_one_get_an_object():
    with scene(delay_ms=20) as s:
        want = training.local(s.local, script=training.STAND_IN)
        other = headrace.Job(s.job.maps, s.front, cache=s.job.cache)
        folder = proc.temp_folder("hr-out-")
        logs = [os.path.join(folder, "a"), os.path.join(folder, "b")]
        children = [job.start(training.argv(s.data, "--seed", seed, script=training.STAND_IN), log=log)
                    for seed, (job, log) in enumerate(zip((s.job, other), logs))]
        for child in children:
            proc.expect_equal(child.wait(60), 0, "status of a job")
        s.job.note_daemon()
        for log in logs:
            with open(log, "rb") as file:
                training.expect_same(training.parse(file.read()), want)
        headrace.wait_idle(s.job)
        training.expect_one_get_each(s.front.log(), s.job, s.fixture)


def two_buckets():
    """Two fixtures whose keys are the same and whose bytes differ."""
    return fixtures.images(seed=1), fixtures.images(seed=2)


@test(("nginx", "rclone"), timeout=90)
def test_two_jobs_two_secrets():
    one, two = two_buckets()
    data = os.path.join(proc.temp_folder("hr-"), "data")
    source = "%s=s3://%s/%s" % (data, fixtures.BUCKET, fixtures.PREFIX)
    with servers.Rclone(one, "keyone", "secretone1") as a, servers.Rclone(two, "keytwo", "secrettwo2") as b:
        with headrace.Job(source, a) as first:
            second = headrace.Job(source, b, cache=first.cache)
            folder = proc.temp_folder("hr-out-")
            children = [(fixture, os.path.join(folder, job.access), job) for fixture, job in ((one, first), (two, second))]
            running = [job.start(training.argv(data, script=training.STAND_IN), log=log) for _, log, job in children]
            for child in running:
                proc.expect_equal(child.wait(60), 0, "status of a job")
            first.note_daemon()
            for fixture, log, _ in children:
                with open(log, "rb") as file:
                    training.expect_same(training.parse(file.read()),
                                         training.local(fixtures.tree(fixture), script=training.STAND_IN))


@test(("nginx", "rclone"), timeout=90)
def test_two_buckets_of_one_server_on_one_path():
    """Same endpoint and keys, other buckets: the index and the cache are keyed by source, not by mount path."""
    one, two = two_buckets()
    both = os.path.join(proc.temp_folder("hr-fx-"), "buckets")
    os.mkdir(both)
    for name, fixture in (("one", one), ("two", two)):
        proc.run(["cp", "-r", os.path.join(fixture, fixtures.BUCKET), os.path.join(both, name)])
    data = os.path.join(proc.temp_folder("hr-"), "data")
    with servers.Rclone(both) as store:
        with headrace.Job("%s=s3://one/train" % data, store) as first:
            second = headrace.Job("%s=s3://two/train" % data, store, cache=first.cache)
            for job, fixture in ((first, one), (second, two), (first, one)):
                training.expect_same(training.mapped(job, data, script=training.STAND_IN),
                                     training.local(fixtures.tree(fixture), script=training.STAND_IN))


@test(("nginx", "rclone"), timeout=90)
def test_second_run_after_restart_zero_gets():
    with scene() as s:
        want = training.local(s.local, script=training.STAND_IN)
        training.expect_same(training.mapped(s.job, s.data, script=training.STAND_IN), want)
        s.job.stop()
        mark = s.front.mark()
        training.expect_same(training.mapped(s.job, s.data, "--seed", 5, script=training.STAND_IN), want)
        proc.expect_equal(len(s.front.log(mark).gets), 0, "GETs of the second run")


@test(("nginx", "rclone"), timeout=90)
def test_second_run_after_kill9_zero_gets():
    with scene() as s:
        want = training.local(s.local, script=training.STAND_IN)
        training.expect_same(training.mapped(s.job, s.data, script=training.STAND_IN), want)
        headrace.wait_idle(s.job)
        s.job.kill_daemon()
        mark = s.front.mark()
        training.expect_same(training.mapped(s.job, s.data, "--seed", 5, script=training.STAND_IN), want)
        proc.expect_equal(len(s.front.log(mark).gets), 0, "GETs of the second run")


@test(NEEDS, timeout=120)
def test_daemon_memory_stays_small():
    with scene(fixtures.images(2000, 20, 224), delay_ms=30) as s:
        want = training.local(s.local, "--raw")
        training.expect_same(training.mapped(s.job, s.data, "--raw"), want)
        rss = s.job.rss_anon_bytes()
        proc.expect(rss < 256 << 20, "RssAnon is %d MiB" % (rss >> 20))


@test(NEEDS, timeout=240, alone=True)
def test_cold_epoch_is_wide():
    """30 ms away, at least 200 GETs at once where four waiting workers alone have four. What that gains in seconds is the
    demo's and the bench's to print."""
    with scene(fixtures.images(2000, 20, 224), delay_ms=30) as s:
        training.mapped(s.job, s.data)
        proc.expect(s.front.log().in_flight() >= 200, "too few GETs at once", s.front.log())
    with scene(delay_ms=30, prefetch="off") as s:
        training.mapped(s.job, s.data)
        # A worker has its object, and asks for the next, before the server notes the end of a GET.
        most = 2 * 4 + s.job.status()["hedges"]
        proc.expect(s.front.log().in_flight() <= most, "more GETs at once than programs wait", s.front.log())


KEPT_LOADER = """
import hashlib, os, sys
import torch
class Files(torch.utils.data.Dataset):
    def __init__(self, root):
        self.paths = sorted(os.path.join(root, name) for name in os.listdir(root))
    def __len__(self):
        return len(self.paths)
    def __getitem__(self, index):
        with open(self.paths[index], 'rb') as file:
            return os.path.basename(self.paths[index]), hashlib.sha256(file.read()).hexdigest()
torch.manual_seed(int(sys.argv[2]))
loader = torch.utils.data.DataLoader(Files(sys.argv[1]), batch_size=32, shuffle=True, num_workers=4, collate_fn=list)
for batch in loader:
    for name, digest in batch:
        print(name, digest)
"""


def kept_epochs(s, epochs=3):
    """GETs and bytes of shuffled epochs through a loader."""
    want = {name: fixtures.file_digest(os.path.join(s.local, name)) for name in os.listdir(s.local)}
    gets = []
    for epoch in range(epochs):
        mark = s.front.mark()
        lines = [line.split() for line in s.job.python(KEPT_LOADER, s.data, str(epoch)).splitlines()]
        headrace.wait_idle(s.job)
        gets.append(len(s.front.log(mark).good))
        proc.expect_equal((len(lines), dict(lines)), (len(want), want), "files and digests of epoch %d" % epoch)
    return gets


@test(NEEDS, timeout=240, tries=2)
def test_loader_leaves_the_kept_set_its_room():
    """A quarter of the data fits, and a loader announces twice as much: what is announced takes no more of the cache
    than hides the latency, and is asked for later where it found no room."""
    with scene(fixtures.in_order("blobs-%d-v1" % BLOBS, write_blobs), cache_size="64M") as s:
        gets = kept_epochs(s)
        status = s.job.status()
        proc.expect(gets[0] <= 1.02 * BLOBS, "GETs of the first epoch", gets)
        proc.expect_well(status["bytes"]["wasted"] <= 0.02 * status["bytes"]["fetched"], "bytes that left unread", status)
        proc.expect_well(max(gets[1:]) <= 0.79 * BLOBS, "GETs of later epochs", gets, status)
        proc.expect_equal(status["cache"]["policy"], "keep", "policy")
        proc.expect_well(status["plan"]["announced_used"] >= 0.9 * status["plan"]["announced"], "announced and opened", status)

