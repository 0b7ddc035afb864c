#!/usr/bin/python3
"""The demo's story (scripts/demo): one training script, four ways to its data, one table."""
import os
import sys

from harness import fixtures, front, headrace, paths, proc, servers, training

FILES, CLASSES, SIDE = 2000, 20, 224  # sides of 224 give JPEGs of about 108 KB
FIRST_BYTE_MS = 30  # a store in the same region, small objects
WORKERS = 4


def say(text=""):
    print(text, flush=True)


def choose_script():
    if not paths.missing("torch") and not paths.missing("torchvision") and not paths.missing("PIL"):
        return training.TRAIN
    say("This distribution packages no torch: a plain multi-process Python loader (tests/e2e/loader.py) stands in;\n"
        "it reads the files in shuffled batches and does not decode them.")
    return training.STAND_IN


class Row:
    def __init__(self, name, epochs, log=None):
        self.name, self.epoch = name, epochs[0]
        self.gets = len(log.gets) if log else 0
        self.lists = len(log.lists) if log else 0
        self.most = log.in_flight() if log else 0

    def text(self, want):
        same = "equal" if self.epoch["digest"] == want["digest"] and self.epoch["files"] == want["files"] else "DIFFERS"
        return "%-28s %8.0f %9.2f %9.2f %7d %5d %9d   %s" % (
            self.name, self.epoch["files_per_s"], self.epoch["seconds"], self.epoch["first_batch_s"], self.gets, self.lists,
            self.most, same)


def main():
    script = choose_script()
    say("making %d JPEGs of about 108 KB in %d classes (build/fixtures, once)" % (FILES, CLASSES))
    fixture = fixtures.images(FILES, CLASSES, SIDE)
    local = fixtures.tree(fixture)
    data = os.path.join(proc.temp_folder("headrace-demo-"), "data")
    command = "python3 tests/e2e/%s %s --workers %d" % (os.path.basename(script), data, WORKERS)
    with servers.Rclone(fixture) as store, front.Front(store, delay_ms=FIRST_BYTE_MS) as cloud:
        say("server: rclone serve s3 at %s, behind nginx at %s that adds %d ms to every first byte (emulated cloud)" % (
            store.url, cloud.url, FIRST_BYTE_MS))
        say("map:    %s = s3://%s/%s   (the folder does not exist; no mount, no root, no copy)" % (
            data, fixtures.BUCKET, fixtures.PREFIX))
        say("script: %s   (plain ImageFolder + DataLoader, shuffled; it knows nothing of headrace)"
            % command if script == training.TRAIN else "script: " + command)
        say()
        rows = measure(script, local, data, cloud)
    say("%-28s %8s %9s %9s %7s %5s %9s   %s" % (
        "", "files/s", "epoch s", "1st batch", "GETs", "LISTs", "in flight", "digest"))
    for row in rows:
        say(row.text(rows[0].epoch))
    say()
    off, cold = rows[1].epoch["seconds"], rows[2].epoch["seconds"]
    say("A cold epoch took %.2f of the one without look-ahead; the warm one sent %d GETs." % (cold / off, rows[3].gets))
    your_own()
    if any("DIFFERS" in row.text(rows[0].epoch) for row in rows):
        say("FAILED: a digest differs from the local copy's")
        return 1
    return 0


def measure(script, local, data, cloud):
    source = "%s=s3://%s/%s" % (data, fixtures.BUCKET, fixtures.PREFIX)
    training.local(local, "--workers", WORKERS, script=script)  # page cache and interpreter warm for everybody
    rows = [Row("local copy", training.local(local, "--workers", WORKERS, script=script))]
    say("local copy done")
    with headrace.Job(source, cloud, prefetch="off") as job:
        mark = cloud.mark()
        rows.append(Row("headrace, prefetch=off", training.mapped(job, data, "--workers", WORKERS, script=script),
                        cloud.log(mark)))
        say("headrace with prefetch=off done")
    with headrace.Job(source, cloud) as job:
        mark = cloud.mark()
        cold = training.mapped(job, data, "--workers", WORKERS, script=script)
        headrace.wait_idle(job)
        rows.append(Row("headrace, cold cache", cold, cloud.log(mark)))
        rss = job.rss_anon_bytes()
        say("headrace with a cold cache done")
        mark = cloud.mark()
        rows.append(Row("headrace, warm cache", training.mapped(job, data, "--workers", WORKERS, "--seed", 1, script=script),
                        cloud.log(mark)))
        say("headrace with a warm cache done; the daemon holds %d MiB (RssAnon)" % (rss >> 20))
        say()
    return rows


def your_own():
    say("\nYour own bucket, with the keys that your aws tools use:")
    say("    build/headrace run --map /data=s3://BUCKET/PREFIX -- python3 train.py /data")
    say("or without the command, for a program that something else starts:")
    say("    LD_PRELOAD=%s HEADRACE_MAP='/data=s3://BUCKET/PREFIX' python3 train.py /data" % paths.LIBRARY)
    say("Another S3-compatible store: AWS_ENDPOINT_URL=https://HOST. What it does: build/headrace status")


if __name__ == "__main__":
    try:
        proc.adopt_orphans()
        sys.exit(main())
    except (proc.Failure, proc.Skip) as failure:
        print("demo: %s" % failure, file=sys.stderr)
        sys.exit(1)
