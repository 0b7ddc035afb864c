"""polars, whose readers are Rust's and map files: CSV, Parquet, IPC, NDJSON, eager and lazy."""
import os

import polars as pl
from said import main, said, text


def make(folder):
    words = [line.split() for line in text(1, 30000).decode().splitlines()]
    frame = pl.DataFrame({"a": [int(word[0]) for word in words], "b": [int(word[-1]) for word in words],
                          "c": [" ".join(word[1:-1]) for word in words]})
    frame.write_csv(os.path.join(folder, "a.csv"))
    frame.write_parquet(os.path.join(folder, "a.parquet"), row_group_size=5000)
    frame.write_ipc(os.path.join(folder, "a.arrow"))
    frame[:9000].write_ndjson(os.path.join(folder, "a.jsonl"))


def say(label, frame):
    said(label, frame.write_csv().encode())


def use(folder):
    def at(name):
        return os.path.join(folder, name)
    for name, read, scan in (("a.csv", pl.read_csv, pl.scan_csv), ("a.parquet", pl.read_parquet, pl.scan_parquet),
                             ("a.arrow", pl.read_ipc, pl.scan_ipc), ("a.jsonl", pl.read_ndjson, pl.scan_ndjson)):
        say("read " + name, read(at(name)))
        lazy = scan(at(name))
        say("scan " + name, lazy.filter(pl.col("b") % 7 == 0).select("a", "c").sort("a").collect())
        say("tail " + name, lazy.tail(50).collect())
    with open(at("a.arrow"), "rb") as file:
        say("arrow file", pl.read_ipc(file))
    with open(at("a.parquet"), "rb") as file:
        say("file", pl.read_parquet(file, columns=["b"]))
    say("batch", pl.read_csv(at("a.csv"), n_rows=100, skip_rows_after_header=20000))


main(make, use)
