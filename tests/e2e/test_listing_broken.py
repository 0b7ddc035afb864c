"""A store that answers listings wrongly, and a daemon that dies while it writes the index: never a wrong name, never endless,
and an error that names the page."""
import base64
import os
import random
import re
import time

from harness import headrace, paths, proc
from harness.case import test
from harness.faults import DictStore
from test_listing import Listd

OBJECTS = {"d%d/f%03d" % (n % 7, n): b"x" for n in range(300)}
TOKEN = rb"(?<=<NextContinuationToken>)[^<]*"
STRICT = """
import os, sys
def refuse(error): raise error
try:
    print(sum(len(names) for _, _, names in os.walk(sys.argv[1], onerror=refuse)))
except OSError as error:
    print("errno", error.errno)
"""


class Broken(DictStore):
    """`spoil(answer, nth, far)` makes of the nth listing's answer what is sent; far: it is not the first page."""

    def __init__(self, spoil):
        self.spoil, self.lists = spoil, 0
        super().__init__(dict(OBJECTS), page=20)

    def list(self, handler, pairs):
        with self.lock:
            self.lists += 1
            nth = self.lists
        far = "continuation-token" in pairs or "start-after" in pairs
        send = type(handler).reply
        handler.reply = lambda status, headers, body: send(handler, status, headers, self.spoil(body, nth, far))
        super().list(handler, pairs)
        del handler.reply


class Again:
    """The first page of keys, whatever is asked for."""

    def __init__(self):
        self.first = None

    def __call__(self, body, nth, far):
        if not self.first and b"<Key>" in body:
            self.first = body
        return self.first or body


def cut(body, nth, far):
    return body[:len(body) // 2] if far else body


def not_xml(body, nth, far):
    return b"<html><body>Please log in</body></html>" if far else body


def nothing(body, nth, far):
    return b"" if far else body


def foreign(body, nth, far):
    return body.replace(b"<Key>d", b"<Key>\xff\xfed") if far else body


def busy(body, nth, far):
    return b"<Error><Code>SlowDown</Code><Message>later</Message></Error>" if far else body


def loop(body, nth, far):
    """One token for every page."""
    body = re.sub(TOKEN, base64.urlsafe_b64encode(b"d3/f010"), body)
    return body.replace(b"<IsTruncated>false", b"<IsTruncated>true")


def ring(body, nth, far):
    """Behind the last page comes the third again, with tokens and keys that are in order until then."""
    if b"<IsTruncated>false" not in body or b"<Key>" not in body:
        return body
    token = b"<NextContinuationToken>" + base64.urlsafe_b64encode(b"d1/f100") + b"</NextContinuationToken>"
    return body.replace(b"<IsTruncated>false", b"<IsTruncated>true").replace(b"</ListBucketResult>",
                                                                              token + b"</ListBucketResult>")


def job_of(store, lanes):
    data = os.path.join(proc.temp_folder(), "data")
    return data, headrace.Job("%s=s3://bkt/" % data, store.url, access="a", secret="b", list_lanes=lanes, timeout_s=1)


@test(timeout=60)
def test_broken_listings_end_and_name_the_page():
    cases = ((cut, "the listing is broken"), (not_xml, "neither a listing nor an error document"),
             (nothing, "the listing is broken"), (foreign, "the listing is broken"), (busy, "SlowDown"),
             (Again, "keys again"), (loop, "token again"))
    for spoil, why in cases:
        for lanes in (16, 1) if spoil in (cut, Again, loop) else (16,):
            name = "%s, %d lanes" % (spoil.__name__, lanes)
            with Broken(spoil() if spoil is Again else spoil) as store:
                data, job = job_of(store, lanes)
                with job:
                    done = job.command("ls", "-R", data)
                    said = done.stderr.decode()
                    proc.expect_equal((done.returncode, done.stdout), (1, b""), "status and names of ls -R, " + name)
                    proc.expect(re.search(r"listing, page 2: .*%s" % why, said), name, said)
                    proc.expect(store.lists < 200, "%d LISTs, %s" % (store.lists, name))
                    if lanes > 1:
                        proc.expect_equal(job.python(STRICT, data), "errno 5\n", "what a walk ends with, " + name)


@test()
def test_listing_that_goes_round_ends():
    """All pages come, and then some of them for ever: by one lane an error; many enforce their ends, and are done."""
    with Broken(ring) as store:
        data, job = job_of(store, 1)
        with job:
            done = job.command("ls", "-R", data)
            proc.expect_equal((done.returncode, done.stdout), (1, b""), "status and names")
            proc.expect(re.search(rb"listing, page \d+: .*again", done.stderr), done.stderr)
            proc.expect(store.lists < 100, "%d LISTs" % store.lists)


@test()
def test_listing_broken_once_is_asked_again():
    """One answer of several is cut, says SlowDown, or is no listing: nobody notices."""
    def once(body, nth, far):
        return {3: body[:len(body) // 2], 6: busy(body, nth, True), 9: not_xml(body, nth, True)}.get(nth, body)
    for lanes in (1, 16):
        with Broken(once) as store:
            data, job = job_of(store, lanes)
            job.settings["timeout_s"] = 20
            with job:
                proc.expect_equal(job.python(STRICT, data), "%d\n" % len(OBJECTS), "files, %d lanes" % lanes)
                proc.expect(store.lists > 9, "%d LISTs" % store.lists)


READER = """
import os, sys, time
top, stop = sys.argv[1:]
rounds = 0
while not os.path.exists(stop) or rounds < 3:
    number = rounds * 7919 % 200000
    name = "%s/img_%08d.jpg" % (top, number)
    assert os.stat(name).st_size == SIZE, name
    assert not os.path.exists(name + "x"), name
    if rounds % 3 == 0:
        names = os.listdir(top)
        assert names == sorted(names) and len(names) == 200000, len(names)
    rounds += 1
print(rounds)
"""


def being_written(index):
    return [name for name in os.listdir(index) if re.search(r"\.names\.[0-9a-f]+$", name)]


@test(timeout=90)
def test_daemon_dies_while_it_writes_the_index():
    """kill -9 again and again, in the middle of a file that has no name yet where one is seen: a reader that goes on all the
    while sees every name, and the next daemon leaves no unfinished file."""
    keys, chance = 200000, random.Random(6)
    with Listd("sequential", keys) as store:
        folder = proc.temp_folder()
        data, stop = os.path.join(folder, "data"), os.path.join(folder, "stop")
        with headrace.Job("%s=s3://bkt/train/" % data, store.url, access="a", secret="b", revalidate="start") as job:
            size = job.python("import os, sys; print(os.stat(sys.argv[1] + '/img_00000000.jpg').st_size)", data).strip()
            log = os.path.join(folder, "reader.log")
            reader = job.start([paths.PYTHON, "-c", READER.replace("SIZE", size), data, stop], log=log)
            index, written = os.path.join(job.cache, "index"), 0
            for _ in range(7):
                proc.wait_until(job.daemon_pid, 20, "a daemon")
                for _ in range(chance.randrange(1000)):
                    if being_written(index):
                        written += 1
                        break
                    time.sleep(0.001)
                job.kill_daemon()
                proc.expect(reader.poll() is None, "the reader ended", open(log).read()[-1500:])
            open(stop, "w").close()
            proc.expect_equal(reader.wait(60), 0, "status of the reader")
            job.note_daemon()
            proc.expect_equal(job.command("count", data).stdout, b"%d\t%s\n" % (keys, data.encode()), "count")
            proc.expect_equal(being_written(index), [], "unfinished files of daemons that died")
            print("%d of 7 died while a file was written" % written)
