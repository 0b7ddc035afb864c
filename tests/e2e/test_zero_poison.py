"""The law of faces: whatever way a program takes to bytes or names that are not here yet, it waits or gets an errno;
never a zero that is not in the object, never an end that is not there, never an empty listing.

The rows are C (tests/e2e/poison). Where this runs as root, programs, daemon and cache belong to nobody: modes do not
bind root, whose ways around them are asserted as the exceptions that the design names."""
import contextlib
import functools
import hashlib
import os
import re
import shutil
import threading

from harness import headrace, proc
from harness.build import compile_files
from harness.case import test
from harness.faults import DictStore

NOBODY = 65534
CELL = 8 << 20  # fetch/cache/cache.h, HR_CELL_BYTES
SIZE = (20 << 20) + 12345
DEEP = (12 << 20) + 777  # in the second cell
LEN = 200000
HELD_S = 3  # the alarm of a row that is to wait; nothing depends on how long it is
FREE_S = 60
ERRNO = re.compile(r"E[A-Z0-9]+$")

# Rows that ask for no byte: their answer is known before the object is here.
ASK_NOTHING = ("FICLONE", "execve of it", "fexecve of it", "execveat of it", "SEEK_END",
               "SEEK_END by lseek64", "SEEK_DATA", "SEEK_HOLE", "syscall lseek SEEK_END", "fstat", "fstatat of it",
               "syscall fstat", "statx", "stat /proc/self/fd", "FIONREAD", "syscall FIONREAD", "pread at the end",
               "read of no bytes")
# Past the hooks, or nothing for a file: an errno, whether the object is here or not.
NEVER_SERVED = ("tee", "syscall tee", "io_uring", "io_uring, registered file", "SCM_RIGHTS, syscall recvmsg",
                "pidfd_getfd", "dark opendir /proc/self/fd")
# A local file gives these by the mood of the page cache.
MOODY = ("preadv2 RWF_NOWAIT",)
# An errno where a local file has none (interpose/face_map.h: what a private mapping holds of its own cannot be moved).
REFUSED = {"mremap larger": "ENOMEM"}


class HeldStore(DictStore):
    """Answers nothing until it is released but what `passes`: a function of key, first and last byte."""

    def __init__(self, objects, passes=lambda key, first, last: False):
        self.gate, self.passes = threading.Event(), passes
        tags = {key: hashlib.md5(body).hexdigest() for key, body in objects.items()}
        super().__init__(objects, etag=lambda key, body: tags[key])

    def answer(self, handler):
        path, _, query = handler.path.partition("?")
        key = path[1:].partition("/")[2]
        span = re.match(r"bytes=(\d+)-(\d+)", handler.headers.get("Range") or "bytes=0-%d" % (SIZE - 1))
        dark = "prefix=dark" in query or key.startswith("dark")
        listing = "list-type=" in query
        if dark or not (listing or self.passes(key, int(span[1]), int(span[2]))):
            self.gate.wait()
        super().answer(handler)

    def stop(self):
        self.gate.set()
        super().stop()


class OwnedJob(headrace.Job):
    """A job whose every process belongs to `uid`."""

    def __init__(self, uid, *args, **settings):
        super().__init__(*args, **settings)
        self.owner = {} if uid == os.geteuid() else {"user": uid, "group": uid, "extra_groups": []}

    def run(self, argv, timeout=120, **options):
        return super().run(argv, timeout, **self.owner, **options)

    def command(self, *argv, **options):
        return super().command(*argv, **self.owner, **options)


class Stage:
    """Objects, programs, store and job of one test; `folder` can be reached by the uid."""

    def __init__(self, folder, uid, store, job):
        self.folder, self.uid, self.store, self.job = folder, uid, store, job
        self.local = os.path.join(folder, "local")
        self.data, self.dark = os.path.join(folder, "data"), os.path.join(folder, "dark")
        self.rows = os.path.join(folder, "bin", "rows")
        self.bare = os.path.join(folder, "bin", "bare")
        self.scratch = os.path.join(folder, "scratch")

    def argv(self, root, seconds, at=DEEP, length=LEN, only=""):
        data = os.path.join(root, "data") if root == self.local else self.data
        dark = os.path.join(root, "dark") if root == self.local else self.dark
        return [self.rows, "run", data + "/big.bin", str(at), str(length), dark, self.scratch, str(seconds),
                only]

    def on_local(self, **where):
        env = dict(self.job.env(), HR_POISON_BARE=self.bare)
        return outcomes(proc.run(self.argv(self.local, FREE_S, **where), 120, env=env, **self.job.owner))

    def on_map(self, seconds, **where):
        env = dict(self.job.env(), HR_POISON_BARE=self.bare)
        return outcomes(self.job.run(self.argv("", seconds, **where), 200, env=env))

    def without_hooks(self, seconds, **where):
        at, length = where.get("at", DEEP), where.get("length", LEN)
        argv = [self.rows, "start", self.data + "/big.bin", self.dark, self.bare, "rows", str(at), str(length),
                self.scratch, str(seconds), self.job.cache]
        return outcomes(self.job.run(argv, 200))


def outcomes(done):
    proc.expect(done.returncode == 0, "the rows ended with %d" % done.returncode, proc.tail(done.stdout, done.stderr))
    return dict(line.split("\t", 1) for line in done.stdout.decode().splitlines())


def open_up(folder):
    """Lets others through the folders above that are ours and closed."""
    while os.stat(folder).st_uid == os.geteuid() and not os.stat(folder).st_mode & 0o001:
        os.chmod(folder, os.stat(folder).st_mode | 0o011)
        folder = os.path.dirname(folder)


@functools.lru_cache(maxsize=None)
def programs():
    folder = proc.temp_folder("hr-rows-")
    here = "tests/e2e/poison/"
    compile_files(os.path.join(folder, "rows"), [here + name for name in (
        "rows.c", "rows_read.c", "rows_move.c", "rows_queue.c", "rows_hand.c", "rows_names.c", "poison.c", "ring.c")],
        "-lrt", "-ldl")
    compile_files(os.path.join(folder, "bare"), [here + "bare.c", here + "poison.c", here + "ring.c"], "-static")
    for name in ("headrace", "libheadrace.so"):
        shutil.copy(os.path.join(headrace.paths.BUILD, name), folder)
    return folder


@contextlib.contextmanager
def stage(uid=None, **held):
    """uid: who runs it all; nobody when we are root and it is not said."""
    uid = uid if uid is not None else NOBODY if os.geteuid() == 0 else os.geteuid()
    folder = proc.temp_folder("hr-poison-")
    shutil.copytree(programs(), os.path.join(folder, "bin"))
    rows = os.path.join(folder, "bin", "rows")
    for name, size in [("data/big.bin", SIZE)] + [("dark/name-%02d" % number, 5000) for number in range(20)]:
        path = os.path.join(folder, "local", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        proc.run([rows, "make", path, str(size)])
        os.chmod(path, 0o444)
    os.mkdir(os.path.join(folder, "scratch"))
    objects = {}
    for here, _, names in os.walk(os.path.join(folder, "local")):
        for name in names:
            with open(os.path.join(here, name), "rb") as file:
                objects[os.path.relpath(os.path.join(here, name), os.path.join(folder, "local"))] = file.read()
    if uid != os.geteuid():
        for here, folders, names in os.walk(folder):
            for name in [""] + folders + names:
                os.chown(os.path.join(here, name), uid, uid)
        os.chmod(folder, 0o700)
        open_up(os.path.dirname(folder))
    maps = ["%s/%s=s3://bkt/%s" % (folder, name, name) for name in ("data", "dark")]
    with HeldStore(objects, **held) as store:
        job = OwnedJob(uid, maps, store, access="a", secret="b", cache=os.path.join(folder, "cache"),
                       bin_dir=os.path.join(folder, "bin"), small_max="64K", timeout_s=600)
        with job:
            done = job.run(["ls", os.path.join(folder, "data")])
            proc.expect_equal(done.stdout, b"big.bin\n", "the listing (%s)" % proc.tail(done.stderr))
            yield Stage(folder, uid, store, job)


def disagreements(have, want):
    """Rows whose outcome is none of those allowed: want(name, outcome) says whether it is."""
    return ["%s: %s" % (name, outcome) for name, outcome in have.items() if not want(name, outcome)]


def expect_rows(what, have, want, least):
    proc.expect(len(have) >= least, "%s: only %d rows" % (what, len(have)))
    wrong = disagreements(have, want)
    proc.expect(not wrong, "%s, %d rows of %d" % (what, len(wrong), len(have)), *wrong)


def waits_or_errno(outcome):
    return outcome == "waits" or bool(ERRNO.match(outcome))


def held_rows(local):
    """What a row may say while nothing comes. One that a local file serves has no errno to give: it waits."""
    def allowed(name, outcome):
        if name in ASK_NOTHING:
            return outcome == local[name]
        if name in NEVER_SERVED or name in MOODY:
            return waits_or_errno(outcome)
        return outcome in ("waits", REFUSED.get(name))
    return allowed


def free_rows(local):
    """What it says when all is here: what the local file says."""
    def allowed(name, outcome):
        if name in NEVER_SERVED:
            return outcome == local[name] or bool(ERRNO.match(outcome))
        if name in MOODY:
            return outcome == "EAGAIN" or outcome.startswith("good")
        return outcome in (local[name], REFUSED.get(name))
    return allowed


@test("gcc", timeout=240)
def test_every_door_to_bytes_that_are_not_here():
    """All rows with the fetcher held back, then released, then once more on a warm cache."""
    with stage() as s:
        local = s.on_local()
        expect_rows("local", local, lambda name, outcome: outcome in ("0",) or not outcome.startswith(
            ("ZERO", "WRONG", "end", "empty", "waits", "signal", "nothing", "row")), 130)
        expect_rows("held back", s.on_map(HELD_S), held_rows(local), len(local))
        s.store.gate.set()
        expect_rows("released", s.on_map(FREE_S), free_rows(local), len(local))
        expect_rows("warm", s.on_map(FREE_S), free_rows(local), len(local))


@test("gcc", timeout=240)
def test_released_before_anything_was_asked():
    """Each row is the first to ask: cold, and nothing is held back."""
    with stage() as s:
        s.store.gate.set()
        local = s.on_local()
        expect_rows("cold", s.on_map(FREE_S), free_rows(local), len(local))


# ---- the first cell is here, the rest is held back

INSIDE, ACROSS = (CELL // 2) + 333, CELL - LEN // 2


def first_cell(key, first, last):
    return key != "data/big.bin" or last < CELL


# What takes the whole object, wherever it reads: streams (and so standard input), programs without hooks, ...
WHOLE = re.compile(r"fopen|fdopen|freopen|stdin|posix_spawn|exec|popen, redirected|aio|lio|io_submit|dlopen|O_DIRECT|"
                   r"read the whole|dark")


@test("gcc", timeout=240)
def test_first_cell_is_here_the_rest_is_not():
    with stage(passes=first_cell) as s:
        here = s.on_local(at=INSIDE)

        def inside(name, outcome):
            return free_rows(here)(name, outcome) or (bool(WHOLE.search(name)) and held_rows(here)(name, outcome))
        expect_rows("inside", s.on_map(2 * HELD_S, at=INSIDE), inside, len(here))
        border = s.on_local(at=ACROSS)

        def across(name, outcome):
            if outcome.startswith("good"):  # up to the end of what is here
                return name == "read from the start" or 0 < int(outcome.split()[1]) <= CELL - ACROSS
            return held_rows(border)(name, outcome)
        expect_rows("across the end", s.on_map(HELD_S, at=ACROSS), across, len(border))
        local = s.on_local()

        def beyond(name, outcome):
            return name == "read from the start" or held_rows(local)(name, outcome)
        expect_rows("beyond", s.on_map(HELD_S), beyond, len(local))


# ---- a program without hooks that was handed the descriptors

# What it may find out: nothing is readable but whole pieces.
PIECES = re.compile(r"\d+ readable, \d+ refused$")


def bare_rows(name, outcome):
    return bool(PIECES.match(outcome)) if name == "objects" else waits_or_errno(outcome)


# Modes do not bind root: an empty file and an empty directory can be opened again. Stated in docs/design.md.
ROOT_MAY = {"again /proc/self/fd": "end", "again /dev/fd": "end", "again O_RDWR": "end", "again by path": "end",
            "again by path, mmap": "mapped",
            "dark openat .": "empty", "dark /proc/self/fd": "empty", "dark by path": "empty", "dark fchdir": "empty"}


def bare_through(s, want):
    """Held back, with the first cell here, and with all of it here."""
    expect_rows("held back", s.without_hooks(HELD_S), want, 29)
    s.store.passes = first_cell
    expect_rows("the first cell", s.on_map(FREE_S, at=INSIDE, only="__read_chk"),
                lambda name, outcome: outcome == "good %d" % LEN, 1)
    expect_rows("the first cell is here", s.without_hooks(HELD_S, at=INSIDE), want, 29)
    s.store.gate.set()
    expect_rows("released", s.on_map(FREE_S, only="read the whole"),
                lambda name, outcome: outcome == "good %d" % SIZE, 1)
    have = s.without_hooks(FREE_S)
    expect_rows("all of it is here", have, want, 29)
    expect_rows("in one file", s.on_map(FREE_S, only="fopen64"), lambda name, outcome: outcome == "good %d" % LEN, 1)
    have = s.without_hooks(FREE_S)
    proc.expect(PIECES.match(have["objects"]) or s.uid == 0, "the cache's files: %s" % have["objects"])
    proc.expect_equal((have["pread64"], have["again by path"]), ("good %d" % LEN,) * 2, "an open of the whole file")


@test("gcc", timeout=240)
def test_program_without_hooks_gets_an_error():
    with stage() as s:
        bare_through(s, bare_rows)


@test(("gcc", "root"), timeout=240)
def test_program_without_hooks_as_root():
    """The same as root: errors, but for what the design names."""
    with stage(uid=0) as s:
        bare_through(s, lambda name, outcome: outcome == ROOT_MAY.get(name) or bare_rows(name, outcome) or (
            name == "objects" and outcome.startswith("empty: /objects/")))  # the face


@test("gcc", timeout=120)
def test_face_that_was_written_into():
    """Only a program without hooks can: the bytes are never seen, and the next open has a new face."""
    with stage() as s:
        s.store.gate.set()
        done = s.job.run([s.rows, "start", s.data + "/big.bin", s.dark, s.bare, "write"])
        proc.expect_equal(outcomes(done), {"write": "6"}, "the write")
        expect_rows("afterwards", s.on_map(FREE_S, only="read"), free_rows(s.on_local(only="read")), 20)
