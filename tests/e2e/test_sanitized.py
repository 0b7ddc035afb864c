"""The daemon built with the address sanitizer serves cold, faulty and warm epochs and ends without a word."""
import os

from harness import fixtures, headrace, paths, proc, training
from harness.case import test
from harness.scene import scene
from test_faults import DIGEST, Faulty, local_digest

SANITIZED = os.path.join(paths.ROOT, "build-address", "headrace")


class Daemon:
    """A sanitized daemon in the foreground for a job's cache; the job's commands find it there."""

    def __init__(self, job):
        self.job = job
        self.folder = proc.temp_folder()
        self.log = os.path.join(self.folder, "log")
        os.makedirs(job.cache, mode=0o700)
        env = dict(job.env(), ASAN_OPTIONS="exitcode=99:detect_leaks=1:abort_on_error=0")
        self.child = proc.start([SANITIZED, "daemon", "--cache-dir", job.cache], self.log, env=env)
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
