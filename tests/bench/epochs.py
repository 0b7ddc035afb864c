"""Epochs of ImageFolder over small JPEGs: local disk, headrace cold and warm, the floor, the raw ceiling, the peers, and
"copy first", in one run at each latency."""
import json
import os
import re

import cloud as emulated
import ground
import lab
import peers
from harness import fixtures, paths, proc

CONNECTIONS = (64, 256, 512)
WRK_S = 3
RAW = ("--raw",)


def ceiling(book, cloud, files, own_requests=4000):
    """Requests a second at most, and CPU seconds a request of server and client, of the best run."""
    best = {"rate": 0.0}
    with lab.job(cloud, fixtures.PREFIX) as job:
        for connections in CONNECTIONS:
            spent, served = lab.children_cpu_s(), cloud.cpu_s()
            done = job.command("bench", "--json", "--connections", str(connections), "--requests", str(own_requests),
                               "s3://%s/%s" % (fixtures.BUCKET, fixtures.PREFIX), timeout=lab.LIMIT_S)
            proc.expect(done.returncode == 0, "headrace bench: status %d" % done.returncode, proc.tail(done.stderr))
            best = better(best, book, "raw: headrace bench, %d connections" % connections,
                          json.loads(done.stdout)[0]["requests_per_s"], own_requests, lab.children_cpu_s() - spent,
                          cloud.cpu_s() - served)
    for connections in CONNECTIONS:
        spent, served = lab.children_cpu_s(), cloud.cpu_s()
        rate, requests = wrk(cloud, connections)
        best = better(best, book, "raw: wrk, %d connections" % connections, rate, requests, lab.children_cpu_s() - spent,
                      cloud.cpu_s() - served)
    return best


def better(best, book, name, rate, requests, client_s, server_s):
    book.row(name, files_per_s=round(rate, 1), client_us=round(client_s / requests * 1e6, 1),
             server_us=round(server_s / requests * 1e6, 1))
    if rate <= best["rate"]:
        return best
    return {"rate": rate, "name": name, "client_s": client_s / requests, "server_s": server_s / requests}


def wrk(cloud, connections):
    """Good answers a second, and how many there were (a 503 of the emulated bound is none)."""
    keys = os.path.join(proc.temp_folder("headrace-bench-"), "keys")
    with open(keys, "w") as out:
        for key in fixtures.keys(cloud.buckets):
            if key.startswith(fixtures.PREFIX + "/"):
                out.write("/%s/%s\n" % (fixtures.BUCKET, key))
    done = proc.run([paths.find_program("wrk"), "-t2", "-c%d" % connections, "-d%ds" % WRK_S, "-s",
                     os.path.join(lab.HERE, "keys.lua"), cloud.url], WRK_S + 30, env=dict(os.environ, KEYS=keys))
    text = done.stdout.decode()
    found = re.search(r"(\d+) requests in ([\d.]+)(m?)s", text)
    proc.expect(done.returncode == 0 and found, "wrk", proc.tail(done.stdout, done.stderr))
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    good = int(found.group(1)) - (int(refused.group(1)) if refused else 0)
    return good / float(found.group(2)), good


class Bench:
    def __init__(self, book, cloud, files, runs, pairs):
        self.book, self.cloud, self.files, self.runs, self.pairs = book, cloud, files, runs, pairs
        self.tree = fixtures.tree(cloud.buckets)
        self.delay_s = cloud.delay_s
        self.local, self.best = {}, {}

    def tag(self, args):
        return "raw bytes" if "--raw" in args else "decode"

    def locals(self, args):
        """Local epochs; the first of all warms the page cache and the interpreter's files and is not counted."""
        if not self.local:
            lab.local_epochs(self.tree, *RAW)
        runs = [lab.local_epochs(self.tree, *args)[0] for _ in range(self.runs)]
        self.local[args] = runs
        self.show("local disk", args, runs)

    def show(self, name, args, runs, **more):
        seconds = [one["seconds"] for one in runs]
        self.book.row("%s, %s" % (name, self.tag(args)), files_per_s=round(runs[0]["files"] / lab.median(seconds), 1),
                      seconds=seconds, first_s=[one["first_s"] for one in runs], **more)

    def floor_s(self, args, pages):
        """DESIGN's floor. Latency: a round trip for each page of the listing and for the first object, then the store's
        bound of GETs a second or as many lanes as the widest ceiling, whichever is slower."""
        lanes_s = max(self.files / self.cloud.most, self.files * self.delay_s / max(CONNECTIONS))
        latency_s = (pages + 1) * self.delay_s + lanes_s
        local_s = lab.median([one["cpu_s"] for one in self.local[args]])
        cpu_s = (local_s + self.files * (self.best["server_s"] + self.best["client_s"])) / lab.cores()
        self.book.row("floor, %s" % self.tag(args), seconds=round(max(latency_s, cpu_s), 3), latency_s=round(latency_s, 3),
                      cpu_s=round(cpu_s, 3), note="CPU: local %.2f s, server %.2f s, raw client %.2f s; by %s" % (
                          local_s, self.files * self.best["server_s"], self.files * self.best["client_s"], self.best["name"]))
        return max(latency_s, cpu_s)

    def cold(self, args, name="headrace cold"):
        """A fresh cache and daemon for each run."""
        runs, log, spent = [], None, []
        for _ in range(self.runs):
            with lab.job(self.cloud, fixtures.PREFIX) as job:
                mark, served = self.cloud.mark(), self.cloud.cpu_s()
                one = lab.mapped_epochs(job, *args)[0]
                spent.append((one["cpu_s"], emulated.cpu_s(job.daemon_pid()), self.cloud.cpu_s() - served))
                log = self.cloud.log(mark)
                lab.expect_digest(one, self.local[args][0], name)
                lab.expect_gets(log, job.status()["hedges"], self.files, name)
                runs.append(one)
        cpu = [round(lab.median(one), 2) for one in zip(*spent)]
        self.show(name, args, runs, gets=len(log.gets), lists=len(log.lists), in_flight=log.in_flight(),
                  cpu_s_of_loader_daemon_server=cpu)
        return runs, log

    def judge_cold(self, args, runs, log, most):
        pages = -(-self.files // 1000)
        seconds = lab.median([one["seconds"] for one in runs])
        floor_s = self.floor_s(args, pages)
        self.book.at_most("cold epoch, %s / floor" % self.tag(args), most, seconds / floor_s)
        local_first = lab.median([one["first_s"] for one in self.local[args]])
        bound_s = local_first + (2 + pages) * self.delay_s
        self.book.at_most("first batch cold, %s, seconds; local's + %d round trips" % (self.tag(args), 2 + pages),
                          round(bound_s, 3), lab.median([one["first_s"] for one in runs]))
        return seconds

    def warm(self, args):
        """Pairs of a local and a warm epoch, in turns, so that both meet the same machine."""
        with lab.job(self.cloud, fixtures.PREFIX) as job:
            lab.mapped_epochs(job, *args)
            mark, pairs = self.cloud.mark(), []
            for _ in range(self.pairs):
                pairs.append((lab.local_epochs(self.tree, *args)[0], lab.mapped_epochs(job, *args)[0]))
                lab.expect_digest(pairs[-1][1], self.local[args][0], "headrace warm")
            gets = len(self.cloud.log(mark).gets)
        proc.expect_equal(gets, 0, "GETs of warm epochs")
        self.show("headrace warm", args, [two for _, two in pairs], gets=gets)
        ratios = [two["seconds"] / one["seconds"] for one, two in pairs]
        low, high = lab.interval(ratios)
        self.book.aim("warm / local, %s, %d pairs: median %.3f, interval" % (self.tag(args), len(pairs), lab.median(ratios)),
                      "contains <= 1.03", [round(low, 3), round(high, 3)], low <= 1.03)

    def plain(self):
        """No workers at all: the sweep alone."""
        args = RAW + ("--workers", 0)
        self.locals(args)
        runs, log = self.cold(args, "headrace cold, num_workers=0")
        self.book.at_most("cold epoch, num_workers=0 / floor", 1.5, lab.median([one["seconds"] for one in runs])
                          / self.floor_s(args, -(-self.files // 1000)))

    def copy_first(self, headrace_s):
        folder = proc.temp_folder("headrace-copy-")
        prefix = fixtures.PREFIX
        keys = [key for key in fixtures.keys(self.cloud.buckets) if key.startswith(prefix + "/")]
        totals = []
        for name, copied_s, place in peers.copies(self.cloud, prefix, keys, folder):
            one = lab.local_epochs(place, *RAW)[0]
            lab.expect_digest(one, self.local[RAW][0], name)
            totals.append(copied_s + one["seconds"])
            self.book.row("copy first: %s" % name, files_per_s=round(self.files / totals[-1], 1),
                          seconds=[round(totals[-1], 3)], first_s=[round(copied_s + one["first_s"], 3)],
                          copy_s=round(copied_s, 3))
        if totals:
            self.book.at_most("cold epoch, raw bytes / copy first with %d lanes, then local" % peers.LANES, 0.6,
                              headrace_s / min(totals))

    def peers(self):
        want = {"few": lab.local_epochs(os.path.join(self.cloud.buckets, fixtures.BUCKET, "few"), *RAW)[0],
                "mds": self.local[RAW][0]}
        size = {prefix: ground.tree_bytes(os.path.join(self.cloud.buckets, fixtures.BUCKET, prefix)) for prefix in want}

        def run(name, why, measure, prefix="few"):
            if not why:
                ground.prepare(size[prefix])
                try:
                    mark = self.cloud.mark()
                    one = measure()
                    log = self.cloud.log(mark)
                except proc.Failure as failure:
                    why = "failed: " + str(failure)[-200:].replace("\n", " ")
            if why:
                self.book.row(name, note="skipped: " + why)
                return
            same = (one["files"], one["digest"]) == (want[prefix]["files"], want[prefix]["digest"])
            self.book.row(name, note="%d files%s" % (one["files"], "" if same else "; WRONG BYTES"),
                          files_per_s=round(one["files"] / one["seconds"], 1), seconds=[one["seconds"]],
                          first_s=[one["first_s"]], gets=len(log.gets), lists=len(log.lists), heads=len(log.heads))
        peers.mounts(self.cloud, "few", RAW, run)
        peers.libraries(self.cloud, "few", RAW, run)
        peers.shards(self.cloud, "mds", RAW, lambda name, why, measure: run(name, why, measure, "mds"))


def fixture(files, few):
    """With MDS shards beside the pictures where the peer is there to write them."""
    folder = lab.pictures(files, few)
    to = os.path.join(folder, fixtures.BUCKET, "mds")
    if not os.path.exists(to) and not peers.reason("streaming"):
        done = proc.run([peers.PYTHON, os.path.join(lab.HERE, "remote.py"), fixtures.tree(folder), to + ".half"], lab.LIMIT_S)
        proc.expect(done.returncode == 0, "shards", proc.tail(done.stderr))
        os.rename(to + ".half", to)
    return folder


def at(delay_ms, files, options):
    few = options.few if delay_ms < 100 else options.few // 2  # peers are slow, there more than ever
    book = lab.Book("epochs-%d" % delay_ms, "%d JPEGs of 110 KB, first byte after %d ms, batch 64, 4 workers" % (
        files, delay_ms))
    with emulated.Cloud(fixture(files, few), delay_ms) as cloud, lab.Watch() as watch:
        bench = Bench(book, cloud, files, options.runs, options.pairs)
        bench.locals(RAW)
        bench.locals(())
        bench.best = ceiling(book, cloud, files)
        seconds = bench.judge_cold(RAW, *bench.cold(RAW), 1.25)
        bench.judge_cold((), *bench.cold(()), 1.10)
        if options.pairs:
            bench.warm(RAW)
            bench.warm(())
        bench.plain()
        bench.copy_first(seconds)
        if few:
            bench.peers()
        book.memory(watch)
    book.save()


def main(options):
    for delay_ms, files in ((30, options.files), (110, options.files_slow or options.files)):
        if options.delay in (0, delay_ms):
            at(delay_ms, files, options)
