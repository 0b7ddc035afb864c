"""Buckets with rules of their own: archived and encrypted objects, versions, who pays, names that are left out."""
import base64
import hashlib
import os
import re

from harness import headrace, paths, proc, servers
from harness.case import test
from harness.faults import DictStore

KEY = bytes(range(32))
TRY = """
import sys
for name in sys.argv[1:]:
    try: print(len(open(name, 'rb').read()))
    except OSError as e: print('errno', e.errno)
"""
WALK = """
import os, sys
for d, dirs, files in sorted(os.walk(sys.argv[1])):
    for name in sorted(files): print(os.path.relpath(os.path.join(d, name), sys.argv[1]))
    if not dirs and not files: print(os.path.relpath(d, sys.argv[1]) + '/')
"""


class Rules(DictStore):
    """`archived`: key -> storage class; `locked`: keys that only come with KEY; `payer`: who asks must agree to pay."""

    def __init__(self, objects, archived=None, locked=(), payer=False, **options):
        self.archived, self.locked, self.payer = archived or {}, set(locked), payer
        super().__init__(objects, **options)

    def answer(self, handler):
        if self.payer and handler.headers.get("x-amz-request-payer") != "requester":
            self.error(handler, 403, "AccessDenied")
            return
        super().answer(handler)

    def get(self, handler, key):
        if key in self.archived:
            handler.reply(403, [("Content-Type", "application/xml")], (
                "<Error><Code>InvalidObjectState</Code><Message>The operation is not valid for the object's storage class"
                "</Message><StorageClass>%s</StorageClass></Error>" % self.archived[key]).encode())
            return
        sent = handler.headers.get("x-amz-server-side-encryption-customer-key")
        if key in self.locked and not sent:
            handler.reply(400, [("Content-Type", "application/xml")], (
                b"<Error><Code>InvalidRequest</Code><Message>The object was stored using a form of Server Side Encryption. "
                b"The correct parameters must be provided to retrieve the object.</Message></Error>"))
            return
        if key in self.locked:
            name = "x-amz-server-side-encryption-customer-"
            good = (base64.b64decode(sent) == KEY and handler.headers.get(name + "algorithm") == "AES256"
                    and base64.b64decode(handler.headers.get(name + "key-md5")) == hashlib.md5(KEY).digest()
                    and "customer-key" in handler.headers.get("authorization", ""))
            if not good:
                self.error(handler, 403, "AccessDenied")
                return
        super().get(handler, key)

    def gets(self):
        return sum(1 for method, _, query in self.requests if method == "GET" and "list-type" not in query)


def job_of(store, data, options="", **settings):
    return headrace.Job("%s=s3://bkt/train%s" % (data, options), store, access="k", secret="s", **settings)


def place():
    return os.path.join(proc.temp_folder("hr-"), "data")


def few(n=6):
    return {"train/%d" % i: b"x" * (i + 1) for i in range(n)}


@test()
def test_archived_objects_are_eacces_naming_the_class():
    """And they are nobody's refusal: the others, more than three refusals later, still come."""
    data, objects = place(), few(8)
    cold = {"train/%d" % i: "DEEP_ARCHIVE" if i else "GLACIER" for i in range(5)}
    with Rules(objects, archived=cold) as store, job_of(store, data, prefetch="off") as job:
        done = job.run([paths.PYTHON, "-c", TRY] + [os.path.join(data, str(i)) for i in range(8)])
        said = done.stderr.decode()
        proc.expect(done.stdout.decode().split("\n")[:8] == ["errno 13"] * 5 + ["6", "7", "8"], repr(done.stdout))
        proc.expect("GLACIER" in said and "archived" in said and "restore" in said, said)


@test()
def test_customer_key_is_sent_with_every_get():
    data, objects = place(), few(4)
    file = os.path.join(proc.temp_folder(), "key")
    for text in (KEY, base64.b64encode(KEY) + b"\n"):
        with open(file, "wb") as out:
            out.write(text)
        with Rules(objects, locked=objects) as store, job_of(store, data, customer_key_file=file) as job:
            out = job.python(TRY, *[os.path.join(data, str(i)) for i in range(4)])
            proc.expect(out.split() == ["1", "2", "3", "4"], out, job.log_tail())
            done = job.command("doctor")
            proc.expect(re.search(rb"^ok +get ", done.stdout, re.M), "doctor", done.stdout)
            proc.expect(base64.b64encode(KEY).decode() not in job.log_tail(100000), "the key is in the log")


@test()
def test_customer_key_missing_or_bad_is_told():
    data, objects, folder = place(), few(2), proc.temp_folder()
    with Rules(objects, locked=objects) as store:
        with job_of(store, data) as job:
            done = job.run([paths.PYTHON, "-c", TRY, os.path.join(data, "0")])
            proc.expect(done.stdout == b"errno 13\n" and b"customer_key_file" in done.stderr, repr(done.stdout), repr(done.stderr))
        for name, text, says in (("none", None, b"no such file"), ("short", b"abc", b"32 bytes")):
            file = os.path.join(folder, name)
            if text is not None:
                with open(file, "wb") as out:
                    out.write(text)
            with job_of(store, data, customer_key_file=file) as job:
                done = job.run(["true"])
                proc.expect(done.returncode == 125 and says in done.stderr and b"customer_key_file" in done.stderr,
                            repr(done))
    with headrace.Job("%s=s3://bkt/train" % data, "http://192.0.2.1:9", access="k", secret="s",
                      customer_key_file=os.path.join(folder, "short")) as job:
        done = job.run(["true"])
        proc.expect(done.returncode == 125 and b"https" in done.stderr, repr(done))


@test()
def test_requester_pays_is_agreed_to_only_when_asked():
    data, objects = place(), few(3)
    with Rules(objects, payer=True) as store:
        with job_of(store, data, "?requester_pays=yes") as job:
            out = job.python(WALK, data)
            proc.expect(out.split() == ["0", "1", "2"], out)
            proc.expect(job.python(TRY, os.path.join(data, "2")) == "3\n", job.log_tail())
        with job_of(store, data) as job:
            done = job.run([paths.PYTHON, "-c", TRY, os.path.join(data, "2")])
            proc.expect(done.stdout == b"errno 13\n", repr(done.stdout), repr(done.stderr))


@test()
def test_prefix_never_matches_its_longer_neighbour():
    data = place()
    objects = {"train/a": b"1", "train2/b": b"22", "train-x": b"333", "train": b"4444", "trai/n": b"5"}
    with DictStore(objects) as store, job_of(store, data) as job:
        proc.expect(job.python(WALK, data) == "a\n", job.python(WALK, data))
        out = job.python(TRY, data + "2/b", data + "-x", data + "/b")
        proc.expect(out.split("\n")[:3] == ["errno 2"] * 3, out)


TREE = ("a/1.jpg", "a/2.png", "a/tmp/3.jpg", "b/4.jpg", "b/deep/er/5.jpg", "c/6.txt", "7.jpg", "8.txt")


@test()
def test_include_and_exclude_choose_names():
    objects = {"train/" + name: name.encode() for name in TREE}
    rows = (("*.jpg", "", ["7.jpg", "a/1.jpg", "a/tmp/3.jpg", "b/4.jpg", "b/deep/er/5.jpg"]),
            ("*.jpg", "tmp,b/deep/**", ["7.jpg", "a/1.jpg", "b/4.jpg"]),
            ("", "a,*.txt", ["7.jpg", "b/4.jpg", "b/deep/er/5.jpg"]),
            ("/b", "", ["b/4.jpg", "b/deep/er/5.jpg"]))
    with DictStore(objects) as store:
        for include, exclude, there in rows:
            data = place()
            options = "?include=%s&exclude=%s" % (include.replace("*", "%2A"), exclude.replace("*", "%2A"))
            with job_of(store, data, options) as job:
                # By name, before there is a listing, and after.
                for _ in range(2):
                    out = job.python(TRY, *[os.path.join(data, name) for name in TREE]).split("\n")
                    want = [str(len(name)) if name in there else "errno 2" for name in TREE]
                    proc.expect(out[:-1] == want, "include=%s exclude=%s" % (include, exclude), out, want)
                    proc.expect(sorted(job.python(WALK, data).split()) == sorted(there), job.python(WALK, data))
                status = job.status()
                proc.expect(status["index.objects"] == len(there), "%s objects" % status["index.objects"])


@test()
def test_include_asks_no_request_for_what_it_leaves_out():
    objects = {"train/" + name: name.encode() for name in TREE}
    data = place()
    with DictStore(objects) as store, job_of(store, data, "?exclude=%2A.txt") as job:
        out = job.python(TRY, os.path.join(data, "8.txt"), os.path.join(data, "c/6.txt"))
        proc.expect(out == "errno 2\nerrno 2\n", out)
        proc.expect(not store.requests, repr(store.requests))


@test()
def test_two_jobs_with_two_filters_over_one_prefix():
    """Each sees its own names; an object is fetched once for both."""
    objects = {"train/" + name: name.encode() for name in TREE}
    data = place()
    with DictStore(objects) as store, job_of(store, data, "?include=%2A.jpg", prefetch="off") as job:
        job.python(TRY, os.path.join(data, "7.jpg"))
        with job_of(store, data, "?include=7%2A", cache=job.cache, prefetch="off") as other:
            proc.expect(other.python(WALK, data) == "7.jpg\n", other.python(WALK, data))
            proc.expect(other.python(TRY, os.path.join(data, "7.jpg")) == "5\n", other.log_tail())
        proc.expect(len(job.python(WALK, data).split()) == 5, job.python(WALK, data))
        gets = [path for method, path, query in store.requests if "list-type" not in query]
        proc.expect(gets == ["/bkt/train/7.jpg"], repr(gets))


@test()
def test_bad_pattern_is_told():
    data = place()
    with DictStore(few()) as store:
        for options, says in (("?include=[a", b"include=[a"), ("?exclude=a,,b", b"exclude=a,,b")):
            with job_of(store, data, options.replace("[", "%5B")) as job:
                done = job.run(["true"])
                proc.expect(done.returncode == 125 and says in done.stderr, repr(done))


@test(("weed",), timeout=120)
def test_versioned_bucket_shows_the_newest():
    """SeaweedFS with versioning on: replaced, deleted (a delete marker), and put again."""
    data = place()
    with servers.SeaweedFS() as store:
        client = store.client()
        client.request("PUT", "bkt")
        status, _, body = client.request("PUT", "bkt", query=[("versioning", "")], body=(
            b'<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Status>Enabled</Status>'
            b"</VersioningConfiguration>"))
        proc.expect(status == 200, "PUT answered %s" % status, repr(body))
        for name, text in (("same", b"1"), ("new", b"old"), ("new", b"newer"), ("gone", b"x"), ("back", b"y")):
            client.put("bkt", "train/" + name, text)
        client.request("DELETE", "bkt", "train/gone")
        client.request("DELETE", "bkt", "train/back")
        client.put("bkt", "train/back", b"again")
        with job_of(store, data) as job:
            job.access, job.secret = store.access, store.secret
            names = [os.path.join(data, name) for name in ("same", "new", "gone", "back")]
            want = "1\n5\nerrno 2\n5\n"
            proc.expect(job.python(TRY, *names) == want, job.python(TRY, *names), job.log_tail())
            proc.expect(job.python(WALK, data).split() == ["back", "new", "same"], job.python(WALK, data))
            proc.expect(job.python(TRY, *names) == want, job.python(TRY, *names))


@test(("weed",), timeout=120)
def test_customer_key_on_a_real_server():
    data, file = place(), os.path.join(proc.temp_folder(), "key")
    with open(file, "wb") as out:
        out.write(KEY)
    sent = {"x-amz-server-side-encryption-customer-algorithm": "AES256",
            "x-amz-server-side-encryption-customer-key": base64.b64encode(KEY).decode(),
            "x-amz-server-side-encryption-customer-key-md5": base64.b64encode(hashlib.md5(KEY).digest()).decode()}
    body = os.urandom(300000)
    with servers.SeaweedFS() as store:
        client = store.client()
        client.request("PUT", "bkt")
        status, _, text = client.request("PUT", "bkt", "train/x", body=body, extra=sent)
        proc.expect(status == 200, "PUT answered %s" % status, repr(text))
        with job_of(store, data, customer_key_file=file) as job:
            job.access, job.secret = store.access, store.secret
            out = job.python("import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())",
                             os.path.join(data, "x")).strip()
            proc.expect(out == hashlib.sha256(body).hexdigest(), out, job.log_tail())
        with job_of(store, data) as job:
            job.access, job.secret = store.access, store.secret
            done = job.run([paths.PYTHON, "-c", TRY, os.path.join(data, "x")])
            proc.expect(done.stdout == b"errno 13\n", repr(done.stdout), repr(done.stderr))
