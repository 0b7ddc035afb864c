#!/usr/bin/python3
"""Reads every file below a folder with so many threads, in a shuffled or the sorted order; prints seconds and bytes."""
import concurrent.futures
import os
import random
import sys
import time


def read(path):
    with open(path, "rb", buffering=0) as file:
        return len(file.readall())


def main():
    root, threads, order = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    began = time.monotonic()
    names = sorted(os.path.join(here, name) for here, _, files in os.walk(root) for name in files)
    listed = time.monotonic() - began
    if order == "shuffled":
        random.Random(4).shuffle(names)
    began = time.monotonic()
    if threads == 1:
        total = sum(map(read, names))
    else:
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            total = sum(pool.map(read, names))
    print("files=%d bytes=%d seconds=%.3f list_s=%.3f" % (len(names), total, time.monotonic() - began, listed))


if __name__ == "__main__":
    main()
