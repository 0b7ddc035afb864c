#!/usr/bin/python3
"""Readers of large objects, for large.py; each prints one JSON line.
  read FILE                      read() of 1 MiB to the end, one thread
  random FILE COUNT SEED         pread() of 256 KiB at random whole pages, one thread; every latency
  tars FILE...                   WebDataset (tarfile where it is not there) in a DataLoader of 4 workers, undecoded"""
import json
import os
import random
import resource
import sys
import time
import zlib

PIECE = 1 << 20
RANDOM_BYTES = 256 << 10
PAGE = 4096
WORKERS = 4


def cpu_s():
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in spent)


def read(path):
    digest, size = 0, 0
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(PIECE):
            digest, size = zlib.crc32(piece, digest), size + len(piece)
    return {"bytes": size, "digest": "%08x" % digest}


def jump(path, count, seed):
    rng, digest, times = random.Random(seed), 0, []
    with open(path, "rb", buffering=0) as file:
        pages = (os.fstat(file.fileno()).st_size - RANDOM_BYTES) // PAGE
        for _ in range(count):
            at = rng.randrange(pages) * PAGE
            began = time.monotonic()
            piece = os.pread(file.fileno(), RANDOM_BYTES, at)
            times.append(time.monotonic() - began)
            digest = zlib.crc32(piece, digest)
    return {"bytes": count * RANDOM_BYTES, "digest": "%08x" % digest, "times": times}


def members(paths):
    """Every member of the tars: (name, bytes)."""
    import tarfile
    for path in paths:
        with open(path, "rb", buffering=0) as file, tarfile.open(fileobj=file, mode="r|", bufsize=PIECE) as tar:
            for member in tar:
                yield tar.extractfile(member).read()


def tars(paths):
    import torch.utils.data
    try:
        import webdataset
        data = webdataset.WebDataset(paths, shardshuffle=False).to_tuple("jpg").map_tuple(len_and_crc)
        how = "webdataset"
    except ImportError:
        data, how = Members(paths), "tarfile"
    digest, files, size = 0, 0, 0
    for (one, crc) in map(first, torch.utils.data.DataLoader(data, batch_size=None, num_workers=WORKERS)):
        digest, files, size = digest + crc, files + 1, size + one
    return {"bytes": size, "files": files, "digest": "%016x" % (digest % (1 << 64)), "how": how}


def len_and_crc(data):
    return len(data), zlib.crc32(data)


def first(sample):
    return sample[0]


def Members(paths):
    import torch.utils.data

    class Tars(torch.utils.data.IterableDataset):
        def __iter__(self):
            worker = torch.utils.data.get_worker_info()
            for data in members(paths[worker.id::worker.num_workers]):
                yield (len_and_crc(data),)
    return Tars()


def main():
    verb, args = sys.argv[1], sys.argv[2:]
    if verb == "tars":
        import torch.utils.data  # noqa: F401 (before the clock starts)
    began, spent = time.monotonic(), cpu_s()
    if verb == "read":
        said = read(args[0])
    elif verb == "random":
        said = jump(args[0], int(args[1]), int(args[2]))
    else:
        said = tars(args)
    said.update(seconds=round(time.monotonic() - began, 4), cpu_s=round(cpu_s() - spent, 3))
    print(json.dumps(said))


if __name__ == "__main__":
    main()
