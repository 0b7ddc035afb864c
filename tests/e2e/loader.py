#!/usr/bin/python3
"""The stand-in for train.py where the distribution has no torch: lists a folder of classes, shuffles, reads with several
processes in batches. Same arguments, same lines (the digest is that of train.py --raw: files are not decoded)."""
import argparse
import hashlib
import multiprocessing
import os
import random
import time


def find_items(root):
    """(path, label) in the order ImageFolder has: classes sorted, then sorted walks."""
    classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    items = []
    for label, name in enumerate(classes):
        for here, _, files in sorted(os.walk(os.path.join(root, name))):
            items += [(os.path.join(here, file), label) for file in sorted(files)]
    return items


def read_batch(batch):
    """Sum of the batch's digests, and how many files it had."""
    total = 0
    for path, label in batch:
        with open(path, "rb") as file:
            total += int.from_bytes(hashlib.sha256(b"%d:" % label + file.read()).digest(), "big")
    return total, len(batch)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dir")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--method", choices=("fork", "spawn", "forkserver"), default="fork")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--raw", action="store_true", help="accepted; files are never decoded here")
    parser.add_argument("--persistent", action="store_true", help="keep the workers between epochs")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    items = find_items(args.dir)
    context = multiprocessing.get_context(args.method)
    pool = None
    for epoch in range(args.epochs):
        began = time.monotonic()
        first, files, digest = 0.0, 0, 0
        order = rng.sample(items, len(items))
        batches = [order[at:at + args.batch] for at in range(0, len(order), args.batch)]
        if args.workers and pool is None:
            pool = context.Pool(args.workers)
        for total, count in (pool.imap(read_batch, batches) if pool else map(read_batch, batches)):
            if not files:
                first = time.monotonic() - began
            digest, files = digest + total, files + count
        if pool and not args.persistent:
            pool.close()
            pool.join()
            pool = None
        seconds = time.monotonic() - began
        print("epoch=%d files=%d seconds=%.3f files_per_s=%.1f first_batch_s=%.3f digest=%064x" % (
            epoch, files, seconds, files / seconds, first, digest % (1 << 256)), flush=True)


if __name__ == "__main__":
    main()
