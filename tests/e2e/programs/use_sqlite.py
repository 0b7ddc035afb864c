"""sqlite read-only: with its locks, as immutable, and mapped."""
import os
import random
import sqlite3

from said import main, said

ASKS = ("select count(*), sum(a), sum(length(b)) from t", "select a, hex(b) from t where a between 200 and 240 order by a",
        "select a from t where c = 'word-77'", "select max(a) from t group by a % 7", "pragma integrity_check",
        "select * from t order by random() limit 0", "select count(*) from t x join t y on x.a = y.a + 1")


def make(folder):
    rng = random.Random(1)
    with sqlite3.connect(os.path.join(folder, "a.db")) as database:
        database.execute("create table t(a integer primary key, b blob, c text)")
        database.executemany("insert into t values(?, ?, ?)", [
            (number, rng.randbytes(rng.randrange(10, 900)), "word-%d" % (number % 300)) for number in range(6000)])
        database.execute("create index i on t(c)")
    database.close()


def use(folder):
    path = os.path.abspath(os.path.join(folder, "a.db"))
    for label, more in (("read-only", "?mode=ro"), ("immutable", "?mode=ro&immutable=1"), ("mapped", "?mode=ro"), ("unlocked", "?mode=ro&nolock=1")):
        database = sqlite3.connect("file:%s%s" % (path, more), uri=True)
        if label == "mapped":
            print("mmap_size", database.execute("pragma mmap_size=268435456").fetchall())
        for ask in ASKS:
            said("%s: %s" % (label, ask), database.execute(ask).fetchall())
        try:
            database.execute("delete from t")
            print(label, "deleted")
        except sqlite3.OperationalError as error:
            print(label, error)
        database.close()
    copy = sqlite3.connect(":memory:")
    source = sqlite3.connect("file:%s?mode=ro" % path, uri=True)
    source.backup(copy)
    said("backup", copy.execute(ASKS[0]).fetchall())


main(make, use)
