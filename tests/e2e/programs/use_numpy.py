"""Arrays: whole, mapped, in pieces, from archives and from text."""
import os

import numpy as np
from said import main, said

LARGE = 9 << 20  # bytes: above small_max as it comes


def make(folder):
    rng = np.random.default_rng(1)
    array = rng.standard_normal((1200, 300))
    np.save(os.path.join(folder, "a.npy"), array)
    np.save(os.path.join(folder, "f.npy"), np.asfortranarray(array[:300]))
    np.save(os.path.join(folder, "large.npy"), rng.integers(0, 256, LARGE, dtype=np.uint8))
    np.save(os.path.join(folder, "objects.npy"), np.array([{"a": 1}, list(range(30000))], dtype=object))
    np.savez(os.path.join(folder, "plain.npz"), x=array[:200], y=array[200:300])
    np.savez_compressed(os.path.join(folder, "packed.npz"), x=array[:200])
    array.tofile(os.path.join(folder, "raw.f64"))
    np.savetxt(os.path.join(folder, "text.csv"), array[:200, :30], delimiter=",")
    np.savetxt(os.path.join(folder, "text.txt.gz"), array[:200, :30])


def use(folder):
    def at(name):
        return os.path.join(folder, name)
    for name in ("a.npy", "f.npy", "large.npy"):
        said("load " + name, np.load(at(name)))
        for mode in ("r", "c"):
            mapped = np.load(at(name), mmap_mode=mode)
            said("mmap_mode %s %s" % (mode, name), np.ascontiguousarray(mapped))
            said("slices", np.ascontiguousarray(mapped[5:-7:97]))
        mapped[3] = 0  # mode c: in private memory
        said("written", np.ascontiguousarray(mapped[:5]))
    said("objects", len(np.load(at("objects.npy"), allow_pickle=True)[1]))
    for name in ("plain.npz", "packed.npz"):
        with np.load(at(name)) as archive:
            said(name, *[archive[key] for key in archive.files])
    said("fromfile", np.fromfile(at("raw.f64")))
    said("fromfile part", np.fromfile(at("raw.f64"), count=1000, offset=800000))
    with open(at("raw.f64"), "rb") as file:
        file.seek(4096)
        said("fromfile file", np.fromfile(file, count=5000), file.tell(), file.read(100))
    said("memmap", np.array(np.memmap(at("raw.f64"), dtype="f8", mode="r", offset=8 * 1234, shape=(50000,))))
    said("loadtxt", np.loadtxt(at("text.csv"), delimiter=","))
    said("genfromtxt", np.genfromtxt(at("text.txt.gz")))


main(make, use)
