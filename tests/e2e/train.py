#!/usr/bin/python3
"""Trains (reads, decodes, batches) from a folder of classes: torchvision's ImageFolder and torch's DataLoader, nothing
else. Prints one line an epoch; the digest does not depend on the order and covers every label and every byte."""
import argparse
import hashlib
import time

import torch
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms.functional import pil_to_tensor


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def as_lists(batch):
    """Undecoded files differ in length: no stacking."""
    return [item for item, _ in batch], torch.tensor([label for _, label in batch])


def item_digest(label, data):
    return int.from_bytes(hashlib.sha256(b"%d:" % label + data).digest(), "big")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dir")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--method", choices=("fork", "spawn", "forkserver"), default="fork")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--raw", action="store_true", help="read the files, do not decode them")
    parser.add_argument("--persistent", action="store_true", help="keep the workers between epochs")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)

    if args.raw:
        dataset = ImageFolder(args.dir, loader=read_bytes)
    else:
        dataset = ImageFolder(args.dir, transform=pil_to_tensor)
    loader = DataLoader(
        dataset, batch_size=args.batch, shuffle=True, num_workers=args.workers,
        multiprocessing_context=args.method if args.workers else None,
        persistent_workers=args.persistent and args.workers > 0, collate_fn=as_lists if args.raw else None)

    for epoch in range(args.epochs):
        began = time.monotonic()
        first, files, digest = 0.0, 0, 0
        for items, labels in loader:
            if not files:
                first = time.monotonic() - began
            for item, label in zip(items, labels.tolist()):
                digest += item_digest(label, item if args.raw else item.numpy().tobytes())
                files += 1
        seconds = time.monotonic() - began
        print("epoch=%d files=%d seconds=%.3f files_per_s=%.1f first_batch_s=%.3f digest=%064x" % (
            epoch, files, seconds, files / seconds, first, digest % (1 << 256)), flush=True)


if __name__ == "__main__":
    main()
