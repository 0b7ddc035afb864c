"""The same random program of calls over a read-only file system and over a map of the same objects, at the same path: each
line that it writes, with all that a program can see of a call, must be equal (tests/random/random.h).

  HEADRACE_RANDOM_SEEDS=N    so many seeds instead of a few, from HEADRACE_RANDOM_FIRST (1) on; N minutes at most
  HEADRACE_RANDOM_STEPS=N    calls a seed"""
import glob
import os
import random
import re

from harness import fixtures, headrace, paths, proc, servers
from harness.build import compile_files
from harness.case import test

SEEDS, STEPS = 3, 1000
LONG = int(os.environ.get("HEADRACE_RANDOM_SEEDS", 0))
SIZES = (0, 1, 4095, 4096, 4097, 65535, 65536, 65537, 100000, (8 << 20) + 5, (20 << 20) + 777)
# Every mount is read-only, but those of what has to be written and of the tree's parent.
SEALED = r"""set -e
keep=$1 local=$2 parent=$3; shift 3
mount --bind "$parent" "$parent"
if [ "$local" ]; then
    mount --bind "$local" "$parent/data"
fi
mount --bind "$keep" "$keep"
cut -d ' ' -f 5 /proc/self/mountinfo | while read -r point; do
    [ "$point" = "$keep" ] || [ "$point" = "$parent" ] || mount -o remount,bind,ro "$(printf '%b' "$point")" 2>/dev/null || true
done
exec "$@"
"""


def write_tree(half):
    """Sizes around pages, small_max and a cell; names that need quoting; a folder of many."""
    rng = random.Random(3)
    root = os.path.join(half, fixtures.BUCKET, fixtures.PREFIX)

    def put(name, data):
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(data)
        os.utime(path, (1.6e9 + len(data), 1.6e9 + len(data)))
    for size in SIZES:
        put("size-%d" % size, rng.randbytes(size))
    text = b"".join(b"line %d of text\n" % number for number in range(9000))
    put("a/short.txt", text[:300])
    put("a/long.txt", text)
    put("a/deep/er/still/three.txt", text[:70000])
    put("a/deep/-dash", b"dash\n")
    put("a-b", b"sorts between a and a/b\n")
    put("a.c", b"sorts too\n")
    put("with space/x y", b"blank")
    put("with space/a+b%25c", text[:5000])
    put("ünïcode/日本.txt", text[:66000])
    put("[brackets]/glob*", b"star\n")
    put(".hidden/.dot", b"dot\n")
    put("long/" + "n" * 255, b"the longest name\n")
    for number in range(300):
        put("many/f%03d" % number, b"%d" % number)
    put("many-large/cell", rng.randbytes((9 << 20) + 1))
    for number in range(6):
        put("many-large/m%d" % number, rng.randbytes((6 << 20) + number))


def write_names(tree, path):
    with open(path, "wb") as out:
        out.write(b"d \n")
        for here, folders, files in sorted(os.walk(tree)):
            for kind, names in ((b"d ", folders), (b"f ", files)):
                out.writelines(kind + os.fsencode(os.path.relpath(os.path.join(here, name), tree)) + b"\n"
                               for name in sorted(names))


class Stage:
    """A tree, its names, a program, and the place where both kinds of trees appear."""

    def __init__(self):
        self.fixture = fixtures.in_order("random-v1", write_tree)
        self.tree = fixtures.tree(self.fixture)
        folder = proc.temp_folder("hr-rnd-")
        self.parent = os.path.join(folder, "a", "b", "c")
        self.data = os.path.join(self.parent, "data")
        self.keep = os.path.join(folder, "keep")
        self.names = os.path.join(folder, "names")
        os.makedirs(self.parent)
        os.makedirs(self.keep)
        write_names(self.tree, self.names)
        self.program = compile_files(os.path.join(folder, "random"),
                                     sorted(glob.glob(os.path.join(paths.ROOT, "tests", "random", "*.c"))), "-lpthread")

    def job(self, store, **settings):
        source = "%s=s3://%s/%s" % (self.data, fixtures.BUCKET, fixtures.PREFIX)
        return headrace.Job(source, store, cache=os.path.join(self.keep, "cache"), **settings)

    def argv(self, local, seed, steps, before=()):
        return ["unshare", "-m", "sh", "-c", SEALED, "sealed", self.keep, local, self.parent, *before, self.program, self.data,
                self.names, os.path.join(self.keep, "scratch"), str(seed), str(steps)]

    def local(self, seed, steps, env):
        self.tidy()
        os.mkdir(self.data)
        return proc.run(self.argv(self.tree, seed, steps), 300, env=env)

    def tidy(self):
        """What is beside the tree, as it was."""
        proc.force_remove(self.parent)
        os.makedirs(self.parent)
        with open(os.path.join(self.parent, "beside.txt"), "w") as out:
            out.write("beside\n")
        os.utime(out.name, (1.5e9, 1.5e9))

    def mapped(self, job, seed, steps):
        self.tidy()
        return proc.run(self.argv("", seed, steps, job.run_argv(())), 300, env=job.env())


REFUSALS = b"EROFS|EXDEV|EBUSY|ENOENT|ENOTDIR|EEXIST|EBADF|ENAMETOOLONG"
# What is meant: calls, the local answer, the mapped one, why.
MEANT = [(re.compile(b"[0-9]+ (" + calls + b") "), re.compile(b"(?:= -1|NULL) (" + local + b")$"), mapped) for calls, local, mapped, _ in (
    (b"remove", b"EROFS", (b"ENOENT", b"ENOTDIR", b"ENAMETOOLONG"), "that a name is not there tells a program more (rm -f)"),
    (b"remove", b"EISDIR|EINVAL|ENOTEMPTY", (b"EROFS", b"EBUSY"), "of . and .., which nobody removes"),
    (b"two", REFUSALS, REFUSALS.split(b"|"), "which of the reasons of two names is told"),
    (b"make", b"ENOENT|ENOTDIR", (b"EROFS", b"EEXIST"), "of names that end in a slash or dot, refused all the same"),
    (b"open|openat|creat|fopen|freopen", b"EISDIR", (b"ENOTDIR", b"EEXIST"), "O_CREAT of a file's name with a slash at its end"),
    (b"open|openat|creat", b"EEXIST", (b"EISDIR",), "O_CREAT of a directory with dots at its end"),
    (b"open|openat|creat|fopen|freopen", b"ENOENT|ENOTDIR", (b"EISDIR",), "O_CREAT of a new name with a dot at its end"),
)]


def is_meant(one, other):
    """Do two lines differ as they should, by an errno alone?"""
    for calls, local, mapped in MEANT:
        found = calls.match(one) and local.search(one)
        if found and any(other == one[:found.start(1)] + answer for answer in mapped):
            return True
    return False


def compare(want, have, seed, log):
    left, right = want.stdout.splitlines(), have.stdout.splitlines()
    for number in range(max(len(left), len(right))):
        one = left[number] if number < len(left) else b"(end)"
        other = right[number] if number < len(right) else b"(end)"
        if one != other and not is_meant(one, other):
            raise proc.Failure("seed %d, call %d differs\nlocal:  %s\nmapped: %s\n%s\n%s\n%s" % (
                seed, number, one.decode("utf-8", "replace"), other.decode("utf-8", "replace"),
                b"\n".join(left[max(0, number - 10):number]).decode("utf-8", "replace"), proc.tail(have.stderr), log))
    proc.expect_equal((have.returncode, have.stdout == b""), (want.returncode, False), "status " + proc.tail(have.stderr))


def play(stage, job, steps, seeds):
    for seed in seeds:
        want = stage.local(seed, steps, job.env())
        proc.expect(want.returncode == 0, "locally", proc.tail(want.stdout, want.stderr))
        compare(want, stage.mapped(job, seed, steps), seed, job.log_tail())


@test(("rclone", "mount"), timeout=60 if LONG == 0 else 60 * LONG)
def test_random_calls():
    """Cold, then warm; the objects are more than the cache holds."""
    steps = int(os.environ.get("HEADRACE_RANDOM_STEPS", STEPS))
    count = LONG or SEEDS
    first = int(os.environ.get("HEADRACE_RANDOM_FIRST", 1))
    stage = Stage()
    with servers.Rclone(stage.fixture) as store:
        with stage.job(store, small_max="64K", cache_size="64M") as job:
            play(stage, job, steps, range(first, first + count))
