"""Listings: `listing.py [--keys N] [--objects N]` prints lines for people and one JSON line a figure (name,
value, unit, aim).

Rounds are counted by the unit test in virtual time. Keys a second are of tests/scale/listd.c, whose keys are computed, on the
same cores. The peers list real objects of versitygw behind 50 ms (nginx); who cannot run is named."""
import argparse
import json
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

from harness import front, headrace, paths, proc, servers  # noqa: E402
from test_listing import Listd  # noqa: E402

BIN = os.environ.get("HR_BENCH_BIN", paths.BUILD)
PEERS_PYTHON = os.path.join(paths.BUILD, "venv-peers", "bin", "python3")
DELAY_MS = 50
NULL_PAGES = 1500
BOTO3 = """
import boto3, sys
from botocore.config import Config
client = boto3.client("s3", endpoint_url=sys.argv[1], config=Config(s3={"addressing_style": "path"}))
print(sum(len(page.get("Contents", ())) for page in client.get_paginator("list_objects_v2").paginate(Bucket="bkt")))
"""


def row(name, value, unit, aim=""):
    print(json.dumps({"name": name, "value": value, "unit": unit, "aim": aim}), flush=True)


def rounds():
    program = os.path.join(BIN, "tests", "unit", "list", "test_lanes")
    if not os.path.exists(program):
        print("rounds: skipped, no %s (make unit)" % program)
        return
    done = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=True)
    for shape, turns, pages, probes in re.findall(r"(\w+) +rounds (\d+), pages (\d+), probes (\d+)", done.stdout.decode()):
        row("1 M keys, %s: rounds of 48 lanes (21 is ideal)" % shape, int(turns), "rounds", "<= 28")
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
        row("keys/s that the server gives a client that looks at nothing", NULL_PAGES * 1000 / (time.monotonic() - began),
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
            row("%d keys on %d cores, server beside: keys/s" % (total, os.cpu_count()), total / seconds, "keys/s", ">= 226000")
        counts = store.counts()
        row("%d keys: pages / pages of a plain listing" % total, counts["pages"] * 1000 / total, "", "<= 1.25")
        row("%d keys: one-key probes / pages" % total, counts["probes"] * 1000 / total, "",
            "<= 0.3" if total >= 18 * 10**6 else "")


def flat():
    with Listd("flat", 100000, "latency_ms=%d" % DELAY_MS) as store:
        data = os.path.join(proc.temp_folder(), "data")
        with headrace.Job("%s=s3://bkt/" % data, store.url, access="a", secret="b", bin_dir=BIN) as job:
            began = time.monotonic()
            names = int(job.good(["sh", "-c", "ls -f %s/all | wc -l" % data]))
            row("100 k objects in one directory, cold, %d ms: ls -f | wc -l" % DELAY_MS, time.monotonic() - began, "s", "< 2")
            proc.expect_equal(names, 100002, "names")


def timed(name, argv, env, want):
    began = time.monotonic()
    done = proc.run(argv, 600, env=env)
    seconds = time.monotonic() - began
    have = done.stdout.split()[-1:] if len(done.stdout) < 100 else [b"%d" % done.stdout.count(b"\n")]
    if done.returncode or have != [b"%d" % want]:
        print("%s: skipped, status %d: %s" % (name, done.returncode, proc.tail(done.stdout, done.stderr, limit=300)))
        return
    row("%d objects of a real server, %d ms: %s" % (want, DELAY_MS, name), seconds, "s")


def peers(objects):
    try:
        server = servers.Versitygw()
    except proc.Skip as skip:
        print("peers: skipped, %s" % skip)
        return
    with server:
        server.client().request("PUT", "bkt")
        for number in range(objects):
            folder = os.path.join(server.folder, "data", "bkt", "n%04d" % (number * 100 // objects))
            os.makedirs(folder, exist_ok=True)
            open(os.path.join(folder, "img_%06d.jpg" % number), "w").close()
        with front.Front(server, delay_ms=DELAY_MS) as cloud:
            data = os.path.join(proc.temp_folder(), "data")
            with headrace.Job("%s=s3://bkt/" % data, cloud, bin_dir=BIN) as job:
                env = job.env()
                timed("headrace run -- find | wc -l", job.run_argv(["sh", "-c", "find %s -type f | wc -l" % data]), env, objects)
                job.note_daemon()
            if os.path.exists(PEERS_PYTHON) and paths.python_has("boto3", PEERS_PYTHON):
                timed("boto3 paginator", [PEERS_PYTHON, "-c", BOTO3, cloud.url], env, objects)
            else:
                print("boto3 paginator: skipped, no boto3 in build/venv-peers")
            rclone = paths.find_program("rclone")
            if rclone:
                remote = ":s3,provider=Other,env_auth=true,endpoint='%s':bkt" % cloud.url
                timed("rclone lsf -R --fast-list", [rclone, "lsf", "-R", "--files-only", "--fast-list", remote], env, objects)
                timed("rclone lsf -R", [rclone, "lsf", "-R", "--files-only", remote], env, objects)
            print("Dataflux: not tried, it speaks to Google Cloud Storage alone")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=18 * 10**6, help="of the listing that is bound by the cores; 0: none")
    parser.add_argument("--objects", type=int, default=100000, help="for the peers; 0: no peers")
    options = parser.parse_args()
    proc.adopt_orphans()
    os.environ.setdefault("TMPDIR", tempfile.gettempdir())
    rounds()
    flat()
    if options.objects:
        peers(options.objects)
    if options.keys:
        many(options.keys)


if __name__ == "__main__":
    try:
        main()
    finally:
        proc.clean_up()
