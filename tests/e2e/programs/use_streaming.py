"""MosaicML Streaming (MDS): the shards read where they lie (local=), and copied from there first (remote=)."""
import os

from said import main, said, text
from streaming import MDSWriter, StreamingDataset
from streaming.base.util import clean_stale_shared_memory
from torch.utils.data import DataLoader


def make(folder):
    words = text(1, 3000).splitlines()
    for name, options in (("plain", {}), ("packed", {"compression": "gz", "hashes": ["sha1"]})):
        with MDSWriter(out=os.path.join(folder, name), columns={"n": "int", "text": "bytes"}, size_limit=400000, **options) as out:
            for number, word in enumerate(words):
                out.write({"n": number, "text": word * 12})


def rows(dataset):
    return [(row["n"], row["text"]) for row in dataset]


def use(folder):
    def fresh(**where):
        clean_stale_shared_memory()
        return StreamingDataset(shuffle=False, batch_size=8, **where)
    plain, packed = os.path.join(folder, "plain"), os.path.join(folder, "packed")
    local = fresh(local=plain)
    said("local", *rows(local))
    said("random", *[sorted(local[number].items()) for number in (2999, 0, 1500, 7)])
    said("remote", *rows(fresh(remote=plain, local="copy")))
    said("packed remote", *rows(fresh(remote=packed, local="copy2", validate_hash="sha1")))
    said("files", sorted(os.listdir("copy")))
    loader = DataLoader(fresh(local=plain), batch_size=8, num_workers=2, collate_fn=list)
    said("workers", *sorted((row["n"], row["text"]) for batch in loader for row in batch))


main(make, use)
