"""Tables: CSV by both parsers, mapped and in chunks, packed; JSON lines; pickles."""
import os

import numpy as np
import pandas
from said import main, said


def make(folder):
    rng = np.random.default_rng(1)
    table = pandas.DataFrame({"a": rng.integers(0, 1 << 40, 20000), "b": rng.standard_normal(20000),
                              "c": ["word %d" % (number % 977) for number in range(20000)]})
    for name in ("a.csv", "a.csv.gz", "a.csv.zip"):
        table.to_csv(os.path.join(folder, name), index=False)
    table.to_csv(os.path.join(folder, "a.tsv"), sep="\t")
    table[:5000].to_json(os.path.join(folder, "a.jsonl"), orient="records", lines=True)
    table.to_pickle(os.path.join(folder, "a.pkl"))
    table.to_string(open(os.path.join(folder, "a.fwf"), "w"), index=False)


def say(label, *tables):
    said(label, *[part for table in tables for part in (table.columns.tolist(), table.to_csv().encode())])


def use(folder):
    def at(name):
        return os.path.join(folder, name)
    say("c", pandas.read_csv(at("a.csv")))
    say("python", pandas.read_csv(at("a.csv"), engine="python", nrows=3000))
    say("mapped", pandas.read_csv(at("a.csv"), memory_map=True))
    say("chunks", *pandas.read_csv(at("a.csv"), chunksize=6000))
    say("part", pandas.read_csv(at("a.csv"), skiprows=range(1, 15000), usecols=["a", "c"]))
    for name in ("a.csv.gz", "a.csv.zip"):
        say(name, pandas.read_csv(at(name)))
    say("tabs", pandas.read_table(at("a.tsv"), index_col=0))
    with open(at("a.csv")) as file:
        say("file", pandas.read_csv(file, nrows=100))
    say("lines", pandas.read_json(at("a.jsonl"), lines=True))
    say("pickle", pandas.read_pickle(at("a.pkl")))
    say("widths", pandas.read_fwf(at("a.fwf"), nrows=500))


main(make, use)
