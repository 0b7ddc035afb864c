"""Listings: `listing.py [--keys N] [--objects N]` prints lines for people and one JSON line a figure (name,
value, unit, aim).

Rounds are counted by the unit test in virtual time. Keys a second are of tests/scale/listd.c, whose keys are computed, on the
same cores. The peers: listers.py; who cannot run is named."""
import argparse
import multiprocessing
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))

import listers  # noqa: E402
from harness import headrace, paths, proc  # noqa: E402
from listers import DELAY_MS, row  # noqa: E402
from test_listing import Listd  # noqa: E402

BIN = os.environ.get("HR_BENCH_BIN", paths.BUILD)
NULL_PAGES = 1500
FEW, FEW_RUNS = 10000, 3


def rounds():
    program = os.path.join(BIN, "tests", "unit", "list", "test_lanes")
    if not os.path.exists(program):
        print("rounds: skipped, no %s (make unit)" % program)
        return
    done = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=True)
    for shape, turns, pages, probes in re.findall(r"(\w+) +rounds (\d+), pages (\d+), probes (\d+)", done.stdout.decode()):
        row("1 M keys, %s: rounds of 48 lanes (21 is ideal)" % shape, int(turns), "", "<= 28")
        row("1 M keys, %s: pages / pages of a plain listing" % shape, int(pages) / 1000, "", "<= 1.25")
        row("1 M keys, %s: one-key probes / pages" % shape, int(probes) / 1000, "", "<= 3")


def null_client(port, total, part, parts):
    """Reads pages as fast as the server makes them."""
    peer = socket.create_connection(("127.0.0.1", port))
    for number in range(part, NULL_PAGES, parts):
        at = number * 1000 % total
        peer.sendall(b"GET /bkt?list-type=2&continuation-token=%d HTTP/1.1\r\nHost: x\r\n\r\n" % at)
        data = peer.recv(1 << 20)
        left = int(re.search(rb"Content-Length: (\d+)", data).group(1)) + data.index(b"\r\n\r\n") + 4 - len(data)
        while left > 0:
            left -= len(peer.recv(1 << 20))


def many(total):
    with Listd("imagenet", total) as store:
        began = time.monotonic()
        clients = [multiprocessing.Process(target=null_client, args=(store.port, total, n, 2)) for n in range(2)]
        for one in clients:
            one.start()
        for one in clients:
            one.join()
        row("the synthetic server alone: two clients that look at nothing", round(NULL_PAGES * 1000 / (time.monotonic() - began)),
            "keys/s")
    with Listd("imagenet", total) as store:
        data = os.path.join(proc.temp_folder(), "data")
        with headrace.Job("%s=s3://bkt/" % data, store.url, access="a", secret="b", bin_dir=BIN) as job:
            began = time.monotonic()
            done = job.command("ls", data, timeout=900)
            seconds = time.monotonic() - began
            job.note_daemon()
            proc.expect(done.returncode == 0, "headrace ls", proc.tail(done.stdout, done.stderr))
            said = re.search(r"listing ended .*", job.log_tail(10**6)).group(0)
            print(said)
            row("{:,} keys, server on the same {} cores".format(total, os.cpu_count()), round(total / seconds), "keys/s",
                ">= 226,000")
        counts = store.counts()
        row("{:,} keys: pages / pages of a plain listing".format(total), counts["pages"] * 1000 / total, "", "<= 1.25")
        row("{:,} keys: one-key probes / pages".format(total), counts["probes"] * 1000 / total, "",
            "<= 0.3" if total >= 18 * 10**6 else "")


def few():
    """Where lanes have little to do they must not cost: the least of some jobs in turn, the daemon's start in all."""
    seconds = {1: [], 48: []}
    for lanes in (*seconds,) * FEW_RUNS:
        with Listd("imagenet", FEW, "latency_ms=%d" % DELAY_MS) as store:
            data = os.path.join(proc.temp_folder(), "data")
            with headrace.Job("%s=s3://bkt/" % data, store.url, access="a", secret="b", bin_dir=BIN, list_lanes=lanes) as job:
                began = time.monotonic()
                names = int(job.good(["sh", "-c", "find %s -type f | wc -l" % data]))
                seconds[lanes].append(time.monotonic() - began)
                proc.expect_equal(names, FEW, "names")
    for lanes, name in ((1, "page by page"), (48, "48 lanes")):
        row("{:,} keys, {} ms: find, {}".format(FEW, DELAY_MS, name), min(seconds[lanes]), "s")
    row("{:,} keys, {} ms: find, 48 lanes / page by page".format(FEW, DELAY_MS), min(seconds[48]) / min(seconds[1]), "", "<= 1")


def flat():
    with Listd("flat", 100000, "latency_ms=%d" % DELAY_MS) as store:
        data = os.path.join(proc.temp_folder(), "data")
        with headrace.Job("%s=s3://bkt/" % data, store.url, access="a", secret="b", bin_dir=BIN) as job:
            began = time.monotonic()
            names = int(job.good(["sh", "-c", "ls -f %s/all | wc -l" % data]))
            row("100 k objects in one directory, cold, %d ms: ls -f | wc -l" % DELAY_MS, time.monotonic() - began, "s", "< 2")
            proc.expect_equal(names, 100002, "names")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=18 * 10**6, help="of the listing that is bound by the cores; 0: none")
    parser.add_argument("--objects", type=int, default=100000, help="for the peers; 0: no peers")
    options = parser.parse_args()
    proc.adopt_orphans()
    os.environ.setdefault("TMPDIR", tempfile.gettempdir())
    rounds()
    few()
    flat()
    if options.objects:
        listers.main(options.objects)
    if options.keys:
        many(options.keys)


if __name__ == "__main__":
    try:
        main()
    finally:
        proc.clean_up()
