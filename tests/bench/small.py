"""Very many very small objects without latency (what a file costs headrace in processor time), and the time to the first
batch of a map of 100,000 objects, whose index is there already or not."""
import os
import time

import cloud as emulated
import epochs
import lab
from harness import fixtures, proc

CLASSES = 100       # folders of each half
OBJECT_BYTES = 1000
HALF = "a"          # of the first-batch bench: half of the objects
FIRST_AIM_S = 1.5
LISTED_MS = 50      # latency of the first batch without an index


def write(half, files):
    for number in range(files):
        folder = os.path.join(half, fixtures.BUCKET, fixtures.PREFIX, "ab"[number % 2], "n%03d" % (number // 2 % CLASSES))
        if number // 2 < CLASSES:
            os.makedirs(folder)
        with open(os.path.join(folder, "img_%07d.jpg" % number), "wb") as out:
            out.write((b"%07d " % number) * (OBJECT_BYTES // 8))


def folder_of(files):
    return fixtures.in_order("bench-small-%d-v1" % files, lambda half: write(half, files))


def throughput(options):
    """1 KB objects, 4 workers, no latency, no pace, no 503."""
    book = lab.Book("small", "%d objects of 1 KB, no added latency, 4 workers, batch 256, undecoded" % options.small)
    args = ("--raw", "--batch", 256)
    with emulated.Cloud(folder_of(options.small), 0, rate=0, most=0) as cloud, lab.Watch() as watch:
        tree = fixtures.tree(cloud.buckets)
        best = epochs.ceiling(book, cloud, options.small, own_requests=20000)
        local = lab.local_epochs(tree, *args)[0]
        book.row("local disk", files_per_s=round(local["files"] / local["seconds"]), seconds=[local["seconds"]],
                 built_s=[local["built_s"]], cpu_s=local["cpu_s"])
        with lab.job(cloud, fixtures.PREFIX) as job:
            mark = cloud.mark()
            one = lab.mapped_epochs(job, *args)[0]
            log = cloud.log(mark)
            lab.expect_digest(one, local, "1 KB objects")
            lab.expect_gets(log, job.status()["hedges"], options.small, "1 KB objects")
            book.row("headrace cold", files_per_s=round(one["files"] / one["seconds"]), seconds=[one["seconds"]],
                     built_s=[one["built_s"]], gets=len(log.gets), lists=len(log.lists),
                     daemon_cpu_s=round(emulated.cpu_s(job.daemon_pid()), 2))
            warm = lab.mapped_epochs(job, *args)[0]
            book.row("headrace warm", files_per_s=round(warm["files"] / warm["seconds"]), seconds=[warm["seconds"]],
                     built_s=[warm["built_s"]])
        floor_s = (local["cpu_s"] + options.small * (best["server_s"] + best["client_s"])) / lab.cores()
        book.row("floor", files_per_s=round(options.small / floor_s), seconds=[round(floor_s, 3)],
                 note="CPU: local %.1f s, server %.1f s, raw client %.1f s" % (
                     local["cpu_s"], options.small * best["server_s"], options.small * best["client_s"]))
        rate, ratio = one["files"] / one["seconds"], one["seconds"] / floor_s
        book.aim("1 KB objects: files/s, and time / floor", ">= 10,000, or <= 1.1", [round(rate), round(ratio, 3)],
                 rate >= 10000 or ratio <= 1.1)
        book.memory(watch)
    book.save()


class First:
    """The time to the first batch of half of the objects, at one latency."""
    args = ("--raw", "--batches", 1)

    def __init__(self, options, delay_ms):
        self.objects, self.runs = options.first, options.runs
        self.book = lab.Book("small-%d" % delay_ms, "%d objects of 1 KB, first byte after %d ms, batch 64, 4 workers, until the "
                             "first batch" % (self.objects, delay_ms))
        self.cloud = emulated.Cloud(folder_of(2 * self.objects), delay_ms)

    def job(self):
        return lab.job(self.cloud, "%s/%s" % (fixtures.PREFIX, HALF))

    def bound(self, what, trips, seconds):
        self.book.at_most("first batch of %d objects, %s, seconds (%g s + %d round trips)" % (
            self.objects, what, FIRST_AIM_S, trips), round(FIRST_AIM_S + trips * self.cloud.delay_s, 3), lab.median(seconds))

    def local(self):
        tree = os.path.join(fixtures.tree(self.cloud.buckets), HALF)
        self.book.row("local disk", first_s=[lab.local_epochs(tree, *self.args)[0]["first_s"] for _ in range(self.runs)])

    def index_there(self):
        with self.cloud, self.job() as job:
            self.local()
            began = time.monotonic()
            count = job.command("ls", "-R", job.maps[0].partition("=")[0], timeout=lab.LIMIT_S)
            proc.expect(count.returncode == 0, "ls", proc.tail(count.stderr))
            self.book.row("headrace ls -R, no index", seconds=[round(time.monotonic() - began, 3)])
            seconds = []
            for _ in range(self.runs):
                job.stop()
                mark = self.cloud.mark()
                seconds.append(lab.mapped_epochs(job, *self.args)[0]["first_s"])
                lists = len(self.cloud.log(mark).lists)
            self.book.row("headrace, index there, daemon started by the job", first_s=seconds, lists=lists)
        self.bound("index there", 3, seconds)
        self.book.save()

    def no_index(self):
        """A cache of its own for each run: the listing, of 48 lanes by default, is in the time."""
        seconds, built, lists = [], [], []
        with self.cloud:
            self.local()
            for _ in range(self.runs):
                with self.job() as job:
                    mark = self.cloud.mark()
                    one = lab.mapped_epochs(job, *self.args)[0]
                    seconds.append(one["first_s"])
                    built.append(one["built_s"])
                    lists.append(len(self.cloud.log(mark).lists))
        self.book.row("headrace, no index, daemon started by the job", first_s=seconds, built_s=built, lists=lab.median(lists))
        self.bound("no index", 10, seconds)
        self.book.save()


def main(options):
    throughput(options)
    if options.delay == 0:
        First(options, LISTED_MS).no_index()
    for delay_ms in (30, 110):
        if options.delay in (0, delay_ms):
            First(options, delay_ms).index_there()
