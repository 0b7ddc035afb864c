#!/usr/bin/python3
"""The bench of `make bench`: readers on the local copy and through headrace, and what the server can give at most."""
import datetime
import json
import os
import platform
import re
import statistics
import sys

BENCH = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(BENCH), "e2e"))

from harness import fixtures, front, headrace, paths, proc, servers, training  # noqa: E402

FILES, CLASSES, SIDE = 2000, 20, 224  # about 108 KB a file
FIRST_BYTE_MS = 30
WRK_SECONDS = 5
RUNS = 3  # medians; local itself varies by 15 % between epochs
LIMIT_S = 200
READER = [paths.PYTHON, os.path.join(BENCH, "reader.py")]


def pairs(out):
    """name=value words of a line of output."""
    return {name: float(value) for name, value in re.findall(r"(\w+)=([\d.]+)", out.decode())}


class Bench:
    def __init__(self, cloud, raw, data, local):
        self.cloud, self.raw, self.data, self.local = cloud, raw, data, local
        self.source = "%s=s3://%s/%s" % (data, fixtures.BUCKET, fixtures.PREFIX)
        self.rows = []

    def add(self, name, seconds, log=None, note=""):
        rate = FILES / statistics.median(seconds)
        row = {"name": name, "files_per_s": round(rate, 1), "seconds": [round(one, 3) for one in seconds], "note": note}
        if log is not None:
            row.update({"gets": len(log.gets), "lists": len(log.lists), "in_flight": log.in_flight()})
        self.rows.append(row)
        self.show(row)

    def add_rate(self, name, rate, note):
        row = {"name": name, "files_per_s": round(rate, 1), "note": note}
        self.rows.append(row)
        self.show(row)

    @staticmethod
    def show(row):
        counts = "%5d %5d %5d" % (row["gets"], row["lists"], row["in_flight"]) if "gets" in row else " " * 17
        spread = "%7.2f-%.2f" % (min(row["seconds"]), max(row["seconds"])) if "seconds" in row else " " * 12
        print("%-40s %9.0f %14s  %s  %s" % (row["name"], row["files_per_s"], spread, counts, row["note"]), flush=True)

    def local_readers(self):
        for name, threads in (("local, one sequential reader", 1), ("local, 16 threads", 16)):
            self.add(name, [pairs(proc.run(READER + [self.local, str(threads), "shuffled"], LIMIT_S).stdout)["seconds"]
                            for _ in range(RUNS)])
        if training_script() == training.TRAIN:
            self.add("local, DataLoader 4 workers", [training.local(self.local)[0]["seconds"] for _ in range(RUNS)],
                     note="decodes")

    def cold(self, name, command, runs=RUNS, note="", **settings):
        """A fresh cache and daemon each time."""
        seconds, log = [], None
        for _ in range(runs):
            with headrace.Job(self.source, self.cloud, **settings) as job:
                mark = self.cloud.mark()
                seconds.append(command(job))
                log = self.cloud.log(mark)
        self.add(name, seconds, log, note)

    def reader(self, threads, order="shuffled"):
        return lambda job: pairs(job.good(READER + [self.data, str(threads), order], LIMIT_S))["seconds"]

    def loader(self, job):
        return training.mapped(job, self.data, script=training_script())[0]["seconds"]

    def through_headrace(self):
        self.cold("headrace cold, one sequential reader", self.reader(1, "sorted"), note="look-ahead by the sweep")
        self.cold("headrace cold, 16 threads", self.reader(16), note="shuffled")
        note = "decodes" if training_script() == training.TRAIN else "stand-in loader: no torch here"
        self.cold("headrace cold, DataLoader 4 workers", self.loader, note=note)
        self.cold("headrace prefetch=off, DataLoader", self.loader, runs=1, note=note, prefetch="off")
        with headrace.Job(self.source, self.cloud) as job:
            self.reader(16)(job)
            headrace.wait_idle(job)
            for name, command in (("headrace warm, one sequential reader", self.reader(1)),
                                  ("headrace warm, 16 threads", self.reader(16)),
                                  ("headrace warm, DataLoader 4 workers", self.loader)):
                mark = self.cloud.mark()
                self.add(name, [command(job) for _ in range(RUNS)], self.cloud.log(mark))

    def ceilings(self):
        with headrace.Job(self.source, self.cloud) as job:
            done = job.command("bench", "--json", "s3://%s/%s" % (fixtures.BUCKET, fixtures.PREFIX), timeout=LIMIT_S)
            proc.expect(done.returncode == 0, "headrace bench: status %d" % done.returncode, proc.tail(done.stderr))
            for one in json.loads(done.stdout):
                self.add_rate("raw: headrace bench, %d connections" % one["connections"], one["requests_per_s"],
                              "signed, same server (rclone)")
        for connections in (64, 256):
            self.add_rate("raw: wrk, %d connections" % connections, self.wrk(connections),
                          "unsigned, same delay, nginx over the plain files")

    def wrk(self, connections):
        keys = os.path.join(proc.temp_folder("headrace-bench-"), "keys")
        with open(keys, "w") as out:
            for key in fixtures.keys(os.path.dirname(os.path.dirname(self.local))):
                out.write("/%s/%s\n" % (fixtures.BUCKET, key))
        done = proc.run([paths.find_program("wrk"), "-t2", "-c%d" % connections, "-d%ds" % WRK_SECONDS, "-s",
                         os.path.join(BENCH, "keys.lua"), self.raw.url], WRK_SECONDS + 30, env=dict(os.environ, KEYS=keys))
        text = done.stdout.decode()
        found = re.search(r"Requests/sec:\s+([\d.]+)", text)
        proc.expect(done.returncode == 0 and found, "wrk", proc.tail(done.stdout, done.stderr))
        proc.expect("Non-2xx" not in text, "wrk got errors", text)
        return float(found.group(1))


def training_script():
    return training.STAND_IN if paths.missing("torch") or paths.missing("torchvision") else training.TRAIN


def main():
    proc.adopt_orphans()
    fixture = fixtures.images(FILES, CLASSES, SIDE)
    local = fixtures.tree(fixture)
    size = sum(os.path.getsize(os.path.join(here, name)) for here, _, names in os.walk(local) for name in names)
    data = os.path.join(proc.temp_folder("headrace-bench-"), "data")
    cores = len(os.sched_getaffinity(0))
    print("%d files, %.0f KB each, first byte after %d ms; %d cores shared by server, daemon and loader; load %s" % (
        FILES, size / FILES / 1000, FIRST_BYTE_MS, cores, " ".join("%.1f" % one for one in os.getloadavg())))
    print("%-40s %9s %14s  %5s %5s %5s" % ("", "files/s", "seconds", "GET", "LIST", "most"))
    with servers.Rclone(fixture) as store, front.Front(store, delay_ms=FIRST_BYTE_MS) as cloud:
        with front.Front(static=fixture, delay_ms=FIRST_BYTE_MS) as raw:
            bench = Bench(cloud, raw, data, local)
            training.local(local, script=training_script())  # page cache
            bench.local_readers()
            bench.ceilings()
            bench.through_headrace()
    folder = os.path.join(paths.BUILD, "bench")
    os.makedirs(folder, exist_ok=True)
    results = {"when": datetime.datetime.now().isoformat(timespec="seconds"), "machine": platform.platform(), "cores": cores,
               "files": FILES, "bytes": size, "first_byte_ms": FIRST_BYTE_MS, "runs": RUNS, "rows": bench.rows}
    with open(os.path.join(folder, "results.json"), "w") as out:
        json.dump(results, out, indent=1)
        out.write("\n")
    print("written: build/bench/results.json; medians of %d runs; most: GETs in flight at once" % RUNS)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (proc.Failure, proc.Skip) as failure:
        print("bench: %s" % failure, file=sys.stderr)
        sys.exit(1)
