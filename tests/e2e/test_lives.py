"""How jobs begin and end where schedulers, terminals and upgrades decide it."""
import os
import pty
import signal
import struct

from harness import fixtures, paths, proc
from harness.case import test
from harness.kit import kit, map_env
from harness.scene import scene

NEEDS = ("nginx", "rclone")
WALK = ("import hashlib, os, sys, time\n"
        "def digests(folder, first=0, step=1):\n"
        "    found = sorted(os.path.join(here, name) for here, _, names in os.walk(folder) for name in names)\n"
        "    for path in found[first::step]:\n"
        "        digest = hashlib.sha256(open(path, 'rb').read()).hexdigest()\n"
        "        os.write(1, ('%s %s\\n' % (digest, os.path.relpath(path, folder))).encode())\n")
ALL = WALK + "digests(sys.argv[1])\n"
FOURTH = WALK + "digests(sys.argv[1], 0, 4)\n"


def every(s, step):
    """Digests of every step-th file, in the order that WALK goes."""
    local = fixtures.tree_digests(s.local)
    return {name: local[name] for name in sorted(local, key=lambda name: os.path.join(s.data, name))[::step]}


def parsed(text):
    return dict(reversed(line.split(" ", 1)) for line in text.splitlines() if " " in line)


def read(path):
    with open(path) as file:
        return file.read()


@test(NEEDS)
def test_life_step_killed_with_the_daemon_while_another_job_waits():
    """A scheduler ends a step and everything it started by SIGKILL: the other job starts a daemon and goes on."""
    with scene(delay_ms=100, prefetch="off") as s:
        logs = [os.path.join(proc.temp_folder(), "log") for _ in range(2)]
        first = s.job.start([paths.PYTHON, "-c", ALL, s.data], log=logs[0], start_new_session=True)
        proc.wait_until(lambda: len(read(logs[0]).splitlines()) > 3, 20, "the first job at work")
        second = s.job.start([paths.PYTHON, "-c", WALK + "digests(sys.argv[1], 0, 8)\n", s.data], log=logs[1])
        proc.wait_until(lambda: read(logs[1]), 20, "the second job at work")
        daemon = s.job.daemon_pid()
        os.killpg(first.pid, signal.SIGKILL)
        os.kill(daemon, signal.SIGKILL)
        first.wait(5)
        proc.expect_equal(second.wait(40), 0, read(logs[1])[-1500:])
        proc.expect_equal(parsed(read(logs[1])), every(s, 8), "digests of the second job")
        proc.expect(s.job.daemon_pid() not in (0, daemon), "no new daemon")


@test(NEEDS)
def test_life_nohup_after_logout():
    """The terminal goes away in mid-epoch; the job, under nohup, and its daemon stay."""
    with scene(delay_ms=30, prefetch="off") as s:
        log = os.path.join(proc.temp_folder(), "log")
        argv = s.job.run_argv([paths.PYTHON, "-c", FOURTH, s.data])
        pid, terminal = pty.fork()
        if pid == 0:
            os.execvpe("sh", ["sh", "-c", 'nohup "$@" >%s 2>&1 & wait' % log, "sh", *argv], s.job.env())
        proc.wait_until(lambda: os.path.exists(log) and len(read(log).splitlines()) > 3, 20, "the job at work")
        daemon = s.job.daemon_pid()
        os.close(terminal)
        proc.wait_until(lambda: not proc.alive(pid), 10, "the login shell gone")
        proc.reap(pid)
        proc.wait_until(lambda: len(parsed(read(log))) >= 100, 40, "all of them")
        proc.expect_equal(parsed(read(log)), every(s, 4), "digests")
        proc.expect_equal(s.job.daemon_pid(), daemon, "the daemon")


RANKS = WALK + r"""
import multiprocessing, subprocess
WORLD, WORKERS = 8, 2
if len(sys.argv) == 2:
    ranks = [subprocess.Popen([sys.executable, "-c", os.environ["RANK_CODE"], sys.argv[1], str(rank)],
                              env=dict(os.environ, RANK=str(rank), WORLD_SIZE=str(WORLD))) for rank in range(WORLD)]
    sys.exit(max(rank.wait() for rank in ranks))
def work(worker):
    digests(sys.argv[1], int(os.environ["RANK"]) * WORKERS + worker, WORLD * WORKERS)
workers = [multiprocessing.get_context("fork").Process(target=work, args=(n,)) for n in range(WORKERS)]
for worker in workers: worker.start()
for worker in workers: worker.join()
sys.exit(max(worker.exitcode for worker in workers))
"""


@test(NEEDS)
def test_life_eight_ranks_of_two_workers():
    """As torchrun starts them: one daemon, every file once over the network, no digest missing."""
    with scene() as s:
        done = s.job.run([paths.PYTHON, "-c", RANKS, s.data], 50, env=dict(s.job.env(), RANK_CODE=RANKS))
        proc.expect_equal(done.returncode, 0, proc.tail(done.stderr))
        proc.expect_equal(parsed(done.stdout.decode()), fixtures.tree_digests(s.local), "digests")
        status = s.job.status()
        proc.expect_equal(status["requests.get"] - status["hedges"], 400, "GETs, second tries for slow ones aside")


def set_abi_version(cache, version):
    """What a daemon of another version would have written; returns what was there."""
    with open(os.path.join(cache, "control"), "r+b") as file:
        head = file.read(12)
        file.seek(8)
        file.write(struct.pack("=I", version))
    return struct.unpack("=I", head[8:])[0]


@test(NEEDS)
def test_life_upgrade_while_an_old_daemon_lives():
    """The old job goes on; a new one is told, and starts once the old daemon has been stopped."""
    with scene(delay_ms=20, prefetch="off") as s:
        log = os.path.join(proc.temp_folder(), "log")
        old = s.job.start([paths.PYTHON, "-c", FOURTH, s.data], log=log)
        proc.wait_until(lambda: len(read(log).splitlines()) > 3, 20, "the old job at work")
        daemon = s.job.daemon_pid()
        ours = set_abi_version(s.job.cache, 999)
        done = s.job.run(["echo", "ran"])
        proc.expect_equal((done.returncode, done.stdout), (125, b""), "a new job: " + proc.tail(done.stderr))
        proc.expect(done.stderr.count(b"\n") == 1 and b"another version of headrace" in done.stderr
                    and b"headrace stop" in done.stderr, "one line that says what to do", done.stderr)
        done = proc.run([kit() + "/headrace-entrypoint", "echo", "ran"], 30, env=map_env(s.job))
        proc.expect_equal((done.returncode, done.stdout), (0, b"ran\n"), "the entrypoint, open: " + proc.tail(done.stderr))
        bare = s.job.preload(["cat", s.data + "/n000/img_00000.jpg"])
        proc.expect(bare.returncode == 1 and b"another version" in bare.stderr, "a bare preload", bare.stderr)
        proc.expect_equal(s.job.daemon_pid(), daemon, "the old daemon")
        proc.expect_equal(old.wait(40), 0, read(log)[-1500:])
        proc.expect_equal(parsed(read(log)), every(s, 4), "digests of the old job")
        s.job.stop()
        proc.expect_equal(s.job.good(["echo", "ran"]), b"ran\n", "a new job after the stop")
        proc.expect_equal(set_abi_version(s.job.cache, ours), ours, "the new daemon's version")


@test((*NEEDS, "namespaces"))
def test_life_another_user_namespace_is_told_so():
    """One user has two numbers there: the daemon's files are another user's."""
    with scene(prefetch="off") as s:
        s.job.good(["cat", s.data + "/n000/img_00000.jpg"])
        done = s.job.preload(["unshare", "--user", "cat", s.data + "/n000/img_00000.jpg"])
        proc.expect(done.returncode == 1 and b"runs as another user" in done.stderr, "status and line", done.stderr)


@test((*NEEDS, "namespaces"))
def test_life_two_containers_share_one_cache_volume():
    """Two pid namespaces, one cache directory: one daemon; when its container ends, the other one starts the next."""
    with scene(delay_ms=40, prefetch="off") as s:
        folder, env = kit(), map_env(s.job, HEADRACE_REQUIRED="on")
        logs = [os.path.join(proc.temp_folder(), "log") for _ in range(2)]
        children = []
        for log, code in zip(logs, (ALL, FOURTH)):
            argv = [*paths.NAMESPACES, folder + "/headrace-entrypoint", paths.PYTHON, "-c", code, s.data]
            children.append(proc.start(argv, log, env=env))
            proc.wait_until(lambda log=log: len(read(log).splitlines()) > 2, 20, "a container at work")
        daemons = [pid for pid in proc.descendants() if " daemon --cache-dir" in proc.command_line(pid)]
        proc.expect_equal(len(daemons), 1, "daemons")
        children[0].kill()
        children[0].wait(5)
        proc.wait_until(lambda: not proc.alive(daemons[0]), 10, "the first container's daemon gone")
        proc.expect_equal(children[1].wait(40), 0, read(logs[1])[-1500:])
        proc.expect_equal(parsed(read(logs[1])), every(s, 4), "digests of the second container")
