"""scripts/headrace-entrypoint: a container's first process, by environment alone."""
import os
import pty
import re
import select
import shutil
import signal

from harness import fixtures, one, paths, proc
from harness.build import compile_c
from harness.case import test
from harness.kit import kit, map_env
from harness.scene import scene

NEEDS = ("nginx", "rclone")
CONTAINER = NEEDS + ("namespaces",)
HELLO = b"hello headrace\nsecond line\n"
MUSL = ("long write(int, const void *, unsigned long);\n_Noreturn void _exit(int);\n"
        "void _start(void){write(1, \"musl\\n\", 5); _exit(0);}\n")
STATIC = "#include <unistd.h>\nint main(void){return write(1, \"static\\n\", 7) != 7;}\n"


def entrypoint(folder, *argv):
    return [os.path.join(folder, "headrace-entrypoint"), *argv]


@test(NEEDS)
def test_entrypoint_runs_the_program_with_its_maps():
    with scene(fixtures.mixed()) as s:
        done = proc.run(entrypoint(kit(), "sh", "-c", "cat %s/top.txt; exit 9" % s.data), 30, env=map_env(s.job))
        s.job.note_daemon()
        proc.expect_equal((done.returncode, done.stdout, done.stderr), (9, HELLO, b""), "status, output, messages")


@test(NEEDS)
def test_entrypoint_is_found_from_an_installation():
    """bin/headrace-entrypoint beside lib/headrace, by a symlink elsewhere."""
    with scene(fixtures.mixed()) as s:
        root = proc.temp_folder("hr-inst-")
        os.makedirs(root + "/lib")
        os.makedirs(root + "/bin")
        shutil.move(kit(), root + "/lib/headrace")
        shutil.move(root + "/lib/headrace/headrace-entrypoint", root + "/bin")
        os.symlink("../bin/headrace-entrypoint", root + "/lib/start")
        done = proc.run([root + "/lib/start", "cat", s.data + "/top.txt"], 30, env=map_env(s.job))
        s.job.note_daemon()
        proc.expect_equal((done.returncode, done.stdout), (0, HELLO), proc.tail(done.stderr))


@test(CONTAINER)
def test_entrypoint_as_pid_1_reaps_and_returns_the_status():
    """The program is a child of process 1 and sees the map; an orphan that ends is no zombie."""
    code = ("import os, sys, time\n"
            "if os.fork() == 0:\n"
            "    if os.fork() == 0:\n"
            "        while os.getppid() != 1: time.sleep(0.01)\n"
            "    os._exit(0)\n"
            "os.wait()\n"
            "def kids():\n"
            "    found = []\n"
            "    for name in filter(str.isdigit, os.listdir('/proc')):\n"
            "        try: rest = open('/proc/%s/stat' % name).read().rpartition(')')[2].split()\n"
            "        except OSError: continue\n"
            "        if rest[1] == '1' and rest[0] == 'Z': found.append(name)\n"
            "    return found\n"
            "deadline = time.monotonic() + 10\n"
            "while len(os.listdir('/proc')) and kids() and time.monotonic() < deadline: time.sleep(0.01)\n"
            "print(os.getppid(), kids(), open(sys.argv[1]).readline().strip())\n"
            "sys.exit(7)\n")
    with scene(fixtures.mixed()) as s:
        done = proc.run([*paths.NAMESPACES, *entrypoint(kit(), paths.PYTHON, "-c", code, s.data + "/top.txt")], 40,
                        env=map_env(s.job))
        proc.expect_equal((done.returncode, done.stdout), (7, b"1 [] hello headrace\n"), proc.tail(done.stderr))


@test(CONTAINER)
def test_entrypoint_as_pid_1_forwards_sigterm():
    """What a pod's end sends. Also: the namespace's end takes the daemon along."""
    with scene(fixtures.mixed()) as s:
        log = os.path.join(proc.temp_folder(), "log")
        script = "trap 'echo told; exit 3' TERM; cat %s/top.txt; while :; do sleep 0.05; done" % s.data
        child = proc.start([*paths.NAMESPACES, *entrypoint(kit(), "sh", "-c", script)], log, env=map_env(s.job))
        proc.wait_until(lambda: b"second line" in open(log, "rb").read(), 20, "the program at work")
        first = [pid for pid, parent in proc.parents().items() if parent == child.pid]
        proc.expect_equal(len(first), 1, "children of unshare")
        os.kill(first[0], signal.SIGTERM)
        proc.expect_equal(child.wait(10), 3, open(log).read())
        proc.expect(open(log).read().endswith("told\n"), "the program was not told", open(log).read())
        proc.wait_until(lambda: not one.left_behind(), 5, "the daemon gone with them")


COUNTS = ("import os, signal, sys, time\n"
          "seen = []\n"
          "signal.signal(signal.SIGINT, lambda *a: (seen.append(1), os.write(1, b'interrupted\\n')))\n"
          "signal.signal(signal.SIGUSR1, lambda *a: (os.write(1, b'in all %d\\n' % len(seen)), os._exit(5)))\n"
          "os.write(1, b'ready\\n')\n"
          "while True: time.sleep(1)\n")


@test(NEEDS)
def test_run_init_does_not_double_a_terminals_interrupt():
    """Ctrl-C reaches the whole foreground group; another's signal to the parent is passed on."""
    with scene(fixtures.mixed()) as s:
        argv = [s.job.program, "run", "--init", "--map", s.job.maps[0], "--", paths.PYTHON, "-c", COUNTS]
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(argv[0], argv, s.job.env())
        said = b""
        for word, act in ((b"ready", lambda: os.write(terminal, b"\x03")),
                          (b"interrupted", lambda: os.kill(pid, signal.SIGUSR1)), (b"in all", None)):
            while word not in said or not said.endswith(b"\n"):
                ready, _, _ = select.select([terminal], [], [], 20)
                proc.expect(ready, "nothing more is said", said)
                said += os.read(terminal, 4096)
            if act:
                act()
        s.job.note_daemon()
        proc.expect(b"in all 1\r\n" in said, "interrupts", said)
        proc.expect_equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 5, "status")
        os.close(terminal)


def broken_kits():
    """What keeps headrace from working, and a word that the one line has to hold."""
    lost, text, none = kit(), kit(), kit()
    os.remove(lost + "/libheadrace.so")
    with open(text + "/libheadrace.so", "w") as out:
        out.write("not an object\n")
    os.remove(none + "/headrace")
    os.remove(none + "/libheadrace.so")
    return ((kit(), {"HEADRACE_CACHE_DIR": "/proc/none"}, "/proc/none"), (kit(), {"HEADRACE_MAP": ""}, "nothing is mapped"),
            (lost, {}, "libheadrace.so"), (text, {}, "preload"), (none, {}, "headrace"))


@test(NEEDS)
def test_entrypoint_fails_open_or_closed_as_required_says():
    with scene(fixtures.mixed()) as s:
        for folder, change, word in broken_kits():
            env = map_env(s.job, PATH="/usr/bin:/bin", **change)
            done = proc.run(entrypoint(folder, "echo", "ran"), 30, env=env)
            proc.expect_equal((done.returncode, done.stdout), (0, b"ran\n"), "open, %s: %s" % (word, proc.tail(done.stderr)))
            proc.expect(done.stderr.count(b"\n") == 1 and word.encode() in done.stderr
                        and b"echo runs without headrace" in done.stderr, "one line", done.stderr)
            done = proc.run(entrypoint(folder, "echo", "ran"), 30, env=dict(env, HEADRACE_REQUIRED="on"))
            proc.expect_equal((done.returncode, done.stdout), (125, b""), "closed, %s: %s" % (word, proc.tail(done.stderr)))
            proc.expect(b"echo is not started" in done.stderr and word.encode() in done.stderr, "why", done.stderr)


@test(NEEDS)
def test_entrypoint_required_from_a_settings_file():
    with scene(fixtures.mixed()) as s:
        path = os.path.join(proc.temp_folder(), "config")
        with open(path, "w") as out:
            out.write("required = yes\n")
        env = map_env(s.job, HEADRACE_CONFIG=path, HEADRACE_MAP="")
        proc.expect_equal(proc.run(entrypoint(kit(), "true"), 30, env=env).returncode, 125, "status")
        env["HEADRACE_REQUIRED"] = "off"
        proc.expect_equal(proc.run(entrypoint(kit(), "true"), 30, env=env).returncode, 0, "the environment wins")


@test(NEEDS)
def test_required_refuses_a_program_that_cannot_be_preloaded():
    with scene(fixtures.mixed()) as s:
        static = compile_c(STATIC, "-static")
        done = s.job.run([static])
        proc.expect_equal((done.returncode, done.stdout), (0, b"static\n"), proc.tail(done.stderr))
        proc.expect(b"cannot be preloaded (static program)" in done.stderr, "no line", done.stderr)
        s.job.settings["required"] = "on"
        for argv in (s.job.run_argv([static]), entrypoint(kit(), static)):
            done = proc.run(argv, 30, env=map_env(s.job))
            proc.expect_equal((done.returncode, done.stdout), (125, b""), proc.tail(done.stderr))
            proc.expect(b"static program" in done.stderr and b"required" in done.stderr, "why", done.stderr)
        proc.expect_equal(s.job.run(["echo", "ran"]).stdout, b"ran\n", "a program that can")


@test(NEEDS)
def test_run_of_a_program_of_another_libc():
    """Its loader would refuse our object: it is started without, and that is said once."""
    loader = next((p for p in ("/lib/ld-musl-x86_64.so.1", "/lib/ld-musl-aarch64.so.1") if os.path.exists(p)), "")
    proc.expect(loader, "no musl loader: scripts/deps installs it")
    musl = compile_c(MUSL, "-nostdlib", "-nostartfiles", "-fno-stack-protector", "-fno-builtin", "-fPIE", "-pie",
                     "-Wl,--dynamic-linker=" + loader, os.path.realpath(loader))
    with scene(fixtures.mixed()) as s:
        for argv in (s.job.run_argv([musl]), [*s.job.run_argv([s.job.program]), "run", "--", musl]):
            done = proc.run(argv, 30, env=s.job.env())
            s.job.note_daemon()
            proc.expect_equal((done.returncode, done.stdout), (0, b"musl\n"), proc.tail(done.stderr))
            proc.expect_equal(done.stderr.count(b"another libc"), 1, proc.tail(done.stderr))


@test()
def test_examples_name_settings_that_exist():
    """And no document puts the preload into an image's environment, where it would reach everything."""
    done = proc.run([paths.HEADRACE, "help", "settings"], 20)
    known = {"HEADRACE_" + line.split()[0].upper() for line in done.stdout.decode().splitlines() if line[:1] > " "}
    proc.expect("HEADRACE_REQUIRED" in known, "no settings listed", done.stdout)
    used = set()
    for name in os.listdir(paths.ROOT + "/docs/examples"):
        with open(os.path.join(paths.ROOT, "docs", "examples", name)) as file:
            used |= set(re.findall(r"HEADRACE_[A-Z_]+", file.read()))
    proc.expect(len(used) > 2 and used <= known | {"HEADRACE_MAP"}, "not settings", used - known)
    for here, _, names in [*os.walk(paths.ROOT + "/docs"), (paths.ROOT, [], ["README.md"])]:
        for name in names:
            with open(os.path.join(here, name)) as file:
                proc.expect(not re.search(r"ENV\s+LD_PRELOAD|name:\s*LD_PRELOAD", file.read()), name + " sets LD_PRELOAD")
