"""The cache keeps its budget, survives restarts and damage, and tells the truth when the disk is full."""
import os
import random
import time

from harness import fixtures, headrace, paths, proc, training
from harness.case import test
from harness.scene import scene
from test_faults import DIGEST, local_digest

NEEDS = ("nginx", "rclone")


def object_files(job):
    """Paths of the cache files."""
    return [os.path.join(here, name) for here, _, names in os.walk(os.path.join(job.cache, "objects")) for name in names
            if len(os.path.basename(here)) == 2]


@test(NEEDS, timeout=120)
def test_cache_budget_is_kept():
    with scene(fixtures.images(2000, 20, 224), cache_size="64M") as s:
        for _ in range(2):
            proc.expect_equal(s.job.python(DIGEST, s.data, timeout=60).split()[-1], local_digest(s.local), "digest")
        used = sum(os.path.getsize(path) for path in object_files(s.job))
        proc.expect(used <= 64 << 20, "%d MiB in a cache of 64" % (used >> 20))
        proc.expect(used >= 32 << 20, "only %d MiB used of 64" % (used >> 20))
        proc.expect(s.job.status()["cache.bytes"] <= 64 << 20, "cache.bytes of status")


@test(NEEDS)
def test_cache_damaged_files_are_not_served():
    """While no daemon runs: files cut, emptied, replaced by directories, strangers added; index and records scribbled on."""
    with scene() as s:
        want = local_digest(s.local)
        s.job.python(DIGEST, s.data)
        headrace.wait_idle(s.job)
        s.job.stop()
        rng = random.Random(11)
        files = object_files(s.job)
        proc.expect(len(files) >= 400, "%d cache files" % len(files))
        for number, path in enumerate(rng.sample(files, 40)):
            os.chmod(path, 0o600)
            if number % 3 == 0:
                os.truncate(path, os.path.getsize(path) // 2)
            elif number % 3 == 1:
                os.truncate(path, 0)
            else:
                os.unlink(path)
                os.mkdir(path)
                continue
            os.chmod(path, 0o400)
        with open(os.path.join(os.path.dirname(files[0]), "stranger"), "w") as out:
            out.write("not ours")
        proc.expect_equal(s.job.python(DIGEST, s.data).split()[-1], want, "digest after damage to objects")
        s.job.stop()
        for here, _, names in os.walk(s.job.cache):
            for name in names:
                path = os.path.join(here, name)
                if "objects" in here or name in ("lock", "daemon.log") or not os.path.isfile(path):
                    continue
                with open(path, "r+b") as file:
                    size = os.path.getsize(path)
                    for _ in range(20):
                        file.seek(rng.randrange(max(1, size)))
                        file.write(rng.randbytes(8))
        proc.expect_equal(s.job.python(DIGEST, s.data).split()[-1], want, "digest after damage to everything else")


@test(NEEDS)
def test_cache_removed_under_a_living_daemon():
    with scene() as s:
        s.job.python(DIGEST, s.data)
        headrace.wait_idle(s.job)
        for path in object_files(s.job):
            os.unlink(path)
        proc.expect_equal(s.job.python(DIGEST, s.data).split()[-1], local_digest(s.local), "digest after rm")


@test(NEEDS)
def test_cache_files_of_another_version_are_refetched():
    """An object replaced in the store between two daemons: new listing, new bytes."""
    with scene(fixtures.copy(fixtures.mixed()), revalidate="start") as s:
        proc.expect(s.job.good(["cat", s.data + "/top.txt"]).startswith(b"hello"), "first")
        s.job.good(["ls", s.data])
        s.job.stop()
        with open(os.path.join(s.local, "top.txt"), "w") as out:
            out.write("replaced, and longer than before\n")
        time.sleep(1.2)  # rclone's directory cache
        proc.expect_equal(s.job.good(["cat", s.data + "/top.txt"]), b"replaced, and longer than before\n", "after a restart")


@test(NEEDS)
def test_cache_keyed_by_source_not_by_path():
    """The same prefix mapped elsewhere costs nothing again."""
    with scene() as s:
        s.job.python(DIGEST, s.data)
        headrace.wait_idle(s.job)
        mark = s.front.mark()
        other = headrace.Job("%s-elsewhere=s3://bkt/train" % s.data, s.front, cache=s.job.cache)
        proc.expect_equal(other.python(DIGEST, s.data + "-elsewhere").split()[-1], local_digest(s.local), "digest")
        proc.expect_equal(len(s.front.log(mark).gets), 0, "GETs of the second map")


FULL = """
import ctypes, errno, sys
print("big", len(open(sys.argv[1] + "/big.bin", "rb").read()))
libc = ctypes.CDLL(None, use_errno=True)
libc.fopen.restype = ctypes.c_void_p
stream = libc.fopen((sys.argv[1] + "/big.bin").encode(), b"r")
print("whole", stream or errno.errorcode[ctypes.get_errno()])
print(len(open(sys.argv[1] + "/eight.bin", "rb").read()))
"""


@test(NEEDS + ("mount", "root"), timeout=90)
def test_cache_disk_full():
    """A tmpfs of 24 MiB and an object of 41: it can be read in pieces, as one file it is ENOSPC, and no partial file is
    left; small objects go on."""
    with scene(fixtures.large()) as s:
        disk = os.path.join(proc.temp_folder(), "disk")
        os.mkdir(disk)
        job = headrace.Job(s.job.maps, s.front, cache=os.path.join(disk, "cache"), idle_exit_s=2)
        command = " ".join("'%s'" % word for word in job.run_argv([paths.PYTHON, "-c", FULL, s.data]))
        # Everything in the mount's own namespace: the daemon too.
        script = ("mount -t tmpfs -o size=24m none %s && %s; status=$?; find %s -size +0 -path '*objects*' -type f "
                  "-exec stat -c '%%a %%s' {} +; %s stop; exit $status" % (disk, command, disk, job.program))
        done = proc.run(["unshare", "-m", "sh", "-c", script], 60, env=job.env())
        lines = done.stdout.decode().splitlines()
        size = os.path.getsize(os.path.join(s.local, "big.bin"))
        proc.expect_equal(lines[:3], ["big %d" % size, "whole ENOSPC", str(8 << 20)],
                          "what the program saw (%s)" % proc.tail(done.stderr))
        pieces = (8 << 20, (8 << 20) + 1, size % (8 << 20))  # cells, the small object, the last cell
        for line in lines[3:]:
            mode, file_bytes = line.split()[:2]
            proc.expect(mode != "400" or int(file_bytes) in pieces, "a partial file is visible: " + line)


READ_TWICE = """import hashlib, os, sys
for lap in range(2):
    for name in sorted(os.listdir(sys.argv[1])):
        with open(os.path.join(sys.argv[1], name), 'rb') as file: print(name, hashlib.md5(file.read()).hexdigest())
"""


@test(NEEDS + ("mount", "root", "strace"), timeout=90)
def test_cache_of_file_systems_that_allocate_nothing_ahead_or_are_nearly_full():
    """fallocate is made to say what NFS says; of a tmpfs another one's file leaves less than the objects need."""
    fixture = fixtures.copy(fixtures.mixed())
    folder = os.path.join(fixtures.tree(fixture), "b")
    for number in range(10):
        with open(os.path.join(folder, "part%d" % number), "wb") as out:
            out.write(random.Random(number).randbytes((1 << 20) + (number << 18)))
    with scene(fixture) as s:
        want = proc.run([paths.PYTHON, "-c", READ_TWICE, folder], 60).stdout.decode()
        log = os.path.join(proc.temp_folder(), "strace")
        none = "strace -f -qq -o %s -e trace=fallocate -e inject=fallocate:error=EOPNOTSUPP" % log
        for size, fill, under in (("64m", "true", none), ("24m", "head -c 12m /dev/zero > %s/other", "")):
            disk = os.path.join(proc.temp_folder(), "disk")
            os.mkdir(disk)
            job = headrace.Job(s.job.maps, s.front, cache=os.path.join(disk, "cache"), idle_exit_s=2, cache_free=0)
            script = "mount -t tmpfs -o size=%s none %s && %s && shift && \"$@\"; status=$?; %s stop; exit $status" % (
                size, disk, fill.replace("%s", disk), job.program)
            argv = ["unshare", "-m", "sh", "-c", script, "sh", "", *under.split(),
                    *job.run_argv([paths.PYTHON, "-c", READ_TWICE, s.data + "/b"])]
            done = proc.run(argv, 60, env=job.env())
            proc.expect_equal((done.returncode, done.stdout.decode()), (0, want), "%s: %s" % (size, proc.tail(done.stderr)))
        with open(log) as file:
            proc.expect(file.read().count("INJECTED") >= 10, "fallocate was not asked")


@test(NEEDS)
def test_index_is_reused_at_the_next_start():
    with scene() as s:
        s.job.good(["find", s.data])
        s.job.stop()
        mark = s.front.mark()
        proc.expect_equal(len(s.job.good(["find", s.data, "-type", "f"]).splitlines()), 400, "names")
        proc.expect_equal(len(s.front.log(mark).lists), 0, "LISTs within the revalidation age")


@test(NEEDS)
def test_revalidate_start_lists_again():
    with scene(fixtures.copy(fixtures.images()), revalidate="start") as s:
        s.job.good(["find", s.data])
        s.job.stop()
        os.unlink(os.path.join(s.local, "n000", "img_00000.jpg"))
        time.sleep(1.2)  # rclone's directory cache
        proc.expect_equal(len(s.job.good(["find", s.data, "-type", "f"]).splitlines()), 399, "names after a restart")


EPOCH = """
import hashlib, os, random, sys
root, workers = sys.argv[1], 4
names = sorted(os.listdir(root))
random.Random(int(sys.argv[2])).shuffle(names)
ends = []
for worker in range(workers):
    end, other = os.pipe()
    if os.fork() == 0:
        with os.fdopen(other, 'w') as out:
            for name in names[worker::workers]:
                with open(os.path.join(root, name), 'rb') as file:
                    out.write('%s %s\\n' % (name, hashlib.sha256(file.read()).hexdigest()))
        os._exit(0)
    os.close(other)
    ends.append(end)
for end in ends:
    with os.fdopen(end) as lines:
        sys.stdout.write(lines.read())
if any([os.wait()[1] for _ in range(workers)]):
    sys.exit(1)
"""
BLOBS = 1024


def write_blobs(half):
    """256 MiB, no two files alike."""
    folder = os.path.join(half, fixtures.BUCKET, fixtures.PREFIX)
    os.makedirs(folder)
    rng = random.Random(5)
    for number in range(BLOBS):
        with open(os.path.join(folder, "blob_%05d" % number), "wb") as out:
            out.write(rng.randbytes(256 << 10))


@test(NEEDS, timeout=240, tries=2)
def test_cache_keeps_a_set_through_epochs():
    """A quarter of the data fits: from the second shuffled epoch on nearly a quarter of the opens need no GET; every
    open gets the whole object; nothing is fetched that is not read."""
    with scene(fixtures.in_order("blobs-%d-v1" % BLOBS, write_blobs), cache_size="64M") as s:
        want = {name: fixtures.file_digest(os.path.join(s.local, name)) for name in os.listdir(s.local)}
        gets = []
        for epoch in range(4):
            mark = s.front.mark()
            lines = [line.split() for line in s.job.python(EPOCH, s.data, str(epoch)).splitlines()]
            gets.append(len(s.front.log(mark).good))
            proc.expect_equal(len(lines), BLOBS, "files of epoch %d" % epoch)
            proc.expect_equal(dict(lines), want, "digests of epoch %d" % epoch)
        cache = s.job.status()["cache"]
        proc.expect(gets[0] <= 1.02 * BLOBS, "GETs of the first epoch", gets)
        proc.expect_well(max(gets[1:]) <= 0.77 * BLOBS, "GETs of later epochs", gets, cache)
        proc.expect_equal(cache["policy"], "keep", "policy")
        proc.expect_well(cache["kept_bytes"] >= 48 << 20, "kept bytes", cache)
        proc.expect_well(cache["hit_rate"] >= 0.16, "hit rate of all epochs", cache)
