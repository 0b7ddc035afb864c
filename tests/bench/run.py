#!/usr/bin/python3
"""Runs the benches of this folder: those that are modules here with the book of lab.py, and those that are programs of
their own, whose output is kept."""
import argparse
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import lab
import report
from harness import paths, proc

BENCHES = ("epochs", "large", "small", "budget", "known", "counts")
PROGRAMS = {"listing": "listing.py", "index": "index.py", "overhead": "run_overhead"}  # JSON lines are rows, the rest is text
PROGRAM_LIMIT_S = 3600
FULL = {"files": 4000, "gib": 4, "small": 1000000, "seeds": 20, "cold": True}  # beside the defaults
# Minutes of each bench with --full on 2 cores, of runs with fewer files: what is printed before there is a run like it.
FULL_MIN = {"epochs": 13, "large": 11, "small": 10, "budget": 1, "known": 22, "counts": 1, "listing": 6, "index": 6,
            "overhead": 1}
PAGES = {"epochs": ("epochs-30", "epochs-110"), "large": ("large-30", "large-110"),
         "small": ("small", "small-50", "small-30", "small-110")}  # the others have one of their name


def arguments(name, options):
    """Of a program of its own."""
    if name == "listing":
        return ["--keys", options.keys, "--objects", options.objects]
    if name == "index":
        return ["--objects", options.tree, "--restart", options.index_keys, "--scale", options.index_keys] + (
            ["--cold"] if options.cold else [])
    return []


def said(argv):
    """The lines of a program, each as it comes; Failure when it does not end well or in time."""
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
                                 start_new_session=True)
        limit = threading.Timer(PROGRAM_LIMIT_S, os.killpg, (child.pid, signal.SIGKILL))
        limit.start()
        try:
            yield from (line.rstrip("\n") for line in child.stdout)
            child.wait()
        finally:
            limit.cancel()
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGTERM)  # it removes what it made
                child.wait()
        errors.seek(0)
        proc.expect(child.returncode == 0, "%s: status %d" % (argv[2], child.returncode), proc.tail(errors.read()))


def program(name, options):
    """A line of JSON is a row, and an aim too where its `aim` begins with a bound of its `value`."""
    argv = [PROGRAMS[name], *map(str, arguments(name, options))]
    book = lab.Book(name, "`%s`" % " ".join(argv))
    text = []
    for line in said([paths.PYTHON, "-u", os.path.join(lab.HERE, argv[0]), *argv[1:]]):
        if not line.startswith("{"):
            text.append(line)
            print(line, flush=True)
            continue
        row = json.loads(line)
        label, aim, value = row.pop("name", name), row.pop("aim", None), row.get("value")
        bound = re.match(r"([<>])(=?) *([\d.,]+(?:e[+-]?\d+)?)", str(aim or ""))
        if bound and isinstance(value, (int, float)):
            most = float(bound.group(3).replace(",", ""))
            met = (value < most if bound.group(1) == "<" else value > most) or (bound.group(2) and value == most)
            book.aim(", ".join(filter(None, (label, row.get("unit")))), aim, value, met)
        else:
            book.row(label, row.pop("note", ""), **row)
    book.page["text"] = "\n".join(text)
    book.save()


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="of " + " ".join(BENCHES + tuple(PROGRAMS)))
    parser.add_argument("--files", type=int, default=4000, help="pictures of the epochs at 30 ms")
    parser.add_argument("--files-slow", type=int, default=0, help="at 110 ms; as many when not said")
    parser.add_argument("--few", type=int, default=512, help="pictures for the peers; 0: no peers")
    parser.add_argument("--gib", type=int, default=4, help="size of the large object")
    parser.add_argument("--small", type=int, default=200000, help="objects of 1 KB")
    parser.add_argument("--first", type=int, default=100000, help="objects of the map whose first batch is waited for")
    parser.add_argument("--keys", type=int, default=18 * 10**6, help="of the listing that is bound by the cores; 0: none")
    parser.add_argument("--objects", type=int, default=100000, help="that the peers list; 0: no peers")
    parser.add_argument("--tree", type=int, default=1280000, help="files of the tree that is walked beside ext4")
    parser.add_argument("--index-keys", type=int, default=10**7, help="of the index that is measured alone")
    parser.add_argument("--cold", action="store_true", help="walk it with the kernel's caches dropped, too (root)")
    parser.add_argument("--epochs", type=int, default=3, help="of the benches with a small cache")
    parser.add_argument("--seeds", type=int, default=2, help="found by a search of all 2^32: a minute each and core")
    parser.add_argument("--runs", type=int, default=3, help="medians of so many")
    parser.add_argument("--pairs", type=int, default=7, help="of warm and local epochs")
    parser.add_argument("--delay", type=int, default=0, choices=(0, 30, 110), help="only this latency")
    parser.add_argument("--full", action="store_true", help="the sizes of the aims, where the others are smaller: " + " ".join(
        "--%s %d" % pair if pair[1] is not True else "--" + pair[0] for pair in FULL.items()))
    parser.add_argument("--missing", action="store_true", help="leave out what the results have with these options already")
    parser.add_argument("--write", metavar="FILE", help="run nothing, fill FILE's tables from the results; those without results stay")
    if "--full" in sys.argv[1:]:
        parser.set_defaults(**FULL)
    return parser.parse_args()


def taken_s(name, delay_ms):
    """Seconds that a bench took with these options; None where the results lack one of its pages."""
    pages, words = lab.load(), " ".join(lab.options)
    wanted = [page for page in PAGES.get(name, (name,)) if not delay_ms or not re.search(r"-\d+$", page) or page.endswith(
        "-%d" % delay_ms)]
    found = [pages[page] for page in wanted if page in pages and pages[page]["command"].split(" ", 3)[3:] == (
        [words] if words else [])]
    return sum(page["took_s"] for page in found) if len(found) == len(wanted) else None


def plan(names, options):
    """What is run, and about how long it takes."""
    took = {name: taken_s(name, options.delay) for name in names}
    chosen = [name for name in names if took[name] is None or not options.missing]
    if options.full:
        minutes = {name: FULL_MIN[name] if took[name] is None else -(-took[name] // 60) for name in chosen}
        print("about %d minutes: %s" % (sum(minutes.values()), ", ".join("%s %d" % pair for pair in minutes.items())))
    return chosen


def main():
    options = parse()
    if options.write:
        report.write(options.write)
        return 0
    lab.options += [word for word in sys.argv[1:] if word not in (*options.names, "--missing")]
    proc.adopt_orphans()
    failed = []
    names = options.names or list(BENCHES + tuple(PROGRAMS))
    for name in names:
        proc.expect(name in BENCHES or name in PROGRAMS, "no bench " + name)
    for name in plan(names, options):
        began = time.monotonic()
        print("== %s; %d cores; load %.1f" % (name, lab.cores(), os.getloadavg()[0]), flush=True)
        try:
            program(name, options) if name in PROGRAMS else importlib.import_module(name).main(options)
        except (proc.Failure, proc.Skip) as failure:
            failed.append(name)
            print("bench %s: %s" % (name, failure), file=sys.stderr)
        print("== %s took %.0f s" % (name, time.monotonic() - began), flush=True)
    report.plots(lab.load())
    print("written: build/bench/results.json" + ("; FAILED: " + " ".join(failed) if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (proc.Failure, proc.Skip) as failure:
        print("bench: %s" % failure, file=sys.stderr)
        sys.exit(1)
