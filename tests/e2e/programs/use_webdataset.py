"""WebDataset: shards by name, by pattern, in a DataLoader's workers."""
import io
import os
import random
import tarfile

import torch
import webdataset
from said import main, said, text
from torch.utils.data import DataLoader


def make(folder):
    rng = random.Random(1)
    for shard in range(4):
        with tarfile.open(os.path.join(folder, "shard-%06d.tar" % shard), "w") as archive:
            for number in range(40):
                for kind, data in (("txt", text(number, 50)), ("bin", rng.randbytes(rng.randrange(1, 30000)))):
                    info = tarfile.TarInfo("%03d.%s" % (shard * 100 + number, kind))
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))


def key(sample):
    return sample["__key__"], sample["txt"], sample["bin"]


def use(folder):
    names = [os.path.join(folder, "shard-%06d.tar" % shard) for shard in range(4)]
    said("names", *map(key, webdataset.WebDataset(names, shardshuffle=False)))
    pattern = os.path.join(folder, "shard-{000000..000003}.tar")
    said("pattern", *map(key, webdataset.WebDataset(pattern, shardshuffle=False).shuffle(0)))
    said("decoded", *webdataset.WebDataset("file:" + os.path.abspath(names[1]), shardshuffle=False).decode().to_tuple("txt", "__key__"))
    said("piped", *map(key, webdataset.WebDataset("pipe:cat " + names[2], shardshuffle=False)))
    rows = webdataset.WebDataset(names, shardshuffle=False, nodesplitter=webdataset.split_by_node).map(key)
    torch.set_num_threads(1)
    said("workers", *sorted(DataLoader(rows, batch_size=None, num_workers=2)))


main(make, use)
