#!/usr/bin/python3
"""Runs the benches of this folder: those that are modules here with the book of lab.py, and those that are programs of
their own, whose output is kept."""
import argparse
import importlib
import os
import re
import sys
import time

import lab
import report
from harness import paths, proc

BENCHES = ("epochs", "large", "small", "budget", "known", "counts")
PROGRAMS = {"listing": "listing.py", "index": "index.py", "overhead": "run_overhead"}  # JSON lines are rows, the rest is text
PROGRAM_LIMIT_S = 1500


def program(name):
    """A line of JSON is a row, and an aim too where its `aim` begins with a bound of its `value`."""
    book = lab.Book(name, "a program of its own")
    done = proc.run([paths.PYTHON, os.path.join(lab.HERE, PROGRAMS[name])], PROGRAM_LIMIT_S)
    proc.expect(done.returncode == 0, "%s: status %d" % (name, done.returncode), proc.tail(done.stdout, done.stderr))
    for row in lab.lines(done.stdout):
        label, aim, value = row.pop("name", name), row.pop("aim", None), row.get("value")
        bound = re.match(r"([<>])=? *([\d.]+)", str(aim or ""))
        if bound and isinstance(value, (int, float)):
            most = float(bound.group(2))
            book.aim(label, aim, value, value <= most if bound.group(1) == "<" else value >= most)
        else:
            book.row(label, row.pop("note", ""), **row)
    book.page["text"] = "\n".join(line for line in done.stdout.decode().splitlines() if not line.startswith("{"))
    print(book.page["text"])
    book.save()


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="of " + " ".join(BENCHES + tuple(PROGRAMS)))
    parser.add_argument("--files", type=int, default=4000, help="pictures of the epochs at 30 ms")
    parser.add_argument("--files-slow", type=int, default=0, help="at 110 ms; as many when not said")
    parser.add_argument("--few", type=int, default=512, help="pictures for the peers; 0: no peers")
    parser.add_argument("--gib", type=int, default=4, help="size of the large object")
    parser.add_argument("--small", type=int, default=200000, help="objects of 1 KB")
    parser.add_argument("--epochs", type=int, default=3, help="of the benches with a small cache")
    parser.add_argument("--seeds", type=int, default=2, help="found by a search of all 2^32: a minute each and core")
    parser.add_argument("--runs", type=int, default=3, help="medians of so many")
    parser.add_argument("--pairs", type=int, default=7, help="of warm and local epochs")
    parser.add_argument("--delay", type=int, default=0, choices=(0, 30, 110), help="only this latency")
    parser.add_argument("--write", metavar="FILE", help="run nothing, fill FILE's tables from the results")
    return parser.parse_args()


def main():
    options = parse()
    if options.write:
        report.write(options.write)
        return 0
    lab.options += [word for word in sys.argv[1:] if word not in options.names]
    proc.adopt_orphans()
    failed = []
    for name in options.names or BENCHES + tuple(PROGRAMS):
        proc.expect(name in BENCHES or name in PROGRAMS, "no bench " + name)
        began = time.monotonic()
        print("== %s; %d cores; load %.1f" % (name, lab.cores(), os.getloadavg()[0]), flush=True)
        try:
            program(name) if name in PROGRAMS else importlib.import_module(name).main(options)
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
