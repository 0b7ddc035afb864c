"""Starts and stops a DataLoader's workers over and over while files of the map are open and mapped here, and looks at itself:
`python3 churn.py FOLDER CYCLES METHOD`. Prints what is left over: descriptors, maps, children."""
import gc
import mmap
import os
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

BATCH = 4
PIECE = 5000
SETTLE_S = 10  # queues close their pipes on threads of their own, after the loader is gone


class Pieces(Dataset):
    """Item n is a piece of file n, from a descriptor that the parent opened before the workers were, and from one of our own."""

    def __init__(self, folder):
        self.paths = sorted(os.path.join(folder, name) for name in os.listdir(folder))
        self.files = None

    def open_all(self):
        self.files = [open(path, "rb", buffering=0) for path in self.paths]
        self.maps = [mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) for file in self.files]

    def __getstate__(self):  # for spawn
        return {"paths": self.paths, "files": None}

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, number):
        with open(self.paths[number], "rb") as file:
            at = os.fstat(file.fileno()).st_size - PIECE
            file.seek(at)
            want = file.read()
        if self.files:
            file = self.files[number].fileno()
            assert os.pread(file, PIECE, at) == want == self.maps[number][at:], "two ways to read differ"
        return torch.frombuffer(bytearray(want), dtype=torch.uint8)


def descriptors():
    """What is open here, but for the folder that we look into."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink("/proc/self/fd/" + name))
        except FileNotFoundError:
            pass
    return sorted(found)


def mapped():
    with open("/proc/self/maps") as file:
        return sum("/objects/" in line for line in file)


def children():
    with open("/proc/self/task/%d/children" % os.getpid()) as file:
        return file.read().split()


def once(dataset, method, number):
    """Every third leaves its workers in the middle of what they do, every second has two."""
    loader = DataLoader(dataset, batch_size=BATCH, num_workers=1 + number % 2, multiprocessing_context=method, shuffle=True)
    total = 0
    for at, batch in enumerate(loader):
        total += int(batch.sum())
        if number % 3 == 0 and at == 0:
            return None
    return total


def settled(want):
    """What is there once it is what is wanted (None: once it stays), or after a while whatever it is."""
    deadline = time.monotonic() + SETTLE_S
    while True:
        gc.collect()
        have = descriptors(), mapped(), len(children())
        if (want and (have[0], have[2]) == (want[0], want[2])) or time.monotonic() > deadline:
            return have
        time.sleep(0.3)
        if not want and have == (descriptors(), mapped(), len(children())):
            return have


def main():
    folder, cycles, method = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    dataset = Pieces(folder)
    dataset.open_all()
    want = sum(int(dataset[number].sum()) for number in range(len(dataset)))
    once(dataset, method, 1)  # what the first round leaves for good: the resource tracker of spawn, its pipe
    before = settled(None)
    for number in range(cycles):
        total = once(dataset, method, number)
        assert total in (None, want), "round %d: %s" % (number, total)
    after = settled(before)
    print("cycles", cycles, "sum", want)
    print("descriptors", len(before[0]), len(after[0]), sorted(set(after[0]) - set(before[0])))
    print("maps", before[1], after[1])
    print("children", before[2], after[2])
    print("files", *[file.read(8).hex() for file in dataset.files])


if __name__ == "__main__":
    main()
