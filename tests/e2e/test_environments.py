"""README's "what to add": each row that can be had without its scheduler, by the environment and the signals that it gives."""
import os
import signal
import subprocess

from harness import fixtures, headrace, paths, proc, servers
from harness.case import test
from harness.faults import FaultProxy
from harness.scene import scene

NEEDS = ("nginx", "rclone")
WALK = ("import hashlib, os, sys\n"
        "for here, _, names in os.walk(sys.argv[1]):\n"
        "    for name in names:\n"
        "        path = os.path.join(here, name)\n"
        "        print(hashlib.sha256(open(path, 'rb').read()).hexdigest(), os.path.relpath(path, sys.argv[1]))\n")


def home_with_profile(s, name):
    """A home whose profile has endpoint and keys; nothing else is known of them."""
    home = proc.temp_folder("hr-home-")
    os.mkdir(home + "/.aws")
    with open(home + "/.aws/config", "w") as out:
        section = name if name == "default" else "profile " + name
        out.write("[%s]\nregion = us-east-1\nendpoint_url = %s\n" % (section, s.job.endpoint))
    with open(home + "/.aws/credentials", "w") as out:
        out.write("[%s]\naws_access_key_id = %s\naws_secret_access_key = %s\n" % (name, s.job.access, s.job.secret))
    return home


def expect_row(s, env, before, cache):
    """With what the row adds the program sees everything and the cache is where the row says; without it, nothing."""
    env = dict(env, PATH=paths.BUILD + ":/usr/bin:/bin")
    code = [paths.PYTHON, "-c", WALK, s.data]
    without = proc.run(["ls", s.data], 20, env=env, cwd="/")
    proc.expect(b"No such file" in without.stderr and without.stdout == b"", "the map without `headrace run`", without.stdout)
    try:
        done = proc.run([*before, "--", *code], 60, env=env, cwd="/")
        proc.expect_equal(done.returncode, 0, proc.tail(done.stdout, done.stderr))
        have = dict(reversed(line.split(" ", 1)) for line in done.stdout.decode("utf-8", "surrogateescape").splitlines())
        proc.expect_equal(have, fixtures.tree_digests(s.local), "digests")
        proc.expect(os.path.exists(cache + "/control"), "the cache is not in " + cache)
    finally:
        end = proc.run(["headrace", "stop"], 20, env=dict(env, HEADRACE_CACHE_DIR=cache))
    proc.expect_equal(end.returncode, 0, "stop: " + proc.tail(end.stderr))


@test(NEEDS)
def test_environment_of_cron():
    """HOME, a short PATH, and what the crontab sets."""
    with scene(fixtures.mixed()) as s:
        home = home_with_profile(s, "trainer")
        env = {"HOME": home, "SHELL": "/bin/sh", "AWS_PROFILE": "trainer", "HEADRACE_MAP": s.job.maps[0]}
        expect_row(s, env, ["headrace", "run"], home + "/.cache/headrace")


@test(NEEDS)
def test_environment_of_ssh_and_sudo():
    """Nothing of the caller's environment: the map is an argument, the keys are the default profile's."""
    with scene(fixtures.mixed()) as s:
        home = home_with_profile(s, "default")
        expect_row(s, {"HOME": home, "SHELL": "/bin/sh"}, ["headrace", "run", "--map", s.job.maps[0]], home + "/.cache/headrace")


@test(NEEDS)
def test_environment_of_systemd():
    """No HOME; Environment= has the map, CacheDirectory= makes the place."""
    with scene(fixtures.mixed()) as s:
        cache = proc.temp_folder("hr-cache-") + "/train"
        os.mkdir(cache, 0o700)
        keys = {name: value for name, value in s.job.env().items() if name.startswith("AWS_")}
        env = dict(keys, INVOCATION_ID="0" * 32, HEADRACE_MAP=s.job.maps[0], HEADRACE_CACHE_DIR=cache)
        expect_row(s, env, ["headrace", "run"], cache)


@test(NEEDS)
def test_environment_of_slurm():
    """The step's own directory is taken before TMPDIR and HOME."""
    with scene(fixtures.mixed()) as s:
        home, local = home_with_profile(s, "default"), proc.temp_folder("hr-slurm-")
        env = {"HOME": home, "TMPDIR": proc.temp_folder(), "SLURM_TMPDIR": local, "SLURM_JOB_ID": "1"}
        expect_row(s, env, ["headrace", "run", "--map", s.job.maps[0]], local + "/headrace-%d" % os.geteuid())
        proc.expect(not os.path.exists(home + "/.cache"), "something was made in the home")


# As a kernel takes cells; `show` answers on stdout.
KERNEL = ("import sys\n"
          "def show(*words): print(*words, flush=True)\n"
          "for cell in sys.stdin:\n"
          "    try: exec(cell)\n"
          "    except KeyboardInterrupt: show('interrupted')\n")


class Kernel:
    """Started as Jupyter starts what kernel.json says: a session of its own, interrupts to its group."""

    def __init__(self, job):
        env = dict(job.env(), HEADRACE_MAP=";".join(job.maps))
        self.log = os.path.join(proc.temp_folder(), "log")
        with open(self.log, "wb") as out:
            self.child = subprocess.Popen([job.program, "run", "--", paths.PYTHON, "-c", KERNEL], stdin=subprocess.PIPE, stdout=out,
                                          stderr=out, env=env, start_new_session=True)

    def cell(self, code):
        self.child.stdin.write(code.encode() + b"\n")
        self.child.stdin.flush()

    def wait_for(self, word):
        def said():
            with open(self.log) as file:
                return word in file.read().splitlines()
        proc.wait_until(said, 25, "%s of the kernel" % word)

    def end(self):
        """As a restart that the kernel does not answer ends: its whole group."""
        os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait(10)
        self.child.stdin.close()


@test(NEEDS)
def test_notebook_interrupt_and_restart():
    """An interrupt ends the cell that waits for an object, not the kernel; after a restart what was read is not fetched."""
    def fault(path, nth):
        return ("stall", 30) if path.endswith("/a/one.txt") and nth == 1 else None
    with servers.Rclone(fixtures.mixed()) as store, FaultProxy(store, fault) as proxy:
        data = os.path.join(proc.temp_folder(), "data")
        source = "%s=s3://%s/%s" % (data, fixtures.BUCKET, fixtures.PREFIX)
        with headrace.Job(source, proxy, access=store.access, secret=store.secret, prefetch="off") as job:
            kernel = Kernel(job)
            kernel.cell("show(len(open(%r).read().split()))" % (data + "/top.txt"))
            kernel.wait_for("4")
            daemon = job.daemon_pid()
            kernel.cell("open(%r)" % (data + "/a/one.txt"))
            proc.wait_until(lambda: [path for path in list(proxy.seen) if path.endswith("/a/one.txt")], 20, "the cell at its open")
            os.killpg(kernel.child.pid, signal.SIGINT)
            kernel.wait_for("interrupted")
            kernel.cell("show('next', len(open(%r).read().split()))" % (data + "/top.txt"))
            kernel.wait_for("next 4")
            kernel.end()
            seen = dict(proxy.seen)
            again = Kernel(job)
            again.cell("show(len(open(%r).read().split()))" % (data + "/top.txt"))
            again.wait_for("4")
            again.end()
            proc.expect_equal(job.daemon_pid(), daemon, "the daemon")
            proc.expect_equal([path for path in proxy.seen if path.endswith("/top.txt") and proxy.seen[path] != seen[path]], [],
                              "fetched again")
