"""Large objects of one folder that are opened one after the other: what comes next is there before it is opened."""
import os

from harness import fixtures, headrace, paths, proc
from harness.case import test
from harness.scene import scene

NEEDS = ("nginx", "rclone")
SHARDS, SIZE = 5, 12 << 20
CELLS = 2  # of 8 MiB, in each
READ = """
import hashlib, sys
sum = hashlib.sha256()
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        while piece := file.read(100000):
            sum.update(piece)
print(sum.hexdigest())
"""


def write(half):
    folder = os.path.join(half, fixtures.BUCKET, fixtures.PREFIX, "set")
    os.makedirs(folder)
    block = os.urandom(SIZE - 8)
    for number in range(SHARDS):
        with open(os.path.join(folder, "s-%02d.tar" % number), "wb") as out:
            out.write(b"%08d" % number + block)
        with open(os.path.join(folder, "s-%02d.json" % number), "w") as out:
            out.write("{}")


def read(s, numbers):
    names = ["set/s-%02d.tar" % number for number in numbers]
    want = proc.run([paths.PYTHON, "-c", READ, *(os.path.join(s.local, name) for name in names)], 60)
    proc.expect(want.returncode == 0, "the local run", proc.tail(want.stderr))
    proc.expect_equal(s.job.python(READ, *(os.path.join(s.data, name) for name in names)), want.stdout.decode(), "digest")


def plan_with(s, ahead):
    """The plan's figures once so many shards were asked for ahead, and have come."""
    proc.wait_until(lambda: s.job.status()["plan"]["shards_ahead"] >= ahead, 30, "shards ahead")
    headrace.wait_idle(s.job)
    return s.job.status()["plan"]


@test(NEEDS)
def test_the_next_shard_is_there_before_it_is_opened():
    """By name, without an index: one LIST, no byte twice, none that nobody reads, no request at the open."""
    with scene(fixtures.in_order("shards-v1", write)) as s:
        read(s, (0, 1))
        plan = plan_with(s, 1)
        log = s.front.log()
        proc.expect_equal((len(log.gets), len(log.lists)), (3 * CELLS, 1), "GETs of three shards, LISTs")
        proc.expect_equal(plan["shards_used"], 0, "shards used")
        mark = s.front.mark()
        read(s, (2, 3))
        plan = plan_with(s, 3)
        log = s.front.log(mark)
        proc.expect_equal((len(log.gets), len(log.lists), len(log.heads)), (2 * CELLS, 0, 0), "GETs of two more; LISTs, HEADs")
        proc.expect_equal(sorted({os.path.basename(r.path) for r in log.gets}), ["s-03.tar", "s-04.tar"], "asked for")
        proc.expect_equal((plan["shards_ahead"], plan["shards_used"], plan["shards_wrong"]), (3, 2, 0), "ahead, used, wrong")
        read(s, (4,))
        proc.expect_equal(sum(r.bytes for r in s.front.log().good), SHARDS * SIZE, "bytes that the store sent")


@test(NEEDS)
def test_shards_out_of_order_bring_nothing():
    with scene(fixtures.in_order("shards-v1", write)) as s:
        read(s, (3, 0))
        read(s, (4, 2))
        headrace.wait_idle(s.job)
        proc.expect_equal(s.job.status()["plan"]["shards_ahead"], 0, "shards ahead")
        proc.expect_equal(sum(r.bytes for r in s.front.log().good), 4 * SIZE, "bytes that the store sent")
