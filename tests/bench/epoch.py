#!/usr/bin/python3
"""The training loop of every bench: ImageFolder or a peer's dataset, torch's DataLoader, one JSON line an epoch. The
digest does not depend on the order and covers every label and byte. Runs under any Python that has torch."""
import argparse
import io
import json
import os
import resource
import sys
import time
import zlib

import torch
from PIL import Image
from torch.utils.data import DataLoader, DistributedSampler
from torchvision.datasets import ImageFolder
from torchvision.transforms.functional import pil_to_tensor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def as_lists(batch):
    """Undecoded files differ in length: no stacking."""
    return [item for item, _ in batch], torch.tensor([label for _, label in batch])


def item_digest(label, data):
    return zlib.crc32(data, label) << 32 | zlib.adler32(data)


def cpu_s():
    """Of this process and of every worker that has ended."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in spent)


def decode(data):
    return pil_to_tensor(Image.open(io.BytesIO(data)).convert("RGB"))


def dataset(args):
    if args.source == "folder":
        if args.raw:
            return ImageFolder(args.place, loader=read_bytes)
        return ImageFolder(args.place, transform=pil_to_tensor)
    import remote
    return remote.make(args.source, args.place, args.scratch, None if args.raw else decode, args.batch)


def loader_of(data, args):
    sampler, shuffle = None, True
    if args.sampler == "distributed":
        sampler, shuffle = DistributedSampler(data, args.replicas, rank=0, seed=args.seed), None
    if args.source in ("mds", "s3iter"):
        shuffle = None  # these shuffle by themselves
    options = {"prefetch_factor": args.prefetch, "multiprocessing_context": args.method} if args.workers else {}
    return DataLoader(data, batch_size=args.batch, shuffle=shuffle, sampler=sampler, num_workers=args.workers,
                      collate_fn=as_lists if args.raw else None, **options)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("place", help="a folder, or s3://bucket/prefix")
    parser.add_argument("--source", default="folder")
    parser.add_argument("--scratch", default="", help="an empty folder, for peers that keep copies")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--method", choices=("fork", "spawn", "forkserver"), default="fork")
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--batches", type=int, default=0, help="stop after so many")
    parser.add_argument("--sampler", choices=("random", "distributed"), default="random")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--raw", action="store_true", help="read the files, do not decode them")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)

    began, spent = time.monotonic(), cpu_s()
    data = dataset(args)
    built_s = time.monotonic() - began
    loader = loader_of(data, args)
    for epoch in range(args.epochs):
        if epoch:
            began, spent = time.monotonic(), cpu_s()
        if args.sampler == "distributed":
            loader.sampler.set_epoch(epoch)
        first_s, files, digest, batches = 0.0, 0, 0, 0
        batch = iter(loader)
        for items, labels in batch:
            if not files:
                first_s = time.monotonic() - began
            for item, label in zip(items, labels.tolist()):
                digest += item_digest(label, item if args.raw else item.numpy().tobytes())
                files += 1
            batches += 1
            if batches == args.batches:
                break
        seconds = time.monotonic() - began
        del batch  # its workers have ended: their time is counted
        print(json.dumps({"epoch": epoch, "files": files, "seconds": round(seconds, 4), "built_s": round(built_s, 4),
                          "first_s": round(first_s, 4), "ended": time.time(), "cpu_s": round(cpu_s() - spent, 3),
                          "digest": "%016x" % (digest % (1 << 64))}), flush=True)


if __name__ == "__main__":
    main()
