"""What headrace does to processes: nothing to those that touch no map, little to the others."""
import os
import re
import signal
import time

from harness import fixtures, headrace, paths, proc, servers
from harness.build import compile_c
from harness.case import test
from harness.faults import FaultProxy
from harness.scene import scene

NEEDS = ("nginx", "rclone")

MEMORY = ("mmap", "munmap", "brk", "mprotect", "madvise", "mremap", "futex", "sched_yield")
CALL = re.compile(r'^(\w+)\((.*)$')
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


def system_calls(log):
    """Names and quoted strings of the calls after the marker; addresses and memory calls left out."""
    calls, on = [], False
    with open(log, encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith('access("/headrace-marker"'):
                on = True
                continue
            match = CALL.match(line)
            if on and match and match.group(1) not in MEMORY:
                result = re.search(r"\) += (-?\d+)(.*)$", line)
                failed = result.group(2).split("(")[0].strip() if result and result.group(1) == "-1" else ""
                strings = () if match.group(1) in ("read", "getrandom") else tuple(STRING.findall(match.group(2)))
                calls.append((match.group(1), strings, failed))
    return calls


@test(("torch", "strace", "nginx", "rclone"), timeout=120)
def test_untouched_process_same_system_calls():
    with scene() as s:
        folder = proc.temp_folder()
        code = "import os\nos.access('/headrace-marker', 0)\nimport torch, json, sqlite3\nos._exit(0)"
        logs = {}
        for name, extra in (("without", []), ("with", [
                "-E", "LD_PRELOAD=" + paths.LIBRARY, "-E", "HEADRACE_MAP=" + s.job.maps[0]])):
            logs[name] = os.path.join(folder, name)
            argv = ["strace", "-s", "300", "-o", logs[name], *extra, paths.PYTHON, "-c", code]
            done = proc.run(argv, 60, env=dict(s.job.env(), PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1"))
            proc.expect(done.returncode == 0, "strace: %d" % done.returncode, proc.tail(done.stderr))
        left, right = system_calls(logs["without"]), system_calls(logs["with"])
        proc.expect(len(left) > 1000, "only %d calls seen" % len(left))
        for number, (a, b) in enumerate(zip(left, right)):
            proc.expect(a == b, "call %d differs: without %s, with %s" % (number, a, b))
        proc.expect_equal(len(right), len(left), "number of calls")
        proc.expect(not os.path.exists(s.job.cache), "a process that touched no map made a cache directory")


EARLY = r"""
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
__attribute__((constructor(101))) static void early(void)
{
    struct stat st;
    char *heap = malloc(100000);
    memset(heap, 1, 100000);
    int fd = open("/etc/passwd", O_RDONLY);
    int ok = fd >= 0 && fstat(fd, &st) == 0 && stat("/etc", &st) == 0 && S_ISDIR(st.st_mode);
    ok = ok && access("/headrace-none", F_OK) != 0 && lstat("/etc/passwd", &st) == 0;
    DIR *dir = opendir("/etc");
    ok = ok && dir && readdir(dir);
    if (dir) closedir(dir);
    FILE *file = fopen("/etc/passwd", "r");
    ok = ok && file && fgetc(file) != EOF;
    if (file) fclose(file);
    char here[4096];
    ok = ok && getcwd(here, sizeof here) && chdir("/") == 0 && chdir(here) == 0;
    stat(getenv("EARLY_MAPPED"), &st);
    close(fd);
    free(heap);
    setenv("EARLY_SAYS", ok ? "fine" : "broken", 1);
}
"""


@test(NEEDS)
def test_constructor_that_runs_before_ours():
    """Loaded after us in LD_PRELOAD, so its constructor runs first: opens, stats, lists and mallocs."""
    with scene(fixtures.mixed()) as s:
        early = compile_c(EARLY, "-shared", "-fPIC", name="early.so")
        for order in ("%s %s" % (paths.LIBRARY, early), "%s %s" % (early, paths.LIBRARY)):
            env = dict(s.job.preload_env(), LD_PRELOAD=order, EARLY_MAPPED=s.data + "/top.txt")
            done = s.job.preload(["bash", "-c", 'echo "$EARLY_SAYS"; cat "$EARLY_MAPPED"'], env=env)
            proc.expect_equal((done.returncode, done.stdout), (0, b"fine\nhello headrace\nsecond line\n"),
                              "after an early constructor (%s)" % proc.tail(done.stderr))


@test(NEEDS)
def test_bare_preload_starts_the_daemon():
    with scene(fixtures.mixed()) as s:
        done = s.job.preload(["cat", s.data + "/top.txt"])
        proc.expect_equal((done.returncode, done.stdout), (0, b"hello headrace\nsecond line\n"), "cat (%s)"
                          % proc.tail(done.stderr))
        proc.expect(s.job.daemon_pid(), "no daemon after the first use")


@test(NEEDS)
def test_daemon_start_is_invisible_to_wait():
    """The daemon that the .so starts never shows up in the application's wait()."""
    with scene(fixtures.mixed()) as s:
        code = ("import os, signal, sys\nseen = []\nsignal.signal(signal.SIGCHLD, lambda *a: seen.append(a))\n"
                "open(sys.argv[1] + '/top.txt').read()\n"
                "try: print('reaped', os.waitpid(-1, 0))\nexcept ChildProcessError: print('no child')\nprint(len(seen))")
        done = s.job.preload([paths.PYTHON, "-c", code, s.data])
        proc.expect_equal(done.stdout, b"no child\n0\n", "wait() in the application (%s)" % proc.tail(done.stderr))


@test(NEEDS)
def test_run_is_an_exec():
    """Same pid, exit status and signals are the command's."""
    with scene(fixtures.mixed()) as s:
        proc.expect_equal(s.job.run(["sh", "-c", "exit 7"]).returncode, 7, "exit status")
        proc.expect_equal(s.job.run(["sh", "-c", "kill -TERM $$"]).returncode, -signal.SIGTERM, "death by signal")
        child = s.job.start(["sh", "-c", "echo $$; sleep 60"])
        log = os.path.join(os.path.dirname(s.job.cache), "job.log")
        printed = proc.wait_until(lambda: open(log).read().split(), 10, "output of the command")
        proc.expect_equal(int(printed[-1]), child.pid, "pid of the command")
        child.terminate()
        proc.expect_equal(child.wait(5), -signal.SIGTERM, "status after SIGTERM")


@test(NEEDS)
def test_run_init_stays_parent():
    with scene(fixtures.mixed()) as s:
        argv = [s.job.program, "run", "--init", "--map", s.job.maps[0], "--"]
        done = proc.run(argv + ["sh", "-c", "cat %s/top.txt; exit 9" % s.data], 30, env=s.job.env())
        proc.expect_equal((done.returncode, done.stdout[:5]), (9, b"hello"), "--init (%s)" % proc.tail(done.stderr))
        child = proc.start(argv + ["sleep", "60"], os.path.join(proc.temp_folder(), "log"), env=s.job.env())
        proc.wait_until(lambda: any("sleep 60" in proc.command_line(p) for p in proc.descendants(child.pid)), 10, "a child")
        child.terminate()
        proc.expect(child.wait(5) in (128 + signal.SIGTERM, -signal.SIGTERM), "status %s" % child.returncode)


@test(NEEDS)
def test_run_command_not_found():
    with scene(fixtures.mixed()) as s:
        done = s.job.run(["/nonexistent/program"])
        proc.expect_equal(done.returncode, 127, "status")
        proc.expect(b"/nonexistent/program" in done.stderr and done.stderr.count(b"\n") == 1, "one line that names it",
                    proc.tail(done.stderr))


STATIC = "#include <unistd.h>\nint main(void){return write(1, \"static\\n\", 7) != 7;}\n"
MUSL = ("long write(int, const void *, unsigned long);\n_Noreturn void _exit(int);\n"
        "void _start(void){write(1, \"musl\\n\", 5); _exit(0);}\n")


@test(NEEDS)
def test_children_that_cannot_be_preloaded_still_run():
    """A musl program given our preload would die of missing symbols; a static one ignores it. Said, and once."""
    with scene(fixtures.mixed()) as s:
        static = compile_c(STATIC, "-static")
        proc.expect_equal(s.job.run(["sh", "-c", static]).stdout, b"static\n", "a static child")
        loader = next((p for p in ("/lib/ld-musl-x86_64.so.1", "/lib/ld-musl-aarch64.so.1") if os.path.exists(p)), "")
        proc.expect(loader, "no musl loader: scripts/deps installs it")
        musl = compile_c(MUSL, "-nostdlib", "-nostartfiles", "-fno-stack-protector", "-fno-builtin", "-fPIE", "-pie",
                         "-Wl,--dynamic-linker=" + loader, os.path.realpath(loader))
        proc.expect_equal(proc.run([musl]).stdout, b"musl\n", "the musl program by itself")
        spawn = "import subprocess, sys; subprocess.run([sys.argv[1]])"
        for argv in (["sh", "-c", musl], [paths.PYTHON, "-c", spawn, musl]):
            done = s.job.run(argv)
            proc.expect_equal(done.stdout, b"musl\n", "a musl child (%s)" % proc.tail(done.stderr))


@test(NEEDS)
def test_children_keep_the_map():
    with scene(fixtures.mixed()) as s:
        done = s.job.good(["env", "-u", "HOME", "sh", "-c", "%s -c 'import subprocess, sys; "
                           "subprocess.run([\"cat\", sys.argv[1]])' %s/top.txt" % (paths.PYTHON, s.data)])
        proc.expect(done.startswith(b"hello"), "a grandchild's cat", done)


SIGNALS = r"""
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int alarms, children;
static void on_alarm(int n) { (void)n; alarms++; }
static void on_child(int n) { (void)n; children++; while (waitpid(-1, NULL, WNOHANG) > 0) {} }
int main(int argc, char **argv)
{
    struct sigaction act = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &act, NULL);
    act.sa_handler = on_child;
    sigaction(SIGCHLD, &act, NULL);
    struct itimerval every = {{0, 10000}, {0, 10000}};
    setitimer(ITIMER_REAL, &every, NULL);
    int noisy = fork();
    if (noisy == 0) _exit(0);
    int files = 0, broken = 0;
    for (int i = 1; i < argc; i++) {
        if (i % 4 == 0 && fork() == 0) { usleep(10000); _exit(0); }
        int fd = open(argv[i], O_RDONLY);
        if (fd < 0) { if (broken++ == 0) fprintf(stderr, "%s: %s\n", argv[i], strerror(errno)); continue; }
        files++;
        close(fd);
    }
    printf("%d %d %d\n", files, broken, alarms > 20 && children > 5);
    return 0;
}
"""


@test(NEEDS)
def test_signals_every_10_ms_during_cold_opens():
    with scene(delay_ms=60, prefetch="off") as s:
        program = compile_c(SIGNALS)
        names = [os.path.join(s.data, "n001", name) for name in sorted(os.listdir(s.local + "/n001"))]
        done = s.job.run([program, *names])
        proc.expect_equal(done.stdout.split(), [b"50", b"0", b"1"], "opened, broken, signals seen (%s)"
                          % proc.tail(done.stderr))


@test(NEEDS)
def test_ctrl_c_ends_a_stuck_open():
    with servers.Rclone(fixtures.mixed()) as store, FaultProxy(store, lambda path, nth: ("stall", 30)) as proxy:
        data = os.path.join(proc.temp_folder(), "data")
        with headrace.Job("%s=s3://bkt/train" % data, proxy, access=store.access, secret=store.secret) as job:
            code = "import os, sys\nos.listdir(sys.argv[1])\nprint('opening', flush=True)\nopen(sys.argv[1] + '/top.txt')"
            log = os.path.join(proc.temp_folder(), "log")
            child = job.start([paths.PYTHON, "-c", code, data], log=log)
            proc.wait_until(lambda: "opening" in open(log).read(), 20, "the program at its open")
            time.sleep(3) # from 2 s on no signal is missed
            child.send_signal(signal.SIGINT)
            try:
                child.wait(15)
            except Exception:
                raise proc.Failure("15 s after Ctrl-C the program still waits")
            job.note_daemon()
            proc.expect("KeyboardInterrupt" in open(log).read(), "no KeyboardInterrupt", open(log).read())


@test(NEEDS)
def test_ctrl_c_in_a_short_wait_is_not_lost():
    """A wait below 2 s goes on to its end, and the handler's flag is there then: Python raises before its next step."""
    code = ("import os, sys\n"
            "try:\n    os.listdir(sys.argv[1])\n    os.open(sys.argv[1] + '/top.txt', os.O_RDONLY) if sys.argv[2] == 'open' else open(sys.argv[1] + '/top.txt').read()\n"
            "    print('went on', flush=True)\nexcept KeyboardInterrupt: print('interrupted', flush=True)")
    for how in ("open", "read"):
        child = []

        def fault(path, nth):
            # The program waits for this very request.
            child[0].send_signal(signal.SIGINT)
            return ("stall", 1)

        with servers.Rclone(fixtures.mixed()) as store, FaultProxy(store, fault) as proxy:
            data = os.path.join(proc.temp_folder(), "data")
            with headrace.Job("%s=s3://bkt/train" % data, proxy, access=store.access, secret=store.secret,
                              prefetch="off") as job:
                log = os.path.join(proc.temp_folder(), "log")
                child.append(job.start([paths.PYTHON, "-c", code, data, how], log=log))
                proc.expect_equal(child[0].wait(30), 0, "status of %s: %s" % (how, open(log).read()))
                job.note_daemon()
                proc.expect_equal(open(log).read(), "interrupted\n", how)
                proc.expect_equal(proxy.seen, {"/bkt/train/top.txt": 1}, "requests of %s" % how)


SAY = """
import os, sys
def fails():
    try: open(sys.argv[1] + "/top.txt")
    except OSError as error: print(error.errno, flush=True)
end, other = os.pipe()
os.close(2)
if sys.argv[2] == "pipe":
    os.dup2(other, 2)
else:
    assert os.open(sys.argv[3], os.O_RDWR | os.O_CREAT | (os.O_APPEND if sys.argv[2] == "log" else 0), 0o600) == 2
os.write(2, b"first\\n")
fails()
if sys.argv[2] == "pipe": open(sys.argv[3], "wb").write(os.read(end, 4096))
"""


@test(NEEDS)
def test_messages_never_land_in_a_file_that_took_their_number():
    """A program that closed its stderr and opened a file: what we say of a failure is not written into that; into a log that is
    appended to, and into a pipe, it is."""
    with scene(fixtures.mixed(), prefetch="off") as s:
        for how, says in (("file", False), ("log", True), ("pipe", True)):
            file = os.path.join(proc.temp_folder(), how)
            with headrace.Job(s.job.maps, s.front, access="nobody", secret="nothing") as job:
                done = job.run([paths.PYTHON, "-c", SAY, s.data, how, file])
                proc.expect_equal(done.stdout, b"13\n", "EACCES (%s)" % proc.tail(done.stderr))
            with open(file, "rb") as written:
                text = written.read()
            proc.expect(text.startswith(b"first\n") and (b"headrace: " in text) == says, how, text)


@test(NEEDS)
def test_daemon_exits_when_idle():
    with scene(fixtures.mixed(), idle_exit_s=1) as s:
        s.job.good(["cat", s.data + "/top.txt"])
        pid = s.job.daemon_pid()
        proc.expect(pid, "no daemon")
        proc.wait_until(lambda: not proc.alive(pid), 15, "idle daemon gone")
        proc.expect(s.job.good(["cat", s.data + "/top.txt"]).startswith(b"hello"), "after it")


@test(NEEDS)
def test_one_daemon_for_many_starters():
    """Twelve `run`s and preloads at the same moment find or start one daemon."""
    with scene(fixtures.mixed()) as s:
        code = "import os, sys; sys.stdout.write(open(sys.argv[1] + '/top.txt').read())"
        argv = [paths.PYTHON, "-c", code, s.data]
        children = []
        for number in range(12):
            log = os.path.join(proc.temp_folder(), "log")
            if number % 2:
                children.append((s.job.start(argv, log=log), log))
            else:
                children.append((proc.start(argv, log, env=s.job.preload_env()), log))
        for child, log in children:
            proc.expect_equal(child.wait(30), 0, "status (%s)" % open(log).read())
            proc.expect_equal(open(log).read(), "hello headrace\nsecond line\n", "output")
        pid = s.job.daemon_pid()
        daemons = [p for p in proc.descendants() if proc.alive(p) and "daemon" in proc.command_line(p)
                   and "headrace" in proc.command_line(p)]
        proc.expect_equal(daemons, [pid], "daemons running")
