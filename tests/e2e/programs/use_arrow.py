"""Arrow and Parquet: read, mapped, in row groups and columns, as data sets; pandas on top of it."""
import os

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet as pq
from said import main, said


def make(folder):
    rng = np.random.default_rng(1)
    table = pa.table({"a": rng.integers(0, 1 << 40, 60000), "b": rng.standard_normal(60000),
                      "c": ["word %d" % (number % 977) for number in range(60000)]})
    pq.write_table(table, os.path.join(folder, "a.parquet"), row_group_size=7000)
    pq.write_table(table, os.path.join(folder, "plain.parquet"), compression="none", use_dictionary=False)
    pa.feather.write_feather(table, os.path.join(folder, "a.feather"), compression="uncompressed")
    for name, new in (("file.arrow", pa.ipc.new_file), ("stream.arrow", pa.ipc.new_stream)):
        with new(os.path.join(folder, name), table.schema) as out:
            out.write_table(table, 5000)
    pa.csv.write_csv(table[:20000], os.path.join(folder, "a.csv"))
    for number in range(3):
        os.makedirs(os.path.join(folder, "set", "p=%d" % number))
        pq.write_table(table[number * 7000:][:7000], os.path.join(folder, "set", "p=%d" % number, "part.parquet"))


def say(label, table):
    said(label, table.num_rows, *[column.combine_chunks().to_pandas().to_csv().encode() for column in table.columns])


def use(folder):
    def at(name):
        return os.path.join(folder, name)
    pa.set_cpu_count(2)
    for name in ("a.parquet", "plain.parquet"):
        for mapped in (False, True):
            say("%s memory_map=%s" % (name, mapped), pq.read_table(at(name), memory_map=mapped))
        file = pq.ParquetFile(at(name), memory_map=True)
        said("metadata", file.metadata.num_row_groups, file.schema_arrow.to_string())
        say("last group", file.read_row_group(file.num_row_groups - 1, columns=["c"]))
        say("batches", pa.Table.from_batches(pq.ParquetFile(at(name), pre_buffer=True).iter_batches(3000)))
    say("filtered", pq.read_table(at("a.parquet"), filters=[("b", ">", 2)]))
    for mapped in (False, True):
        say("feather", pa.feather.read_table(at("a.feather"), memory_map=mapped))
    for opener in (pa.memory_map, pa.OSFile):
        with opener(at("file.arrow")) as source:
            say("file", pa.ipc.open_file(source).read_all())
        with opener(at("stream.arrow")) as source:
            say("stream", pa.ipc.open_stream(source).read_all())
        with opener(at("a.csv")) as source:
            source.seek(100000)
            said("seek", source.read(5000), source.tell(), source.size())
    say("csv", pa.csv.read_csv(at("a.csv")))
    say("set", pa.dataset.dataset(at("set"), partitioning="hive").to_table().sort_by("a"))
    say("pandas", pa.Table.from_pandas(pandas.read_parquet(at("a.parquet"))))


main(make, use)
