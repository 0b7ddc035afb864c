"""Large objects: one of some GiB read in order by one thread, random reads of it, and WebDataset over tars; beside them the
raw ceiling with 16 ranges, and mounts and boto3 for the single reader."""
import http.client
import io
import os
import random
import shutil
import tarfile
import time

import cloud as emulated
import ground
import lab
import peers
from harness import fixtures, paths, proc

PROGRAM = os.path.join(lab.HERE, "streams.py")
RANGES = 16
TARS, TAR_BYTES, MEMBER_BYTES = 8, 256 << 20, 110 << 10
BLOCK = 1 << 20
JUMPS, SEED = 150, 11
FIRST_RANGE = "bytes=0-%d" % ((8 << 20) - 1)  # what an open asks for (small_max) whose size no listing told
PEER_BYTES = 256 << 20  # of the object for mounts and boto3, which have one connection of 90 MB/s
BOTO3 = """
import boto3, sys, time
client, left, began = boto3.client("s3"), int(sys.argv[3]), time.monotonic()
body = client.get_object(Bucket=sys.argv[1], Key=sys.argv[2])["Body"]
while left > 0 and (piece := body.read(min(left, 1 << 20))):
    left -= len(piece)
print(time.monotonic() - began)
"""
PART = """
import sys, time
left, began = int(sys.argv[2]), time.monotonic()
with open(sys.argv[1], "rb", buffering=0) as file:
    while left > 0 and (piece := file.read(min(left, 1 << 20))):
        left -= len(piece)
print(time.monotonic() - began)
"""


def write(half, gib):
    root = os.path.join(half, fixtures.BUCKET)
    os.makedirs(os.path.join(root, "tars"))
    os.makedirs(os.path.join(root, "large"))
    rng = random.Random(SEED)
    block = rng.randbytes(BLOCK)
    with open(os.path.join(root, "large", "one.bin"), "wb") as out:
        for number in range((gib << 30) // BLOCK):
            out.write(number.to_bytes(8, "big") + block[8:])
    for number in range(TARS):
        with tarfile.open(os.path.join(root, "tars", "t-%d.tar" % number), "w") as tar:
            for member in range(TAR_BYTES // (MEMBER_BYTES + 512)):
                info = tarfile.TarInfo("%d-%06d.jpg" % (number, member))
                info.size = MEMBER_BYTES
                data = (number << 32 | member).to_bytes(8, "big") + block[8:MEMBER_BYTES]
                tar.addfile(info, io.BytesIO(data))


def ranges(cloud, files, folder=None):
    """Seconds that curl takes for the files in 16 ranges at once; with a folder they are written there."""
    listed = os.path.join(proc.temp_folder(), "list")
    blocks = []
    for key, size in files:
        each = -(-size // (RANGES // len(files)))
        for part, begin in enumerate(range(0, size, each)):
            to = os.path.join(folder, "%s-%d" % (os.path.basename(key), part)) if folder else "/dev/null"
            blocks.append('url = "%s/%s/%s"\nrange = "%d-%d"\noutput = "%s"\n' % (
                cloud.url, fixtures.BUCKET, key, begin, min(begin + each, size) - 1, to))
    with open(listed, "w") as out:
        out.write("next\n".join(blocks))
    began, spent, served = time.monotonic(), lab.children_cpu_s(), cloud.cpu_s()
    done = proc.run([shutil.which("curl"), "--parallel", "--parallel-immediate", "--parallel-max", str(RANGES), "-s", "-K",
                     listed], lab.LIMIT_S)
    proc.expect(done.returncode == 0, "curl", proc.tail(done.stderr))
    return time.monotonic() - began, lab.children_cpu_s() - spent, cloud.cpu_s() - served


def run(verb, *args, job=None, python=paths.PYTHON):
    argv = [python, PROGRAM, verb, *map(str, args)]
    done = proc.run(job.run_argv(argv) if job else argv, lab.LIMIT_S, env=job.env() if job else None)
    proc.expect(done.returncode == 0, "%s: status %d" % (verb, done.returncode), proc.tail(done.stdout, done.stderr))
    return lab.lines(done.stdout)[-1]


def rate(size, seconds):
    return round(size / seconds / 1e6, 1)


class Bench:
    def __init__(self, book, cloud, runs):
        self.book, self.cloud, self.runs = book, cloud, runs
        self.root = os.path.join(cloud.buckets, fixtures.BUCKET)

    def keys(self, prefix):
        folder = os.path.join(self.root, prefix)
        return [("%s/%s" % (prefix, name), os.path.getsize(os.path.join(folder, name))) for name in sorted(os.listdir(folder))]

    def ceiling(self, name, prefix):
        """(seconds, CPU seconds of client and server) of the best run without files; with files as a row of its own."""
        files = self.keys(prefix)
        size = sum(one for _, one in files)
        ranges(self.cloud, files)  # page cache
        runs = [ranges(self.cloud, files) for _ in range(self.runs)]
        best = min(runs)
        self.book.row("raw: curl, %d ranges, %s" % (RANGES, name), seconds=[round(one[0], 3) for one in runs],
                      mb_per_s=rate(size, best[0]), client_cpu_s=round(best[1], 2), server_cpu_s=round(best[2], 2))
        folder = proc.temp_folder("headrace-copy-")
        ground.prepare(size)
        written = ranges(self.cloud, files, folder)
        self.book.row("raw: curl, %d ranges, %s, written to disk" % (RANGES, name), mb_per_s=rate(size, written[0]),
                      seconds=[round(written[0], 3)], client_cpu_s=round(written[1], 2), server_cpu_s=round(written[2], 2))
        ground.put_away(folder)
        return best

    def compare(self, name, prefix, verb, aim, python=paths.PYTHON):
        files = self.keys(prefix)
        size = sum(one for _, one in files)
        best = self.ceiling(name, prefix)
        folder = os.path.join(self.root, prefix)
        local = [run(verb, *[os.path.join(folder, os.path.basename(key)) for key, _ in files], python=python)
                 for _ in range(self.runs)]
        self.book.row("local disk, %s" % name, note=local[0].get("how", ""), cpu_s=local[0]["cpu_s"], mb_per_s=rate(
            size, lab.median([one["seconds"] for one in local])), seconds=[one["seconds"] for one in local])
        seconds, daemon_cpu = [], []
        for _ in range(self.runs):
            with lab.job(self.cloud, prefix) as job:
                data = job.maps[0].partition("=")[0]
                mark = self.cloud.mark()
                one = run(verb, *[os.path.join(data, os.path.basename(key)) for key, _ in files], job=job, python=python)
                log = self.cloud.log(mark)
                proc.expect_equal(one["digest"], local[0]["digest"], "digest of " + name)
                daemon_cpu.append(emulated.cpu_s(job.daemon_pid()))
                seconds.append(one["seconds"])
        spent = sum(r.bytes for r in log.good)
        self.book.row("headrace cold, %s" % name, mb_per_s=rate(size, lab.median(seconds)), seconds=seconds, gets=len(log.gets),
                      daemon_cpu_s=[round(one, 2) for one in daemon_cpu], in_flight=log.in_flight(),
                      extra_bytes=round(spent / size - 1, 4))
        floor_s = max(best[0], (local[0]["cpu_s"] + best[1] + best[2]) / lab.cores())
        self.book.row("floor, %s" % name, mb_per_s=rate(size, floor_s), seconds=round(floor_s, 3),
                      note="the raw run's seconds, or CPU of the local reader, the server and the raw client by the cores")
        self.book.at_least("%s: rate / raw ceiling with %d ranges" % (name, RANGES), aim, best[0] / lab.median(seconds))

    def jumps(self):
        key, size = self.keys("large")[0]
        path = os.path.join(self.root, key)
        local = run("random", path, JUMPS, SEED)
        trips = self.round_trips(key, size)
        with lab.job(self.cloud, "large") as job:
            data = os.path.join(job.maps[0].partition("=")[0], os.path.basename(key))
            mark = self.cloud.mark()
            one = run("random", data, JUMPS, SEED, job=job)
            log = self.cloud.log(mark)
        proc.expect_equal(one["digest"], local["digest"], "digest of random reads")
        each = lab.median(one["times"])
        opening = [r for r in log.good if r.range == FIRST_RANGE][:1]  # ends beside the first reads
        gets = [r for r in log.gets if r not in opening]
        size = sum(r.bytes for r in log.good if r not in opening)
        self.book.row("random 256 KiB, raw: one connection", ms=round(lab.median(trips) * 1e3, 2))
        self.book.row("random 256 KiB, headrace cold", ms=round(each * 1e3, 2), p90_ms=round(
            sorted(one["times"])[JUMPS * 9 // 10] * 1e3, 2), gets=len(log.gets), bytes=size,
            wanted_bytes=one["bytes"], opening_bytes=sum(r.bytes for r in opening))
        self.book.at_most("random 256 KiB reads: time / round trip (medians)", 1.15, each / lab.median(trips))
        self.book.at_most("random 256 KiB reads: requests a read", 1.0, len(gets) / JUMPS)
        self.book.at_most("random 256 KiB reads: bytes fetched / read", 1.0, size / one["bytes"])

    def round_trips(self, key, size):
        """The same ranges over one kept connection."""
        rng, times = random.Random(SEED), []
        connection = http.client.HTTPConnection("127.0.0.1", self.cloud.port)
        for _ in range(JUMPS):
            at = rng.randrange((size - (256 << 10)) // 4096) * 4096
            began = time.monotonic()
            connection.request("GET", "/%s/%s" % (fixtures.BUCKET, key), headers={"Range": "bytes=%d-%d" % (
                at, at + (256 << 10) - 1)})
            connection.getresponse().read()
            times.append(time.monotonic() - began)
        return times

    def peers(self):
        key = self.keys("large")[0][0]

        def measure(name, why, command):
            if not why:
                ground.prepare(PEER_BYTES)
                try:
                    done = proc.run(command, lab.LIMIT_S, env=peers.environment(self.cloud))
                    proc.expect(done.returncode == 0, "status %d" % done.returncode, proc.tail(done.stderr, limit=200))
                    self.book.row(name, mb_per_s=rate(PEER_BYTES, float(done.stdout)), note="first %d MiB" % (PEER_BYTES >> 20))
                    return
                except proc.Failure as failure:
                    why = "failed: %s" % str(failure)[-200:]
            self.book.row(name, note="skipped: " + why)
        measure("boto3, one reader", peers.reason("boto3"), [peers.PYTHON, "-c", BOTO3, fixtures.BUCKET, key, str(PEER_BYTES)])
        for name, argv in (("s3fs mount, one reader", peers.s3fs_argv), ("rclone mount, one reader", peers.rclone_argv)):
            why = peers.fuse_reason() or ("" if paths.find_program(name.split()[0]) else "no " + name.split()[0])
            if why:
                self.book.row(name, note="skipped: " + why)
                continue
            folder = proc.temp_folder("headrace-peer-")
            point = os.path.join(folder, "mount")
            try:
                with peers.mounted(argv(self.cloud, folder, point), point, peers.environment(self.cloud)):
                    measure(name, "", [paths.PYTHON, "-c", PART, os.path.join(point, key), str(PEER_BYTES)])
            except proc.Failure as failure:
                self.book.row(name, note="skipped: %s" % str(failure)[-200:])


def main(options):
    gib = options.gib
    folder = fixtures.in_order("bench-large-%d-v1" % gib, lambda half: write(half, gib))
    python = paths.PYTHON if peers.reason("webdataset") else peers.PYTHON
    for delay_ms in (30, 110):
        if options.delay not in (0, delay_ms):
            continue
        book = lab.Book("large-%d" % delay_ms, "one object of %d GiB, %d tars of 256 MiB, first byte after %d ms, 90 MB/s a "
                        "connection" % (gib, TARS, delay_ms))
        with emulated.Cloud(folder, delay_ms) as cloud, lab.Watch() as watch:
            bench = Bench(book, cloud, options.runs)
            bench.compare("read() of 1 MiB", "large", "read", 0.95)
            bench.compare("WebDataset, %d tars" % TARS, "tars", "tars", 0.90, python)
            bench.jumps()
            if options.few:
                bench.peers()
            book.memory(watch)
        book.save()
