"""What every bench needs: epochs of epoch.py on a folder or a map, processor seconds, the daemon's memory, medians, and the
book of results that the tables are made of."""
import contextlib
import datetime
import json
import os
import platform
import resource
import statistics
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))

import ground  # noqa: E402
from harness import fixtures, headrace, paths, proc  # noqa: E402

EPOCH = os.path.join(HERE, "epoch.py")
RESULTS = os.path.join(paths.BUILD, "bench", "results.json")
LIMIT_S = 300          # of one run of a program
RSS_AIM_BYTES = 512 << 20
CLASSES, SIDE, SEED = 20, 224, 1  # pictures of about 110 KB
options = []           # what the command line said beside the names (run.py)
WATCH_S = 0.02         # between two looks at the daemon's memory


def cores():
    return len(os.sched_getaffinity(0))


def children_cpu_s():
    """Of every child that this process has waited for, and of theirs."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def median(values):
    return statistics.median(values)


def interval(values):
    """The order statistics that hold the median with 95 % (or all of them, where that takes all)."""
    ordered, count = sorted(values), len(values)
    tail, rank, ways = 0.0, 0, 1
    while rank < count // 2:
        tail += ways / 2 ** count
        if tail > 0.025:
            break
        ways = ways * (count - rank) // (rank + 1)
        rank += 1
    rank = max(rank, 1)
    return ordered[rank - 1], ordered[count - rank]


def lines(out):
    """The JSON lines of a program's output."""
    return [json.loads(line) for line in out.decode().splitlines() if line.startswith("{")]


def epoch_argv(place, *args, python=paths.PYTHON):
    return [python, EPOCH, place, *map(str, args)]


def local_epochs(folder, *args):
    done = proc.run(epoch_argv(folder, *args), LIMIT_S)
    proc.expect(done.returncode == 0, "local epoch: status %d" % done.returncode, proc.tail(done.stdout, done.stderr))
    return lines(done.stdout)


def mapped_epochs(job, *args):
    """`headrace run -- python epoch.py`, on the job's first map."""
    done = proc.run(job.run_argv(epoch_argv(job.maps[0].partition("=")[0], *args)), LIMIT_S, env=job.env())
    proc.expect(done.returncode == 0, "mapped epoch: status %d" % done.returncode, proc.tail(done.stdout, done.stderr),
                job.log_tail())
    return lines(done.stdout)


class Watch:
    """The most RssAnon that any daemon below this process had, looked at every WATCH_S; use as a context."""

    def __init__(self):
        self.peak_bytes = 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)

    @staticmethod
    def daemons(known={}):
        """Orphans come to this process (proc.adopt_orphans), so its daemons are its children."""
        found = set()
        for task in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError), open("/proc/self/task/%s/children" % task) as file:
                found.update(map(int, file.read().split()))
        for pid in found:
            words = known.get(pid)
            if not words:
                words = known[pid] = proc.command_line(pid)
            if "headrace" in words.partition(" ")[0] and " daemon" in words:
                yield pid
            elif "headrace" in words or not words:
                known.pop(pid, None)  # not exec'ed yet, or a command

    def look(self):
        while not self.ended.wait(WATCH_S):
            for pid in self.daemons():
                with contextlib.suppress(OSError), open("/proc/%d/status" % pid) as file:
                    for line in file:
                        if line.startswith("RssAnon:"):
                            self.peak_bytes = max(self.peak_bytes, int(line.split()[1]) * 1024)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *what):
        self.ended.set()
        self.thread.join()


@contextlib.contextmanager
def job(cloud, prefix, options="", **settings):
    """A job with a fresh cache and the defaults of a user, hedges too; its map point is absent."""
    folder = proc.temp_folder("headrace-bench-")
    ground.prepare(ground.tree_bytes(os.path.join(cloud.buckets, fixtures.BUCKET, prefix)))
    settings.setdefault("hedge", "on")
    settings.setdefault("cache", os.path.join(folder, "home", "cache"))
    os.mkdir(os.path.join(folder, "home"))
    try:
        with headrace.Job("%s=s3://%s/%s%s" % (os.path.join(folder, "data"), fixtures.BUCKET, prefix, options), cloud,
                          **settings) as one:
            yield one
    finally:
        ground.put_away(folder)


def pictures(files, few=0):
    """A folder of buckets with JPEGs of about 110 KB below train/; below few/ the same, fewer, for peers that are slow."""
    def make(half):
        root = os.path.join(half, fixtures.BUCKET)
        fixtures.write_tree(os.path.join(root, fixtures.PREFIX), files, CLASSES, SIDE, SEED)
        if few:
            fixtures.write_tree(os.path.join(root, "few"), few, CLASSES, SIDE, SEED)
    return fixtures.in_order("bench-pictures-%d-%d-v1" % (files, few), make)


class Book:
    """Rows (what was measured) and aims (what it must show) of one bench, shown at once and saved at the end."""

    def __init__(self, name, settings):
        self.name = name
        self.page = {"command": " ".join(["sh scripts/bench", name.partition("-")[0], *options]), "settings": settings,
                     "when": datetime.datetime.now().isoformat(timespec="seconds"), "cores": cores(),
                     "machine": platform.platform(), "load": [round(one, 2) for one in os.getloadavg()], "rows": [],
                     "aims": [], "notes": []}
        self.began = time.monotonic()

    def row(self, name, note="", **values):
        """values: numbers and lists of numbers (runs); units in their names."""
        row = {"name": name, "note": note, **values}
        self.page["rows"].append(row)
        shown = "  ".join("%s=%s" % (key, short(value)) for key, value in values.items())
        print("[%4.0f s] %-52s %s  %s" % (time.monotonic() - self.began, name, shown, note), flush=True)
        return row

    def aim(self, measure, aim, value, met, limit=""):
        """limit: where it is missed, what limits it."""
        self.page["aims"].append({"measure": measure, "aim": aim, "value": value, "met": bool(met), "limit": limit})
        print("           %s %s: %s (aim %s)" % ("ok    " if met else "MISSED", measure, short(value), aim), flush=True)

    def at_most(self, measure, bound, value, limit="", unit=""):
        self.aim(measure, "<= %g%s" % (bound, unit), round(value, 4), value <= bound, limit)

    def at_least(self, measure, bound, value, limit="", unit=""):
        self.aim(measure, ">= %g%s" % (bound, unit), round(value, 4), value >= bound, limit)

    def memory(self, watch):
        self.at_most("daemon's peak RssAnon, MiB", RSS_AIM_BYTES >> 20, watch.peak_bytes / (1 << 20))

    def say(self, text):
        self.page["notes"].append(text)
        print("           " + text, flush=True)

    def save(self):
        os.makedirs(os.path.dirname(RESULTS), exist_ok=True)
        self.page["took_s"] = round(time.monotonic() - self.began)
        pages = load()
        pages[self.name] = self.page
        with open(RESULTS + ".half", "w") as out:
            json.dump(pages, out, indent=1)
            out.write("\n")
        os.rename(RESULTS + ".half", RESULTS)


def load():
    try:
        with open(RESULTS) as file:
            pages = json.load(file)
    except (OSError, ValueError):
        return {}
    return pages if "rows" not in pages else {}


def short(value):
    if isinstance(value, (list, tuple)):
        return "/".join(short(one) for one in value)
    if isinstance(value, float):
        return "%.3g" % value if abs(value) < 1000 else "%.0f" % value
    return str(value)


def expect_digest(have, want, what):
    """Every run reads the same bytes, or the bench ends."""
    proc.expect_equal((have["files"], have["digest"]), (want["files"], want["digest"]), "files and digest, " + what)


def expect_gets(log, hedges, objects, what):
    most = objects * 1.02 + hedges
    proc.expect(len(log.gets) <= most, "%s: %d GETs for %d objects and %d hedges" % (what, len(log.gets), objects, hedges), log)
