"""`headrace stall` where the kernel refuses ptrace: who waits for what is shown all the same, and a word says why there is no
stack, and what to do."""
import os

from harness import machine, paths, proc
from harness.case import test
from test_eyes import NO_PTRACE, held, stall_until

NEEDS = ("rclone", "root", "setpriv")
# As container runtimes start programs: root, without that capability.
CAPLESS = ("setpriv", "--bounding-set", "-sys_ptrace")
NAME = "/n003/img_00003.jpg"
# Opens argv[1]; before that it becomes what argv[2] says.
OPENS = """
import ctypes, os, sys
if sys.argv[2] == "undumpable":
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
elif sys.argv[2] == "other":
    os.stat(sys.argv[1])
    os.setuid(4242)
try:
    open(sys.argv[1], "rb").read()
except PermissionError:
    pass # the cache is root's
"""
YAMA = """mount -t tmpfs none /proc/sys/kernel && mkdir /proc/sys/kernel/yama && echo $1 >/proc/sys/kernel/yama/ptrace_scope
"""


def expect_refused(job, before, word):
    """stall under `before` shows the wait, and that word in place of its stack."""
    done = proc.run([*before, job.program, "stall"], 30, env=job.env())
    text = done.stdout.decode()
    proc.expect_equal(done.returncode, 0, "status: " + proc.tail(done.stderr))
    proc.expect(NAME[1:] + " for" in text and "in flight" in text and "1 thread waits" in text, "the wait is not shown", text)
    proc.expect("    stack: refused: " + word in text and "(libc" not in text, "the word", text)


def refused(kind, *cases):
    with held() as (job, data, _, release):
        child = job.start([paths.PYTHON, "-c", OPENS, data + NAME, kind])
        stall_until(job, ("in flight",))
        for before, word in cases:
            expect_refused(job, before, word)
        proc.expect("(libheadrace.so)" in stall_until(job, ("in flight",)), "no stack for a root that may")
        release.set()
        proc.expect_equal(child.wait(20), 0, "the job goes on unharmed")


@test(NEEDS)
def test_ptrace_refused_by_missing_capability():
    """A process that is not dumpable, and a seccomp profile on top of it."""
    refused("undumpable", (CAPLESS, "this root has no CAP_SYS_PTRACE"),
            ((*CAPLESS, paths.PYTHON, "-c", NO_PTRACE), "a seccomp profile forbids ptrace"))


@test(NEEDS)
def test_ptrace_refused_for_another_users_process():
    """The job gave up root's uid after its start."""
    refused("other", (CAPLESS, "this root has no CAP_SYS_PTRACE"))


@test((*NEEDS, "mount"))
def test_ptrace_refused_under_yama():
    """By the value of ptrace_scope, which this machine need not have: it is shown to the command alone."""
    def scope(value, *before):
        return ["unshare", "-m", "sh", "-ec", YAMA + 'shift; exec "$@"', "sh", str(value), *before]
    refused("undumpable", (scope(3, *CAPLESS), "kernel.yama.ptrace_scope is 3: nobody may, until a reboot"),
            (scope(2, *CAPLESS), "this root has no CAP_SYS_PTRACE"))


USERS = """
cat >/mnt/home/in.sh <<'END'
headrace run --map "$1" -- /usr/bin/python3 opens.py "$2" undumpable &
until headrace stall | grep -q 'in flight'; do sleep 0.05; done
headrace stall
END
su - %s -c "sh in.sh '$2' '$3'"
"""


@test((*NEEDS, "su"))
def test_ptrace_refused_to_a_user():
    """Somebody who is not root, without Yama and with it."""
    with held() as (job, _, _, _release):
        host = machine.Machine(job)
        machine.put(host.home + "/opens.py", OPENS)
        args = [job.maps[0].replace(job.maps[0].partition("=")[0], "/data", 1), "/data" + NAME]
        for scope, word in (("0", "another user's, or not dumpable: be root"), ("1", "kernel.yama.ptrace_scope is 1: be root")):
            out = host.good(YAMA + USERS % machine.USER, scope, *args)
            proc.expect("    stack: refused: " + word in out and NAME[1:] + " for" in out, "the word", out)
