"""Random key sets through every server at hand: what `headrace ls -R` and a walk under the preload show is what the rules
for keys that cannot be a path (docs/design.md) make of the keys that were put. HEADRACE_TEST_SEED repeats a run."""
import base64
import bisect
import os
import random
import urllib.parse

from harness import front, headrace, proc, servers
from harness.case import test
from harness.faults import DictStore

KEY_MAX = 1024
NAME_MAX = 255
FILLER = "0123456789abcdef" * 8
PARTS = ["a", "b", "-", "0", "1", "9", "Z", "~", "a" * 24, "train_", "é", "ж", "日本", "😀", "\U00010000", "\uffff", "\u2028",
         "%", "%2F", "+", " ", "&amp;", "<", "\"", "'", "#", "?", "*", "\\", ":", ";", "="]
CONTROLS = ["\n", "\t", "\r", "\x01", "\x1f", "\x7f"]  # XML 1.0 has no place for some, and servers fail on them
NO_PATHS = ["//", "/./", "/../", "/", "x" * 260]
RAW = [b"\xff\xfe", b"\x80", b"\xed\xa0\x80", b"\xc3"]  # the third is a lone surrogate

SHOW = """
import os, sys
top = os.fsencode(sys.argv[1])
for here, dirs, files in os.walk(top):
    for name in dirs: print('d', repr(os.path.relpath(os.path.join(here, name), top)))
    for name in files: print('f', repr(os.path.relpath(os.path.join(here, name), top)))
"""


def seeded(name):
    seed = int(os.environ.get("HEADRACE_TEST_SEED") or random.SystemRandom().randrange(10**9))
    print("%s: HEADRACE_TEST_SEED=%d" % (name, seed))
    return random.Random(seed), "seed %d" % seed


def random_keys(chance, count, parts, depth=7):
    """Keys as bytes; many share long beginnings."""
    trunks = [b"", b"data/", b"shared/" + FILLER.encode() + b"/", b"img_" + FILLER[:40].encode()]
    kinds = chance.sample(parts, min(len(parts), chance.randrange(3, 40)))
    keys = set()
    for _ in range(count):
        key = chance.choice(trunks)
        for _ in range(chance.randrange(1, depth)):
            part = chance.choice(kinds)
            key += part if isinstance(part, bytes) else part.encode()
            key += b"/" if chance.random() < 0.2 else b""
        if key and len(key) + len("p/") <= KEY_MAX:
            keys.add(key)
    return keys


def model(sizes):
    """Files and folders that the rules make of {key below the prefix: size}."""
    files, folders = set(), set()
    for key, size in sizes.items():
        body = key[:-1] if key.endswith(b"/") else key
        names = body.split(b"/")
        if not key or any(name in (b"", b".", b"..") or len(name) > NAME_MAX for name in names):
            continue
        folders.update(b"/".join(names[:n]) for n in range(1, len(names)))
        (folders if key.endswith(b"/") else files).add(body)
    return files - folders, folders


def check(job, data, sizes, said):
    files, folders = model(sizes)
    want = sorted(["f %r" % name for name in files] + ["d %r" % name for name in folders])
    have = sorted(job.python(SHOW, data).splitlines())
    missing, extra = sorted(set(want) - set(have)), sorted(set(have) - set(want))
    proc.expect(have == want, "the walk differs, " + said, "missing: %s" % missing[:6], "extra: %s" % extra[:6],
                job.log_tail(3000))
    lines = b"\n".join(list(files) + [name + b"/" for name in folders]).split(b"\n")
    done = job.command("ls", "-R", data)
    proc.expect_equal(done.returncode, 0, "status of ls -R, " + said)
    proc.expect(sorted(done.stdout[:-1].split(b"\n")) == sorted(lines), "ls -R differs, " + said)


class ByteStore(DictStore):
    """Lists any bytes, percent-encoded; in bytewise order."""

    def __init__(self, keys, page):
        self.keys = sorted(keys)
        super().__init__({}, page=page)

    def list(self, handler, pairs):
        query = dict(pair.partition("=")[::2] for pair in handler.path.partition("?")[2].split("&"))

        def given(name):
            return urllib.parse.unquote_to_bytes(query.get(name, "").replace("+", " "))
        prefix, after = given("prefix"), given("start-after")
        if "continuation-token" in query:
            after = base64.urlsafe_b64decode(given("continuation-token"))
        limit = min(int(query.get("max-keys") or 1000), self.page)
        at = max(bisect.bisect_right(self.keys, after), bisect.bisect_left(self.keys, prefix))
        end = bisect.bisect_left(self.keys, prefix + b"\xff" * 8)
        found = self.keys[at:min(end, at + limit)]
        more = at + limit < end
        out = ["<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>%s</IsTruncated>" % str(more).lower()]
        if more:
            out.append("<NextContinuationToken>%s</NextContinuationToken>" % base64.urlsafe_b64encode(found[-1]).decode())
        out += ["<Contents><Key>%s</Key><LastModified>2026-11-21T10:00:00.000Z</LastModified><ETag>&quot;x&quot;</ETag>"
                "<Size>1</Size></Contents>" % urllib.parse.quote(key, "/-_.~") for key in found]
        handler.reply(200, [("Content-Type", "application/xml")], ("".join(out) + "</ListBucketResult>").encode())


@test(timeout=60)
def test_random_keys_of_any_bytes():
    """A store that keeps every key, many pages, many lanes: one set of text, one of any bytes."""
    chance, said = seeded("any bytes")
    for parts in (PARTS + CONTROLS + NO_PATHS, PARTS + CONTROLS + NO_PATHS + RAW * 4):
        keys = random_keys(chance, 3000, parts)
        with ByteStore([b"p/" + key for key in keys], page=chance.randrange(20, 120)) as store:
            data = os.path.join(proc.temp_folder(), "data")
            with headrace.Job("%s=s3://bkt/p" % data, store, list_lanes=chance.choice([1, 8, 48])) as job:
                check(job, data, {key: 1 for key in keys}, said)


def peaceful(keys):
    """Without keys that a server on a file system cannot keep beside the others."""
    keys = {key for key in keys if not key.endswith(b"/") and b"//" not in key and not key.startswith(b"/")}
    keys = {key for key in keys if not {b".", b".."} & set(key.split(b"/")) and max(map(len, key.split(b"/"))) <= 200}
    folders = {key[:at] for key in keys for at in range(len(key)) if key[at:at + 1] == b"/"}
    return keys - folders


def on_server(server, name, parts=tuple(PARTS)):
    """Puts the keys and takes for put those that the server gives back."""
    chance, said = seeded(name)
    keys = sorted(peaceful(random_keys(chance, 400, parts)))
    client, kept = server.client(), {}
    client.request("PUT", "bkt")
    for key in keys:
        text, body = "p/" + key.decode(), key[-8:]
        if client.request("PUT", "bkt", text, body=body)[0] == 200:
            status, _, have = client.request("GET", "bkt", text)
            if (status, have) == (200, body):
                kept[key] = len(body)
    proc.expect(len(kept) >= len(keys) // 2, "%s kept %d of %d keys, %s" % (name, len(kept), len(keys), said))
    with front.Front(server) as cloud:
        data = os.path.join(proc.temp_folder(), "data")
        with headrace.Job("%s=s3://bkt/p" % data, cloud) as job:
            check(job, data, kept, said)


@test(("nginx", "rclone"), timeout=60)
def test_random_keys_rclone():
    folder = proc.temp_folder()
    os.makedirs(os.path.join(folder, "bkt"))
    with servers.Rclone(folder) as server:
        on_server(server, "rclone")


@test(("nginx", "weed"), timeout=120)
def test_random_keys_seaweedfs():
    with servers.SeaweedFS() as server:
        # It takes a backslash for a slash, which is another key.
        on_server(server, "seaweedfs", [part for part in PARTS if part != "\\"])


@test(("nginx", "versitygw"), timeout=90)
def test_versitygw_random_keys():
    with servers.Versitygw() as server:
        # It lists U+FFFF as U+FFFD, which is another key.
        on_server(server, "versitygw", [part for part in PARTS if part != "\uffff"])
