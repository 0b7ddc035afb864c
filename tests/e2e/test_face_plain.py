"""Large objects where only one plain file will do: the loader, programs that cannot be preloaded, the kernel's own readers;
and what is said when it does not fit the cache."""
import os
import random

from harness import fixtures, headrace, proc, servers
from harness.build import compile_c
from harness.case import test

BIG_BYTES = (12 << 20) + 4321
LIBRARY = """
const char padding[200000] = {1};
int answer(void);
int answer(void) { return padding[0] + 41; }
"""
LOADER = r"""
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    void *handle = dlopen(argv[1], RTLD_NOW);
    int (*answer)(void) = handle ? (int (*)(void))dlsym(handle, "answer") : NULL;
    printf("%d %s\n", answer ? answer() : -1, handle ? "" : dlerror());
    return 0;
}
"""
SUM = r"""
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
int main(void)
{
    static unsigned char buffer[65536];
    uint64_t sum = 0, bytes = 0;
    ssize_t got;
    while ((got = read(0, buffer, sizeof(buffer))) > 0) {
        for (ssize_t i = 0; i < got; i++) {
            sum = sum * 31 + buffer[i];
        }
        bytes += (uint64_t)got;
    }
    printf("%d %llu %016llx\n", (int)got, (unsigned long long)bytes, (unsigned long long)sum);
    return got < 0;
}
"""
STREAM = r"""
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    char *empty[] = {NULL}, *command[] = {"true", NULL}, byte;
    FILE *stream = fopen(argv[1], "r");
    printf("fopen %s\n", stream ? "works" : strerrorname_np(errno));
    int fd = open(argv[1], O_RDONLY);
    printf("read %zd\n", pread(fd, &byte, 1, 5));
    stream = fdopen(fd, "r");
    printf("fdopen %s\n", stream ? "works" : strerrorname_np(errno));
    printf("read %zd\n", pread(fd, &byte, 1, 5));
    fflush(stdout);
    execve("/bin/true", command, empty);
    printf("exec %s\n", strerrorname_np(errno));
    return 0;
}
"""
# The access mode of a descriptor as the kernel has it: 1 is a face, 0 a plain file.
KERNEL = r"""
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def mode(fd):
    for line in open('/proc/self/fdinfo/%d' % fd):
        if line.startswith('flags:'):
            return int(line.split()[1], 8) & 3
before = os.open(sys.argv[1], os.O_RDONLY)
print(mode(before))
print(libc.syscall(425, 1, ctypes.create_string_buffer(256)), ctypes.get_errno())
os.close(before)
context = ctypes.c_ulong(0)
setup = {'x86_64': 206, 'aarch64': 0}[os.uname().machine]
libc.syscall(setup, 4, ctypes.byref(context))
after = os.open(sys.argv[1], os.O_RDONLY)
print(mode(after), len(os.read(after, 100)))
"""


def buckets(copies=1):
    """A big object, so many times the same bytes; (buckets, the tree)."""
    folder = proc.temp_folder("hr-plain-")
    tree = os.path.join(folder, "buckets", fixtures.BUCKET, fixtures.PREFIX)
    os.makedirs(tree)
    with open(os.path.join(tree, "big"), "wb") as out:
        out.write(random.Random(11).randbytes(BIG_BYTES) * copies)
    return os.path.join(folder, "buckets"), tree


def mapped_job(store, **settings):
    mapped = os.path.join(proc.temp_folder("hr-plain-map-"), "data")
    source = "%s=s3://%s/%s" % (mapped, fixtures.BUCKET, fixtures.PREFIX)
    return mapped, headrace.Job(source, store, small_max="64K", **settings)


@test("rclone")
def test_a_large_library_is_loaded():
    folder, tree = buckets()
    made = compile_c(LIBRARY, "-shared", "-fPIC", name="libpadded.so")
    os.rename(made, os.path.join(tree, "libpadded.so"))
    loader = compile_c(LOADER, "-ldl")
    with servers.Rclone(folder) as store:
        mapped, job = mapped_job(store)
        with job:
            out = job.good([loader, os.path.join(mapped, "libpadded.so")]).decode()
            proc.expect_equal(out.split(), ["42"], "dlopen")


@test("rclone")
def test_programs_without_us_read_what_they_inherit():
    folder, tree = buckets()
    dynamic, static = compile_c(SUM), compile_c(SUM, "-static")
    big = os.path.join(tree, "big")
    with open(big, "rb") as handle:
        want = proc.run([dynamic], 60, stdin=handle).stdout
    with servers.Rclone(folder) as store:
        mapped, job = mapped_job(store)
        with job:
            path = os.path.join(mapped, "big")
            for program in (dynamic, static, "env -i " + dynamic, "env -i " + static, "env -u HEADRACE_MAP " + dynamic):
                out = job.good(["sh", "-c", "exec 7<%s; read -r -n 0 x <&7; %s <&7" % (path, program)])
                proc.expect_equal(out, want, program)


@test("rclone")
def test_what_does_not_fit_is_said():
    folder, _ = buckets(7)
    program = compile_c(STREAM)
    with servers.Rclone(folder) as store:
        mapped, job = mapped_job(store, cache_size="64M")
        with job:
            done = job.run([program, os.path.join(mapped, "big")])
            proc.expect_equal((done.returncode, done.stdout.decode().splitlines()), (0, [
                "fopen ENOSPC", "read 1", "fdopen ENOSPC", "read 1", "exec ENOSPC"]), "answers: %s" % proc.tail(done.stderr))
            proc.expect_equal(done.stderr.count(b"cache_size"), 1, "lines about it in %r" % done.stderr)


@test("rclone")
def test_the_kernels_own_readers_get_plain_files():
    folder, _ = buckets()
    with servers.Rclone(folder) as store:
        mapped, job = mapped_job(store)
        with job:
            out = job.python(KERNEL, os.path.join(mapped, "big"))
            proc.expect_equal(out.splitlines(), ["1", "-1 38", "0 100"], "modes")
