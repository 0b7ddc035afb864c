"""The daemon built with a sanitizer serves cold, faulty and warm epochs, lists, evicts, meets a full disk, and ends
without a word."""
import json
import os

from harness import fixtures, headrace, paths, proc, training
from harness.case import test
from harness.scene import scene
from test_cache import READ_TWICE
from test_faults import DIGEST, Faulty, local_digest
from test_listing import WALK, Listd
from test_random import Stage, explored, play
from test_victims import FILE_BYTES, FILES, run_epochs

OPTIONS = {"ASAN_OPTIONS": "exitcode=99:detect_leaks=1:abort_on_error=0", "TSAN_OPTIONS": "exitcode=99"}


def program(build):
    return os.path.join(paths.ROOT, build, "headrace")


class Daemon:
    """A sanitized daemon in the foreground for a job's cache; the job's commands find it there."""

    def __init__(self, job, build="build-address"):
        self.job = job
        self.folder = proc.temp_folder()
        self.log = os.path.join(self.folder, "log")
        os.makedirs(job.cache, mode=0o700)
        self.child = proc.start([program(build), "daemon", "--cache-dir", job.cache], self.log,
                                env=dict(job.env(), **OPTIONS))
        socket = os.path.join(job.cache, "sock")
        proc.wait_until(lambda: os.path.exists(socket) or self.child.poll() is not None, 20, "the daemon's socket")

    def finish(self):
        """Ended by `headrace stop`, status 0, no report."""
        self.job.command("stop")
        status = self.child.wait(30)
        with open(self.log, errors="replace") as file:
            text = file.read()
        proc.expect(status == 0 and "Sanitizer" not in text, "the sanitized daemon ended with %s" % status, text[-4000:])


@test(("nginx", "rclone", "build-address"), timeout=150)
def test_sanitized_daemon_epochs():
    with scene(slow_down=7, delay_ms=5, cache_size="64M") as s:
        daemon = Daemon(s.job)
        want = training.local(s.local, script=training.STAND_IN)
        training.expect_same(training.mapped(s.job, s.data, "--epochs", 2, script=training.STAND_IN), want, 2)
        headrace.wait_idle(s.job)
        training.expect_one_get_each(s.front.log(), s.job, s.fixture)
        s.job.run(["cat", s.data + "/none"])
        proc.expect_equal(s.job.daemon_pid(), daemon.child.pid, "pid of the daemon that served")
        daemon.finish()


@test(("nginx", "rclone", "build-address"), timeout=150)
def test_sanitized_daemon_evicts():
    with scene(fixtures.images(2000, 20, 224), cache_size="64M") as s:
        daemon = Daemon(s.job)
        proc.expect_equal(s.job.python(DIGEST, s.data, timeout=100).split()[-1], local_digest(s.local), "digest")
        proc.expect_equal(s.job.daemon_pid(), daemon.child.pid, "pid of the daemon that served")
        daemon.finish()


@test(("nginx", "rclone", "build-address"), timeout=150)
def test_sanitized_daemon_large_objects_and_faults():
    faults = (("truncate", 70000), ("flip", 9), ("status", 500, b""),
              ("status", 503, b"<Error><Code>SlowDown</Code></Error>"))
    for fixture in (fixtures.large(), fixtures.mixed()):
        with Faulty(fixture, lambda path, nth: faults[(nth + len(path)) % 4] if nth <= 2 else None) as f:
            daemon = Daemon(f.job)
            proc.expect_equal(f.job.python(DIGEST, f.data, timeout=60).split()[-1], local_digest(f.local), "digest")
            proc.expect_equal(f.job.daemon_pid(), daemon.child.pid, "pid of the daemon that served")
            daemon.finish()


def known_order(build):
    """Two epochs of a loader whose order is known, in a cache of less than half of what they read."""
    with scene(fixtures.numbered(FILE_BYTES, FILES), cache_size="64M") as s:
        daemon = Daemon(s.job, build)
        plan, _ = run_epochs(s, 2)
        proc.expect(plan["known_order"] > 0, "no order was known", plan)
        proc.expect(s.job.status()["cache"]["evictions"] > 0, "nothing was evicted")
        proc.expect_equal(s.job.daemon_pid(), daemon.child.pid, "pid of the daemon that served")
        daemon.finish()


def long_listing(build):
    with Listd("deep", 20000) as store:
        data = os.path.join(proc.temp_folder(), "data")
        with headrace.Job("%s=s3://bkt/" % data, store.url, access="a", secret="b") as job:
            daemon = Daemon(job, build)
            proc.expect_equal(job.python(WALK, data).split()[0], "20000", "files of the walk")
            proc.expect_equal(job.daemon_pid(), daemon.child.pid, "pid of the daemon that served")
            daemon.finish()


# The daemon in the disk's own mount namespace, with the program that reads; both their statuses, and the daemon's words.
FULL_DISK = """mount -t tmpfs -o size=24m none "$1" && head -c 14m /dev/zero >"$1/other" && mkdir -m 700 "$HEADRACE_CACHE_DIR" || exit 9
"$2" daemon --cache-dir "$HEADRACE_CACHE_DIR" 2>"$3" & daemon=$!
for i in $(seq 200); do [ -S "$HEADRACE_CACHE_DIR/sock" ] && break; sleep 0.1; done
log=$3; command=$4; shift 4; "$@"; status=$?
"$command" status --json >"$log.status"; "$command" stop; wait $daemon; echo "daemon $?"; exit $status
"""


def full_disk(build):
    """10 MiB for 24 objects of 1 MiB, six of them read twice after another: what comes waits for what is given up."""
    folders = ["c%d" % number for number in range(4)]
    with scene(fixtures.numbered(1 << 20, 24)) as s:
        want = "".join(proc.run([paths.PYTHON, "-c", READ_TWICE, os.path.join(s.local, name)], 60).stdout.decode()
                       for name in folders)
        folder = proc.temp_folder()
        disk, log = os.path.join(folder, "disk"), os.path.join(folder, "log")
        os.mkdir(disk)
        job = headrace.Job(s.job.maps, s.front, cache=os.path.join(disk, "cache"), cache_free=0)
        each = 'for folder in %s; do "$0" -c "$1" "$2/$folder" || exit 1; done' % " ".join(folders)
        argv = ["unshare", "-m", "sh", "-c", FULL_DISK, "sh", disk, program(build), log, job.program,
                *job.run_argv(["sh", "-c", each, paths.PYTHON, READ_TWICE, s.data])]
        done = proc.run(argv, 100, env=dict(job.env(), **OPTIONS))
        with open(log, errors="replace") as file:
            said = file.read()
        proc.expect_equal((done.returncode, done.stdout.decode()), (0, want + "daemon 0\n"),
                          "what was read; %s" % proc.tail(done.stderr, said.encode()))
        proc.expect("Sanitizer" not in said, said[-4000:])
        with open(log + ".status") as file:
            cache = json.load(file)["cache"]
        proc.expect(cache["evictions"] > 0, "the disk had room", cache)


DISK = ("nginx", "rclone", "mount", "root")


@test(("torch", "nginx", "rclone", "build-address"), timeout=150)
def test_sanitized_daemon_known_order():
    known_order("build-address")


@test("build-address", timeout=100)
def test_sanitized_daemon_lists():
    long_listing("build-address")


@test(DISK + ("build-address",), timeout=150)
def test_sanitized_daemon_full_disk():
    full_disk("build-address")


@test(("torch", "nginx", "rclone", "build-thread"), timeout=300, slow=True)
def test_thread_sanitized_daemon_known_order():
    known_order("build-thread")


@test("build-thread", timeout=200, slow=True)
def test_thread_sanitized_daemon_lists():
    long_listing("build-thread")


@test(DISK + ("build-thread",), timeout=300, slow=True)
def test_thread_sanitized_daemon_full_disk():
    full_disk("build-thread")


@test(("rclone", "mount", "build-address"), timeout=150, slow=True)
def test_sanitized_daemon_random_calls():
    stage = Stage()
    with explored(stage) as job:
        daemon = Daemon(job)
        play(stage, job, 2)
        proc.expect_equal(job.daemon_pid(), daemon.child.pid, "pid of the daemon that served")
        daemon.finish()
