"""`headrace warm`: what is below mapped paths is brought into the cache, once, and waited for."""
import os

from harness import fixtures, proc
from harness.case import test
from harness.scene import scene

NEEDS = ("nginx", "rclone")
READ = "import os, sys\nfor d, _, fs in os.walk(sys.argv[1]):\n    for f in fs:\n        open(os.path.join(d, f), 'rb').read()\n"


def gets_of(s):
    """Requests by the daemon's count, the second ones of hedges left out."""
    status = s.job.status()
    return status["requests.get"] - status["hedges"]


@test(NEEDS)
def test_warm_directories_and_files():
    with scene(prefetch="off") as s:
        done = s.job.command("warm", s.data + "/n001", s.data + "/n002/../n002/")
        proc.expect(done.returncode == 0, "warm", proc.tail(done.stdout, done.stderr))
        proc.expect(b"100 of 100 files" in done.stderr, "progress", done.stderr)
        plan = s.job.status()["plan"]
        proc.expect_equal((gets_of(s), plan["fetched_hint"]), (100, 100), "GETs, objects brought by a hint")
        s.job.python(READ, s.data + "/n001")
        proc.expect_equal(gets_of(s), 100, "GETs after reading what was warmed")
        again = s.job.command("warm", s.data + "/n001/img_00001.jpg")
        proc.expect(again.returncode == 0 and b"1 of 1 files" in again.stderr, "warm again", again.stderr)
        proc.expect_equal(gets_of(s), 100, "GETs after warming again")


@test(NEEDS)
def test_warm_reads_a_list():
    with scene(prefetch="off") as s:
        names = sorted(os.path.join(s.data, "n000", name) for name in os.listdir(os.path.join(s.local, "n000")))
        text = "\n".join(names[:7] + ["", s.data + "/n001/none.jpg"]) + "\n"
        done = s.job.command("warm", "-", input=text.encode())
        proc.expect_equal(done.returncode, 1, "status: one name is not there")
        proc.expect(b"n001/none.jpg: No such file" in done.stderr, "the name that failed", done.stderr)
        proc.expect_equal(gets_of(s), 7, "GETs")
        outside = s.job.command("warm", "/etc/hosts")
        proc.expect(outside.returncode == 1 and b"is in no map" in outside.stderr, "a path in no map", outside.stderr)


@test(NEEDS)
def test_warm_stops_when_the_cache_is_full():
    with scene(fixtures.images(files=800, side=224), prefetch="off", cache_size="64M") as s:
        done = s.job.command("warm", s.data)
        proc.expect_equal(done.returncode, 1, "status")
        proc.expect(b"the cache is full" in done.stderr, "says so", done.stderr)
        status = s.job.status()
        proc.expect_equal(status["cache.evictions"], 0, "evictions")
        proc.expect_equal(status["cache.objects"], len(s.front.log().keys()), "what was fetched is there")
        proc.expect(status["cache.bytes"] > (60 << 20), "the cache is nearly full", status["cache.bytes"])


@test(NEEDS)
def test_warm_a_large_object():
    with scene(fixtures.mixed_large(), prefetch="off") as s:
        done = s.job.command("warm", s.data + "/b/mega.bin")
        proc.expect(done.returncode == 0, "warm", proc.tail(done.stderr))
        proc.expect_equal(gets_of(s), 3, "GETs of three cells")
        cat = s.job.command("cat", s.data + "/b/mega.bin")
        with open(os.path.join(s.local, "b/mega.bin"), "rb") as file:
            proc.expect(cat.stdout == file.read(), "bytes", proc.tail(cat.stderr))
        proc.expect_equal(gets_of(s), 3, "GETs after reading")


@test(NEEDS)
def test_usefulness_in_status_and_top():
    with scene(prefetch="off") as s:
        none = s.job.command("top", "--count", "1")
        proc.expect(none.returncode == 1 and b"no daemon" in none.stderr, "top without a daemon", none.stderr)
        s.job.command("warm", s.data + "/n001")
        s.job.python(READ, s.data + "/n001")
        plan_of = lambda: s.job.status()["plan"]
        proc.wait_until(lambda: plan_of()["used_hint"] == 50, 10, "what was warmed is counted as used")
        proc.expect_equal((plan_of()["fetched_hint"], plan_of()["wasted_hint_bytes"]), (50, 0), "fetched, wasted")
        top = s.job.command("top", "--count", "2")
        proc.expect_equal((top.returncode, len(top.stdout.splitlines())), (0, 2), "top: status and lines")
        proc.expect(b"GET/s" in top.stdout and b"\033" not in top.stdout, "a plain line", top.stdout)
        proc.expect_equal(s.job.command("top", "--count", "0").returncode, 2, "top --count 0")
