"""Names that are wanted now: directories before the whole listing, buckets that may not be listed, list=dirs and none."""
import json
import os
import time

from harness import fixtures, headrace, paths, proc
from harness.case import test
from harness.faults import DictStore
from harness.front import Front
from harness.scene import scene
from harness.servers import SeaweedFS
from test_listing import Listd

WALK = """
import os, sys
top = sys.argv[1]
for here, dirs, files in os.walk(top):
    dirs.sort()
    for name in dirs: print(os.path.relpath(os.path.join(here, name), top) + '/')
    for name in files: print(os.path.relpath(os.path.join(here, name), top), os.stat(os.path.join(here, name)).st_size)
"""
TRY = """
import os, sys
for word in sys.argv[1:]:
    what, _, name = word.partition(':')
    try:
        print({'open': lambda: len(open(name, 'rb').read()), 'stat': lambda: os.stat(name).st_size,
               'dir': lambda: ' '.join(os.listdir(name)), 'isdir': lambda: os.path.isdir(name)}[what]())
    except OSError as e: print('errno', e.errno)
"""


class Rules(DictStore):
    """Buckets' rules: `listable` says which prefixes may be listed (None: none); without that, missing keys are 403."""

    def __init__(self, objects, listable=None, **options):
        self.listable = listable
        super().__init__(objects, **options)

    def list(self, handler, pairs):
        if self.listable is None or not pairs.get("prefix", "").startswith(self.listable):
            self.error(handler, 403, "AccessDenied")
        else:
            super().list(handler, pairs)

    @staticmethod
    def error(handler, status, code):
        if code == "NoSuchKey" and handler.server.owner.listable is None:
            status, code = 403, "AccessDenied"
        DictStore.error(handler, status, code)

    def counts(self):
        lists = sum("list-type" in query for _, _, query in self.requests)
        heads = sum(method == "HEAD" for method, _, _ in self.requests)
        return len(self.requests) - lists - heads, lists, heads


OBJECTS = {"train/a/one.txt": b"one", "train/a/sub/two.txt": b"two two", "train/b.txt": b"bee" * 100, "train/empty": b"",
           "other/secret": b"s"}


def job_of(store, options="", prefix="train", **settings):
    data = os.path.join(proc.temp_folder(), "data")
    return data, headrace.Job("%s=s3://bkt/%s%s" % (data, prefix, options), store.url, access="a", secret="b", **settings)


def tries(job, data, *words):
    """What a program sees of each; its stderr."""
    argv = [word.partition(":")[0] + ":" + os.path.join(data, word.partition(":")[2]) for word in words]
    done = job.run([paths.PYTHON, "-c", TRY, *argv])
    proc.expect_equal(done.returncode, 0, "status (%s)" % proc.tail(done.stderr))
    return done.stdout.decode().splitlines(), done.stderr.decode()


@test()
def test_names_directory_before_a_large_listing():
    """A million keys behind 20 ms, one lane: a directory or an object in the middle takes a few requests, not a thousand."""
    with Listd("imagenet", 1000000, "latency_ms=20") as store:
        data, job = job_of(store, prefix="", list_lanes=1)
        with job:
            seen = job.python("""
import os, sys
top = sys.argv[1]
classes = os.listdir(top + '/imagenet/train')
assert classes == sorted(classes)
print(len(classes), len(os.listdir(os.path.join(top, 'imagenet/train', classes[700]))))
a = os.stat(os.path.join(top, 'imagenet/train', classes[700])); print(a.st_ino, a.st_mtime_ns)
for entry in os.scandir(os.path.join(top, 'imagenet/train')):
    if entry.name == classes[700]: print(entry.inode(), entry.is_dir())
other = '/n%s' % classes[300][1:]
with open(top + '/imagenet/train' + other + other + '_7.JPEG', 'rb') as file: print(len(file.read()))
print(os.path.exists(top + '/imagenet/train' + other + '/no such file'))
""", data).split()
            lists = job.status()["requests.list"]
        proc.expect_equal(seen[:2], ["1000", "1000"], "classes, files of one")
        proc.expect_equal((seen[4], seen[5]), (seen[2], "True"), "inode by readdir and by stat")
        proc.expect_equal(seen[6:], ["1", "False"], "bytes of an object that is not listed yet, and a name that is not there")
        proc.expect(lists < 500, "%d LISTs: it waited for the whole prefix" % lists)
        counts = store.counts()
        proc.expect(2 <= counts["directories"] <= 4, str(counts))


@test()
def test_names_flat_directory_by_many_lanes():
    """100,000 names in the root, or in one directory: the lanes of the whole listing bring it."""
    for shape, folder in (("hex", ""), ("flat", "/all")):
        with Listd(shape, 100000, "latency_ms=5") as store:
            data, job = job_of(store, prefix="")
            with job:
                done = job.good(["sh", "-c", "ls -f %s%s | wc -l" % (data, folder)])
            proc.expect_equal(done.strip(), b"100002", "names")
            # The listing's own, for the folders in the prefix.
            proc.expect_equal(store.counts()["directories"], 1, "requests with a delimiter")


def walk_by_dirs(s):
    want = proc.run([paths.PYTHON, "-c", WALK, s.local]).stdout.decode("utf-8", "surrogateescape")
    mark = s.front.mark()
    proc.expect_equal(sorted(s.job.python(WALK, s.data).splitlines()), sorted(want.splitlines()), "the tree")
    log = s.front.log(mark)
    folders = 1 + sum(line.endswith("/") for line in want.splitlines())
    proc.expect_equal((len(log.lists), len(log.gets), len(log.heads)), (folders, 0, 0), "LISTs, GETs, HEADs")
    proc.expect(all("delimiter=" in r.query for r in log.lists), "a LIST without delimiter")


@test(("nginx", "rclone"))
def test_names_list_dirs_rclone():
    """list=dirs: a walk with a stat of everything costs one LIST a directory."""
    with scene(fixtures.mixed(), options="?list=dirs") as s:
        walk_by_dirs(s)
        mark = s.front.mark()
        first = s.job.python("import os, sys; print(os.listdir(sys.argv[1]))", s.data)
        proc.expect_equal(s.job.python("import os, sys; print(os.listdir(sys.argv[1]))", s.data), first, "order")
        proc.expect_equal(eval(first), sorted(os.listdir(s.local), key=os.fsencode), "bytewise order")
        proc.expect_equal(s.job.good(["cat", s.data + "/a/one.txt"]), open(s.local + "/a/one.txt", "rb").read(), "bytes")
        log = s.front.log(mark)
        proc.expect_equal((len(log.lists), len(log.gets)), (0, 1), "LISTs, GETs of what is known")


@test(("nginx", "weed"), timeout=90)
def test_names_list_dirs_weed():
    with scene(fixtures.mixed(), store=SeaweedFS, options="?list=dirs") as s:
        walk_by_dirs(s)


@test()
def test_names_list_none():
    with DictStore(dict(OBJECTS)) as store:
        data, job = job_of(store, "?list=none")
        with job:
            seen, err = tries(job, data, "stat:a/one.txt", "stat:a/one.txt", "open:b.txt", "stat:none", "stat:empty",
                              "isdir:a", "isdir:a/sub", "open:a/sub/two.txt", "open:none/such", "dir:a", "dir:")
            proc.expect_equal(seen, ["3", "3", "300", "errno 2", "0", "True", "False", "7", "errno 2", "errno 13", "errno 13"],
                              "what a program sees")
            said = [line for line in err.splitlines() if "list=FILE" in line]
            proc.expect_equal(len(said), 1, "lines: " + err)
            status = job.status()
            proc.expect_equal((status["requests.list"], status["requests.head"], status["requests.get"]), (0, 4, 3),
                              "LISTs, HEADs, GETs")


@test()
def test_names_bucket_without_list_permission():
    """list=auto where LIST is refused: by itself as list=none, said once; what is missing is ENOENT once something came."""
    with Rules(dict(OBJECTS)) as store:
        data, job = job_of(store)
        with job:
            seen, err = tries(job, data, "stat:b.txt", "open:b.txt", "open:none", "stat:none2", "open:a/one.txt", "dir:a",
                              "dir:", "isdir:a")
            proc.expect_equal(seen, ["300", "300", "errno 2", "errno 2", "3", "errno 13", "errno 13", "True"],
                              "what a program sees")
            proc.expect_equal(len([line for line in err.splitlines() if "headrace" in line]), 1, "lines: " + err)
            proc.expect("directories cannot be read" in err, err)
            proc.expect_equal(store.counts()[1], 1, "LISTs")
        store.requests.clear()
        data, job = job_of(store)
        with job:
            seen, err = tries(job, data, "stat:none")
            proc.expect_equal(seen, ["errno 13"], "what is refused before anything came")
            proc.expect("may be missing" in err and err.count("headrace:") == 1, err)
        data, job = job_of(store, "?list=none")
        with job:
            seen, err = tries(job, data, "stat:none")
            proc.expect("may be missing" in err and seen == ["errno 13"], err)


@test()
def test_names_list_allowed_under_a_prefix():
    with Rules(dict(OBJECTS), listable="train/") as store:
        data, job = job_of(store)
        with job:
            seen, _ = tries(job, data, "dir:", "dir:a", "stat:none")
            proc.expect_equal(seen, ["a b.txt empty", "one.txt sub", "errno 2"], "what a program sees")
        data, job = job_of(store, prefix="other")
        with job:
            seen, _ = tries(job, data, "open:secret", "dir:")
            proc.expect_equal(seen, ["1", "errno 13"], "beside it")


@test(("nginx",))
def test_names_small_prefix_costs_two_lists():
    """Within one page nothing is asked beside the listing but, together with that page, for the folders."""
    with DictStore(dict(OBJECTS)) as store, Front(store) as cloud:
        data, job = job_of(cloud)
        with job:
            seen, _ = tries(job, data, "dir:a", "dir:a/sub", "dir:none", "dir:b.txt")
            proc.expect_equal(seen, ["one.txt sub", "two.txt", "errno 2", "errno 20"], "what a program sees")
            folders = ["delimiter=" in request.query for request in cloud.log().requests]
            proc.expect_equal(sorted(folders), [False, True], "requests, with a delimiter")


@test()
def test_names_walk_while_the_listing_runs():
    """A walk that begins by directories and ends by the whole index sees each name once, with steady times."""
    objects = {"d%03d/%d/f%02d" % (n % 60, n % 7, n): b"x" for n in range(6000)}
    with DictStore(objects, page=500) as store:
        data, job = job_of(store, prefix="")
        with job:
            seen = json.loads(job.python("""
import json, os, sys
names, times = [], set()
for here, dirs, files in os.walk(sys.argv[1]):
    times.add(os.stat(here).st_mtime_ns)
    names += [os.path.relpath(os.path.join(here, name), sys.argv[1]) for name in files]
print(json.dumps([names, len(times)]))
""", data))
        proc.expect_equal(sorted(seen[0]), sorted(objects), "names")
        proc.expect_equal(seen[1], 1, "times of directories")


@test()
def test_names_directories_keep_their_times():
    """Asked by name, read alone, listed as a whole, listed again, and by the next daemon that has no listing to begin with."""
    objects = {"d%d/e%d/f%03d" % (n % 5, n % 3, n): b"x" for n in range(300)}
    times = "import os, sys\nprint([os.stat(sys.argv[1] + name).st_mtime_ns for name in ('', '/d1', '/d1/e1', '/d2/e0')])"
    read = "import os, sys\nfor here, _, _ in os.walk(sys.argv[1]): pass"
    for options in ("?revalidate=start", "?list=dirs", "?list=none"):
        with DictStore(objects, page=40) as store:
            data, job = job_of(store, options, prefix="")
            with job:
                job.good(["cat"] + [data + name for name in ("/d1/e1/f001", "/d2/e0/f012")])
                first = job.python(times, data)
                if options != "?list=none":
                    job.python(read, data)
                    proc.expect_equal(job.python(times, data), first, "when all is read; " + options)
                if options == "?revalidate=start":
                    proc.expect_equal(job.command("refresh", data).returncode, 0, "status of refresh")
                    proc.expect_equal(job.python(times, data), first, "when all is listed again; " + options)
                job.stop()
                at = os.stat(os.path.join(job.cache, "lock")).st_mtime
                proc.wait_until(lambda: time.time() >= at + 1.1, 5, "another second")
                job.good(["cat"] + [data + name for name in ("/d1/e1/f001", "/d2/e0/f012")])
                proc.expect_equal(job.python(times, data), first, "by the next daemon; " + options)
