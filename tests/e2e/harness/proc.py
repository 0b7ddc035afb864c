"""Child processes that never outlive their test: free ports, start, wait, stop by pid, bounded runs.

The process is made the reaper of its orphans (PR_SET_CHILD_SUBREAPER), so a daemon that left its parent is still a
descendant here, and only descendants are ever signalled."""
import atexit
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

PR_SET_CHILD_SUBREAPER = 36
PATIENCE = 5  # so many times what a quiet machine needs at the most: a condition is waited for, not a time
_state = {"pid": 0, "folders": []}


class Failure(Exception):
    """A test's expectation did not hold; the text says which."""


class Poor(Failure):
    """A policy did poorly, by a count that depends on how threads meet: another try may show that it can do better."""


class Skip(Exception):
    """The test cannot be run here; the text says why."""


def adopt_orphans():
    """Once per process: become the reaper of orphans and clean up at exit and on signals."""
    if _state["pid"] == os.getpid():
        return
    _state["pid"] = os.getpid()
    _state["folders"] = []
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    atexit.register(clean_up)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, on_signal)


def on_signal(number, frame):
    """Ends the process by way of clean_up, telling where it was (a test past its limit)."""
    traceback.print_stack(frame, limit=8, file=sys.stdout)
    sys.exit(128 + number)


def clean_up():
    if _state["pid"] != os.getpid():
        return
    kill_descendants()
    for folder in _state["folders"]:
        force_remove(folder)
    _state["folders"] = []


def force_remove(folder):
    """rm -rf that also enters directories of mode 0111 (stand-ins) when not root."""
    for here, folders, _ in os.walk(folder):
        for name in folders:
            path = os.path.join(here, name)
            if not os.path.islink(path):
                try:
                    os.chmod(path, 0o700)
                except OSError:
                    pass
    shutil.rmtree(folder, ignore_errors=True)


def temp_folder(prefix="headrace-test-"):
    """A folder under TMPDIR, removed at exit."""
    adopt_orphans()
    folder = os.path.realpath(tempfile.mkdtemp(prefix=prefix))
    _state["folders"].append(folder)
    return folder


def parents():
    """pid -> parent's pid of every process."""
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, "rb") as file:
                    table[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                pass
    return table


def descendants(root=None):
    table = parents()
    found, edge = [], [root or os.getpid()]
    while edge:
        edge = [pid for pid, parent in table.items() if parent in edge]
        found += edge
    return found


def command_line(pid):
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            return file.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def state(pid):
    """The kernel's letter: R, S, D, Z, ...; X when it is gone."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode()
    except OSError:
        return "X"


def alive(pid):
    """Running, that is: neither gone nor a zombie."""
    return state(pid) not in "ZX"


def reap(pid):
    """Takes the status of an orphan we inherited, if it is one and has ended."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except OSError:
        pass


def kill_descendants():
    """TERM, then KILL, every process below this one. Returns the command lines of those that had to be killed."""
    left = []
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + 3
        told = set()
        while time.monotonic() < deadline:
            pids = [pid for pid in descendants() if alive(pid)]
            if not pids:
                break
            for pid in pids:
                if pid not in told:
                    told.add(pid)
                    if number == signal.SIGKILL:
                        left.append(command_line(pid))
                    try:
                        os.kill(pid, number)
                    except OSError:
                        pass
            time.sleep(0.02)
    for pid in descendants():
        reap(pid)
    return left


def free_port():
    """A loopback port that was free just now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def wait_port(port, child=None, seconds=30):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if child is not None and child.poll() is not None:
            raise Failure("server ended at its start with status %s" % child.returncode)
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.03)
    raise Failure("nothing listens on 127.0.0.1:%d after %d s" % (port, seconds))


def wait_until(condition, seconds, what):
    """Polls condition until it is true; its value. Failure after PATIENCE times `seconds`."""
    deadline = time.monotonic() + PATIENCE * seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Failure("after %s s still not: %s" % (PATIENCE * seconds, what))
        time.sleep(0.02)


def start(argv, log, env=None, cwd=None, **options):
    """Starts a server; its output goes to the file `log`."""
    adopt_orphans()
    with open(log, "ab") as out:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, cwd=cwd, **options)


def stop(child, seconds=5):
    """Ends a child that start() gave: TERM, KILL when it does not listen."""
    if child is None or child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait(seconds)


class Served:
    """What listens on `port` of this machine, from its making until stop()."""
    port = 0
    child = None  # of start()

    @property
    def url(self):
        return "http://127.0.0.1:%d" % self.port

    def stop(self):
        stop(self.child)

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.stop()


def run(argv, timeout=60, **options):
    """subprocess.run with captured bytes and a limit; past it the child's whole session is killed."""
    adopt_orphans()
    given = options.pop("input", None)
    if given is None:
        options.setdefault("stdin", subprocess.DEVNULL)
    else:
        options["stdin"] = subprocess.PIPE
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    child = subprocess.Popen(argv, start_new_session=True, **options)
    try:
        out, err = child.communicate(given, timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        try:
            out, err = child.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            out, err = b"", b""
        raise Failure("took longer than %s s: %s\n%s" % (timeout, " ".join(map(str, argv))[:300], tail(out, err)))
    return subprocess.CompletedProcess(argv, child.returncode, out, err)


def tail(*texts, limit=2000):
    joined = b"\n".join(text or b"" for text in texts)
    return joined[-limit:].decode("utf-8", "replace")


def expect(condition, text, *details):
    if not condition:
        raise Failure(text + ("\n" + "\n".join(str(detail) for detail in details) if details else ""))


def expect_well(condition, text, *details):
    """Like expect, of a count that says how good a policy is: the one failure that the mark tries of a test is for."""
    if not condition:
        raise Poor(text + ("\n" + "\n".join(str(detail) for detail in details) if details else ""))


def expect_equal(have, want, what):
    if have != want:
        raise Failure("%s: have %s, want %s" % (what, repr(have)[:1500], repr(want)[:1500]))
