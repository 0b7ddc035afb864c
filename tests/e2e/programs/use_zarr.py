"""zarr: a folder of chunks, sharded and not, and one packed in a zip."""
import os

import numpy as np
import zarr
from said import main, said


def make(folder):
    data = np.random.default_rng(1).standard_normal((600, 500))
    for version in (2, 3):
        zarr.create_array(os.path.join(folder, "v%d" % version), data=data, chunks=(300, 250), zarr_format=version)
    zarr.create_array(os.path.join(folder, "shards"), data=data, chunks=(50, 50), shards=(300, 500))
    with zarr.storage.ZipStore(os.path.join(folder, "a.zip"), mode="w") as store:
        zarr.create_array(store, data=data, chunks=(100, 100))


def use(folder):
    for name in ("v2", "v3", "shards"):
        array = zarr.open_array(os.path.join(folder, name), mode="r")
        said(name, array[:], array.shape)
        said(name + " slice", np.ascontiguousarray(array[7:300:50, 240:260]))
    with zarr.storage.ZipStore(os.path.join(folder, "a.zip"), mode="r") as store:
        said("zip", zarr.open_array(store, mode="r")[:])


main(make, use)
