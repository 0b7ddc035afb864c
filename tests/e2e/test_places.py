"""Where training runs: small, read-only, anonymous and limited places, each shut off by namespaces or limits."""
import os
import resource

from harness import fixtures, headrace, paths, proc
from harness.build import compile_c
from harness.case import test
from harness.kit import kit, map_env
from harness.scene import scene

NEEDS = ("nginx", "rclone")
INSIDE = NEEDS + ("namespaces",)
WALK = ("import hashlib, os, sys\n"
        "for here, folders, names in os.walk(sys.argv[1]):\n"
        "    for name in names:\n"
        "        path = os.path.join(here, name)\n"
        "        print(hashlib.sha256(open(path, 'rb').read()).hexdigest(), os.path.relpath(path, sys.argv[1]))\n")


def expect_digests(s, done):
    proc.expect_equal(done.returncode, 0, proc.tail(done.stdout, done.stderr))
    have = dict(reversed(line.split(" ", 1)) for line in done.stdout.decode("utf-8", "surrogateescape").splitlines())
    proc.expect_equal(have, fixtures.tree_digests(s.local), "digests")


@test(INSIDE)
def test_place_read_only_root_with_one_volume():
    """Everything is read-only but the volume that cache_dir lies in."""
    with scene(fixtures.mixed(), point="/data") as s:
        volume = os.path.dirname(s.job.cache)
        prepare = ("mount --bind '%s' '%s'\nmount -o remount,bind,ro /\n"
                   "if touch /var/tmp/x 2>/dev/null; then exit 99; fi" % (volume, volume))
        script = "set -e\n" + prepare + '\nexec "$@"\n'
        argv = [*paths.NAMESPACES, "sh", "-c", script, "sh", kit() + "/headrace-entrypoint", paths.PYTHON, "-c", WALK, s.data]
        expect_digests(s, proc.run(argv, 40, env=map_env(s.job, HEADRACE_REQUIRED="on")))


@test(INSIDE)
def test_place_without_home_and_without_passwd_entry():
    """A random uid that /etc/passwd does not know, HOME unset: the cache is chosen by itself."""
    with scene(fixtures.mixed()) as s:
        env = map_env(s.job, HEADRACE_REQUIRED="on")
        place = proc.temp_folder("hr-home-")
        os.chmod(place, 0o777)
        for name in ("HOME", "USER", "LOGNAME", "HEADRACE_CACHE_DIR"):
            env.pop(name, None)
        env["TMPDIR"] = place
        argv = ["unshare", "-U", "--map-user=31415", kit() + "/headrace-entrypoint", paths.PYTHON, "-c",
                "import os, pwd\ntry: pwd.getpwuid(os.getuid())\nexcept KeyError: pass\nelse: raise SystemExit('known')\n"
                + WALK, s.data]
        done = proc.run(argv, 40, env=env)
        expect_digests(s, done)
        cache = os.path.join(place, "headrace-31415")
        proc.expect(os.path.exists(cache + "/control"), "the cache is not in TMPDIR", os.listdir(place))
        end = proc.run(["unshare", "-U", "--map-user=31415", s.job.program, "stop"], 20, env=env)
        proc.expect_equal(end.returncode, 0, "stop: " + proc.tail(end.stderr))


@test(INSIDE)
def test_place_small_dev_shm_and_private_tmp():
    """/dev/shm of 64 MiB stays empty; /tmp is a fresh tmpfs; the cache lies elsewhere."""
    with scene(fixtures.mixed()) as s:
        data = "/srv-data"
        s.job.maps, s.data = [s.job.maps[0].replace(s.data, data)], data
        env = map_env(s.job, HEADRACE_REQUIRED="on", HEADRACE_CACHE_DIR="/mnt/cache/c")
        code = WALK + ("if os.listdir('/dev/shm'): raise SystemExit(os.listdir('/dev/shm'))\n")
        script = ("set -e\nmount -t tmpfs none /mnt && mkdir -p /mnt/cache /mnt/kit\n"
                  "mount --bind '%s' /mnt/cache\ncp '%s'/* /mnt/kit\n"
                  "mount -t tmpfs -o size=64m none /dev/shm\nmount -t tmpfs none /tmp\n"
                  "exec /mnt/kit/headrace-entrypoint \"$@\"\n" % (os.path.dirname(s.job.cache), kit()))
        done = proc.run([*paths.NAMESPACES, "sh", "-c", script, "sh", paths.PYTHON, "-c", code, data], 40, env=env)
        expect_digests(s, done)


# The kernel's messages go to a pipe that nobody reads: whoever asks for a name gets ENOENT, as of an automounter that ended.
AUTOMOUNTED = """
set -e
home=$1/home
shift
mkdir "$home"
mount -i -t autofs -o fd=1,pgrp=$$,minproto=5,maxproto=5,indirect none "$home" | :
mountpoint -q "$home" || exit 96
HOME=$home "$@"
ls -A "$home" >&2
"""


@test((*NEEDS, "root"))
def test_place_home_on_a_network_file_system():
    """A home under an automounter, which no cache may be on: it goes to a local place, one line says so, nothing is made in
    the home."""
    with scene(fixtures.mixed()) as s:
        place, spare = proc.temp_folder("hr-auto-"), proc.temp_folder("hr-vartmp-")
        os.chmod(spare, 0o1777)
        env = map_env(s.job)
        del env["HEADRACE_CACHE_DIR"]
        env.pop("TMPDIR", None)
        script = "mount --bind '%s' /var/tmp\n%s" % (spare, AUTOMOUNTED)
        run = [s.job.program, "run", "--", paths.PYTHON, "-c", WALK, s.data]
        done = proc.run(["unshare", "-m", "sh", "-c", script, "sh", place, *run], 40, env=env)
        if done.returncode == 96:
            raise proc.Skip("the kernel has no autofs: " + proc.tail(done.stderr))
        expect_digests(s, done)
        cache = "/var/tmp/headrace-%d" % os.geteuid()
        proc.expect_equal(done.stderr.decode().splitlines(), [
            "headrace: %s/home/.cache/headrace is on a autofs file system: the cache is in %s (cache_dir)" % (place, cache)],
            "what is said, and what is in the home")
        inside = spare + "/headrace-%d" % os.geteuid()
        proc.expect(os.path.exists(inside + "/control"), "no cache in /var/tmp", os.listdir(spare))
        end = proc.run([s.job.program, "stop"], 20, env=dict(env, HEADRACE_CACHE_DIR=inside))
        proc.expect_equal(end.returncode, 0, "stop: " + proc.tail(end.stderr))


# Controller -> where its hierarchy is, which file has the limit, in both versions of cgroups.
LIMITS = {"memory": (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")),
          "cpu": (("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us"), ("/sys/fs/cgroup", "cpu.max"))}


def limited_group(controller, limit):
    """A new cgroup of ours with that limit; Skip with the kernel's reason where there can be none."""
    for base, name in LIMITS[controller]:
        group = "%s/headrace-test-%d" % (base, os.getpid())
        try:
            if not os.path.exists(base + "/cgroup.procs"):
                continue
            os.mkdir(group)
            with open("%s/%s" % (group, name), "w") as out:
                out.write(str(limit))
            return group
        except OSError as error:
            if os.path.isdir(group):
                os.rmdir(group)
            raise proc.Skip("no %s cgroup: %s" % (controller, error))
    raise proc.Skip("no %s cgroup is mounted" % controller)


def entering(group):
    def enter():
        with open(group + "/cgroup.procs", "w") as out:
            out.write(str(os.getpid()))
    return enter


@test((*NEEDS, "root"))
def test_place_memory_cgroup():
    """The daemon's memory for objects on their way is a quarter of the cgroup that it starts in."""
    with scene(fixtures.mixed()) as s:
        group = limited_group("memory", 512 << 20)
        try:
            expect_digests(s, s.job.run([paths.PYTHON, "-c", WALK, s.data], preexec_fn=entering(group)))
            proc.expect_equal(s.job.status()["plan.memory_budget_bytes"], 128 << 20, "the budget in 512 MiB")
            s.job.stop()
            expect_digests(s, s.job.run([paths.PYTHON, "-c", WALK, s.data]))
            proc.expect_equal(s.job.status()["plan.memory_budget_bytes"], 320 << 20, "the budget outside")
        finally:
            s.job.stop()
            os.rmdir(group)


CORES = """#include <sched.h>
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    (void)pid;
    CPU_ZERO_S(size, set);
    for (int core = 0; core < 16; core++) CPU_SET_S(core, size, set);
    return 0;
}
"""


@test((*NEEDS, "root"))
def test_place_processor_cgroup():
    """Network threads go by the quota of processor time, not by the machine's cores, of which a library pretends 16."""
    many = compile_c(CORES, "-shared", "-fPIC", name="many.so")
    with scene(fixtures.mixed()) as s:
        os.mkdir(s.job.cache, 0o700)
        group = limited_group("cpu", 450000 if os.path.exists("/sys/fs/cgroup/cpu/cgroup.procs") else "450000 100000")
        try:
            for enter, threads, word in ((None, 4, b"no cgroup limits it"), (entering(group), 1, b"allows the time of 5 cores")):
                daemon = proc.start([s.job.program, "daemon", "--cache-dir", s.job.cache], s.job.cache + ".log",
                                    env=dict(s.job.env(), LD_PRELOAD=many), preexec_fn=enter)
                proc.wait_until(lambda: s.job.daemon_pid() == daemon.pid, 20, "the daemon")
                expect_digests(s, s.job.run([paths.PYTHON, "-c", WALK, s.data]))
                proc.expect_equal(names_of_threads(daemon.pid).count("hr-net"), threads, "network threads")
                done = s.job.command("doctor", preexec_fn=enter)
                proc.expect(word in done.stdout, "doctor on the processor", done.stdout)
                s.job.stop()
        finally:
            s.job.stop()
            os.rmdir(group)


def names_of_threads(pid):
    found = []
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/comm" % (pid, task)) as file:
            found.append(file.read().strip())
    return found


@test(NEEDS)
def test_place_two_cache_directories():
    """Two daemons beside each other; neither knows the other's objects."""
    with scene(fixtures.mixed()) as s, headrace.Job(s.job.maps, s.front) as other:
        for job in (s.job, other):
            expect_digests(s, job.run([paths.PYTHON, "-c", WALK, s.data]))
        mine, its = s.job.status(), other.status()
        proc.expect(mine["pid"] != its["pid"], "one daemon for two cache directories")
        for status in (mine, its):
            proc.expect(status["requests.get"] - status["hedges"] > 60, "one of them fetched nothing", status)


@test(NEEDS)
def test_place_256_open_files():
    """The daemon inherits the limit: fewer connections, no EMFILE."""
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    with scene(delay_ms=20) as s:
        done = s.job.run([paths.PYTHON, "-c", WALK, s.data], preexec_fn=few)
        expect_digests(s, done)
        status = s.job.status()
        with open("/proc/%d/limits" % status["pid"]) as file:
            limit = next(line for line in file if line.startswith("Max open files"))
        proc.expect_equal(limit.split()[3:5], ["256", "256"], "the daemon's limit")
        proc.expect_equal((status["errors"], status["requests.get"] - status["hedges"]), (0, 400), "errors and GETs")


@test(NEEDS)
def test_place_limited_address_space():
    def narrow():
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    with scene(fixtures.mixed()) as s:
        expect_digests(s, s.job.run([paths.PYTHON, "-c", WALK, s.data], preexec_fn=narrow))
        proc.expect_equal(s.job.status()["errors"], 0, "errors")


FILTER = r"""
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
/* Container runtimes' default profile, as far as a program may miss it. */
#define REFUSE(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), \
                       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
int main(int argc, char **argv)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        REFUSE(SYS_userfaultfd), REFUSE(SYS_ptrace), REFUSE(SYS_process_vm_readv), REFUSE(SYS_process_vm_writev),
        REFUSE(425 /* io_uring_setup */), REFUSE(426), REFUSE(427), REFUSE(SYS_perf_event_open), REFUSE(SYS_bpf),
        REFUSE(SYS_keyctl), REFUSE(SYS_unshare), REFUSE(SYS_mount), REFUSE(SYS_kcmp),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0) {
        perror("seccomp");
        return 99;
    }
    if (syscall(SYS_userfaultfd, 0) >= 0 || errno != EPERM) return 98;
    execvp(argv[1], argv + 1);
    return 97;
}
"""


@test(NEEDS)
def test_place_strict_seccomp_profile():
    """userfaultfd, io_uring, ptrace and their kin are refused to the program and to the daemon."""
    with scene(fixtures.mixed_large(), small_max="64K") as s:
        strict = compile_c(FILTER)
        done = proc.run([strict, *s.job.run_argv([paths.PYTHON, "-c", WALK, s.data])], 40, env=s.job.env())
        s.job.note_daemon()
        expect_digests(s, done)
        with open("/proc/%d/status" % s.job.daemon_pid()) as file:
            proc.expect("Seccomp:\t2\n" in file.read(), "the daemon is not under the filter")
