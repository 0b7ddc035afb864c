"""DataLoader workers that come and go while large objects are open: nothing hangs, and nothing is left over."""
import os

from harness import paths, proc
from harness.case import test
from harness.scene import scene
from test_programs import FACES, NEEDS, made, program, text

FILES = 12
LINES = 3000  # 160 KB a file: faces with the least small_max


def pieces():
    def make(folder):
        for number in range(FILES):
            with open(os.path.join(folder, "%02d.txt" % number), "wb") as out:
                out.write(text(number, LINES))
    return made("churn", make, __file__)


def holders(cache):
    """Processes of this machine that have a cache file open or mapped, the daemon aside."""
    found = []
    mark = os.path.join(cache, "objects") + os.sep
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            links = [os.readlink("/proc/%s/fd/%s" % (pid, name)) for name in os.listdir("/proc/%s/fd" % pid)]
            with open("/proc/%s/maps" % pid) as file:
                links += [line.split(None, 5)[5] for line in file if mark in line]
        except OSError:
            continue  # gone meanwhile
        if any(link.startswith(mark) for link in links):
            found.append("%s %s" % (pid, proc.command_line(int(pid))))
    return [one for one in found if "headrace" not in os.path.basename(one.split(" ")[1])]


def said_by(job, folder, cycles, method, limit_s):
    out = job.good([paths.PYTHON, program("churn.py"), folder, str(cycles), method], limit_s)
    return dict(line.split(" ", 1) for line in out.decode().splitlines())


def churn(method, cycles, limit_s):
    with scene(pieces(), **FACES) as s:
        said_by(s.job, s.data, 1, method, 60)  # every face there will be
        before = s.job.status()
        proc.expect_equal(before["cache.faces"], FILES, "faces of %d files" % FILES)
        said = said_by(s.job, s.data, cycles, method, limit_s)
        want = proc.run([paths.PYTHON, program("churn.py"), s.local, "0", method], 60)
        proc.expect(want.returncode == 0, "on a local copy", proc.tail(want.stderr))
        local = dict(line.split(" ", 1) for line in want.stdout.decode().splitlines())
        proc.expect_equal((said["cycles"], said["files"]), ("%d sum %s" % (cycles, local["cycles"].split()[-1]), local["files"]),
                          "what was read")
        count, later, new = said["descriptors"].split(" ", 2)
        proc.expect_equal((later, new), (count, "[]"), "descriptors of the parent after %d cycles" % cycles)
        few, many = said["maps"].split()
        proc.expect(int(many) <= int(few) + FILES, "mapped cache files grew from %s to %s" % (few, many))
        proc.expect_equal(said["children"].split()[1], said["children"].split()[0], "children left, zombies too")
        proc.wait_until(lambda: not holders(s.job.cache), 10, "nobody holds a cache file")
        after = s.job.status()
        proc.expect_equal(after["cache.faces"], before["cache.faces"], "faces after %d cycles" % cycles)
        proc.expect_equal(after["requests.get"], before["requests.get"], "GETs of the same bytes")


@test(NEEDS + ("torch",), timeout=150)
def test_churn_fork():
    churn("fork", 120, 120)


@test(NEEDS + ("torch",), timeout=150)
def test_churn_spawn():
    churn("spawn", 4, 120)


@test(NEEDS + ("torch",), timeout=500, slow=True)
def test_churn_fork_all():
    churn("fork", 950, 450)


@test(NEEDS + ("torch",), timeout=400, slow=True)
def test_churn_spawn_all():
    churn("spawn", 50, 350)
