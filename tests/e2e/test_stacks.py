"""headrace among other preloaded objects, under debuggers and tracers, and where programs find their libraries."""
import os
import re

from harness import fixtures, paths, proc
from harness.build import compile_c
from harness.case import test
from harness.scene import scene

NEEDS = ("nginx", "rclone", "gcc")

# A constructor before main that uses files and the heap, a mapped read by descriptor and by stdio, a listing, a child.
PROGRAM = r"""
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static int early_ok;
__attribute__((constructor(101))) static void early(void)
{
    struct stat st;
    char *heap = malloc(5000);
    FILE *file = fopen("/etc/passwd", "r");
    early_ok = heap && file && fgetc(file) != EOF && stat("/etc", &st) == 0 && access("/none", F_OK) != 0;
    if (file) fclose(file);
    free(heap);
}
static long sum(const char *path)
{
    unsigned char *text = malloc(1 << 20);
    long total = 0;
    int fd = open(path, O_RDONLY);
    ssize_t got = read(fd, text, 1 << 20);
    for (ssize_t i = 0; i < got; i++) total += text[i];
    close(fd);
    free(text);
    return got < 0 ? -1 : total;
}
static void *other(void *path) { return (void *)sum(path); }
int main(int argc, char **argv)
{
    char path[4096], line[100] = "";
    struct stat st;
    pthread_t thread;
    void *from_thread;
    int status, names = 0;
    (void)argc;
    snprintf(path, sizeof path, "%s/a/two.bin", argv[1]);
    printf("early %d sum %ld stat %d", early_ok, sum(path), stat(path, &st));
    printf(" size %ld", (long)st.st_size);
    pthread_create(&thread, NULL, other, path);
    pthread_join(thread, &from_thread);
    printf(" thread %ld", (long)from_thread);
    snprintf(path, sizeof path, "%s/top.txt", argv[1]);
    FILE *file = fopen(path, "r");
    if (file && fgets(line, sizeof line, file)) line[strcspn(line, "\n")] = 0;
    if (file) fclose(file);
    snprintf(path, sizeof path, "%s/a/deep/er", argv[1]);
    DIR *dir = opendir(path);
    while (dir && readdir(dir)) names++;
    if (dir) closedir(dir);
    printf(" line '%s' names %d", line, names);
    fflush(stdout);
    if (fork() == 0) _exit(sum(path) == -1 && stat(argv[1], &st) == 0 ? 7 : 8);
    wait(&status);
    time_t now = time(NULL);
    printf(" child %d year %d\n", WEXITSTATUS(status), argv[2] ? gmtime(&now)->tm_year + 1900 : 0);
    return 0;
}
"""
PYTHON = ("import os, sys, mmap, subprocess\nd = sys.argv[1]\nf = open(d + '/a/two.bin', 'rb')\n"
          "print(sum(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)[:]), sorted(os.listdir(d + '/a')), "
          "open(d + '/top.txt').readline(), subprocess.run(['cat', d + '/a/one.txt'], capture_output=True).stdout[:9], "
          "sorted(len(s) for _, _, s in os.walk(d)))")


def locally(s, argv):
    """What the same program says of the local copy, nothing preloaded."""
    done = proc.run(argv, 60, env=s.job.env())
    proc.expect(done.returncode == 0, "local run", proc.tail(done.stdout, done.stderr))
    return done.stdout


def expect_same(s, what, argv, want, **env):
    """argv with its own LD_PRELOAD, as a user types it."""
    done = s.job.preload(argv, 60, env=dict(s.job.preload_env(), **env))
    proc.expect((done.returncode, done.stdout) == (0, want), "%s: status %s" % (what, done.returncode), "want " + repr(want),
                "have " + repr(done.stdout[-600:]), proc.tail(done.stderr), s.job.log_tail())


def stacked(library, first=True, behind=True, said=b"0", **env):
    """A C program, python and cat with another object before ours and behind it."""
    with scene(fixtures.mixed()) as s:
        program = compile_c(PROGRAM, "-lpthread", "-w")
        runs = [[program, "DIR"], [paths.PYTHON, "-c", PYTHON, "DIR"], ["cat", "DIR/top.txt", "DIR/a/one.txt"]]
        if env.get("FAKETIME"):
            runs.append([program, "DIR", "year"])
        orders = [[library, paths.LIBRARY]] * first + [[paths.LIBRARY, library]] * behind
        for run in runs:
            want = locally(s, [word.replace("DIR", s.local) for word in run])
            if run[-1] == "year":
                want = want[:want.rindex(b" ")] + b" " + said + b"\n"
            for order in orders:
                expect_same(s, " ".join(map(os.path.basename, order + run[:1])),
                            [word.replace("DIR", s.data) for word in run], want, LD_PRELOAD=":".join(order), **env)


@test(NEEDS + ("lib:libjemalloc.so.2",), timeout=90)
def test_stack_with_jemalloc():
    stacked(paths.library("libjemalloc.so.2"))


@test(NEEDS + ("lib:libtcmalloc_minimal.so.4",), timeout=90)
def test_stack_with_tcmalloc():
    stacked(paths.library("libtcmalloc_minimal.so.4"))


@test(NEEDS + ("lib:libfaketime.so.1",), timeout=90)
def test_stack_with_faketime():
    """A clock that is years off does not make the living daemon look dead."""
    stacked(paths.library("libfaketime.so.1"), FAKETIME="@2001-01-01 00:00:00", said=b"2001")


@test(NEEDS + ("lib:libasan.so",), timeout=90)
def test_stack_with_asan_runtime():
    """ASan's runtime insists on being first; its interceptors then call ours."""
    stacked(paths.library("libasan.so"), behind=False, ASAN_OPTIONS="detect_leaks=0")


@test(NEEDS + ("lib:libasan.so",), timeout=90)
def test_program_built_with_asan():
    with scene(fixtures.mixed()) as s:
        program = compile_c(PROGRAM, "-lpthread", "-w", "-fsanitize=address")
        want = locally(s, [program, s.local])
        expect_same(s, "built with ASan", [program, s.data], want,
                    LD_PRELOAD="%s:%s" % (paths.library("libasan.so"), paths.LIBRARY))


# ---- tools that watch a program

def with_daemon(s):
    """A tracer that follows children would follow a daemon that its program starts."""
    s.job.good(["true"])
    proc.expect(s.job.daemon_pid(), "no daemon")


@test(NEEDS + ("gdb",), timeout=90)
def test_under_gdb():
    with scene(fixtures.mixed()) as s:
        with_daemon(s)
        program = compile_c(PROGRAM, "-lpthread", "-w")
        want = locally(s, [program, s.local]).strip()
        argv = ["gdb", "-nx", "-batch", "-ex", "set breakpoint pending on", "-ex", "set debuginfod enabled off", "-ex",
                "break sum", "-ex", "run", "-ex", "backtrace", "-ex", "delete", "-ex", "continue", "--args", program, s.data]
        done = s.job.preload(argv, 60)
        said = re.sub(rb"\[(Detaching|New Thread|Thread) [^]]*\]\n", b"", done.stdout)
        proc.expect(want in said and b"in main" in done.stdout, "output and backtrace",
                    proc.tail(done.stdout, done.stderr))


@test(NEEDS + ("strace",), timeout=90)
def test_under_strace():
    with scene(fixtures.mixed()) as s:
        with_daemon(s)
        program = compile_c(PROGRAM, "-lpthread", "-w")
        want = locally(s, [program, s.local])
        expect_same(s, "strace -f", ["strace", "-f", "-o", os.path.join(proc.temp_folder(), "log"), program, s.data], want)
        log = os.path.join(proc.temp_folder(), "log")
        argv = ["strace", "-f", "-o", log, "-E", "LD_PRELOAD=" + paths.LIBRARY, program, s.data]
        expect_same(s, "strace -f with -E", argv, want, LD_PRELOAD="")
        proc.expect("/top.txt" not in open(log).read(), "the kernel was asked for a mapped name")


HEAP_PATHS = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* Paths of every length in blocks that end with them. */
int main(int argc, char **argv)
{
    static const char *const kinds[] = {
        "/usr/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "/usr/a.bb.c/.ddddd/..e/f./ggggggggggg..hh/iii",
        "rel/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "../aaaaaaaaa/../bb", "//usr//./aa/../bbbbbbbbbbbbbbbbbb/cc",
        "/usr/../../a/.././b"};
    struct stat st;
    long hits = 0;
    (void)argc;
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        for (size_t len = 1; len <= strlen(kinds[kind]); len++) {
            for (int shift = 0; shift < 16; shift += 3) {
                char *block = malloc(shift + len + 1), *path = block + shift;
                memcpy(path, kinds[kind], len);
                path[len] = 0;
                hits += stat(path, &st) == 0;
                hits += access(path, R_OK) == 0;
                int fd = open(path, O_RDONLY);
                hits += fd >= 0 && close(fd) == 0;
                free(block);
            }
        }
    }
    char *path = malloc(strlen(argv[1]) + 20);
    sprintf(path, "%s/./a/../top.txt", argv[1]);
    path = realloc(path, strlen(path) + 1);
    FILE *file = fopen(path, "r");
    printf("%d %s", hits > 0, file ? "" : "no file\n");
    for (int c; file && (c = fgetc(file)) != EOF;) putchar(c);
    if (file) fclose(file);
    free(path);
    return 0;
}
"""


@test(NEEDS + ("valgrind",), timeout=120)
def test_under_valgrind():
    """memcheck finds nothing to say, of reads at the end of blocks in particular; and the preload passes the tool, which
    is a static program."""
    with scene(fixtures.mixed()) as s:
        with_daemon(s)
        for source in (HEAP_PATHS, PROGRAM):
            program = compile_c(source, "-lpthread", "-w")
            want = locally(s, [program, s.local])
            log = os.path.join(proc.temp_folder(), "log")
            expect_same(s, "memcheck", ["valgrind", "-q", "--error-exitcode=9", "--track-origins=yes", "--log-file=" + log,
                                        program, s.data], want)
            said = [line for line in open(log).read().splitlines() if " Warning: " not in line]
            proc.expect(not said, "memcheck has something to say", "\n".join(said[:40]))


# ---- where programs find their libraries

@test(NEEDS, timeout=90)
def test_inside_a_venv():
    with scene(fixtures.mixed()) as s:
        folder = os.path.join(proc.temp_folder(), "venv")
        expect_same(s, "python -m venv", [paths.PYTHON, "-m", "venv", "--without-pip", folder], b"")
        python = os.path.join(folder, "bin", "python")
        want = locally(s, [python, "-c", PYTHON, s.local])
        expect_same(s, "the venv's python", [python, "-c", PYTHON, s.data], want)
        made = s.job.preload([python, "-c", "import sys; print(sys.prefix)"]).stdout.decode().strip()
        proc.expect_equal(made, folder, "sys.prefix")


LIBRARY = "#include <stdio.h>\nint count(const char *path) { FILE *f = fopen(path, \"r\"); int n = 0; " \
          "while (f && fgetc(f) != EOF) n++; if (f) fclose(f); return n; }\n"
USER = "#include <stdio.h>\nint count(const char *);\n" \
       "int main(int c, char **v) { (void)c; printf(\"%d\\n\", count(v[1])); return 0; }\n"


@test(NEEDS, timeout=60)
def test_program_with_rpath():
    """As conda builds them: the library is found beside the program, by DT_RPATH and by DT_RUNPATH, and does the reading."""
    with scene(fixtures.mixed()) as s:
        for dtags in ("--disable-new-dtags", "--enable-new-dtags"):
            library = compile_c(LIBRARY, "-shared", "-fPIC", "-Wl,-soname,libcount.so.1", name="libcount.so.1")
            program = compile_c(USER, library, "-Wl,-rpath,$ORIGIN/../" + os.path.basename(os.path.dirname(library)),
                                "-Wl," + dtags)
            want = locally(s, [program, s.local + "/top.txt"])
            proc.expect_equal(want, b"27\n", "the program by itself")
            expect_same(s, dtags, [program, s.data + "/top.txt"], want)
