"""Runs every test and prints a line for each, last `N passed, N failed, N skipped`.

  python3 -m harness.runner [--only TEXT] [--kinds checks,unit,fuzz,preload,e2e] [-j N] [--strict] [--slow] [--list]

Each end-to-end test is a process of its own with a time limit and a TMPDIR that is removed after it. --strict: a skip
whose name is not in tests/skips-allowed fails the run. --slow: the slow ones too."""
import argparse
import fnmatch
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time

from . import binaries, case, one, paths, proc

GRACE_S = 8  # between the polite and the final signal to a test past its limit
KINDS = ("checks", "unit", "preload", "e2e")


class Results:
    def __init__(self, strict):
        self.counts = {"passed": 0, "failed": 0, "skipped": 0}
        self.failed, self.skips, self.refused = [], [], []
        self.lock = threading.Lock()
        self.strict = strict
        self.allowed = read_allowed()

    def add(self, name, verdict, detail="", seconds=None):
        took = " (%.1f s)" % seconds if seconds is not None else ""
        with self.lock:
            self.counts[verdict] += 1
            if verdict == "passed":
                print("ok %s%s" % (name, took))
            elif verdict == "failed":
                self.failed.append(name)
                print("not ok %s%s" % (name, took))
                for line in detail.splitlines() or ["no details"]:
                    print("    " + line)
            else:
                self.skips.append(name)
                print("skip %s: %s" % (name, (detail.strip().splitlines() or ["no reason given"])[-1]))
                if not any(fnmatch.fnmatch(name, pattern) for pattern in self.allowed):
                    self.refused.append(name)
            sys.stdout.flush()

    def note(self, text, detail):
        """A try that is not the last: said, not counted."""
        with self.lock:
            print("# " + text)
            for line in detail.splitlines():
                print("    " + line)
            sys.stdout.flush()

    def finish(self):
        for name in self.failed:
            print("failed: " + name)
        for name in self.refused:
            print("skip not allowed by tests/skips-allowed: " + name)
        print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % self.counts)
        return 1 if self.failed or not self.counts["passed"] or (self.strict and self.refused) else 0


def read_allowed():
    """Names (shell patterns) of tests that may be skipped; '#' starts a comment."""
    try:
        with open(os.path.join(paths.ROOT, "tests", "skips-allowed")) as file:
            lines = [line.split("#")[0].strip() for line in file]
    except OSError:
        return []
    return [line for line in lines if line]


class Pool:
    """End-to-end tests, some at a time; whatever a dead test left behind is killed: it is a descendant of ours."""

    def __init__(self, results, temp):
        self.results, self.temp = results, temp
        self.lock = threading.Lock()
        self.running = set()

    def run_all(self, cases, jobs):
        together = queue.Queue()
        for one_case in cases:
            if not one_case.alone:
                together.put(one_case)
        threads = [threading.Thread(target=self.drain, args=(together,)) for _ in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for one_case in cases:
            if one_case.alone:
                self.run_case(one_case)

    def drain(self, together):
        while True:
            try:
                one_case = together.get_nowait()
            except queue.Empty:
                return
            self.run_case(one_case)

    def run_case(self, one_case):
        reason = one_case.reason_to_skip()
        if reason:
            self.results.add(one_case.name, "skipped", reason)
            return
        verdict, text, seconds = self.run_once(one_case)
        for number in range(1, one_case.tries):
            if verdict != "poor":
                break
            self.results.note("%s: try %d of %d did poorly (%.1f s)" % (one_case.name, number, one_case.tries, seconds), text)
            verdict, text, seconds = self.run_once(one_case)
        self.results.add(one_case.name, "failed" if verdict == "poor" else verdict, text, seconds)

    def run_once(self, one_case):
        """(verdict, what it said, seconds); "poor": a failure that another try may make good."""
        folder = tempfile.mkdtemp(prefix="t", dir=self.temp)
        log = os.path.join(folder, "log")
        began = time.monotonic()
        with open(log, "wb") as out, self.lock:
            child = subprocess.Popen(
                [sys.executable, "-m", "harness.one", one_case.name], cwd=paths.E2E, stdin=subprocess.DEVNULL, stdout=out,
                stderr=out, env=dict(os.environ, TMPDIR=folder), start_new_session=True)
            self.running.add(child.pid)
        late = self.wait(child, one_case.timeout)
        with self.lock:
            self.running.discard(child.pid)
            self.kill_orphans()
        seconds = time.monotonic() - began
        with open(log, "rb") as file:
            text = file.read()[-6000:].decode("utf-8", "replace")
        proc.force_remove(folder)
        if late:
            return "failed", text + "\nover its limit of %d s" % one_case.timeout, seconds
        if child.returncode == one.SKIPPED:
            return "skipped", text, seconds
        if child.returncode == one.POOR:
            return "poor", text, seconds
        return ("passed" if child.returncode == 0 else "failed",
                text + "\nstatus %d" % child.returncode if not text.strip() else text, seconds)

    @staticmethod
    def wait(child, limit):
        """True when the test was still running at its limit."""
        try:
            child.wait(limit)
            return False
        except subprocess.TimeoutExpired:
            child.terminate()
        try:
            child.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        return True

    def kill_orphans(self):
        """Children of this process that are no running test: they came to us from a test that died."""
        for _ in range(50):
            table = proc.parents()
            orphans = [pid for pid, parent in table.items() if parent == os.getpid() and pid not in self.running]
            if not orphans:
                return
            for pid in orphans:
                for victim in proc.descendants(pid) + [pid]:
                    try:
                        os.kill(victim, signal.SIGKILL)
                    except OSError:
                        pass
                proc.reap(pid)
            time.sleep(0.02)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="only tests whose name contains this")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("-j", type=int, default=2, help="end-to-end tests at a time")
    parser.add_argument("--strict", action="store_true", help="skips have to be in tests/skips-allowed")
    parser.add_argument("--slow", action="store_true", help="end-to-end tests marked slow as well")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--builds", default="build", help="build folders whose unit tests run, with commas")
    parser.add_argument("--fuzz-s", type=int, default=20, help="seconds for each fuzzer, with --kinds fuzz")
    args = parser.parse_args()
    kinds = args.kinds.split(",")
    cases = [one_case for one_case in case.discover(args.only) if args.slow or not one_case.slow]
    if args.list:
        for one_case in cases:
            print(one_case.module, one_case.name, " ".join(one_case.requires))
        return 0
    proc.adopt_orphans()
    results = Results(args.strict)
    script = os.path.join(paths.ROOT, "scripts", "checks")
    if "checks" in kinds and os.path.exists(script):
        for result in binaries.checks(script):
            results.add(*result)
    if "unit" in kinds:
        for build in args.builds.split(","):
            for path in binaries.programs(build, "tests", "unit"):
                for result in binaries.unit(path):
                    if args.only in result[0]:
                        results.add(*result)
    if "fuzz" in kinds:
        for path in binaries.programs("build", "tests", "fuzz"):
            if args.only in path:
                results.add(*binaries.fuzz(path, args.fuzz_s))
    if "preload" in kinds:
        for result in binaries.twins(args.only):
            results.add(*result)
    if "e2e" in kinds:
        Pool(results, proc.temp_folder("hr-")).run_all(cases, max(1, args.j))
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
