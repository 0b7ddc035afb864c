"""Known orders: how soon ten indices tell the epoch, seeds a second for each vector width, and a small cold epoch whose order
is known (DistributedSampler, batch 8, 2 workers)."""
import array
import os
import random
import re
import time

import cloud as emulated
import epochs
import lab
from harness import fixtures, paths, proc

ORDERS = os.path.join(paths.BUILD, "bench", "orders")
SEEN, TRIALS, KNOWN_AIM_MS = 10, 20, 50
DELAY_MS = 110


def orders(*args, **options):
    done = proc.run([ORDERS, *map(str, args)], lab.LIMIT_S * 4, **options)
    proc.expect(done.returncode == 0, "orders", proc.tail(done.stderr))
    return done.stdout


def find(n, seed, replicas, *more):
    """Is the right seed found from its first indices, and in how many ms."""
    order = array.array("I", orders("print", n, seed, 0, replicas, 0)).tolist()
    text = "".join("%d %d\n" % pair for pair in enumerate(order[:SEEN])).encode()
    began = time.monotonic()
    said = dict(word.split("=") for word in orders("find", n, *more, input=text).decode().split())
    took_ms = (time.monotonic() - began) * 1e3
    return said["found"] == "1" and int(said["seed"]) == seed, took_ms


def likely(book):
    rng, times, right = random.Random(3), [], 0
    for trial in range(TRIALS):
        seed = rng.randrange(1 << 20)
        found, ms = find(4000, seed, 2 if trial % 2 else 1)
        times.append(ms)
        right += found
    times.sort()
    book.row("seeds below 2^20, %d tries" % TRIALS, right=right, median_ms=round(lab.median(times), 1),
             worst_ms=round(times[-1], 1), note="a program of its own on one core, its start included; "
             "half of them DistributedSampler of 2 ranks")
    book.aim("known order: ms from the 10th index, right of %d" % TRIALS, "<= 50 ms, all", [round(lab.median(times), 1), right],
             lab.median(times) <= KNOWN_AIM_MS and right == TRIALS)


def widths(book):
    for name, rate, all_s in re.findall(r"width=(\S+)\s+seeds_per_s=(\d+) all_s=(\d+)", orders("bench").decode()):
        book.row("seeds a second and core, %s" % name, seeds_per_s=int(rate), all_2_32_core_s=int(all_s))


def full(book, options):
    rng, times, right = random.Random(8), [], 0
    for _ in range(options.seeds):
        found, ms = find(4000, rng.randrange(1 << 20, 1 << 32), 1, "all")
        times.append(ms / 1e3)
        right += found
    if times:
        book.row("order_search=full, %d random seeds" % len(times), right=right, median_s=round(lab.median(times), 1),
                 worst_s=round(max(times), 1), note="one core each")
        book.aim("order_search=full: right seed", "all", "%d of %d" % (right, len(times)), right == len(times))


def epoch(book, options):
    """Two workers of batch 8 have 32 indices announced: not enough for 110 ms. A known order is."""
    args = ("--raw", "--batch", 8, "--workers", 2, "--sampler", "distributed")
    files = options.files_slow or options.files
    with emulated.Cloud(lab.pictures(files), DELAY_MS) as cloud, lab.Watch() as watch:
        bench = epochs.Bench(book, cloud, files, options.runs, 0)
        bench.locals(args)
        bench.best = epochs.ceiling(book, cloud, files)
        known = []
        runs = []
        for _ in range(options.runs):
            with lab.job(cloud, fixtures.PREFIX) as job:
                mark = cloud.mark()
                one = lab.mapped_epochs(job, *args)[0]
                log = cloud.log(mark)
                status = job.status()
                lab.expect_digest(one, bench.local[args][0], "DistributedSampler")
                lab.expect_gets(log, status["hedges"], files, "DistributedSampler")
                known.append(status["plan.known_order"])
                runs.append(one)
        bench.show("headrace cold, DistributedSampler, batch 8, 2 workers", args, runs, gets=len(log.gets), known_order=known,
                   in_flight=log.in_flight())
        off = []
        with lab.job(cloud, fixtures.PREFIX, order_search="off") as job:
            off.append(lab.mapped_epochs(job, *args)[0])
        bench.show("the same, order_search=off", args, off)
        floor_s = bench.floor_s(args, -(-files // 1000))
        book.at_most("DistributedSampler, batch 8, 2 workers, %d ms: cold epoch / floor" % DELAY_MS, 1.35,
                     lab.median([one["seconds"] for one in runs]) / floor_s)
        book.memory(watch)


def main(options):
    book = lab.Book("known", "4,000 indices; the epoch: JPEGs of 110 KB, first byte after %d ms" % DELAY_MS)
    likely(book)
    widths(book)
    epoch(book, options)
    full(book, options)
    book.save()
