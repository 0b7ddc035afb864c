"""Names that come from elsewhere than a listing (list=FILE, inventories, other nodes), and the commands that use the
index. The store is ours and counts its requests."""
import gzip
import hashlib
import json
import os
import re
import struct
import time

from harness import headrace, paths, proc
from harness.case import test
from harness.faults import DictStore
from test_listing import Listd
from test_warm import on_terminal

DATE = "2026-11-21T10:00:00.000Z"  # what DictStore says
SECONDS = 1795255200
LOOK = """
import os, sys
for name in sys.argv[1:]:
    try:
        st = os.stat(name)
        print(st.st_size, int(st.st_mtime), open(name, "rb").read()[:20].decode())
    except OSError as error:
        print("errno", error.errno)
"""
TREE = """
import os, sys
for here, dirs, names in os.walk(sys.argv[1]):
    for name in names:
        print(os.path.relpath(os.path.join(here, name), sys.argv[1]))
"""


def some(count=40):
    return {"train/n%d/%03d.bin" % (i % 3, i): b"%03d" % i * (i + 1) for i in range(count)}


def lists(store):
    return sum(1 for method, _, query in store.requests if method == "GET" and "list-type" in query)


def names_of(objects, prefix="train/"):
    return sorted(key[len(prefix):] for key in objects if key.startswith(prefix))


def rows(objects):
    return "".join('"%s",%d,%s,%s\n' % (key, len(body), DATE, hashlib.md5(body).hexdigest())
                   for key, body in objects.items())


class Stage:
    """A store, and jobs on it."""

    def __init__(self, objects):
        self.objects, self.store = objects, DictStore(objects)
        self.folder = proc.temp_folder("hr-")
        self.data = os.path.join(self.folder, "data")

    def job(self, options="", bucket="bkt/train/", **settings):
        return headrace.Job("%s=s3://%s%s" % (self.data, bucket, options), self.store.url, access="a", secret="b",
                            **settings)

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(text if isinstance(text, bytes) else text.encode())
        return path

    def __enter__(self):
        self.store.__enter__()
        return self

    def __exit__(self, *what):
        self.store.__exit__(*what)


def said(done, status=0):
    proc.expect_equal(done.returncode, status, "status; " + proc.tail(done.stdout, done.stderr))
    return (done.stdout + done.stderr).decode()


@test()
def test_list_file_names_what_is_there():
    """Keys with size, time and ETag: no LIST at all; what the file does not name is not there; also gzip."""
    objects = some()
    objects["train/not named"] = b"x"
    objects["other/out"] = b"x"
    named = {key: body for key, body in objects.items() if key != "train/not named"}
    for zipped in (False, True):
        with Stage(objects) as stage:
            text = rows(named).encode()
            path = stage.file("names.gz" if zipped else "names", gzip.compress(text) if zipped else text)
            with stage.job("?list=" + path) as job:
                proc.expect_equal(sorted(job.python(TREE, stage.data).split("\n")[:-1]), names_of(named), "names")
                have = job.python(LOOK, stage.data + "/n1/001.bin", stage.data + "/not named")
                proc.expect_equal(have, "6 %d 001001\nerrno 2\n" % SECONDS, "what is named, what is not")
                proc.expect_equal(lists(stage.store), 0, "LIST requests")


@test()
def test_list_file_of_bare_keys():
    """Names alone: readdir by the file, size and bytes by asking for that name."""
    with Stage(dict(some(), **{"train/a b+c%,\"d": b"odd one"})) as stage:
        text = "".join(key + "\n" for key in some()) + '"train/a b+c%25,""d"\r\n'
        with stage.job("?list=" + stage.file("names", text)) as job:
            names = job.python(TREE, stage.data).split("\n")[:-1]
            proc.expect_equal(sorted(names), names_of(stage.objects), "names")
            proc.expect_equal(lists(stage.store), 0, "LIST requests of a walk")
            have = job.python(LOOK, stage.data + "/n2/005.bin", stage.data + "/a b+c%,\"d", stage.data + "/n2/no")
            proc.expect_equal(have, "18 %d 005005005005005005\n7 %d odd one\nerrno 2\n" % (SECONDS, SECONDS), "two names")
            said(job.command("warm", stage.data))
            gets = len(stage.store.requests)
            code = "import glob,sys\nprint(sum(len(open(n,'rb').read()) for n in glob.glob(sys.argv[1] + '/n*/*')))"
            total = sum(len(body) for body in some().values())
            proc.expect_equal(job.python(code, stage.data), "%d\n" % total, "bytes of all")
            proc.expect_equal(len(stage.store.requests) - gets, 0, "requests after they were warmed")
            done = job.command("du", stage.data)
            proc.expect("sizes of %d objects are not known" % len(stage.objects) in said(done, 1), "du tells", done.stderr)
            proc.expect_equal(said(job.command("count", stage.data)), "%d\t%s\n" % (len(stage.objects), stage.data), "count")


@test()
def test_names_that_a_program_prints():
    """README's sed makes a list of bare names, one a line, whatever bytes are in them."""
    odd = {"train/%s" % name: b"x" for name in ('plain', 'a,b', 'say "no"', '"', '100%', '%41', 'a b+c', "it's", "\\n", "ä\tö")}
    with open(os.path.join(paths.ROOT, "README.md")) as file:
        quoting = re.search(r"(sed '.*') > FILE", file.read()).group(1)
    with Stage(odd) as stage:
        printed = stage.file("printed", "".join(key + "\n" for key in odd))
        names = stage.file("names", proc.run(["sh", "-c", quoting + " < " + printed]).stdout)
        with stage.job("?list=" + names) as job:
            have = job.python("import os, sys; print(ascii(sorted(os.listdir(sys.argv[1]))))", stage.data)
            proc.expect_equal(have, ascii(names_of(odd)) + "\n", "names")
            proc.expect_equal(lists(stage.store), 0, "LIST requests")


@test()
def test_list_file_is_read_again():
    """By the next job when it has changed, also over the daemon's end; by no other."""
    with Stage(some()) as stage:
        first, second = dict(list(some().items())[:10]), some()
        path = stage.file("names", rows(first))
        with stage.job("?list=" + path, revalidate="0") as job:
            proc.expect_equal(len(job.python(TREE, stage.data).split()), 10, "names of the first file")
            stage.file("names", rows(second))
            proc.expect_equal(len(job.python(TREE, stage.data).split()), 40, "names of the second file")
            job.stop()
            proc.expect_equal(len(job.python(TREE, stage.data).split()), 40, "names for a new daemon")
            log = job.log_tail(100000)
            proc.expect_equal(log.count("names read"), 2, "how often it was read")
            proc.expect_equal(lists(stage.store), 0, "LIST requests")


@test()
def test_bad_list_files():
    """`run` ends with 125 and names the line."""
    good = rows(some(3))
    cases = ((good + "train/x,12,yesterday\n", "line 4: this is no time: 'yesterday'"),
             (good + "train/x,-1,%s\n" % DATE, "line 4: this is no size: '-1'"),
             (good + "train/100%\n", "line 4: a '%' in a key is written %25"),
             (good + '"train/x\n', "line 4: a quote that does not end"),
             (gzip.compress(good.encode())[:-20], "damaged or cut off"))
    with Stage(some()) as stage:
        for text, want in cases:
            path = stage.file("names", text)
            with stage.job("?list=" + path) as job:
                done = job.run(["true"])
                proc.expect(want in said(done, 125) and path in said(done, 125), "told: " + want, done.stderr)
        os.unlink(path)
        with stage.job("?list=" + path) as job:
            proc.expect("No such file" in said(job.run(["true"]), 125), "a file that is not there")


@test()
def test_index_moves_to_another_node():
    """Exported by one daemon, imported by another: it lists nothing; wrong maps and damaged files are refused."""
    with Stage(some()) as stage:
        path = os.path.join(stage.folder, "index")
        with stage.job() as job:
            proc.expect("40 objects of s3://bkt/train/" in said(job.command("index", "export", path)), "export")
        with open(path, "rb") as file:
            whole = file.read()
        first = json.loads(whole.split(b"\n")[0])
        proc.expect_equal((first["bucket"], first["prefix"], first["objects"]), ("bkt", "train/", 40), "its first line")
        before = lists(stage.store)
        with stage.job() as job:
            proc.expect_equal(said(job.command("index", "import", path)), "40 objects\n", "import")
            proc.expect_equal(len(job.python(TREE, stage.data).split()), 40, "names")
            have = job.python(LOOK, stage.data + "/n1/001.bin")
            proc.expect_equal(have, "6 %d 001001\n" % SECONDS, "size, time, bytes")
            proc.expect_equal(lists(stage.store) - before, 0, "LIST requests of the second node")
            job.stop()
            proc.expect_equal(len(job.python(TREE, stage.data).split()), 40, "names for its next daemon")
            proc.expect_equal(lists(stage.store) - before, 0, "LIST requests of that")
            for name, text in (("cut", whole[:-9]), ("flip", whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])):
                done = job.command("index", "import", stage.file(name, text))
                proc.expect("damaged or cut off" in said(done, 1), name, done.stderr)
            proc.expect_equal(len(job.python(TREE, stage.data).split()), 40, "names after what was refused")
        with stage.job(bucket="bkt/") as job:
            done = job.command("index", "import", path)
            proc.expect("it is the index of s3://bkt/train/, the map is s3://bkt/" in said(done, 1), "another prefix")
        moved = whole.replace(b"127.0.0.1", b"127.0.0.9", 1)
        with stage.job() as job:
            done = job.command("index", "import", stage.file("moved", moved))
            proc.expect("it was listed at 127.0.0.9" in said(done, 1), "another endpoint", done.stderr)
            proc.expect_equal(said(job.command("index", "import", stage.file("moved", moved), "--other-endpoint")),
                              "40 objects\n", "the same bucket elsewhere")


@test()
def test_index_of_another_version_is_refused():
    """The layout of another version: what to do is said, the names stay what they were."""
    with Stage(some()) as stage:
        path = os.path.join(stage.folder, "index")
        with stage.job() as job:
            said(job.command("index", "export", path))
            with open(path, "rb") as file:
                whole = file.read()
            body = whole.index(b"\n") + 1
            layout = struct.unpack_from("<I", whole, body + 8)[0]
            other = whole[:body + 8] + struct.pack("<I", layout + 1) + whole[body + 12:]
            form = re.sub(rb'("headrace_index": *)(\d+)', lambda found: found.group(1) + b"9", whole[:body]) + whole[body:]
            for name, text in (("layout", other), ("form", form)):
                done = job.command("index", "import", stage.file(name, text))
                proc.expect("another version of headrace: export it" in said(done, 1), name, done.stderr)
                proc.expect("headrace refresh" in said(done, 1), name, done.stderr)
            proc.expect_equal(len(job.python(TREE, stage.data).split()), 40, "names after what was refused")


@test()
def test_inventory_is_imported():
    """manifest.json with two data files, one with versions; a bare data file; what is wrong is said."""
    with Stage(dict(some(), **{"train/a b.bin": b"blank"})) as stage:
        def row(key, body, versions=""):
            return '"bkt","%s",%s"%d","%s","%s"\n' % (key.replace(" ", "+"), versions, len(body), DATE,
                                                       hashlib.md5(body).hexdigest())
        parts = ["", ""]
        for i, (key, body) in enumerate(stage.objects.items()):
            parts[i % 2] += row(key, body, '"v","true","false",')
        parts[0] += row("train/n0/000.bin", b"old", '"u","false","false",') + row("train/no", b"", '"u","true","true",')
        zipped = [gzip.compress(part.encode()) for part in parts]
        for i in range(2):
            stage.file("inv/data/part%d.csv.gz" % i, zipped[i])
        manifest = {"sourceBucket": "bkt", "destinationBucket": "arn:aws:s3:::inv", "version": "2016-11-30",
                    "creationTimestamp": str(int(time.time()) * 1000), "fileFormat": "CSV",
                    "fileSchema": "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, LastModifiedDate, ETag",
                    "files": [{"key": "inv/bkt/all/data/part%d.csv.gz" % i, "size": len(zipped[i]),
                               "MD5checksum": hashlib.md5(zipped[i]).hexdigest()} for i in range(2)]}
        path = stage.file("inv/2026-11-22T01-00Z/manifest.json", json.dumps(manifest))
        plain = stage.file("one.csv", "".join(row(key, body) for key, body in stage.objects.items()))
        for file, left_out in ((path, ", 2 rows left out"), (plain, "")):
            with stage.job() as job:
                proc.expect("41 objects" + left_out in said(job.command("index", "import", file)), "import of " + file)
                proc.expect_equal(sorted(job.python(TREE, stage.data).split("\n")[:-1]), names_of(stage.objects), "names")
                have = job.python(LOOK, stage.data + "/a b.bin", stage.data + "/n0/000.bin")
                proc.expect_equal(have, "5 %d blank\n3 %d 000\n" % (SECONDS, SECONDS), "two names")
                proc.expect_equal(lists(stage.store), 0, "LIST requests")
        with stage.job() as job:
            manifest["files"][1]["MD5checksum"] = "0" * 32
            done = job.command("index", "import", stage.file("inv/2026-11-22T01-00Z/manifest.json", json.dumps(manifest)))
            proc.expect("its MD5 is not the manifest's" in said(done, 1), "damaged data file", done.stderr)
            manifest["files"][1]["key"] = "../" * 20 + "dev/zero"  # has no end
            done = job.command("index", "import", stage.file("inv/2026-11-22T01-00Z/manifest.json", json.dumps(manifest)))
            proc.expect("/dev/zero: it is no regular file" in said(done, 1), "a device as data file", done.stderr)
            manifest["fileFormat"] = "Parquet"
            done = job.command("index", "import", stage.file("inv/2026-11-22T01-00Z/manifest.json", json.dumps(manifest)))
            proc.expect("only CSV can be read: change the format" in said(done, 1), "Parquet", done.stderr)
            column = stage.file("inv/data/part.parquet", b"PAR1\x15\x00\x15" + b"\x00" * 50 + b"PAR1")
            told = "it is Parquet, and only text can be read: have S3 Inventory write CSV"
            proc.expect(told in said(job.command("index", "import", column), 1), "a data file of it")
        for file, told in ((column, told), (stage.file("manifest.json", json.dumps(manifest)), "headrace index import")):
            with stage.job("?list=" + file) as job:
                proc.expect(told in said(job.run(["true"]), 125), "list=" + file)


@test()
def test_a_list_of_something_else_empties_no_map():
    """Not one row is of the map: the wrong file, and not the news that all is gone."""
    with Stage(some()) as stage:
        wrong = stage.file("wrong.txt", "root:x:0:0\ndaemon:x:1:1\n")
        with stage.job() as job:
            done = job.command("index", "import", wrong)
            proc.expect("none of its 2 rows is of this map, s3://bkt/train/" in said(done, 1), "import", done.stderr)
            for file, told in ((stage.file("empty.csv", ""), "it holds no rows"), (stage.folder, "Is a directory"),
                               ("/dev/null", "it is no regular file")):
                proc.expect(told in said(job.command("index", "import", file), 1), "import of " + file)
            proc.expect_equal(sorted(job.python(TREE, stage.data).split("\n")[:-1]), names_of(stage.objects), "names")
            job.good(["ls", stage.data])
            done = job.command("index", "import", wrong)
            proc.expect_equal(len(job.python(TREE, stage.data).split()), 40, "names after it was refused again")
        with stage.job(list=wrong) as job:
            done = job.run(["ls", stage.data])
            proc.expect(done.returncode == 125 and b"none of its 2 rows" in done.stderr, "list=FILE", done)


@test()
def test_refresh_counts_what_is_other():
    """Added, removed, changed; jobs that run see the new names."""
    with Stage(some()) as stage:
        with stage.job() as job:
            job.good(["ls", stage.data])
            gate = os.path.join(stage.folder, "go")
            watcher = job.start(["sh", "-c", "ls %s >/dev/null; touch %s.ready; until [ -e %s ]; do sleep 0.05; done; ls %s"
                                 % (stage.data, gate, gate, stage.data)])
            proc.wait_until(lambda: os.path.exists(gate + ".ready"), 10, "the job")
            stage.objects.update({"train/new": b"1", "train/n9/new": b"2", "train/n1/001.bin": b"other"})
            del stage.objects["train/n2/002.bin"]
            text = said(job.command("refresh", stage.data))
            proc.expect_equal(text, "%s: 2 added, 1 removed, 1 changed; 41 objects\n" % stage.data, "the first")
            text = said(job.command("refresh"))
            proc.expect_equal(text, "%s: 0 added, 0 removed, 0 changed; 41 objects\n" % stage.data, "the second")
            stage.file("go", "")
            proc.expect_equal(watcher.wait(20), 0, "status of the job that ran meanwhile")
            with open(os.path.join(os.path.dirname(job.cache), "job.log")) as file:
                proc.expect_equal(file.read().split()[-5:], ["n0", "n1", "n2", "n9", "new"], "what it sees")


@test()
def test_follow_corrects_one_entry():
    """changed=follow: one object of many is another one; new bytes, size and time, and no listing for it."""
    with Stage(some()) as stage:
        with stage.job("?changed=follow&prefetch=off&revalidate=forever") as job:
            job.good(["ls", stage.data])
            before = job.status()["requests.list"]
            stage.objects["train/n1/001.bin"] = b"another and longer one"
            name = stage.data + "/n1/001.bin"
            code = "import os,sys\nf = open(sys.argv[1], 'rb')\nst, now = os.fstat(f.fileno()), os.stat(sys.argv[1])\n" \
                   "print(st.st_size, now.st_size, f.read().decode())"
            for _ in range(2):
                proc.expect_equal(job.python(code, name), "22 22 another and longer one\n", "the new version")
            proc.expect_equal(job.python(LOOK, stage.data + "/n2/002.bin"), "9 %d 002002002\n" % SECONDS, "its neighbour")
            proc.expect_equal(job.status()["requests.list"] - before, 0, "LIST requests for it")
            proc.expect(job.status()["plan.changed"] >= 1, "plan.changed")
            proc.expect_equal(said(job.command("stat", name)).split("size:")[1].split()[0], "22", "headrace stat")


@test()
def test_sums_of_the_index():
    """ls -R, du and count of maps, directories, objects and URLs."""
    with Stage(some()) as stage:
        with stage.job() as job:
            total = sum(len(body) for body in stage.objects.values())
            one = sum(len(body) for key, body in stage.objects.items() if "/n1/" in key)
            text = said(job.command("du", stage.data, stage.data + "/n1", stage.data + "/n1/001.bin"))
            proc.expect_equal(text, "%d\t40\t%s\n%d\t13\t%s/n1\n6\t1\t%s/n1/001.bin\n"
                              % (total, stage.data, one, stage.data, stage.data), "du")
            text = said(job.command("du", "s3://bkt/train/n1", "s3://bkt/train/n1/001.bin"))
            proc.expect_equal(text, "%d\t13\ts3://bkt/train/n1\n6\t1\ts3://bkt/train/n1/001.bin\n" % one, "du of URLs")
            proc.expect_equal(said(job.command("count", stage.data)), "40\t%s\n" % stage.data, "count")
            proc.expect_equal(said(job.command("ls", "-R", stage.data)).count(".bin\n"), 40, "ls -R")
            proc.expect("No such file" in said(job.command("du", stage.data + "/no"), 1), "du of nothing")


@test()
def test_progress_of_a_listing():
    """On a terminal: names, names a second and lanes; where the last listing tells how many to expect, the part and the time
    left. Later commands have the index, and say nothing."""
    with Listd("imagenet", 8000, "latency_ms=250") as store:
        data = os.path.join(proc.temp_folder(), "data")
        with headrace.Job("%s=s3://bkt/" % data, store.url, access="a", secret="b", list_lanes=4) as job:
            status, text = on_terminal(job, "count", data)
            proc.expect_equal(status, 0, "status of count")
            proc.expect(re.search(r"\r[1-9]000 names, \d+/s, [1-4] lanes?\r", text), "names, rate, lanes", text)
            proc.expect(re.search(r"\r8000 names, \d+/s, in \d+:\d\d *\r\n$", text), "the last line", text)
            status, text = on_terminal(job, "refresh", data)
            proc.expect_equal(status, 0, "status of refresh")
            proc.expect(re.search(r"\r\[=*>? *\] +\d+ % [1-7]\d{3} of 8000 names, \d+/s, \d+:\d\d left, [1-4] lanes?", text),
                        "how much is left", text)
            for command in (["ls", "-R"], ["du"], ["count"]):
                proc.expect_equal(on_terminal(job, *command, data), (0, ""), " ".join(command))


@test()
def test_revalidation_by_age_and_start():
    """`forever` lists once, `start` once for each daemon, seconds by the age of the listing; never for names that stand. A
    listing that is waited for is two LISTs here, of names and of folders."""
    with Stage(some()) as stage:
        for revalidate, wants in (("forever", (2, 2, 2)), ("3600", (2, 2, 2)), ("start", (2, 2, 4))):
            with stage.job(revalidate=revalidate) as job:
                before, have = lists(stage.store), []
                for i in range(3):
                    if i == 2:
                        job.stop()
                    proc.expect_equal(len(job.python(TREE, stage.data).split()), 40, "names")
                    have.append(lists(stage.store) - before)
                proc.expect_equal(tuple(have), wants, "listings of three jobs, the third of another daemon: " + revalidate)
        with stage.job(revalidate="0") as job:
            before = lists(stage.store)
            for want in (1, 2):
                job.python(TREE, stage.data)
                proc.wait_until(lambda: lists(stage.store) - before >= want, 10, "listing %d" % want)
