"""How jobs begin and end where schedulers, terminals and upgrades decide it."""
import glob
import os
import pty
import re
import shlex
import shutil
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


def walkers():
    """Processes below us that run WALK's code."""
    start = paths.PYTHON + " -c import hashlib"
    return [pid for pid in proc.descendants() if proc.alive(pid) and proc.command_line(pid).startswith(start)]


@test((*NEEDS, "tmux"))
def test_life_tmux_that_ends():
    """A job in a tmux that nobody looks at comes to its end; with the server the other job goes, and the daemon stays."""
    with scene(delay_ms=10, prefetch="off") as s:
        folder = proc.temp_folder()
        tmux = ["tmux", "-S", folder + "/socket", "-f", "/dev/null"]
        for name, code in (("stays", FOURTH + "time.sleep(3600)\n"), ("ends", FOURTH)):
            words = shlex.join(s.job.run_argv([paths.PYTHON, "-c", code, s.data]))
            argv = [*tmux, "new-session", "-d", "exec %s >%s/%s 2>&1" % (words, folder, name)]
            proc.expect_equal(proc.run(argv, 20, env=s.job.env()).returncode, 0, "tmux")
        log = folder + "/ends"
        proc.wait_until(lambda: os.path.exists(log) and parsed(read(log)) == every(s, 4), 40, "digests of the job that ends")
        proc.wait_until(lambda: len(walkers()) == 1, 20, "one of two jobs ended")
        daemon = s.job.daemon_pid()
        proc.expect_equal(proc.run([*tmux, "kill-server"], 20).returncode, 0, "tmux kill-server")
        proc.wait_until(lambda: not walkers(), 20, "the other job ended with its terminal")
        proc.expect_equal(s.job.daemon_pid(), daemon, "the daemon")


# A rank of torchrun's: one line a file of its share, in one write, since all ranks share a pipe.
RANK = """
import hashlib, os, sys, torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler

class Files(Dataset):
    def __init__(self, root):
        self.names = sorted(os.path.relpath(os.path.join(here, name), root) for here, _, names in os.walk(root) for name in names)
        self.root = root
    def __len__(self):
        return len(self.names)
    def __getitem__(self, index):
        with open(os.path.join(self.root, self.names[index]), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest(), self.names[index]

torch.set_num_threads(1)
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
files = Files(sys.argv[1])
for batch in DataLoader(files, batch_size=4, num_workers=4, sampler=DistributedSampler(files, world, rank), collate_fn=list):
    os.write(1, "".join("%d %s %s\\n" % (rank, digest, name) for digest, name in batch).encode())
"""
RANKS, TORCHRUN_LIMIT_S = 8, 100


@test((*NEEDS, "torch"), timeout=130)
def test_life_torchrun_of_eight_ranks_with_four_workers():
    """torchrun itself, DistributedSampler, DataLoader: every rank reads its share, each object comes once to the node."""
    with scene() as s:
        program = os.path.join(proc.temp_folder(), "train.py")
        with open(program, "w") as out:
            out.write(RANK)
        # Of its outputs none is redirected: "0", the default, is misread by torch 1.13 under Python 3.11.
        outputs = ["--%s=%d:1" % (name, RANKS) for name in ("redirects", "tee")]
        argv = [paths.PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=%d" % RANKS, *outputs, program,
                s.data]
        out = s.job.good(argv, TORCHRUN_LIMIT_S, env=dict(s.job.env(), OMP_NUM_THREADS="1")).decode()
        lines = [line.split(" ", 2) for line in out.splitlines()]
        want = fixtures.tree_digests(s.local)
        for rank in range(RANKS):
            share = [(digest, name) for number, digest, name in lines if number == str(rank)]
            proc.expect_equal(len(set(share)), len(want) // RANKS, "files of rank %d" % rank)
            proc.expect_equal([name for digest, name in share if want[name] != digest], [], "wrong bytes in rank %d" % rank)
        proc.expect_equal({name: digest for _, digest, name in lines}, want, "digests of all ranks")
        status = s.job.status()
        proc.expect_equal((status["requests.get"], status["errors"]), (len(want), 0), "GETs of the node, errors")
        proc.expect_equal(daemons_beside(), 1, "daemons")


def daemons_beside():
    """How many daemons this test's processes have started and left running."""
    return len([pid for pid in proc.descendants() if proc.alive(pid) and " daemon --cache-dir" in proc.command_line(pid)])


OTHER_VERSION = 999  # of the contract files; no release has it
FLAGS = ("-std=gnu11", "-O1", "-g", "-D_GNU_SOURCE", "-fno-common", "-fvisibility=hidden", '-DHR_VERSION="other"')
OBJECT_FLAGS = ("-fPIC", "-fno-stack-protector", "-U_FORTIFY_SOURCE", "-ftls-model=initial-exec", "-fno-plt")
LIBRARIES = ("libcurl", "openssl", "expat", "jansson", "zlib", "libunwind-ptrace", "libunwind-generic")


def gcc(*argv):
    done = proc.run(["gcc", *argv], 60, cwd=paths.ROOT)
    proc.expect(done.returncode == 0, "gcc failed", proc.tail(done.stderr))


def kit_of_another_version():
    """headrace as it would be with another HR_ABI_VERSION: whatever looks at that is compiled anew, the rest is the build's."""
    folder = proc.temp_folder("hr-other-")
    os.mkdir(folder + "/interpose")
    text, changed = re.subn(r"(#define HR_ABI_VERSION) \d+u", r"\1 %du" % OTHER_VERSION, read(paths.ROOT + "/interpose/abi.h"))
    proc.expect_equal(changed, 1, "definitions of the version")
    with open(folder + "/interpose/abi.h", "w") as out:
        out.write(text)
    every_source = glob.glob(paths.ROOT + "/fetch/*/*.c") + glob.glob(paths.ROOT + "/interpose/*.c")
    sources = {os.path.relpath(path, paths.ROOT) for path in every_source if "HR_ABI_VERSION" in read(path)}
    includes = ["-I", folder, "-I", paths.ROOT]
    for source in sources:
        name = folder + "/" + source.replace("/", "-")
        if source.startswith("interpose/"):
            gcc(*FLAGS, *OBJECT_FLAGS, *includes, "-c", source, "-o", name + ".so.o")
        if source.startswith("fetch/") or source == "interpose/index.c":
            gcc(*FLAGS, *includes, "-c", source, "-o", name + ".o")
    libraries = proc.run(["pkg-config", "--libs", *LIBRARIES], 20).stdout.decode().split()
    programs = [path for path in glob.glob(folder + "/*.o") if not path.endswith(".so.o")]
    rooms = glob.glob(paths.BUILD + "/lib/*.a")
    gcc("-rdynamic", "-o", folder + "/headrace", *programs, "-Wl,--start-group", *rooms, "-Wl,--end-group", *libraries,
        "-lpthread", "-lm")
    same = [path for path in glob.glob(paths.BUILD + "/obj/so/*/*.o")
            if os.path.relpath(path, paths.BUILD + "/obj/so")[:-2] + ".c" not in sources]
    gcc("-shared", "-Wl,-z,defs,-z,now,-z,relro,-soname,libheadrace.so", "-Wl,--version-script=" + paths.BUILD + "/exports.map",
        "-o", folder + "/libheadrace.so", *glob.glob(folder + "/*.so.o"), *same)
    return folder


@test(NEEDS, timeout=90)
def test_life_upgrade_while_an_old_daemon_lives():
    """A job and a daemon of another version: they go on; a job of ours is told, and starts in the same cache once that
    daemon has been stopped. Then the other way round."""
    other = kit_of_another_version()
    with scene(delay_ms=20, prefetch="off") as s:
        log = os.path.join(proc.temp_folder(), "log")
        ours = s.job.bin_dir
        s.job.bin_dir = other
        old = s.job.start([paths.PYTHON, "-c", FOURTH, s.data], log=log)
        proc.wait_until(lambda: len(read(log).splitlines()) > 3, 20, "the old job at work")
        daemon = s.job.daemon_pid()
        s.job.bin_dir = ours
        expect_told(s, OTHER_VERSION)
        done = proc.run([kit() + "/headrace-entrypoint", "echo", "ran"], 30, env=map_env(s.job))
        proc.expect_equal((done.returncode, done.stdout), (0, b"ran\n"), "the entrypoint, open: " + proc.tail(done.stderr))
        bare = s.job.preload(["cat", s.data + "/n000/img_00000.jpg"])
        proc.expect(bare.returncode == 1 and b"another version" in bare.stderr, "a bare preload", bare.stderr)
        proc.expect_equal(s.job.daemon_pid(), daemon, "the old daemon")
        proc.expect_equal(old.wait(40), 0, read(log)[-1500:])
        proc.expect_equal(parsed(read(log)), every(s, 4), "digests of the old job")
        s.job.stop()
        new = s.job.python(ALL, s.data)
        proc.expect_equal(parsed(new), fixtures.tree_digests(s.local), "digests of a new job after the stop")
        version = abi_version(s.job)
        s.job.bin_dir = other
        expect_told(s, version)
        s.job.bin_dir = ours


def abi_version(job):
    with open(os.path.join(job.cache, "control"), "rb") as file:
        return struct.unpack("=8xI", file.read(12))[0]


def expect_told(s, version):
    """The living daemon is of that version: a job is refused with one line, and `run` says what to do."""
    proc.expect_equal(abi_version(s.job), version, "the daemon's version")
    done = s.job.run(["echo", "ran"])
    proc.expect_equal((done.returncode, done.stdout), (125, b""), "a job of the other version: " + proc.tail(done.stderr))
    said = b"another version of headrace (its files have version %d," % version
    proc.expect(done.stderr.count(b"\n") == 1 and said in done.stderr and b"headrace stop" in done.stderr,
                "one line that says what to do", done.stderr)


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


# A child of a program that holds a large object; the command that would start a new daemon is away meanwhile.
HELD = r"""
import os, signal, subprocess, sys, time
big, command, pid = sys.argv[1], sys.argv[2], int(sys.argv[3])
child = '''
import os, sys
fd = int(sys.argv[1])
for call in (lambda: os.lseek(fd, 0, os.SEEK_END), lambda: os.pread(fd, 10, 0), lambda: os.pread(fd, 10, 0)):
    try:
        print("answer", call())
    except OSError as error:
        print("errno", error.errno)
'''
fd = os.open(big, os.O_RDONLY)
os.pread(fd, 10, 0)
os.rename(command, command + "-away")
os.kill(pid, signal.SIGKILL)
time.sleep(1.5)  # a heartbeat of that age is looked into
done = subprocess.run([sys.executable, "-c", child, str(fd)], pass_fds=[fd], stdout=subprocess.PIPE)
os.rename(command + "-away", command)
sys.stdout.buffer.write(done.stdout)
"""


@test(NEEDS)
def test_life_inherited_large_object_without_a_daemon():
    """Whatever it is asked is an error: no end that is not there, and not only the first time."""
    folder = proc.temp_folder()
    for name in ("headrace", "libheadrace.so"):
        shutil.copy(os.path.join(paths.BUILD, name), folder)
    with scene(fixtures.large(), prefetch="off") as s:
        ours, s.job.bin_dir = s.job.bin_dir, folder
        s.job.good(["head", "-c", "10", s.data + "/big.bin"])
        done = s.job.preload([paths.PYTHON, "-c", HELD, s.data + "/big.bin", folder + "/headrace", str(s.job.daemon_pid())])
        proc.expect_equal((done.returncode, done.stdout.split()), (0, [b"errno", b"116"] * 3), proc.tail(done.stderr))
        s.job.bin_dir = ours
