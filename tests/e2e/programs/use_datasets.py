"""Hugging Face datasets: a saved set, which is mapped; an arrow file; files of other kinds, copied to its cache first or
streamed."""
import os

os.environ.update(HF_HOME=os.path.abspath("hf"), HF_HUB_OFFLINE="1", HF_DATASETS_DISABLE_PROGRESS_BARS="1")
import datasets  # noqa: E402: reads its environment
from said import main, said, text  # noqa: E402

ROWS = 4000


def make(folder):
    words = text(1, ROWS).decode().splitlines()
    rows = datasets.Dataset.from_dict({"n": list(range(ROWS)), "text": words, "bytes": [word.encode() * 9 for word in words]})
    rows.save_to_disk(os.path.join(folder, "saved"), num_shards=3)
    rows.to_parquet(os.path.join(folder, "a.parquet"))
    rows.select(range(1000)).remove_columns("bytes").to_json(os.path.join(folder, "a.jsonl"))
    rows.remove_columns("bytes").to_csv(os.path.join(folder, "a.csv"))


def say(label, rows):
    said(label, *[sorted(row.items()) for row in rows])


def use(folder):
    def at(name):
        return os.path.join(folder, name)
    datasets.disable_progress_bars()
    saved = datasets.load_from_disk(at("saved"))
    say("saved", saved)
    shuffled = saved.shuffle(seed=3, indices_cache_file_name=os.path.abspath("order.arrow"))  # else beside the data
    say("shuffled", shuffled.select(range(500)))
    say("one", [saved[3999], saved[0]])
    say("in memory", datasets.load_from_disk(at("saved"), keep_in_memory=True).select(range(10)))
    doubled = saved.map(lambda row: {"m": row["n"] * 2}, cache_file_name=os.path.abspath("made.arrow"))
    say("mapped over", doubled.select(range(100)))
    parts = sorted(name for name in os.listdir(at("saved")) if name.endswith(".arrow"))
    say("from_file", datasets.Dataset.from_file(os.path.join(at("saved"), parts[-1])))
    for kind, name in (("parquet", "a.parquet"), ("json", "a.jsonl"), ("csv", "a.csv")):
        say(kind, datasets.load_dataset(kind, data_files=at(name), split="train"))
        say(kind + " streaming", datasets.load_dataset(kind, data_files=at(name), split="train", streaming=True).take(300))


main(make, use)
