"""HDF5: contiguous, chunked and packed data, whole and in slices, by each of its own drivers and from a file object."""
import os

import h5py
import numpy as np
from said import main, said


def make(folder):
    rng = np.random.default_rng(1)
    with h5py.File(os.path.join(folder, "a.h5"), "w") as file:
        file["flat"] = rng.standard_normal((400, 800))
        file.create_dataset("chunks", data=rng.integers(0, 99, (600, 500)), chunks=(50, 50), compression="gzip")
        file.create_dataset("shuffled", data=rng.integers(0, 9, (300, 300)), shuffle=True, fletcher32=True, compression="lzf")
        for number in range(200):
            file["group/%03d" % number] = np.full(100, number)
        file["flat"].attrs["unit"] = "m"


def say(label, file):
    names = []
    file.visit(names.append)
    said(label + " names", sorted(names), dict(file["flat"].attrs))
    for name in ("flat", "chunks", "shuffled"):
        said("%s %s" % (label, name), file[name][...])
        said("%s %s slice" % (label, name), np.ascontiguousarray(file[name][7:250:13, 40:90]))
    said(label + " group", *[file["group/%03d" % number][...] for number in range(0, 200, 7)])


def use(folder):
    path = os.path.join(folder, "a.h5")
    for driver in (None, "sec2", "stdio", "core"):
        with h5py.File(path, "r", driver=driver) as file:
            say(str(driver), file)
    with open(path, "rb") as raw, h5py.File(raw, "r") as file:
        say("object", file)
    with h5py.File(path, "r") as one, h5py.File(path, "r") as two:
        said("twice", one["flat"][0], two["flat"][1])


main(make, use)
