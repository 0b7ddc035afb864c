"""The index file on disk: one that is damaged between two lives of the daemon is never believed for long, and crashes
nobody meanwhile."""
import os

from harness import headrace, proc
from harness.case import test
from harness.faults import DictStore

NAMES = """
import os, sys
for here, dirs, names in os.walk(sys.argv[1]):
    for name in names:
        print(os.path.relpath(os.path.join(here, name), sys.argv[1]))
"""
OBJECTS = {"d%02d/%04d.jpg" % (i % 20, i): b"x" * (i % 7) for i in range(600)}


def names_file(job):
    folder = os.path.join(job.cache, "index")
    found = [name for name in os.listdir(folder) if name.endswith(".names")]
    proc.expect_equal(len(found), 1, "names files")
    return os.path.join(folder, found[0])


def flip(path, at):
    """One bit of one byte, as a disk does it: owner, mode and size stay."""
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 0x10]))
    os.chmod(path, 0o400)


def log_of(job):
    with open(os.path.join(job.cache, "daemon.log"), encoding="utf-8", errors="replace") as file:
        return file.read()


def listings(store):
    return sum(1 for method, _, query in store.requests if method == "GET" and "list-type" in query)


def names(job, data):
    return sorted(job.python(NAMES, data).split())


def start(store):
    data = os.path.join(proc.temp_folder("hr-"), "data")
    job = headrace.Job("%s=s3://bkt/" % data, store.url, access="a", secret="b", list="all", revalidate="forever")
    job.good(["/usr/bin/stat", data])
    proc.wait_until(lambda: job.status()["index.objects"] == len(OBJECTS), 20, "the first listing")
    job.stop()
    return job, data


@test()
def test_index_flipped_byte_is_noticed_and_listed_again():
    with DictStore(OBJECTS) as store:
        job, data = start(store)
        with job:
            size = os.stat(names_file(job)).st_size
            for number, at in enumerate([size - 5, size // 2, size * 9 // 10, 192 + 40 + 8, size // 3]):
                path, before = names_file(job), listings(store)
                flip(path, at)
                done = job.run(["/usr/bin/find", data, "-type", "f", "-size", "+0"])
                proc.expect(done.returncode >= 0, "find died of signal %d, byte %d" % (-done.returncode, at))
                proc.wait_until(lambda: log_of(job).count("index damaged on disk") == number + 1, 10, "byte %d noticed" % at)
                proc.wait_until(lambda: job.status()["index.objects"] == len(OBJECTS), 10, "listed again, byte %d" % at)
                proc.expect(listings(store) > before, "a listing after byte %d" % at)
                proc.expect(names_file(job) != path, "another generation after byte %d" % at)
                proc.expect_equal(names(job, data), sorted(OBJECTS), "names after byte %d" % at)
                job.stop()


@test()
def test_index_damaged_header_is_never_believed():
    with DictStore(OBJECTS) as store:
        job, data = start(store)
        with job:
            for at in (0, 20, 100, 191):
                before = listings(store)
                flip(names_file(job), at)
                proc.expect_equal(names(job, data), sorted(OBJECTS), "names after byte %d" % at)
                proc.expect(listings(store) > before, "a listing after byte %d" % at)
                job.stop()
            proc.expect("index damaged on disk" not in log_of(job), "no index with a bad header was adopted")


@test()
def test_index_that_is_whole_is_listed_once():
    with DictStore(OBJECTS) as store:
        job, data = start(store)
        with job:
            before = listings(store)
            for _ in range(3):
                proc.expect_equal(names(job, data), sorted(OBJECTS), "names of an adopted index")
                job.kill_daemon()
            proc.expect_equal(listings(store), before, "listings")
            proc.expect_equal(names(job, data), sorted(OBJECTS), "names")
            folder = os.path.join(job.cache, "index")
            # What earlier lives left goes once the check has ended.
            proc.wait_until(lambda: len([name for name in os.listdir(folder) if name.endswith(".states")]) == 1, 10,
                            "states of one life")
