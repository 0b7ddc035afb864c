"""The same tree through every real server, small and large objects, odd listings included."""
import os

from harness import fixtures, front, headrace, proc, servers, training
from harness.case import test
from harness.faults import DictStore
from harness.scene import scene
from test_faults import TRY

TRY_LIST = """
import os, sys
try: print(len(os.listdir(sys.argv[1])))
except OSError as e: print('errno', e.errno)
"""

CHECK = """
import hashlib, os, sys
for d, dirs, files in os.walk(sys.argv[1]):
    for n in dirs + files:
        path = os.path.join(d, n)
        body = '' if n in dirs else hashlib.sha256(open(path, 'rb').read()).hexdigest()
        print(repr(os.path.relpath(path, sys.argv[1])), 0 if n in dirs else os.stat(path).st_size, body)
"""


def same_tree(job, data, local):
    """Names, sizes and bytes of the map and of the local folder."""
    have = sorted(job.python(CHECK, data).splitlines())
    want = sorted(proc.run(["/usr/bin/python3", "-c", CHECK, local]).stdout.decode("utf-8", "surrogateescape").splitlines())
    missing, extra = set(want) - set(have), set(have) - set(want)
    proc.expect(have == want, "the trees differ", "missing: %s" % sorted(missing)[:6], "extra: %s" % sorted(extra)[:6])


def epoch(store):
    """Every object by one GET, and the digests of the local folder."""
    with scene(store=store, delay_ms=5) as s:
        want = training.local(s.local, script=training.STAND_IN)
        training.expect_same(training.mapped(s.job, s.data, script=training.STAND_IN), want)
        headrace.wait_idle(s.job)
        training.expect_one_get_each(s.front.log(), s.job, s.fixture)


@test(("nginx", "rclone"))
def test_rclone_mixed_tree():
    with scene(fixtures.mixed()) as s:
        same_tree(s.job, s.data, s.local)


@test(("nginx", "rclone"))
def test_rclone_large_objects():
    """Ranges come as 200 with a right Content-Range there."""
    with scene(fixtures.large()) as s:
        same_tree(s.job, s.data, s.local)


@test(("nginx", "weed"), timeout=120)
def test_seaweedfs_mixed_tree():
    """Lists a/b before a-b; escapes as it likes."""
    with scene(fixtures.mixed(), store=servers.SeaweedFS) as s:
        same_tree(s.job, s.data, s.local)


@test(("nginx", "weed"), timeout=120)
def test_seaweedfs_large_objects():
    with scene(fixtures.large(), store=servers.SeaweedFS) as s:
        same_tree(s.job, s.data, s.local)


@test(("nginx", "weed"), timeout=120)
def test_seaweedfs_epoch():
    epoch(servers.SeaweedFS)


@test(("nginx", "weed"), timeout=90)
def test_seaweedfs_wrong_secret():
    with scene(store=servers.SeaweedFS) as s:
        with headrace.Job(s.job.maps, s.front, secret="notthesecret1") as job:
            proc.expect_equal(job.python(TRY_LIST, s.data), "errno 13\n", "errno of a listing with a wrong secret")


@test(("nginx", "versitygw"), timeout=90)
def test_versitygw_mixed_tree():
    """Strict signatures; ignores encoding-type."""
    with scene(fixtures.mixed(), store=servers.Versitygw) as s:
        same_tree(s.job, s.data, s.local)


@test(("nginx", "versitygw"), timeout=90)
def test_versitygw_large_objects():
    with scene(fixtures.large(), store=servers.Versitygw) as s:
        same_tree(s.job, s.data, s.local)


@test(("nginx", "versitygw"), timeout=90)
def test_versitygw_epoch():
    epoch(servers.Versitygw)


@test(("nginx", "versitygw"), timeout=90)
def test_versitygw_changed_object_is_estale():
    """If-Match is honoured there: an object that changed after the listing."""
    with scene(fixtures.mixed(), store=servers.Versitygw) as s:
        s.job.good(["ls", s.data])
        s.store.client().put(fixtures.BUCKET, "train/a.c", b"other bytes\n")
        proc.expect_equal(s.job.python(TRY, s.data + "/a.c"), "errno 116\n", "an object that changed")


@test(("nginx", "rclone"))
def test_large_object_is_fetched_in_parallel_ranges():
    with scene(fixtures.large(), delay_ms=50) as s:
        s.job.good(["cat", s.data + "/big.bin"])
        spans = [r for r in s.front.log().gets if r.path.endswith("/big.bin")]
        parts = 3 * s.job.status()["plan"]["cells_in_parts"]  # beside one GET a cell
        proc.expect(5 <= len(spans) - parts <= 8, "%d GETs for 41 MiB in ranges of 8, %d of parts" % (len(spans), parts))
        proc.expect(s.front.log().in_flight() >= 3, "%d ranges at once" % s.front.log().in_flight())


@test(("nginx", "rclone"))
def test_whole_bucket_map():
    with scene(fixtures.mixed()) as s:
        with headrace.Job("%s=s3://bkt" % s.data, s.front) as job:
            same_tree(job, s.data, os.path.dirname(s.local))


def test_anonymous_bucket():
    """No keys in the environment, no files, no metadata service: unsigned requests."""
    objects = {"pub/x.txt": b"public\n"}
    with DictStore(objects) as store:
        data = os.path.join(proc.temp_folder(), "data")
        with headrace.Job("%s=s3://bkt/pub" % data, store) as job:
            keys = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
            env = {name: value for name, value in job.env().items() if name not in keys}
            done = job.run(["cat", data + "/x.txt"], env=env)
            proc.expect_equal((done.returncode, done.stdout), (0, b"public\n"), "cat (%s)" % proc.tail(done.stderr))


def test_many_pages():
    """2,500 keys, 100 a page, in 7 folders."""
    objects = {"p/%d/%06d" % (n % 7, n): b"%d" % n for n in range(2500)}
    with DictStore(objects, page=100) as store:
        data = os.path.join(proc.temp_folder(), "data")
        with headrace.Job("%s=s3://bkt/p" % data, store) as job:
            names = job.good(["find", data, "-type", "f"]).split()
            proc.expect_equal(sorted(os.fsencode(os.path.join(data, key[2:])) for key in objects), sorted(names), "names")
            lists = [query for _, _, query in store.requests if "list-type" in query and "max-keys=1" not in query]
            pages = [query for query in lists if "delimiter=" not in query]
            # Directories are asked for beside the listing: 7 of 4 pages each, and their parent, at most; the listing asks for
            # the parent's folders, too.
            proc.expect(25 <= len(pages) <= 70, "%d LISTs for 25 pages" % len(pages))
            proc.expect(len(lists) - len(pages) <= 30, "%d LISTs of directories" % (len(lists) - len(pages)))
            inside = all("prefix=p%2F" in query or "prefix=p/" in query for query in lists)
            proc.expect(inside, "a LIST outside the prefix", *lists[:3])
            proc.expect_equal(job.good(["cat", data + "/3/000003"]), b"3", "bytes")


def test_broken_listing_is_an_error():
    """A page that ends in the middle of its XML is never an incomplete directory."""
    objects = {"p/%03d" % n: b"x" for n in range(300)}
    with DictStore(objects, page=100) as store:
        whole = store.list

        class Cut:
            def __init__(self, handler):
                self.handler = handler

            def reply(self, status, headers, body):
                self.handler.reply(status, headers, body[:len(body) // 2])

        def second_page_cut(handler, pairs):
            whole(Cut(handler) if "continuation-token" in pairs else handler, pairs)
        store.list = second_page_cut
        data = os.path.join(proc.temp_folder(), "data")
        with headrace.Job("%s=s3://bkt/p" % data, store, timeout_s=2) as job:
            proc.expect_equal(job.python(TRY_LIST, data), "errno 5\n", "listing of a prefix whose second page is broken")
