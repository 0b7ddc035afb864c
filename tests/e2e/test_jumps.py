"""Reads here and there in a large object: the right bytes, by as few requests and bytes as there can be. Counted at the
store, of an object that is computed."""
import contextlib
import hashlib
import json
import os
import random

from harness import headrace, paths, proc
from harness.case import test
from harness.faults import DictStore

MIB, CELL = 1 << 20, 8 << 20
SIZE = 4 << 30
PERIOD = 1000003  # no power of two divides it: bytes at the wrong offset are other bytes
BLOCK = random.Random(5).randbytes(PERIOD) * 2
TAG = "0123456789abcdef0123456789abcdef-512"
# What the programs share: reads of (offset, bytes), and what they came to.
PROGRAM = """
import hashlib, json, os, sys, threading
path, todo, step = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
digest, errors = hashlib.sha256(), []
"""
PREAD = PROGRAM + """
fd, parts = os.open(path, os.O_RDONLY), [b""] * len(todo)
def work(first):
    for number in range(first, len(todo), step):
        try:
            parts[number] = os.pread(fd, todo[number][1], todo[number][0])
        except OSError as error:
            errors.append(error.errno)
threads = [threading.Thread(target=work, args=(first,)) for first in range(step)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
for part in parts:
    digest.update(part)
print(digest.hexdigest(), *errors)
"""
BUFFERED = PROGRAM + """
file = open(path, "rb")
for at, size in todo:
    file.seek(at)
    while size > 0:
        piece = file.read(min(size, step))
        digest.update(piece)
        size -= len(piece)
print(digest.hexdigest())
"""


class Computed:
    """An object's bytes."""

    def __len__(self):
        return SIZE

    def __getitem__(self, span):
        at, parts = span.start, []
        while at < span.stop:
            skip = at % PERIOD
            parts.append(BLOCK[skip:skip + span.stop - at])
            at += len(parts[-1])
        return b"".join(parts)


class Store(DictStore):
    """fault(n) of the n-th range behind the first cell, which an open asks for: None, "busy", "cut" or "changed"."""

    def __init__(self, fault):
        self.fault, self.ranges = fault, []
        super().__init__({"train/large.bin": Computed()}, etag=lambda key, body: TAG)

    def get(self, handler, key):
        first, last = map(int, handler.headers["Range"].partition("=")[2].split("-"))
        fault = None
        if first > 0:
            with self.lock:
                self.ranges.append((first, last + 1 - first))
                fault = self.fault(len(self.ranges))
        if fault == "busy":
            self.error(handler, 503, "SlowDown")
        elif fault == "changed":
            self.error(handler, 412, "PreconditionFailed")
        elif fault == "cut":
            handler.send_response_only(206)
            for name, value in (("ETag", '"%s"' % TAG), ("Content-Range", "bytes %d-%d/%d" % (first, last, SIZE)),
                                ("Content-Length", str(last + 1 - first))):
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(Computed()[first:first + (last + 1 - first) // 2])
            handler.close_connection = True
        else:
            super().get(handler, key)


@contextlib.contextmanager
def stage(fault=lambda number: None):
    data = os.path.join(proc.temp_folder("hr-"), "data")
    with Store(fault) as store:
        with headrace.Job("%s=s3://bkt/train" % data, store, cache_size="2G", cache_free="1%") as job:
            yield store, job, os.path.join(data, "large.bin")


def digest_of(todo):
    sum = hashlib.sha256()
    for at, size in todo:
        sum.update(Computed()[at:at + size])
    return sum.hexdigest()


def play(stage, program, todo, step):
    """Reads what there is to do."""
    _, job, path = stage
    proc.expect_equal(job.python(program, path, json.dumps(todo), str(step)).split(), [digest_of(todo)], "digest, errors")
    headrace.wait_idle(job)
    proc.expect_equal(job.status()["plan"]["memory_bytes"], 0, "memory left")


def over_borders(count, rng):
    """Reads of up to 1 MiB, each over another border, on any bytes."""
    for border in rng.sample(range(2, SIZE // CELL), count):
        before = rng.randrange(1, MIB // 2)
        yield border * CELL - before, before + rng.randrange(1, MIB // 2)


def check_exact(store, todo):
    """One range each: what was read, in pages, 64 KiB on either side of a border at least."""
    proc.expect_equal(len(store.ranges), len(todo), "ranges asked for")
    for (at, size), (first, length) in zip(sorted(todo), sorted(store.ranges)):
        least = at // CELL * CELL + CELL - 65536
        most = max(at + size, at // CELL * CELL + CELL + 65536)
        proc.expect(min(at // 4096 * 4096, least) <= first <= at and at + size <= first + length < most + 4096,
                    "read of %d at %d by %d at %d" % (size, at, length, first))


@test()
def test_reads_over_borders_are_one_request_each():
    for threads in (1, 8):
        with stage() as scene:
            todo = list(over_borders(40, random.Random(threads)))
            play(scene, PREAD, todo, threads)
            check_exact(scene[0], todo)
            play(scene, PREAD, todo, threads)
            check_exact(scene[0], todo)


@test()
def test_faults_at_borders_pass():
    """Refused for the moment, cut short: asked for again as one, right bytes for both sides."""
    faults = {1: "busy", 3: "cut", 4: "cut", 9: "busy", 12: "cut"}
    with stage(faults.get) as scene:
        todo = list(over_borders(16, random.Random(3)))
        play(scene, PREAD, todo, 1)
        proc.expect_equal(len(scene[0].ranges), 16 + len(faults), "ranges asked for")
        proc.expect_equal(len(set(scene[0].ranges)), 16, "ranges")


@test()
def test_a_change_at_a_border_is_estale():
    """Both sides of it, for all who wait; what is there stays readable; nothing is left behind."""
    with stage(lambda number: "changed" if number > 2 else None) as scene:
        store, job, path = scene
        todo = list(over_borders(4, random.Random(4)))
        sides = [todo[2], todo[2], [todo[2][0] // CELL * CELL + CELL, 1]]
        out = job.python(PREAD, path, json.dumps(todo[:2] + sides + todo[:2]), "1").split()
        proc.expect_equal(out, [digest_of(todo[:2] + todo[:2]), "116", "116", "116"], "digest, errors")
        headrace.wait_idle(job)
        proc.expect_equal(job.status()["plan"]["memory_bytes"], 0, "memory left")
        proc.expect(len(store.ranges) >= 3, "asked")


def jumps(count, size, seed):
    rng = random.Random(seed)
    return [(rng.randrange(8 * CELL, SIZE - CELL), size) for _ in range(count)]


def check_cost(scene, todo, requests, share):
    store = scene[0]
    wanted = sum(size for _, size in todo)
    asked = sum(length for _, length in store.ranges)
    proc.expect(len(store.ranges) <= requests * len(todo), "%d requests for %d" % (len(store.ranges), len(todo)))
    proc.expect(asked <= share * wanted, "%d bytes for %d" % (asked, wanted))


@test()
def test_buffered_reads_are_one_request_each():
    """What Python's files ask for: whole blocks, then the block with the rest. One range, once that has shown."""
    with stage() as scene:
        todo = jumps(60, 300000, 5)
        play(scene, BUFFERED, todo, 300000)
        check_cost(scene, todo, 1.15, 1.1)


@test()
def test_records_read_in_steps_cost_what_they_are():
    """Neither the rest of a cell nor a window: as much as the last records were."""
    with stage() as scene:
        todo = jumps(40, 2 * MIB, 6)
        play(scene, BUFFERED, todo, 65536)
        check_cost(scene, todo, 3, 1.7)  # the first one is thought to go on


@test()
def test_reading_backwards_asks_for_each_byte_once():
    with stage() as scene:
        todo = [(2 << 30) - number * MIB for number in range(1, 65)]
        todo = [(at, MIB) for at in todo]
        play(scene, PREAD, todo, 1)
        check_cost(scene, todo, 0.65, 1.0)
