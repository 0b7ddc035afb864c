"""What programs say of large objects: by posix_fadvise on a descriptor, and by madvise on a mapping of one."""
from harness import fixtures, headrace, paths, proc
from harness.case import test
from harness.scene import scene

NEEDS = ("nginx", "rclone")
CELL = 8 << 20
PIECES = 12
# Pieces side by side: what would be taken for a program that reads on.
READS = """
import hashlib, mmap, os, sys
os.listdir(sys.argv[1])
fd = os.open(sys.argv[1] + "/big.bin", os.O_RDONLY)
%s
sum = hashlib.sha256()
for i in range(int(sys.argv[2])):
    sum.update(os.pread(fd, 65536, int(sys.argv[3]) + i * 65536))
print(sum.hexdigest())
"""
FADVISE = "os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_%s)"
MAPPED = """
map = mmap.mmap(fd, 65536, mmap.MAP_SHARED, mmap.PROT_READ)
map.madvise(mmap.MADV_%s)
map.madvise(mmap.MADV_WILLNEED)
map.madvise(mmap.MADV_DONTNEED)
anonymous = mmap.mmap(-1, 65536)
anonymous.madvise(mmap.MADV_SEQUENTIAL)
"""


def read_pieces(hint, pieces=PIECES, start=0):
    """The plan's figures after the reads with the bytes in the cache, and how many GETs they took."""
    with scene(fixtures.large()) as s:
        code = READS % hint
        want = proc.run([paths.PYTHON, "-c", code, s.local, str(pieces), str(start)], 60)
        proc.expect(want.returncode == 0, "the local run", proc.tail(want.stderr))
        proc.expect_equal(s.job.python(code, s.data, str(pieces), str(start)), want.stdout.decode(), "digest")
        headrace.wait_idle(s.job)
        status = s.job.status()
        return dict(status["plan"], bytes=status["cache"]["bytes"]), len(s.front.log().gets)


@test(NEEDS)
def test_advice_random_fetches_what_is_read():
    plan, gets = read_pieces(FADVISE % "RANDOM")
    proc.expect_equal((plan["hints_random"], plan["hints_sequential"]), (1, 0), "hints")
    proc.expect_equal(gets, PIECES, "GETs, one a piece")
    proc.expect_equal(plan["bytes"], PIECES * 65536, "bytes fetched")
    plan, gets = read_pieces((FADVISE % "RANDOM") + "\n" + (FADVISE % "NORMAL"))
    proc.expect_equal((plan["hints_random"], plan["hints_normal"]), (1, 1), "hints")
    proc.expect(gets < PIECES and plan["fetched_window"] > 0, "it reads on again", gets, plan)


@test(NEEDS)
def test_advice_sequential_opens_the_window():
    """One read in the second cell of six: it alone fetches a piece; said to read on, the four behind come as well."""
    middle = "print(hashlib.sha256(os.pread(fd, 4096, %d)).hexdigest())" % (CELL + 5)
    plan, gets = read_pieces(middle, 0)
    proc.expect_equal((gets, plan["fetched_window"]), (1, 0), "a jump: GETs, cells of the window")
    plan, gets = read_pieces((FADVISE % "SEQUENTIAL") + "\n" + middle, 0)
    proc.expect_equal(plan["hints_sequential"], 1, "hints")
    proc.expect_equal((gets, plan["fetched_window"]), (5, 4), "said to read on: GETs, cells of the window")


@test(NEEDS)
def test_advice_on_a_mapping():
    """Python's mmap of 64 KiB asks for those bytes alone; RANDOM on it keeps the reads beside it exact."""
    plan, gets = read_pieces(MAPPED % "RANDOM", start=3 * CELL)
    proc.expect_equal((plan["hints_random"], plan["hints_sequential"]), (1, 0), "hints: of the object's mapping alone")
    proc.expect_equal(plan["hints_dontneed"], 0, "DONTNEED is the kernel's")
    proc.expect_equal((gets, plan["fetched_window"]), (2 + PIECES, 1),
                      "the mapping's cell and the one behind, of before; then one GET a piece")
    plan, gets = read_pieces("", start=3 * CELL)
    proc.expect(gets < PIECES, "GETs when nothing is said", gets)


@test(NEEDS)
def test_advice_dontneed_is_told_of_what_is_not_mapped():
    """Which then goes first (tests/unit/plan/test_hints.c)."""
    code = """
import mmap, os, sys
os.listdir(sys.argv[1])
fd = os.open(sys.argv[1] + "/big.bin", os.O_RDONLY)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
cell = 8 << 20
for at in (0, 1, 2):
    os.pread(fd, cell, at * cell)
map = mmap.mmap(fd, 4096, mmap.MAP_SHARED, mmap.PROT_READ)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
map.close()
os.posix_fadvise(fd, cell - 4096, 3 * cell, os.POSIX_FADV_DONTNEED)
os.pread(fd, 4096, 2 * cell)
"""
    with scene(fixtures.large()) as s:
        s.job.python(code, s.data)
        headrace.wait_idle(s.job)
        plan = s.job.status()["plan"]
        proc.expect_equal((plan["hints_dontneed"], plan["hints_unneeded"]), (1, 2), "DONTNEED, and cells of it")
        proc.expect_equal(len(s.front.log().gets), 3, "GETs")
