"""The index at scale: `index.py [--objects N] [--restart N] [--scale N] [--cold]` prints one JSON line a figure (name, value,
unit, aim).

The server is tests/scale/listd.c: keys that are computed, so no store has to hold them. The local side is a tree of empty
files of the same names on the file system of TMPDIR, which is removed afterwards. Warm: the least of some runs in turn, so
names and inodes (local) or the index (headrace) are in memory. --cold, for root: the kernel's caches of the whole machine
are dropped and the daemon is stopped before each side (`headrace run` starts it, before the clock does)."""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))

from harness import headrace, paths, proc  # noqa: E402

BIN = os.environ.get("HR_BENCH_BIN", paths.BUILD)
MAP = "/hr-index"
TRAIN = "imagenet/train"
SAMPLE_S = 0.02
TIMES = 5  # repeated where it takes less than a second

WALK = """
import os, sys, time
root = sys.argv[1]
os.stat(root)
began = time.perf_counter()
count = sum(len(files) for _, _, files in os.walk(root))
print(time.perf_counter() - began, count)
"""
FOLDER = """
import sys, time
from torchvision.datasets import ImageFolder
began = time.perf_counter()
count = len(ImageFolder(sys.argv[1]))
print(time.perf_counter() - began, count)
"""
# Names are looked up in an order that no cache of the processor knows.
STAT = """
import os, random, sys, time
root, ending = sys.argv[1], sys.argv[2]
paths = [os.path.join(one, name) + ending for one, _, names in os.walk(root) for name in names]
random.Random(1).shuffle(paths)
paths = paths[:100000]
def once():
    stat = os.stat
    began = time.perf_counter()
    for path in paths:
        try:
            stat(path)
        except FileNotFoundError:
            pass
    return (time.perf_counter() - began) / len(paths) * 1e9
once()
print(min(once() for _ in range(3)), len(paths))
"""


def row(name, value, unit="", aim=""):
    print(json.dumps({"name": name, "value": float("%.4g" % value), "unit": unit, "aim": aim}), flush=True)


def compiled(source, libraries=()):
    program = os.path.join(BIN, "bench", os.path.splitext(os.path.basename(source))[0])
    os.makedirs(os.path.dirname(program), exist_ok=True)
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-std=gnu11", "-D_GNU_SOURCE", "-I", paths.ROOT, "-o", program,
                    os.path.join(paths.ROOT, source), *libraries, "-pthread"], check=True)
    return program


class Listd:
    def __init__(self, program, keys):
        self.process = subprocess.Popen([program, "imagenet", str(keys)], stdout=subprocess.PIPE, text=True)
        self.url = "http://127.0.0.1:%s" % self.process.stdout.readline().split()[1]

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.process.terminate()
        self.process.wait(10)


def job_of(server):
    return headrace.Job(MAP + "=s3://scale/", server, bin_dir=BIN, revalidate="forever", list="all")


def anon_bytes(pid):
    with open("/proc/%d/status" % pid) as status:
        return next((int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon:")), 0)


def listed(job, keys):
    """Lists everything; seconds, and the most that the daemon held in memory of its own."""
    began = time.perf_counter()
    job.good(["/usr/bin/stat", MAP])  # list=all: the job's start is the listing's
    pid, most, ended = job.daemon_pid(), [0], threading.Event()

    def sample():
        while not ended.wait(SAMPLE_S):
            most[0] = max(most[0], anon_bytes(pid))
    sampler = threading.Thread(target=sample)
    sampler.start()
    proc.wait_until(lambda: job.status()["index.objects"] == keys, 600, "%d names" % keys)
    took = time.perf_counter() - began
    ended.set()
    sampler.join()
    return took, most[0]


def first_path(job):
    return job.python("import os, sys\nfor one, _, names in os.walk(sys.argv[1]):\n"
                      "    if names:\n        print(os.path.join(one, names[0]))\n        break", MAP).strip()


def restart(program, keys):
    with Listd(program, 1000) as server, job_of(server) as job:
        listed(job, 1000)
        walls = first_stats(job, first_path(job))
        row("daemon started anew over 1,000 objects: first stat", walls[len(walls) // 2], "ms")
    with Listd(program, keys) as server, job_of(server) as job:
        took, most = listed(job, keys)
        row("listing of {:,} keys, server on the same cores".format(keys), keys / took, "keys/s")
        row("RssAnon of a daemon that lists {:,}".format(keys), most / 2**20, "MiB", "<= 512")
        path = first_path(job)
        index = os.path.join(job.cache, "index")
        files = [os.path.join(index, name) for name in os.listdir(index)]
        row("index files on disk, a listed object", sum(os.stat(one).st_size for one in files) / keys, "bytes", "<= 100")
        row("RssAnon of an idle daemon, a listed object", anon_bytes(job.daemon_pid()) / keys, "bytes")
        walls = first_stats(job, path)
        # Start of the command, of the daemon and of stat together: what the index has of it is the difference.
        row("daemon started anew over {:,} objects: first stat".format(keys), walls[len(walls) // 2], "ms", "<= 50")
        row("the same, the slowest of %d" % TIMES, walls[-1], "ms")


def first_stats(job, path):
    walls = []
    for kill in [True] * (TIMES // 2) + [False] * (TIMES - TIMES // 2):
        if kill:
            job.kill_daemon()
        else:
            job.stop(30)
        began = time.perf_counter()
        done = proc.run(job.run_argv(["/usr/bin/stat", "-c", "%s", path]), 60, env=job.env())
        walls.append((time.perf_counter() - began) * 1e3)
        proc.expect(done.returncode == 0, "stat after the restart", proc.tail(done.stdout, done.stderr))
        job.note_daemon()
    return sorted(walls)


def local_tree(names):
    root = tempfile.mkdtemp(prefix="hr-index-local-")
    for folder in sorted({os.path.dirname(name) for name in names}):
        os.makedirs(os.path.join(root, folder), exist_ok=True)
    for name in names:
        os.close(os.open(os.path.join(root, name), os.O_CREAT | os.O_WRONLY))
    return root


def seconds(out):
    took, count = out.split()
    return float(took), int(count)


def alone(code, *args):
    done = proc.run([paths.PYTHON, "-c", code, *args], 600)
    proc.expect(done.returncode == 0, "the local side", proc.tail(done.stdout, done.stderr))
    return done.stdout.decode()


def against_local(program, keys, cold):
    with Listd(program, keys) as server, job_of(server) as job:
        listed(job, keys)
        names = job.python("import os, sys\nfor one, _, names in os.walk(sys.argv[1]):\n    for name in names:\n"
                           "        print(os.path.relpath(os.path.join(one, name), sys.argv[1]))", MAP, timeout=600).split()
        proc.expect(len(names) == keys, "%d of %d names" % (len(names), keys))
        root = local_tree(names)
        del names
        try:
            compare(Sides(job, root, keys), cold)
        finally:
            shutil.rmtree(root)


class Sides:
    """The same program over the local tree and over the map."""

    def __init__(self, job, root, keys):
        self.job, self.root, self.keys = job, root, keys

    def pair(self, code, below, *args, before=None):
        """What the program says on each side: (seconds, number)."""
        said = []
        for run, place in ((alone, self.root), (lambda *argv: self.job.python(*argv, timeout=600), MAP)):
            if before:
                before()
            said.append(seconds(run(code, os.path.join(place, below), *args)))
        return said

    def least(self, code, below, rounds, *args, before=None, count=None):
        """The least of the rounds of each side; every one finds as many files."""
        pairs = [self.pair(code, below, *args, before=before) for _ in range(rounds)]
        for pair in pairs:
            for side, (_, have) in zip(("local", "headrace"), pair):
                proc.expect(count in (None, have), "%s: %d of %s files" % (side, have, count))
        return [min(pair[side][0] for pair in pairs) for side in (0, 1)]

    def forget(self):
        """As after a start of the machine: no names, inodes or file pages in memory, no daemon."""
        self.job.stop(30)
        os.sync()
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("3")


def compare(sides, cold):
    keys = sides.keys
    told = "of {:,} objects".format(keys)
    local, ours = sides.least(WALK, "", 3, count=keys)
    row("os.walk %s in one process, warm: ext4" % told, local, "s")
    row("os.walk %s in one process, warm: headrace" % told, ours, "s")
    row("os.walk %s, warm: headrace so many times as fast as ext4" % told, local / ours, "", ">= 3")
    for name, ending in (("that is there", ""), ("that is not there", ".not")):
        local, ours = sides.least(STAT, "", 2, ending)
        row("os.stat of a name %s: ext4" % name, local, "ns")
        row("os.stat of a name %s: headrace" % name, ours, "ns")
        row("os.stat of a name %s: headrace / ext4" % name, ours / local, "", "< 1")
    folders = paths.python_has("torchvision")
    if folders:
        local, ours = sides.least(FOLDER, TRAIN, 2, count=keys)
        row("ImageFolder %s, warm: ext4" % told, local, "s")
        row("ImageFolder %s, warm: headrace" % told, ours, "s")
        row("ImageFolder %s, warm: headrace / ext4" % told, ours / local, "", "<= 1")
    else:
        print("ImageFolder: skipped, no torchvision")
    if not cold:
        return
    if os.geteuid() != 0:
        print("cold: skipped, only root drops the kernel's caches")
        return
    for name, code, below in (("os.walk", WALK, ""), ("ImageFolder", FOLDER, TRAIN))[:1 + folders]:
        local, ours = sides.least(code, below, 1, before=sides.forget, count=keys)
        row("%s %s, kernel's caches dropped: ext4" % (name, told), local, "s")
        row("%s %s, kernel's caches dropped: headrace, daemon started anew" % (name, told), ours, "s")


def scale(keys):
    """The index alone (index_scale.c)."""
    libraries = [os.path.join(BIN, "lib", name + ".a") for name in ("list", "store", "auth", "net", "base", "config")]
    program = compiled("tests/bench/index_scale.c", ["-Wl,--start-group", *libraries, "-Wl,--end-group", "-lcurl", "-lcrypto",
                                                     "-lexpat", "-ljansson", "-lunwind"])
    with tempfile.TemporaryDirectory(prefix="hr-index-scale-") as folder:
        subprocess.run([program, str(keys), folder], check=True)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--objects", type=int, default=1280000, help="of the tree that is compared with a local one")
    options.add_argument("--restart", type=int, default=10000000, help="of the index that a daemon starts with")
    options.add_argument("--scale", type=int, default=10000000, help="of the index that is measured alone")
    options.add_argument("--cold", action="store_true", help="with the machine's caches dropped, too (root)")
    chosen = options.parse_args()
    program = compiled("tests/scale/listd.c")
    for measure, count in ((scale, chosen.scale), (lambda n: restart(program, n), chosen.restart),
                           (lambda n: against_local(program, n, chosen.cold), chosen.objects)):
        if count:
            measure(count)


if __name__ == "__main__":
    main()
