"""What the network, the store and the kill command do to us: right bytes or a truthful error, never a hang or ENOENT."""
import hashlib
import os
import random
import re
import signal
import struct
import threading
import time

from harness import fixtures, front, headrace, paths, proc, servers, training
from harness.case import test
from harness.faults import DictStore, FaultProxy
from harness.scene import scene

NEEDS = ("nginx", "rclone")
SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"

# Opens what it is given: the bytes' number, or the errno.
TRY = """
import sys
for name in sys.argv[1:]:
    try: print(len(open(name, 'rb').read()))
    except OSError as e: print('errno', e.errno)
"""

# Reads every file given by a tree walk and prints a digest of names and bytes.
DIGEST = """
import hashlib, os, sys
names = sorted(os.path.join(d, n) for d, _, files in os.walk(sys.argv[1]) for n in files)
print('walked', len(names), flush=True)
h = hashlib.sha256()
for n in names: h.update(hashlib.sha256(open(n, 'rb').read()).digest())
print(h.hexdigest())
"""


def local_digest(folder):
    return proc.run([paths.PYTHON, "-c", DIGEST, folder]).stdout.split()[-1].decode()


class Faulty:
    """rclone behind a FaultProxy behind one job."""

    def __init__(self, fixture, fault, **settings):
        self.store = servers.Rclone(fixture)
        self.proxy = FaultProxy(self.store, fault)
        self.data = os.path.join(proc.temp_folder(), "data")
        self.local = fixtures.tree(fixture)
        self.job = headrace.Job("%s=s3://bkt/train" % self.data, self.proxy, access=self.store.access,
                                secret=self.store.secret, **settings)

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.job.__exit__(*what)
        self.proxy.stop()
        self.store.stop()


@test(NEEDS)
def test_truncated_bodies_are_fetched_again():
    """Every object is cut short at its first GET: right digest, and every failure counted as a retry."""
    with Faulty(fixtures.images(), lambda path, nth: ("truncate", 3000) if nth == 1 else None) as f:
        proc.expect_equal(f.job.python(DIGEST, f.data).split()[-1], local_digest(f.local), "digest")
        proc.expect(f.job.status()["retries"] >= 400, "retries %s" % f.job.status()["retries"])


@test(NEEDS)
def test_truncated_always_is_an_error():
    with Faulty(fixtures.mixed(), lambda path, nth: ("truncate", 10) if path.endswith("two.bin") else None,
                timeout_s=3) as f:
        proc.expect_equal(f.job.python(TRY, f.data + "/a/two.bin"), "errno 5\n", "an object that always comes short")
        proc.expect(f.job.good(["cat", f.data + "/top.txt"]).startswith(b"hello"), "the others")


@test(NEEDS)
def test_flipped_bytes_are_fetched_again():
    """A wrong byte on the way (TCP's checksum would miss it once in a while): the MD5 in the ETag tells."""
    with Faulty(fixtures.images(), lambda path, nth: ("flip", 100) if nth == 1 and path[-5] in "02468" else None) as f:
        proc.expect_equal(f.job.python(DIGEST, f.data).split()[-1], local_digest(f.local), "digest")


@test(NEEDS)
def test_kms_bucket_works():
    """ETags that look like MD5s and are none, bytes that repeat: the check goes off with one warning, bytes are right."""
    objects = {"train/k%02d" % n: random.Random(n).randbytes(5000 + n) for n in range(30)}
    with DictStore(objects, etag=lambda key, body: "%032x" % (hash(key) & ((1 << 128) - 1))) as store:
        data = os.path.join(proc.temp_folder(), "data")
        with headrace.Job("%s=s3://bkt/train" % data, store) as job:
            for key, body in sorted(objects.items()):
                name = os.path.join(data, os.path.basename(key))
                proc.expect(job.good(["cat", name]) == body, "bytes of " + key)
            gets = sum(1 for method, path, query in store.requests if "list-type" not in query)
            proc.expect(gets <= 34, "%d GETs for 30 objects" % gets)


@test(NEEDS, timeout=120)
def test_503_on_every_third_request():
    with scene(slow_down=3, delay_ms=2) as s:
        want = training.local(s.local, script=training.STAND_IN)
        done = s.job.run(training.argv(s.data, script=training.STAND_IN), 110)
        proc.expect(b"No such file" not in done.stderr, "an ENOENT", proc.tail(done.stderr))
        proc.expect_equal(done.returncode, 0, "status (%s)" % proc.tail(done.stderr))
        training.expect_same(training.parse(done.stdout), want)
        headrace.wait_idle(s.job)
        training.expect_one_get_each(s.front.log(), s.job, s.fixture)


@test(NEEDS)
def test_503_for_ever_is_eio():
    with Faulty(fixtures.mixed(), lambda path, nth: ("status", 503, SLOW_DOWN), timeout_s=4) as f:
        began = time.monotonic()
        proc.expect_equal(f.job.good(["stat", "-c", "%s", f.data + "/top.txt"]), b"27\n", "its size by the listing")
        proc.expect_equal(f.job.python(TRY, f.data + "/top.txt"), "errno 5\n", "open")
        proc.expect(time.monotonic() - began < 25, "the budget is 4 s")


@test(NEEDS)
def test_500s_under_load_are_retried():
    """rclone itself answers a few 500s under load; here every fifth first try does."""
    error = b"<Error><Code>InternalError</Code></Error>"
    fault = ("status", 500, error)
    with Faulty(fixtures.images(), lambda path, nth: fault if nth == 1 and path[-5] in "05" else None) as f:
        proc.expect_equal(f.job.python(DIGEST, f.data).split()[-1], local_digest(f.local), "digest")


@test(NEEDS)
def test_access_denied_for_one_object():
    denied = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
    with Faulty(fixtures.mixed(), lambda path, nth: ("status", 403, denied) if path.endswith("top.txt") else None) as f:
        out = f.job.python(TRY, f.data + "/top.txt", f.data + "/a-b")
        proc.expect_equal(out, "errno 13\n24\n", "it and its neighbour")


@test(NEEDS)
def test_object_deleted_after_the_listing():
    with scene(fixtures.copy(fixtures.mixed())) as s:
        s.job.good(["ls", s.data])
        os.unlink(os.path.join(s.local, "a.c"))
        time.sleep(1.2)  # rclone's directory cache
        proc.expect_equal(s.job.python(TRY, s.data + "/a.c"), "errno 2\n", "errno of an object that is gone")


@test(NEEDS)
def test_object_changed_after_the_listing():
    """changed=error gives ESTALE, changed=follow the new bytes; never the new bytes under the old size."""
    text = "the new and longer text\n"
    for options, want in (("", "errno 116\n"), ("?changed=follow", "%d\n" % len(text))):
        with scene(fixtures.copy(fixtures.mixed()), options=options) as s:
            s.job.good(["ls", s.data])
            with open(os.path.join(s.local, "a.c"), "w") as out:
                out.write(text)
            time.sleep(1.2)  # rclone's directory cache
            have = s.job.python(TRY, s.data + "/a.c")
            proc.expect_equal(have, want, "an object that changed (%s)" % (options or "changed=error"))
            if options:
                proc.expect_equal(s.job.good(["cat", s.data + "/a.c"]), text.encode(), "the new bytes")


@test(NEEDS, timeout=120)
def test_large_object_changed_between_ranges():
    """Ranges of two versions are never mixed: ESTALE, or all new."""
    body = [random.Random(1).randbytes(20 << 20), random.Random(2).randbytes(20 << 20)]
    objects = {"train/big": body[0]}
    with DictStore(objects) as store:
        get = store.get

        def change_after_two(handler, key):
            store.count = getattr(store, "count", 0) + 1
            if store.count == 2:
                objects["train/big"] = body[1]
            get(handler, key)
        store.get = change_after_two
        data = os.path.join(proc.temp_folder(), "data")
        with headrace.Job("%s=s3://bkt/train" % data, store) as job:
            job.good(["ls", data])
            out = job.python("import hashlib, sys\n"
                             "try: print(hashlib.sha256(open(sys.argv[1] + '/big', 'rb').read()).hexdigest())\n"
                             "except OSError as e: print('errno', e.errno)", data).strip()
            proc.expect(out in ("errno 116", hashlib.sha256(body[1]).hexdigest()), "read of a changed object: %s" % out)


class Liar(DictStore):
    """What `lie` makes of a body, its headers and the span that Content-Range tells is sent under the right ETag."""

    def __init__(self, objects, lie):
        super().__init__(objects)
        self.lie = lie

    def get(self, handler, key):
        reply = handler.reply
        handler.reply = lambda status, headers, body, gate=None: reply(status, *self.lie(headers, body), gate)
        try:
            super().get(handler, key)
        finally:
            handler.reply = reply


def check_liar(objects, lie, name, gets, said):
    """Each read is EIO, with or without changed=follow, after `gets` GETs (None: any number); a line says why."""
    for options in ("", "?changed=follow"):
        with Liar(objects, lie) as store:
            data = os.path.join(proc.temp_folder(), "data")
            with headrace.Job("%s=s3://bkt/train%s" % (data, options), store, prefetch="off") as job:
                job.good(["ls", data])
                done = job.run([paths.PYTHON, "-c", TRY, os.path.join(data, name)])
                proc.expect_equal(done.stdout, b"errno 5\n", "read of an object under a lie (%s)" % options)
                proc.expect(said in done.stderr.decode(), "what is said", done.stderr)
                have = sum(1 for method, path, query in store.requests if path.endswith(name))
                proc.expect(gets is None or have == gets, "%d GETs, want %s" % (have, gets))
                proc.expect_equal(job.status()["plan"]["changed"], 0, "objects that changed")


@test(NEEDS, timeout=120)
def test_another_length_of_the_same_version():
    """A store or proxy that sends more or less than it lists, under the listed ETag: EIO that says so, no ESTALE."""
    small = {"train/a": b"0123456789" * 100, "train/b": b"b"}
    packed = [("Content-Encoding", "gzip")]
    check_liar(small, lambda headers, body: (headers, body[:-3]), "a", 5,
               "the body has 997 bytes, expected 1000, and the ETag is the same")
    check_liar(small, lambda headers, body: (headers, body + b"more"), "a", 5,
               "the body has 1004 bytes, expected 1000, and the ETag is the same")
    check_liar(small, lambda headers, body: (headers + packed, b"packed"), "a", 5,
               "the ETag is the same (content-encoding: gzip,")


@test(NEEDS, timeout=120)
def test_another_length_of_the_same_large_version():
    large = {"train/big": random.Random(1).randbytes(20 << 20), "train/b": b"b"}

    def shorter(headers, body):
        return [(name, re.sub("-([0-9]+)/", lambda last: "-%d/" % (int(last[1]) - 1), value))
                for name, value in headers], body[:-1]

    def other_total(headers, body):
        return [(name, value.replace("/20971520", "/30000000")) for name, value in headers], body
    check_liar(large, other_total, "big", None, "tells another size than it had, and the ETag is the same")
    check_liar(large, shorter, "big", None, "the range has ")


def kill_during(s, child, times, pause_s):
    """kill -9 the daemon again and again while the child runs."""
    killed = 0
    for _ in range(times):
        time.sleep(pause_s)
        if child.poll() is not None:
            break
        pid = s.job.daemon_pid()
        if pid:
            try:
                os.kill(pid, signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                pass
            proc.wait_until(lambda: not proc.alive(pid), 5, "daemon dead")
            proc.reap(pid)
    return killed


@test(NEEDS, timeout=120)
def test_daemon_kill9_mid_epoch():
    with scene(fixtures.images(2000, 20, 64), delay_ms=30) as s:
        want = training.local(s.local, script=training.STAND_IN)
        log = os.path.join(proc.temp_folder(), "log")
        child = s.job.start(training.argv(s.data, "--epochs", 3, script=training.STAND_IN), log=log)
        killed = kill_during(s, child, 3, 0.5)
        proc.expect_equal(child.wait(90), 0, "status (%s)" % open(log).read()[-1500:])
        proc.expect(killed >= 1, "no daemon was killed: the epochs were too short")
        with open(log, "rb") as file:
            training.expect_same(training.parse(file.read()), want, 3)
        s.job.note_daemon()


@test(NEEDS, timeout=120)
def test_daemon_kill9_while_opens_wait():
    """Eight processes wait in open() for objects that take 1.5 s; the daemon dies; all get their bytes."""
    with scene(fixtures.mixed(), delay_ms=1500, prefetch="off") as s:
        code = ("import hashlib, os, sys\nos.listdir(sys.argv[1])\nprint('opening', flush=True)\n"
                "print(hashlib.sha256(open(sys.argv[1] + '/' + sys.argv[2], 'rb').read()).hexdigest())")
        names = ["top.txt", "a/one.txt", "a/two.bin", "a-b", "a.c", "b/mega.bin", "empty", ".hidden"]
        children = []
        for name in names:
            log = os.path.join(proc.temp_folder(), "log")
            children.append((s.job.start([paths.PYTHON, "-c", code, s.data, name], log=log), log, name))
        for _, log, _ in children:
            proc.wait_until(lambda log=log: open(log).read(), 30, "the programs at their opens")
        time.sleep(0.5)
        s.job.kill_daemon()
        for child, log, name in children:
            proc.expect_equal(child.wait(40), 0, "status for %s (%s)" % (name, open(log).read()[-800:]))
            proc.expect_equal(open(log).read().split()[-1], fixtures.file_digest(os.path.join(s.local, name)), name)
        s.job.note_daemon()


@test(NEEDS, timeout=120)
def test_client_kill9_a_thousand_times():
    """Clients die at any moment of an open; afterwards everybody still gets everything."""
    with scene(prefetch="off", delay_ms=1) as s:
        code = """
import os, random, signal, sys, time
rng = random.Random(3)
names = sorted(os.path.join(d, n) for d, _, files in os.walk(sys.argv[1]) for n in files)
for number in range(1000):
    pid = os.fork()
    if pid == 0:
        for at in range(50): os.close(os.open(names[(number * 7 + at) % len(names)], os.O_RDONLY))
        os._exit(0)
    time.sleep(rng.random() * 0.004)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
print('killed')
"""
        s.job.python(code, s.data, timeout=90)
        proc.expect_equal(s.job.python(DIGEST, s.data).split()[-1], local_digest(s.local), "digest")
        claims = read_claims(s.job)
        proc.wait_until(lambda: not any(read_claims(s.job)), 10, "all slots free again (%d taken)"
                        % sum(1 for claim in claims if claim))


# interpose/abi.h: struct hr_slots.
CLAIMS_AT, SLOTS, SLOT_BYTES, TREES_MAX = 64, 1024, 1088, 1024
SLOTS_AT = CLAIMS_AT + 8 * SLOTS + 4 * TREES_MAX


def read_claims(job):
    with open(os.path.join(job.cache, "slots"), "rb") as file:
        file.seek(CLAIMS_AT)
        return struct.unpack("<%dQ" % SLOTS, file.read(8 * SLOTS))


@test(NEEDS)
def test_claimed_slots_of_the_dead_are_reclaimed():
    """Every slot is claimed by clients that died before filling it: opens work again within seconds."""
    with scene(fixtures.mixed()) as s:
        s.job.good(["cat", s.data + "/top.txt"])
        now_ms = int(time.monotonic() * 1000) & 0xFFFFFFFF
        claim = 1 | (4194300 << 2) | (now_ms << 32)
        with open(os.path.join(s.job.cache, "slots"), "r+b") as file:
            file.seek(CLAIMS_AT)
            file.write(struct.pack("<Q", claim) * SLOTS)
        began = time.monotonic()
        proc.expect_equal(len(s.job.good(["cat", s.data + "/a-b"])), 24, "an open with all slots claimed")
        proc.expect(time.monotonic() - began < 15, "took %.1f s" % (time.monotonic() - began))
        proc.wait_until(lambda: not any(read_claims(s.job)), 10, "all slots free again")


@test(NEEDS)
def test_hostile_slots_do_not_hurt_the_daemon():
    """Random bytes announced as full requests: the daemon drops them and goes on."""
    with scene(fixtures.mixed()) as s:
        s.job.good(["cat", s.data + "/top.txt"])
        pid = s.job.daemon_pid()
        rng = random.Random(5)
        with open(os.path.join(s.job.cache, "slots"), "r+b") as file:
            for turn in range(6):
                for number in range(SLOTS):
                    body = bytearray(rng.randbytes(SLOT_BYTES))
                    if turn % 2:  # a right checksum, so that the bounds checks are reached
                        struct.pack_into("<IIIII", body, 4, rng.randrange(1, 6), rng.choice((0, 1, 5, 0xFFFFFFFF)),
                                         rng.choice((0, 1, 2, 77)), rng.choice((0, 5, 1 << 31)), rng.randrange(1 << 32))
                        length = rng.choice((0, 1, 1024, 1025, 0xFFFFFFFF))
                        struct.pack_into("<I", body, 44, length)
                        value = 2166136261
                        for byte in body[4:48 + min(length, 1024)]:
                            value = ((value ^ byte) * 16777619) & 0xFFFFFFFF
                        struct.pack_into("<I", body, 0, value)
                        if number >= 64:
                            break
                    file.seek(SLOTS_AT + number * SLOT_BYTES)
                    file.write(body)
                    file.seek(CLAIMS_AT + 8 * number)
                    file.write(struct.pack("<Q", 2 | (4194300 << 2)))
                file.flush()
                s.job.good(["cat", s.data + "/a/one.txt"])  # rings the doorbell
        proc.wait_until(lambda: not any(read_claims(s.job)), 10, "all slots free again")
        proc.expect_equal(s.job.daemon_pid(), pid, "the daemon's pid")
        proc.expect_equal(s.job.python(DIGEST, s.data).split()[-1], local_digest(s.local), "digest")


@test(NEEDS, timeout=90)
def test_idle_connections_that_the_server_closed():
    with scene(fixtures.mixed()) as s:
        s.job.good(["cat", s.data + "/top.txt"])
        time.sleep(6)  # the front closes idle connections after 5 s
        proc.expect_equal(len(s.job.good(["cat", s.data + "/a-b"])), 24, "after the close")


@test(NEEDS, timeout=90)
def test_server_restart_in_the_middle():
    """The store is away for two seconds: the epoch waits and ends well."""
    with scene(fixtures.images(2000, 20, 64), delay_ms=10) as s:
        want = training.local(s.local, script=training.STAND_IN)
        log = os.path.join(proc.temp_folder(), "log")
        child = s.job.start(training.argv(s.data, script=training.STAND_IN), log=log)
        proc.wait_until(lambda: len(s.front.log().gets) > 100 or child.poll() is not None, 20, "some GETs")
        os.kill(s.store.child.pid, signal.SIGSTOP)
        threading.Timer(2, lambda: os.kill(s.store.child.pid, signal.SIGCONT)).start()
        proc.expect_equal(child.wait(60), 0, "status (%s)" % open(log).read()[-1500:])
        with open(log, "rb") as file:
            training.expect_same(training.parse(file.read()), want)
        s.job.note_daemon()


# Says when the file is open, then what is in it.
OPEN_THEN_READ = """
import hashlib, os, sys
with open(sys.argv[1], 'rb') as file:
    print('open', os.fstat(file.fileno()).st_size, flush=True)
    print(hashlib.sha256(file.read()).hexdigest())
"""


@test()
def test_open_of_an_unlisted_large_object_waits_for_its_headers():
    """The store keeps the body to itself until the program has the file open."""
    body = random.Random(4).randbytes((9 << 20) + 77)
    log = os.path.join(proc.temp_folder(), "log")
    data = os.path.join(proc.temp_folder(), "data")
    with DictStore({"big": body, "other": b"x"}, etag=lambda key, body: hashlib.md5(body).hexdigest() + "-2") as store:
        store.body_gate = threading.Event()
        with headrace.Job("%s=s3://bkt/" % data, store.url, access="a", secret="b") as job:
            child = job.start([paths.PYTHON, "-c", OPEN_THEN_READ, data + "/big"], log=log)

            def told():
                with open(log) as file:
                    return file.read().split()
            try:
                proc.wait_until(lambda: told()[:2] == ["open", str(len(body))], 10, "open while the body is held")
                proc.expect_equal(len(told()), 2, "words while the body is held")
            finally:
                store.body_gate.set()
            proc.expect_equal(child.wait(60), 0, "status")
            proc.expect_equal(told()[2:], [hashlib.sha256(body).hexdigest()], "digest")
            gets = [path for _, path, query in store.requests if "list-type" not in query]
            proc.expect_equal(len(gets), 2, "ranges that were asked for: %s" % gets)
