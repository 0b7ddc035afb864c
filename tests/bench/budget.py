"""Caches smaller than the data: bytes fetched beyond what the program read (10 %), GETs of later shuffled epochs (25 %; also on
one node of several that share a DistributedSampler's epochs), and the daemon's memory over many epochs."""
import os

import cloud as emulated
import lab
from harness import fixtures

FILES = 6400            # 700 MB: a tenth of it is the smallest cache there is, 64 MiB
DELAY_MS = 30
# Nodes, and the aims of epochs 2, 3 and later: what the best replacement fetches (0.50; 0.77, 0.54 and up to 0.56, since of four
# a node reads a quarter in its first epoch), and a tenth. A set that is kept fetches 0.75.
NODES = {2: (0.55, 0.55, 0.55), 4: (0.85, 0.60, 0.62)}


def cut(log, ends):
    """The GETs of each epoch, by when they began."""
    counts, begin = [], 0.0
    for end in ends:
        counts.append(sum(1 for one in log.gets if begin <= one.start < end))
        begin = end
    return counts


def tight(book, cloud, locals_, size, percent, options, *args):
    """locals_: the epochs from the disk, of which a shuffled one is like another."""
    cache = size * percent // 100
    with lab.job(cloud, fixtures.PREFIX, cache_size=cache) as job, lab.Watch() as watch:
        mark = cloud.mark()
        runs = lab.mapped_epochs(job, "--raw", "--epochs", options.epochs, *args)
        log = cloud.log(mark)
        status = job.status()
        last = job.rss_anon_bytes()
    for at, one in enumerate(runs):
        lab.expect_digest(one, locals_[at % len(locals_)], "cache of %d %%" % percent)
    gets, objects = cut(log, [one["ended"] for one in runs]), locals_[0]["files"]
    first = sum(one.bytes for one in log.gets if one.start < runs[0]["ended"])
    seconds = [one["seconds"] for one in runs]
    book.row("headrace, cache %d %% of the data%s" % (percent, ", rank 0 of %s" % args[-1] if args else ""),
             files_per_s=round(objects / lab.median(seconds)), seconds=seconds, gets=gets, hedges=status["hedges"],
             wasted_mb=round(status["bytes.wasted"] / 1e6, 1), hit_rate=status["cache.hit_rate"],
             rss_anon_mib=round(last / (1 << 20), 1))
    return {"gets": gets, "objects": objects, "first_bytes": first, "watch": watch}


def shared(book, cloud, size, options):
    """One node of several, each of which has a cache of its own."""
    for replicas in NODES:
        args = ("--sampler", "distributed", "--replicas", str(replicas))
        locals_ = lab.local_epochs(fixtures.tree(cloud.buckets), "--raw", "--epochs", options.epochs, *args)
        node = tight(book, cloud, locals_, size, 25, options, *args)
        for number in range(1, options.epochs):
            book.at_most("cache 25 %%, DistributedSampler, one node of %d: GETs of epoch %d / objects" % (replicas, number + 1),
                         NODES[replicas][min(number, 3) - 1], node["gets"][number] / node["objects"])
        book.memory(node["watch"])


def main(options):
    book = lab.Book("budget", "%d JPEGs of 110 KB, %d ms, 4 workers, batch 64, undecoded, %d shuffled epochs" % (
        FILES, DELAY_MS, options.epochs))
    with emulated.Cloud(lab.pictures(FILES), DELAY_MS) as cloud:
        lab.local_epochs(fixtures.tree(cloud.buckets), "--raw")  # page cache
        local = lab.local_epochs(fixtures.tree(cloud.buckets), "--raw")[0]
        book.row("local disk", files_per_s=round(FILES / local["seconds"]), seconds=[local["seconds"]])
        size = sum(os.path.getsize(os.path.join(cloud.buckets, fixtures.BUCKET, key)) for key in fixtures.keys(cloud.buckets))
        tenth = tight(book, cloud, [local], size, 10, options)
        book.at_most("cache 10 %: bytes sent in the first epoch beyond what it read", 0.02, tenth["first_bytes"] / size - 1)
        quarter = tight(book, cloud, [local], size, 25, options)
        for number in range(1, options.epochs):
            book.at_most("cache 25 %%: GETs of epoch %d / objects" % (number + 1), 0.77, quarter["gets"][number] / FILES)
        book.memory(tenth["watch"])
        book.memory(quarter["watch"])
        shared(book, cloud, size, options)
    book.save()
