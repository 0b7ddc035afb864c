"""`headrace warm`: what is below mapped paths is brought into the cache, once, and waited for."""
import os
import pty
import re
import subprocess

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


@test(NEEDS)
def test_waste_of_all_reasons_in_status():
    """Here of what `warm` brought: its file is gone when somebody opens it."""
    with scene(prefetch="off") as s:
        name = "n000/img_00008.jpg"
        proc.expect_equal(s.job.command("warm", os.path.join(s.data, name)).returncode, 0, "warm")
        for folder, _, files in os.walk(os.path.join(s.job.cache, "objects")):
            for file in files:
                os.unlink(os.path.join(folder, file))
        with open(os.path.join(s.local, name), "rb") as file:
            want = file.read()
        proc.expect(s.job.good(["cat", os.path.join(s.data, name)]) == want, "bytes")
        status = s.job.status()
        proc.expect_equal((status["plan.wasted_hint_bytes"], status["bytes.wasted"]), (len(want), len(want)), "bytes left unused")


def on_terminal(job, *argv):
    """The command with stderr on a terminal of its own: (status, what the terminal got)."""
    master, slave = pty.openpty()
    child = subprocess.Popen([job.program, *argv], env=dict(job.env(), HEADRACE_MAP=";".join(job.maps)),
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    text = b""
    while True:
        try:
            got = os.read(master, 65536)
        except OSError:  # the other side was closed
            break
        if not got:
            break
        text += got
    os.close(master)
    return child.wait(30), text.decode()


@test(NEEDS)
def test_warm_progress_on_a_terminal_and_in_a_log():
    with scene(prefetch="off", delay_ms=400, connections=8) as s:
        status, text = on_terminal(s.job, "warm", s.data + "/n001")
        proc.expect_equal(status, 0, "status")
        lines = text.replace("\r\n", "\n").split("\r")
        proc.expect(len(lines) > 3 and lines[-1].endswith("\n"), "drawn again in place, then a line", text)
        proc.expect(re.search(r"\[=*>? *\] +\d+ % \d+ of 50 files, [\d.]+ of [\d.]+ MiB", lines[1]), "a bar", lines[1])
        proc.expect(any(re.search(r"MiB/s, \d+:\d\d left", line) for line in lines), "rate and time left", lines)
        proc.expect(re.search(r"100 % 50 of 50 files, .*/s, .*, in \d+:\d\d", lines[-1]), "the last line", lines[-1])
        done = s.job.command("warm", s.data + "/n001")
        proc.expect_equal((done.stderr.count(b"\n"), done.stderr.count(b"\r"), done.stderr.count(b"[")), (1, 0, 0),
                          "no terminal: one plain line of what was there")


def tree_of(root):
    return {os.path.relpath(os.path.join(here, name), root): os.stat(os.path.join(here, name))
            for here, _, names in os.walk(root) for name in names}


@test(NEEDS)
def test_warm_to_a_directory():
    with scene(fixtures.mixed_large(), prefetch="off") as s:
        to = os.path.join(proc.temp_folder(), "copy")
        done = s.job.command("warm", "--to", to, s.data)
        proc.expect_equal(done.returncode, 0, "status: " + proc.tail(done.stderr))
        proc.expect_equal(fixtures.tree_digests(to), fixtures.tree_digests(s.local), "the same tree")
        proc.expect(b"; 0 were there" in done.stderr, "nothing was there", done.stderr)
        seen = s.job.good(["find", s.data, "-type", "f", "-printf", "%P %T@\\0"]).split(b"\0")
        mine = proc.run(["find", to, "-type", "f", "-printf", "%P %T@\\0"]).stdout.split(b"\0")
        proc.expect_equal(sorted(mine), sorted(seen), "times")
        gets = gets_of(s)
        with open(os.path.join(to, "top.txt"), "ab") as file:
            file.write(b"more")
        inodes = {name: st.st_ino for name, st in tree_of(to).items()}
        again = s.job.command("warm", "--to", to, s.data)
        proc.expect_equal(again.returncode, 0, "again: " + proc.tail(again.stderr))
        after = {name: st.st_ino for name, st in tree_of(to).items()}
        proc.expect_equal([name for name in inodes if inodes[name] != after[name]], ["top.txt"], "written anew")
        proc.expect(b"; %d were there" % (len(inodes) - 1) in again.stderr, "what was there", again.stderr)
        proc.expect_equal(gets_of(s), gets, "GETs: it is in the cache")
        proc.expect_equal(fixtures.tree_digests(to), fixtures.tree_digests(s.local), "the same tree again")


@test(NEEDS)
def test_warm_to_takes_paths_and_refuses_others():
    with scene(fixtures.mixed(), prefetch="off") as s:
        base = proc.temp_folder()
        to = os.path.join(base, "to")
        outside = os.path.join(base, "outside")
        os.makedirs(outside)
        os.makedirs(to)
        os.symlink(outside, os.path.join(to, "a"))
        done = s.job.command("warm", "--to", to, "-", input=("\n".join(
            [s.data + "/a/one.txt", s.data + "/b/plus+and%25percent.txt", s.data + "/none", "/etc/hosts"])).encode())
        proc.expect_equal(done.returncode, 1, "status")
        proc.expect_equal(os.listdir(outside), [], "nothing goes through a symlink")
        proc.expect_equal(os.listdir(os.path.join(to, "b")), ["plus+and%25percent.txt"], "the others are there")
        for part in (b"/a/one.txt: cannot be made below", b"/none: No such file", b"/etc/hosts is in no map"):
            proc.expect(part in done.stderr, "complaint", part, done.stderr)
        proc.expect_equal(s.job.command("warm", "--to", to).returncode, 2, "no path")


@test((*NEEDS, "mount"))
def test_warm_to_a_full_disk():
    with scene(prefetch="off") as s:
        script = ("mount -t tmpfs -o size=128k none /mnt && %s warm --to /mnt/copy %s/n001; echo status $?; "
                  "find /mnt/copy -type f | wc -l; find /mnt/copy -name '.headrace*'" % (s.job.program, s.data))
        done = proc.run(["unshare", "-m", "sh", "-c", script], 40,
                        env=dict(s.job.env(), HEADRACE_MAP=";".join(s.job.maps)))
        s.job.note_daemon()
        status, files = done.stdout.decode().split("\n")[:2]
        proc.expect_equal(status, "status 1", "status")
        proc.expect(0 < int(files) < 50, "some files, all whole", done.stdout)
        proc.expect(b".headrace" not in done.stdout, "nothing half-written", done.stdout)
        proc.expect(b"no space: " in done.stderr and b"MiB more are needed" in done.stderr, "says so", done.stderr)
