"""LMDB, which maps its file: read-only with and without its lock file, as a folder and as a file."""
import os
import random

import lmdb
from said import main, said


def make(folder):
    rng = random.Random(1)
    for name, subdir in (("folder", True), ("file.mdb", False)):
        with lmdb.open(os.path.join(folder, name), subdir=subdir, map_size=1 << 26, max_dbs=2) as environment:
            inner = environment.open_db(b"inner")
            with environment.begin(write=True) as change:
                for number in range(1500):
                    change.put(b"%08d" % number, rng.randbytes(rng.randrange(1, 6000)))
                    change.put(b"%d" % number, b"x" * number, db=inner)
    os.unlink(os.path.join(folder, "folder", "lock.mdb"))
    os.unlink(os.path.join(folder, "file.mdb-lock"))


def use(folder):
    for name, subdir in (("folder", True), ("file.mdb", False)):
        for lock, ahead in ((False, True), (False, False), (True, True)):
            label = "%s lock=%s readahead=%s" % (name, lock, ahead)
            with lmdb.open(os.path.join(folder, name), subdir=subdir, readonly=True, lock=lock, readahead=ahead,
                           max_dbs=2) as environment:
                with environment.begin(buffers=True) as look:
                    said(label + " gets", *[look.get(b"%08d" % number) for number in (1499, 0, 700, 701)])
                    said(label + " all", *[part for pair in look.cursor() for part in pair])
                with environment.begin(db=environment.open_db(b"inner", create=False)) as look:
                    said(label + " inner", *[value for _, value in look.cursor()])
                said(label + " stat", environment.stat(), environment.info()["last_txnid"])


main(make, use)
