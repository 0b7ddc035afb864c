"""Known orders: how soon ten indices tell the epoch, seeds a second for each vector width, and a small cold epoch whose order
is known (DistributedSampler, batch 8, 2 workers)."""
import array
import glob
import hashlib
import json
import os
import random
import re
import time

import cloud as emulated
import epochs
import lab
from harness import fixtures, paths, proc

ORDERS = os.path.join(paths.BUILD, "bench", "orders")
DONE = os.path.join(paths.BUILD, "bench", "known-seeds.json")
SEEN, TRIALS, KNOWN_AIM_MS = 10, 20, 50
SLOWEST = 20  # times as long as all 2^32 take a core that nobody else uses; then a search is given up
DELAY_MS = 110


def orders(*args, limit_s=lab.LIMIT_S, **options):
    done = proc.run([ORDERS, *map(str, args)], limit_s, **options)
    proc.expect(done.returncode == 0, "orders", proc.tail(done.stderr))
    return done.stdout


def find(n, seed, replicas, seen=SEEN, *more, **options):
    """Is the right seed found from its first indices, and in how many ms of the clock and of a core."""
    order = array.array("I", orders("print", n, seed, 0, replicas, 0)).tolist()
    text = "".join("%d %d\n" % pair for pair in enumerate(order[:seen])).encode()
    began = time.monotonic()
    said = dict(word.split("=") for word in orders("find", n, *more, input=text, **options).decode().split())
    took_ms = (time.monotonic() - began) * 1e3
    return said["found"] == "1" and int(said["seed"]) == seed, took_ms, float(said["cpu_ms"])


def likely(book):
    rng, times, right = random.Random(3), [], 0
    for trial in range(TRIALS):
        seed = rng.randrange(1 << 20)
        found, ms, _ = find(4000, seed, 2 if trial % 2 else 1)
        times.append(ms)
        right += found
    times.sort()
    book.row("seeds below 2^20, %d tries" % TRIALS, right=right, median_ms=round(lab.median(times), 1),
             worst_ms=round(times[-1], 1), note="a program of its own on one core, its start included; "
             "half of them DistributedSampler of 2 ranks")
    book.aim("known order: ms from the 10th index, right of %d" % TRIALS, "<= 50 ms, all", [round(lab.median(times), 1), right],
             lab.median(times) <= KNOWN_AIM_MS and right == TRIALS)


def few(book):
    """How many indices it takes, by what is searched: as many as the first of the two below 2^20 needs."""
    rng, right = random.Random(4), {}
    for n in (1000, 4000, 100000, 1281167):
        for seen in range(2, 6):
            seeds = [rng.randrange(1 << 12, 1 << 20) for _ in range(5)]
            right[n, seen] = sum(find(n, seed, 1, seen)[0] for seed in seeds)
    for n in sorted({n for n, _ in right}):
        needed = min((seen for size, seen in right if size == n and right[n, seen] == 5), default=None)
        book.row("indices until a seed below 2^20 is known, %d objects" % n, indices=needed)


def widths(book):
    """Seeds a second and core; of the widest unit."""
    best = 0
    for name, rate, all_s in re.findall(r"width=(\S+)\s+seeds_per_s=(\d+) all_s=(\d+)", orders("bench").decode()):
        book.row("seeds a second and core, %s" % name, seeds_per_s=int(rate), all_2_32_core_s=int(all_s))
        best = max(best, int(rate))
    return best


def sources():
    """What a saved result is good for."""
    digest = hashlib.sha256()
    for path in sorted(glob.glob(os.path.join(paths.ROOT, "fetch", "plan", "order_*"))):
        with open(path, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def saved(now):
    try:
        with open(DONE) as file:
            done = json.load(file)
    except (OSError, ValueError):
        done = {}
    return done if done.get("sources") == now else {"sources": now, "seeds": {}}


def save(done):
    with open(DONE + ".part", "w") as file:
        json.dump(done, file, indent=1)
    os.replace(DONE + ".part", DONE)


def full(book, options, seeds_per_s):
    """Random seeds one after the other, one core each. What was found stays in DONE, so a run that was cut off goes on."""
    rng, done = random.Random(8), saved(sources())
    limit_s = SLOWEST * 2 ** 32 / seeds_per_s
    names = [str(rng.randrange(1 << 20, 1 << 32)) for _ in range(options.seeds)]
    for number, name in enumerate(names, 1):
        resumed = name in done["seeds"]
        if not resumed:
            found, ms, cpu_ms = find(4000, int(name), 1, SEEN, "all", limit_s=limit_s)
            done["seeds"][name] = {"right": found, "s": round(ms / 1e3, 1), "cpu_s": round(cpu_ms / 1e3, 1)}
            save(done)
        one = done["seeds"][name]
        book.say("seed %d of %d, %s: %s, %.1f s, %.1f CPU s%s" % (
            number, len(names), name, "right" if one["right"] else "WRONG", one["s"], one["cpu_s"],
            " (of an earlier run)" if resumed else ""))
    if names:
        ran = [done["seeds"][name] for name in names]
        right, cpu_s = sum(one["right"] for one in ran), [one["cpu_s"] for one in ran]
        book.row("order_search=full, %d random seeds" % len(ran), right=right, median_cpu_s=round(lab.median(cpu_s), 1),
                 worst_cpu_s=max(cpu_s), note="one core each")
        book.aim("order_search=full: right seed", "all", "%d of %d" % (right, len(ran)), right == len(ran))


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
    few(book)
    seeds_per_s = widths(book)
    epoch(book, options)
    full(book, options, seeds_per_s)
    book.save()
