"""The same random program of calls over a read-only file system and over a map of the same objects, at the same path: each
line that it writes, with all that a program can see of a call, must be equal (tests/random/random.h).

  HEADRACE_RANDOM_SEEDS=N    so many seeds instead of a few, from HEADRACE_RANDOM_FIRST (1) on; N minutes at most
  HEADRACE_RANDOM_STEPS=N    calls a seed"""
import contextlib
import glob
import os
import random
import re
import shutil
import urllib.parse

from harness import fixtures, front, headrace, paths, proc, servers
from harness.build import compile_files
from harness.case import test
from harness.faults import DictStore

SEEDS, STEPS = 3, 1000
LONG = int(os.environ.get("HEADRACE_RANDOM_SEEDS", 0))
SIZES = (0, 1, 4095, 4096, 4097, 65535, 65536, 65537, 100000, (8 << 20) + 5, (20 << 20) + 777)
NOBODY = 65534
MORE = ("more/one", "more/two", "more/three")  # prefixes beside the tree
BELOW = (("a/deep", MORE[0]), ("new", MORE[1]), ("new/er/at", MORE[2]))
READERS = ("opendir", "fdopendir", "scandir", "getdents", "nftw", "fts", "glob", "shell", "names", "child", "dir-stream", "wordexp")
# Every mount is read-only, but those of what has to be written and of what the tree lies in. Behind LOCAL come pairs of a tree
# and where it is put.
SEALED = r"""set -e
keep=$1 top=$2 count=$3; shift 3
mount --bind "$top" "$top"
while [ "$count" -gt 0 ]; do
    mount --bind "$1" "$2"
    count=$((count - 1)); shift 2
done
mount --bind "$keep" "$keep"
cut -d ' ' -f 5 /proc/self/mountinfo | while read -r point; do
    [ "$point" = "$keep" ] || [ "$point" = "$top" ] || mount -o remount,bind,ro "$(printf '%b' "$point")" 2>/dev/null || true
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
    for number in range(40):
        put("../%s/deep/p%d" % (MORE[0], number), text[:number * 3000])
    put("../%s/er/size-70001" % MORE[1], rng.randbytes(70001))
    put("../%s/-x" % MORE[1], text[:100])
    put("../%s/below" % MORE[2], rng.randbytes((9 << 20) + 3))


def write_odd_tree(half):
    """Names of any byte, few of them large; a folder without anything in it."""
    root = os.path.join(half, fixtures.BUCKET, fixtures.PREFIX)
    names = ["new\nline", "tab\there", "ctl\x01\x1f", "del\x7f", "back\\slash/in\\it", "per%cent", "%41", "%2e%2e", "plus+sign",
             "amp&lt<gt>", 'double"quote', "q?mark#hash", "semi;colon=eq", "a:b|c*", "{curly}[square]", "~tilde/~", "-rf",
             "...", "..dots/..more", "trailing. ", " ", " lead", "emoji\U0001f600", "cafe\u0301/caf\u00e9", "x" * 255, "$HOME", "`id`",
             "a/b", "a-b", "a.b", "a b/c d/e f", "deep/" + "/".join("d%d" % level for level in range(40)) + "/leaf"]
    for number, name in enumerate(names):
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(b"<%s>" % name.encode() * (2000 if number % 5 == 0 else 1))
    os.makedirs(os.path.join(root, "empty folder"))


def write_names(tree, path, mounts=()):
    """What is there, each name ended by a NUL: of the tree, and of what is mounted in it."""
    names = {b"": b"d"}
    for put, top in (("", tree), *mounts):
        names = {name: kind for name, kind in names.items() if not put or not (name + b"/").startswith(os.fsencode(put) + b"/")}
        names[os.fsencode(put)] = b"d"
        for here, folders, files in os.walk(top):
            base = os.path.normpath(os.path.join(put, os.path.relpath(here, top)))
            names.update((os.fsencode(os.path.normpath(os.path.join(base, name))), b"d" if name in folders else b"f")
                         for name in folders + files)
    with open(path, "wb") as out:
        out.writelines(b"%s %s\0" % (kind, name) for name, kind in sorted(names.items()))


def as_user(user):
    return ["setpriv", "--reuid=%d" % user, "--regid=%d" % user, "--clear-groups"] if user else []


class Job(headrace.Job):
    """A user's: his commands are his, too."""
    user = 0

    def command(self, *argv, timeout=60, **options):
        env = dict(self.env(), HEADRACE_MAP=";".join(self.maps))
        return proc.run([*as_user(self.user), self.program, *argv], timeout, env=options.pop("env", None) or env, **options)


class Stage:
    """A tree, its names, a program, and the place where both kinds of trees appear.

    way: the map point's folders, of which a machine has none. mounts: what other maps below this one show, (name, prefix).
    user: whose processes these are. fresh: the objects have the time of their upload. links: symlinks beside the tree.
    without: kinds of calls that are not made."""

    def __init__(self, fixture=None, way="", mounts=(), user=0, fresh=False, links=False, without=()):
        self.fixture = fixture or fixtures.in_order("random-v2", write_tree)
        self.tree = fixtures.tree(self.fixture)
        folder = os.path.realpath(proc.temp_folder("hr-rnd-"))
        self.top = os.path.join(folder, "a", "b", "c")
        self.way, self.user, self.links, self.without = way, user, links, without
        self.data = os.path.join(self.top, way, "data")
        self.keep = os.path.join(folder, "keep")
        self.names = os.path.join(folder, "names")
        os.makedirs(self.top)
        os.makedirs(self.keep)
        self.mounts = mounts
        if mounts or user or fresh:
            self.tree = self.copy_tree(os.path.join(folder, fixtures.BUCKET), fresh)
        self.local_mounts = [(name, os.path.join(os.path.dirname(self.tree), prefix)) for name, prefix in mounts]
        if user:
            self.open_to_user(folder)
        write_names(self.tree, self.names, self.local_mounts)
        self.program = compile_files(os.path.join(folder, "random"),
                                     sorted(glob.glob(os.path.join(paths.ROOT, "tests", "random", "*.c"))), "-lpthread")

    def open_to_user(self, folder):
        os.chown(self.keep, self.user, self.user)
        while not os.stat(folder).st_mode & 0o001:  # what a test run has for itself
            os.chmod(folder, 0o755)
            folder = os.path.dirname(folder)
        seen = proc.run([*as_user(self.user), "test", "-x", paths.HEADRACE])
        if seen.returncode != 0:
            raise proc.Skip("another user cannot reach " + paths.HEADRACE)

    def copy_tree(self, copy, fresh):
        """The local bucket with the places to mount at, its user's, as old as the objects."""
        shutil.copytree(os.path.dirname(self.tree), copy, copy_function=shutil.copy if fresh else shutil.copy2)
        for number, (name, _) in enumerate(self.mounts):
            os.makedirs(os.path.join(copy, fixtures.PREFIX, name), exist_ok=True)
            for upper, prefix in self.mounts[:number]:
                if name.startswith(upper + "/"):
                    os.makedirs(os.path.join(copy, prefix, name[len(upper) + 1:]), exist_ok=True)
        for here, _, files in os.walk(copy) if self.user else ():
            for name in [".", *files]:
                os.chown(os.path.join(here, name), self.user, self.user)
        return os.path.join(copy, fixtures.PREFIX)

    def job(self, store, options="", **settings):
        source = "%s=s3://%s/%s%s" % (self.data, fixtures.BUCKET, fixtures.PREFIX, options)
        more = ["%s/%s=s3://%s/%s%s" % (self.data, name, fixtures.BUCKET, prefix, options) for name, prefix in self.mounts]
        job = Job([source] + more, store, cache=os.path.join(self.keep, "cache"), **settings)
        job.user = self.user
        return job

    def argv(self, trees, seed, steps, before=()):
        mounts = [text for tree, point in trees for text in (tree, point)]
        return ["unshare", "-m", "sh", "-c", SEALED, "sealed", self.keep, self.top, str(len(trees)), *mounts,
                *as_user(self.user), *before,
                self.program, self.data, self.names, os.path.join(self.keep, "scratch"), str(seed), str(steps),
                *("-" + op for op in self.without)]

    def tell_names(self, job):
        """Where nothing is listed, a folder is there from the first name in it that was asked for."""
        with open(self.names, "rb") as file:
            files = [name[2:] for name in file.read().split(b"\0") if name.startswith(b"f")]
        job.good(["xargs", "-0", "stat", "-c", ""], input=b"".join(os.fsencode(self.data) + b"/" + name + b"\0" for name in files))

    def local(self, seed, steps, env):
        self.tidy()
        os.makedirs(self.data)
        self.give_top()
        trees = [(self.tree, self.data)] + [(tree, os.path.join(self.data, name)) for name, tree in self.local_mounts]
        return proc.run(self.argv(trees, seed, steps), 300, env=env)

    def tidy(self):
        """What is beside the tree, as it was."""
        proc.force_remove(self.top)
        os.makedirs(self.top)
        if not self.way:
            with open(os.path.join(self.top, "beside.txt"), "w") as out:
                out.write("beside\n")
            os.utime(out.name, (1.5e9, 1.5e9))
        for name, target in (("to-tree", "data"), ("to-folder", "data/a/deep"), ("to-file", self.data + "/a/long.txt"),
                             ("to-nothing", "data/nothing"), ("to-link", "to-folder/er")) if self.links else ():
            os.symlink(target, os.path.join(self.top, name))
        self.give_top()

    def give_top(self):
        for here, _, files in os.walk(self.top) if self.user else ():
            for name in [".", *files]:
                os.chown(os.path.join(here, name), self.user, self.user)

    def mapped(self, job, seed, steps):
        self.tidy()
        return proc.run(self.argv([], seed, steps, job.run_argv(())), 300, env=job.env())


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


def is_other_errno(one, other):
    for calls, local, mapped in MEANT:
        found = calls.match(one) and local.search(one)
        if found and any(other == one[:found.start(1)] + answer for answer in mapped):
            return True
    return one == other


def is_meant(one, other, alike=()):
    """Do two lines differ as they should, by an errno alone?"""
    left, right = one, other
    for pattern, instead in alike:
        left, right = (re.sub(pattern, instead, line) for line in (left, right))
    return is_other_errno(one, other) or is_other_errno(left, right)


def compare(want, have, seed, log, alike=()):
    left, right = want.stdout.splitlines(), have.stdout.splitlines()
    for number in range(max(len(left), len(right))):
        one = left[number] if number < len(left) else b"(end)"
        other = right[number] if number < len(right) else b"(end)"
        if one != other and not is_meant(one, other, alike):
            raise proc.Failure("seed %d, call %d differs\nlocal:  %s\nmapped: %s\n%s\n%s\n%s" % (
                seed, number, one.decode("utf-8", "replace"), other.decode("utf-8", "replace"),
                b"\n".join(left[max(0, number - 10):number]).decode("utf-8", "replace"), proc.tail(have.stderr), log))
    proc.expect_equal((have.returncode, have.stdout == b""), (want.returncode, False), "status " + proc.tail(have.stderr))


# Of names that are not there nobody asks what lies above, while there is no listing.
UNLISTED = [(b"ENOTDIR", b"ENOENT"), (b"^([0-9]+ spawn .*) = 20 ", rb"\1 = 2 ")]


def play(stage, job, seeds, alike=()):
    steps = int(os.environ.get("HEADRACE_RANDOM_STEPS", STEPS))
    first = int(os.environ.get("HEADRACE_RANDOM_FIRST", 1))
    for seed in range(first, first + (LONG or seeds)):
        want = stage.local(seed, steps, job.env())
        proc.expect(want.returncode == 0, "locally", proc.tail(want.stdout, want.stderr))
        have = stage.mapped(job, seed, steps)
        job.note_daemon()
        compare(want, have, seed, job.log_tail(), [*alike, *(UNLISTED if seed == first else ())])


def differences_meant(stage, listing):
    """What may differ everywhere in a line: pairs of a pattern and of what it is taken for."""
    pairs = []
    if listing in ("dirs", "none"):
        pairs += UNLISTED
    if listing == "none":  # what cannot be read has no positions
        pairs.append((b"^([0-9]+ lseek .*) = -1 EACCES at 0$", rb"\1 = 0 at 0"))
    if stage.way or stage.links:
        pairs.append((b" errno ENOENT", b""))  # a success after the kernel's refusal
    if stage.way:
        pairs.append((b"^([0-9]+ change .*) = 0$", rb"\1 = -1 ENOENT"))  # a way itself has nothing to change
        pairs.append((b"^([0-9]+ (?:remove|make|two) .*) = -1 E[A-Z]+$", rb"\1 = -1 E"))
        pairs.append((b"^([0-9]+ make kind 0 .*) = 0$", rb"\1 = -1 E"))  # mkdir makes it
    return pairs


@contextlib.contextmanager
def explored(stage, server=servers.Rclone, **settings):
    settings = dict({"small_max": "64K", "cache_size": "64M"}, **settings)
    with server(stage.fixture) as store:
        with stage.job(store, **settings) as job:
            if settings.get("list") == "none":
                stage.tell_names(job)
            yield job


def explore(stage, server=servers.Rclone, seeds=SEEDS, **settings):
    with explored(stage, server, **settings) as job:
        play(stage, job, seeds, differences_meant(stage, settings.get("list")))


def lasting(seconds):
    return 60 * LONG if LONG else seconds


@test(("rclone", "mount"), timeout=lasting(60))
def test_random_calls():
    """Cold, then warm; the objects are more than the cache holds."""
    explore(Stage())


@test(("rclone", "mount", "root", "setpriv"), timeout=lasting(60))
def test_random_calls_in_other_places():
    """As a user without privileges, below folders that are not there, with maps in the map."""
    explore(Stage(way="way/on", user=NOBODY, mounts=BELOW), seeds=1, list="dirs")


@test(("rclone", "mount", "root", "setpriv"), timeout=lasting(90), slow=True)
def test_random_calls_of_nobody():
    explore(Stage(user=NOBODY), seeds=5, required="on")


@test(("weed", "mount"), timeout=lasting(120), slow=True)
def test_random_calls_seaweedfs():
    explore(Stage(fresh=True), servers.SeaweedFS, seeds=5)


@test(("rclone", "mount"), timeout=lasting(90), slow=True)
def test_random_calls_without_listing():
    """Where directories cannot be read."""
    explore(Stage(without=READERS), seeds=5, list="none")


@test(("rclone", "mount"), timeout=lasting(90), slow=True)
def test_random_calls_with_listed_folders():
    explore(Stage(), seeds=5, list="dirs")


@test(("rclone", "mount"), timeout=lasting(90), slow=True)
def test_random_calls_below_missing_folders():
    explore(Stage(way="way/on"), seeds=5)


@test(("rclone", "mount"), timeout=lasting(90), slow=True)
def test_random_calls_over_maps_in_maps():
    explore(Stage(mounts=BELOW), seeds=5)


@test(("rclone", "mount"), timeout=lasting(90), slow=True)
def test_random_calls_through_symlinks():
    explore(Stage(links=True), seeds=5, symlinks="follow")


@test("mount", timeout=lasting(90), slow=True)
def test_random_calls_on_odd_names():
    fixture = fixtures.in_order("random-odd-v1", write_odd_tree)

    def store(folder):
        root = os.path.join(folder, fixtures.BUCKET)
        objects = {fixtures.PREFIX + "/empty folder/": b""}
        for name in fixtures.keys(folder):
            with open(os.path.join(root, name), "rb") as file:
                objects[name] = file.read()
        return DictStore(objects)
    explore(Stage(fixture, fresh=True), store, seeds=5)


@test(("rclone", "mount"), timeout=lasting(120), slow=True)
def test_random_calls_beyond_the_cache():
    """Four times what the cache holds, most of it large."""
    def write(half):
        write_tree(half)
        rng = random.Random(4)
        folder = os.path.join(half, fixtures.BUCKET, fixtures.PREFIX, "wide")
        os.mkdir(folder)
        for number in range(11):
            with open(os.path.join(folder, "w%d" % number), "wb") as out:
                out.write(rng.randbytes((17 << 20) + number * 4096 + number % 3))
    explore(Stage(fixtures.in_order("random-wide-v1", write)), seeds=5)


@test(("rclone", "mount"), timeout=lasting(90), slow=True)
def test_random_calls_of_a_list_of_names():
    """Nobody knows size or time of a name before it is asked for."""
    stage = Stage()
    names = os.path.join(stage.keep, "list")
    with open(names, "w") as out:
        out.writelines(urllib.parse.quote(name) + "\n" for name in fixtures.keys(stage.fixture) if name.startswith(fixtures.PREFIX + "/"))
    explore(stage, seeds=5, list=names)


@test(("nginx", "rclone", "mount"), timeout=lasting(120), slow=True)
def test_random_calls_of_a_throttling_store():
    stage = Stage()
    with servers.Rclone(stage.fixture) as store:
        explore(stage, lambda _: front.Front(store, delay_ms=2, slow_down=5), seeds=3)
