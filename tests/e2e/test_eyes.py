"""What a person sees: who waits for what (stall), what a job waited for and what would help (report), and the figures
behind both."""
import contextlib
import json
import os
import signal
import stat
import subprocess
import threading

from harness import fixtures, headrace, paths, proc, servers
from harness.case import test
from harness.faults import FaultProxy
from harness.scene import scene

NEEDS = ("nginx", "rclone")
OPEN_ONE = "import sys, hashlib\nprint(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())"
OPEN_SOME = ("import os, sys\nroot, count = sys.argv[1], int(sys.argv[2])\n"
             "for name in sorted(os.listdir(root))[:count]:\n    open(os.path.join(root, name), 'rb').read()\n")


def report_of(job):
    done = job.command("report", "--json")
    proc.expect(done.returncode == 0, "report", proc.tail(done.stdout, done.stderr))
    return json.loads(done.stdout)


def ended_report(job, program):
    """Of a job that has ended: the daemon hears of it a moment later."""
    def ended():
        report = report_of(job)
        return report if not report["running"] and report["program"].startswith(program) else None
    return proc.wait_until(ended, 10, "the report of %s" % program)


@test(NEEDS)
def test_report_of_cold_opens():
    """The store is far enough for what is waited for to weigh, however long the listing took."""
    with scene(prefetch="off", delay_ms=50) as s:
        none = s.job.command("report")
        proc.expect(none.returncode == 1 and b"no job has been reported" in none.stderr, "before any job", none.stderr)
        s.job.python(OPEN_SOME, s.data + "/n001", "20")
        report = ended_report(s.job, paths.PYTHON)
        by = report["waits"]["by"]
        proc.expect_equal({name: by[name]["count"] for name in by if by[name]["count"]}, {"demand": 20, "listing": 1},
                          "waits by reason")
        proc.expect_equal(report["waits"]["count"], 21, "waits")
        proc.expect(abs(sum(row["ms"] for row in by.values()) - report["waits"]["ms"]) < 0.01, "sums", report["waits"])
        status = s.job.status()
        proc.expect_equal((report["requests"]["get"], report["cache"]["misses"], report["cache"]["hits"]), (20, 20, 0),
                          "GETs, misses, hits")
        proc.expect_equal((status["waits.demand.count"], status["wait_ms.count"], status["waits.listing.count"]),
                          (20, 20, 1), "status agrees")
        proc.expect(report["alone"] and report["seconds"] > 0, "one job", report)
        proc.expect("nothing had foreseen" in " ".join(report["advice"]), "what to change", report["advice"])
        text = s.job.command("report").stdout.decode()
        proc.expect("20 times" in text and "What to change" in text, "the text", text)


@test(NEEDS)
def test_report_of_a_warm_job():
    with scene(prefetch="off") as s:
        s.job.command("warm", s.data + "/n001")
        s.job.python(OPEN_SOME, s.data + "/n001", "20")
        report = ended_report(s.job, paths.PYTHON)
        proc.expect_equal((report["waits"]["count"], report["requests"]["get"], report["cache"]["hits"]), (0, 0, 20),
                          "waits, GETs, hits")
        proc.expect_equal(report["prefetch"]["hint"]["used"], 20, "what was warmed is used")
        proc.expect_equal(report["advice"], [], "nothing to change")


@test(NEEDS)
def test_report_outlives_the_daemon():
    with scene(prefetch="off") as s:
        s.job.python(OPEN_SOME, s.data + "/n001", "3")
        before = ended_report(s.job, paths.PYTHON)
        s.job.stop()
        proc.expect_equal(report_of(s.job), before, "after the daemon's end")
        s.job.command("ls", s.data)  # starts the next daemon, and is no job
        proc.expect_equal(report_of(s.job), before, "in the next daemon's life")
        s.job.good(["cat", s.data + "/n002/img_00002.jpg"])
        after = ended_report(s.job, "cat")
        proc.expect_equal((after["waits"]["by"]["demand"]["count"], after["requests"]["get"]), (1, 1), "the next job")
        folder = os.path.join(s.job.cache, "reports")
        names = os.listdir(folder)
        proc.expect_equal((len(names), stat.S_IMODE(os.stat(folder).st_mode)), (2, 0o700), "files, mode of the folder")
        for name in names:
            path = os.path.join(folder, name)
            with open(path) as file:
                text = file.read()
            proc.expect_equal(stat.S_IMODE(os.stat(path).st_mode), 0o600, "mode of " + name)
            proc.expect(s.job.secret not in text and s.job.access not in text, "keys in a report", text)


@test(NEEDS)
def test_report_of_a_preloaded_job():
    """Without `run` nobody tells the program's name: the first request does."""
    with scene(prefetch="off") as s:
        done = s.job.preload(["cat", s.data + "/n001/img_00001.jpg"])
        proc.expect(done.returncode == 0, "cat", proc.tail(done.stderr))
        report = report_of(s.job)
        proc.expect_equal((report["program"], report["waits"]["by"]["demand"]["count"]), ("cat", 1), "program, waits")


@test(NEEDS)
def test_report_of_large_objects():
    with scene(fixtures.mixed_large(), prefetch="off", small_max="64K") as s:
        s.job.python("import os, sys\nfd = os.open(sys.argv[1], os.O_RDONLY)\nos.pread(fd, 4096, 12 << 20)",
                     s.data + "/b/mega.bin")
        report = ended_report(s.job, paths.PYTHON)
        by = report["waits"]["by"]
        proc.expect(by["segment"]["count"] >= 1 and by["late"]["count"] == 0, "waits for bytes", by)
        proc.expect_equal(report["cache"]["segment_misses"], by["segment"]["count"], "as the plan counts them")


@contextlib.contextmanager
def held(fault=None, **settings):
    """A job whose GETs are held until `release` is set."""
    fixture = fixtures.images()
    release = threading.Event()

    def hold(path, nth):
        if fault:
            return fault(path, nth)
        release.wait(300)
        return None
    data = os.path.join(proc.temp_folder("hr-"), "data")
    with servers.Rclone(fixture) as store, FaultProxy(store, hold) as front:
        source = "%s=s3://%s/%s" % (data, fixtures.BUCKET, fixtures.PREFIX)
        with headrace.Job(source, front.url, store.access, store.secret, prefetch="off", **settings) as job:
            try:
                yield job, data, fixtures.tree(fixture), release
            finally:
                release.set()


def stall_until(job, wanted, *argv):
    """`headrace stall` until its text has all of `wanted`."""
    def look():
        done = job.command("stall", *argv)
        text = done.stdout.decode("utf-8", "replace")
        return text if done.returncode == 0 and all(part in text for part in wanted) else None
    try:
        return proc.wait_until(look, 20, "stall says %s" % (wanted,))
    except proc.Failure as failure:
        raise proc.Failure("%s\n%s" % (failure, proc.tail(job.command("stall", *argv).stdout)))


@test(NEEDS)
def test_stopped_daemon_is_named():
    """Who asks it hears of that, and does not wait for ever."""
    with scene(prefetch="off") as s:
        s.job.command("ls", s.data)
        pid = s.job.daemon_pid()
        env = dict(s.job.env(), HEADRACE_MAP=";".join(s.job.maps))
        os.kill(pid, signal.SIGSTOP)
        try:
            asking = [subprocess.Popen([s.job.program, *argv], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                      for argv in (["stall"], ["status"], ["top"], ["stop"], ["ls", s.data])]
            for child in asking:
                _, said = child.communicate(timeout=60)
                proc.expect(child.returncode == 1 and b"process %d, is stopped" % pid in said, child.args, said)
        finally:
            os.kill(pid, signal.SIGCONT)
        proc.expect_equal(s.job.command("ls", s.data).returncode, 0, "ls after it went on")


@test("rclone")
def test_stall_names_who_waits():
    with held() as (job, data, local, release):
        none = job.command("stall")
        proc.expect(none.returncode == 1 and b"no daemon" in none.stderr, "without a daemon", none.stderr)
        gone = job.command("stall", "99999999")
        proc.expect(gone.returncode == 1 and b"no process" in gone.stderr, "of a process that is not there", gone.stderr)
        log = os.path.join(os.path.dirname(job.cache), "job.log")
        child = job.start([paths.PYTHON, "-c", OPEN_ONE, data + "/n003/img_00003.jpg"], log=log)
        text = stall_until(job, ("request 1 in flight to 127.0.0.1:", "(libc"))
        proc.expect("pid %d tid %d " % (child.pid, child.pid) in text, "who", text)
        proc.expect("open s3://bkt/train/n003/img_00003.jpg for" in text, "for what", text)
        proc.expect("1 thread waits" in text and "py-spy" in text, "the last line", text)
        proc.expect("(libheadrace.so)" in text and "sleep_on" not in text, "the stack begins at the program's call", text)
        proc.expect("1 thread waits" in stall_until(job, ("in flight",), str(child.pid)), "by its pid")
        proc.expect("0 threads wait" in job.command("stall", str(os.getpid())).stdout.decode() or
                    proc.parents().get(child.pid) == os.getpid(), "by another pid")
        release.set()
        proc.expect_equal(child.wait(20), 0, "the job goes on unharmed")
        with open(log) as file:
            proc.expect_equal(file.read().split()[-1], fixtures.file_digest(local + "/n003/img_00003.jpg"), "bytes")
        proc.expect_equal(job.status()["requests.get"], 1, "GETs")
        proc.expect_equal(job.command("stall").stdout, b"0 threads wait for headrace\n", "nobody waits")
        proc.expect_equal(job.command("stall", "x").returncode, 2, "no pid")


@test("rclone")
def test_stall_of_children_and_queues():
    """A worker belongs to its parent; with one connection the second open queues."""
    code = ("import os, sys\nif os.fork() == 0:\n    open(sys.argv[1], 'rb').read()\n    os._exit(0)\n"
            "open(sys.argv[2], 'rb').read()\nos.wait()\n")
    with held(connections=1) as (job, data, _, release):
        child = job.start([paths.PYTHON, "-c", code, data + "/n003/img_00003.jpg", data + "/n004/img_00004.jpg"])
        text = stall_until(job, ("request 1 in flight", "queued: as many requests are in flight", "2 threads wait"),
                           str(child.pid))
        proc.expect("img_00003" in text and "img_00004" in text, "both", text)
        proc.expect("0 threads wait" in job.command("stall", "1").stdout.decode() or
                    os.getpid() == 1 or "2 threads wait" in job.command("stall", "1").stdout.decode(), "below pid 1")
        release.set()
        proc.expect_equal(child.wait(20), 0, "the job")


BUSY = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"


@test("rclone")
def test_stall_of_a_throttled_request_and_its_report():
    many = threading.Event()

    def fault(path, nth):
        return None if many.is_set() else ("status", 503, BUSY)
    with held(fault) as (job, data, _, _release):
        child = job.start(["cat", data + "/n003/img_00003.jpg"])
        stall_until(job, ("retries in", "SlowDown"))
        many.set()
        proc.expect_equal(child.wait(40), 0, "the job")
        report = ended_report(job, "cat")
        by = report["waits"]["by"]
        proc.expect_equal((by["throttled"]["count"], by["demand"]["count"]), (1, 0), "waits: throttled, demand")
        proc.expect(report["throttled"] >= 1 and "`connections`" in " ".join(report["advice"]), "advice", report["advice"])


# Refuses ptrace as container profiles do, then becomes its arguments.
NO_PTRACE = """
import ctypes, os, struct, sys
machine = os.uname().machine
number = {"x86_64": 101, "aarch64": 117}[machine]
code = b"".join(struct.pack("HBBI", *row) for row in (
    (0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)))
buffer = ctypes.create_string_buffer(code)
class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Program(4, ctypes.addressof(buffer))), 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[1], sys.argv[1:])
"""


@test("rclone")
def test_stall_where_ptrace_is_refused():
    with held() as (job, data, _, release):
        child = job.start(["cat", data + "/n003/img_00003.jpg"])
        stall_until(job, ("in flight",))
        done = proc.run([paths.PYTHON, "-c", NO_PTRACE, job.program, "stall"], 30, env=job.env())
        text = done.stdout.decode()
        proc.expect("stack: refused: a seccomp profile forbids ptrace" in text, "the word", text, done.stderr)
        proc.expect("img_00003.jpg for" in text and "in flight" in text, "the rest is shown", text)
        release.set()
        proc.expect_equal(child.wait(20), 0, "the job")


@test("rclone")
def test_report_of_what_came_late():
    """Two objects are on their way for `warm` when the job opens them."""
    with held() as (job, data, _, release):
        names = [data + "/n003/img_00003.jpg", data + "/n004/img_00004.jpg"]
        log = os.path.join(os.path.dirname(job.cache), "warm.log")
        warm = proc.start([job.program, "warm", *names], log, env=dict(job.env(), HEADRACE_MAP=";".join(job.maps)))
        proc.wait_until(lambda: job.daemon_pid() and job.status()["inflight"] == 2, 20, "both are on their way")
        child = job.start(["cat", *names])
        stall_until(job, ("img_00003.jpg", "in flight"))
        release.set()
        proc.expect_equal((child.wait(20), warm.wait(20)), (0, 0), "the job, warm")
        by = ended_report(job, "cat")["waits"]["by"]
        # The second has come meanwhile, or not quite.
        proc.expect(by["late"]["count"] in (1, 2) and by["demand"]["count"] == 0, "late and demanded", by)


@test("rclone")
def test_report_of_several_runs_of_one_environment():
    """Ranks that are started one by one are one job, which ends with the last."""
    with held() as (job, data, _, release):
        first = job.start(["cat", data + "/n003/img_00003.jpg"])
        stall_until(job, ("img_00003.jpg", "in flight"))
        second = job.start(["head", "-c", "1", data + "/n004/img_00004.jpg"])
        stall_until(job, ("img_00004.jpg", "2 threads wait"))
        proc.expect(report_of(job)["running"], "it runs")
        release.set()
        proc.expect_equal((first.wait(20), second.wait(20)), (0, 0), "both")
        report = ended_report(job, "cat")
        proc.expect_equal((report["waits"]["by"]["demand"]["count"], report["requests"]["get"], report["alone"]),
                          (2, 2, True), "waits and GETs of both, one job")


@test("rclone")
def test_status_says_what_the_planner_does():
    with held(connections=1) as (job, data, _, release):
        child = job.start(["sh", "-c", "cat $0 & cat $1; wait", data + "/n003/img_00003.jpg", data + "/n004/img_00004.jpg"])
        stall_until(job, ("2 threads wait", "queued: as many requests"))
        plan = job.status()["plan"]
        proc.expect_equal((plan["queued_demand"], plan["queued_sweep"], plan["connections"]), (1, 0, 1), "queues, limit")
        text = job.command("status").stdout.decode()
        for part in ("The planner:", "in flight: 1 of 1 connections", "requests that it gets at a time", "order: not known",
                     "policy recent", "hit rate", "plan.queued_demand", "waits.demand.count"):
            proc.expect(part in text, "status for people has " + part, text)
        top = job.command("top", "--count", "1").stdout.decode()
        proc.expect("in flight 1 queued 1" in top, "top", top)
        release.set()
        proc.expect_equal(child.wait(20), 0, "the job")


@test(NEEDS)
def test_doctor_is_no_job():
    """The report after it is still the program's."""
    with scene(fixtures.mixed()) as s:
        s.job.good(["cat", s.data + "/top.txt"])
        done = s.job.command("doctor")
        proc.expect(b"preload      a program starts under it" in done.stdout, "doctor", done.stdout, done.stderr)
        report = json.loads(s.job.command("report", "--json").stdout)
        proc.expect_equal(report["program"], "cat", "whose report it is")
