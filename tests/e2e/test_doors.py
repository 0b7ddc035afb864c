"""Doors that need more than a program and a tree: libraries in a map, who calls the loader, the map point's parent."""
import os
import shutil

from harness import fixtures, headrace, paths, proc, servers
from harness.build import compile_c
from harness.case import test

LIBRARY = "int answer(void);\nint answer(void) { return 42; }\n"
LOADER = r"""
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        void *handle = dlopen(argv[i], RTLD_NOW | RTLD_DEEPBIND);
        int (*answer)(void) = handle ? (int (*)(void))dlsym(handle, "answer") : NULL;
        printf("%d %s\n", answer ? answer() : -1, handle ? "" : dlerror());
    }
    return 0;
}
"""
CTYPES = """
import ctypes, os, sys
libc = ctypes.CDLL('libc.so.6', use_errno=True)
fd = libc.open(os.fsencode(sys.argv[1]), os.O_RDONLY)
buffer = ctypes.create_string_buffer(100)
print(fd >= 0 and libc.pread(fd, buffer, 5, 6), buffer.value)
print(ctypes.CDLL(sys.argv[2]).answer())
"""


def library_fixture():
    """Buckets with one shared object in them, and the same object in a folder of its own."""
    folder = proc.temp_folder("hr-doors-")
    tree = os.path.join(folder, "buckets", fixtures.BUCKET, fixtures.PREFIX)
    os.makedirs(tree)
    source = os.path.join(folder, "answer.c")
    with open(source, "w") as out:
        out.write(LIBRARY)
    library = os.path.join(folder, "libanswer.so")
    proc.expect(proc.run(["cc", "-shared", "-fPIC", "-o", library, source], 60).returncode == 0, "cc")
    shutil.copy(library, tree)
    with open(os.path.join(tree, "text"), "w") as out:
        out.write("hello headrace\n")
    return folder, os.path.join(folder, "buckets"), library


@test("rclone")
def test_libraries_are_loaded_from_a_map():
    folder, buckets, library = library_fixture()
    mapped = os.path.join(proc.temp_folder("hr-doors-map-"), "data")
    beside = os.path.join(folder, "lib")
    os.makedirs(beside)
    shutil.copy(library, os.path.join(beside, "libbeside.so"))
    loader = compile_c(LOADER, "-ldl", "-Wl,--enable-new-dtags,-rpath," + beside)
    with servers.Rclone(buckets) as store, headrace.Job(
            "%s=s3://%s/%s" % (mapped, fixtures.BUCKET, fixtures.PREFIX), store) as job:
        in_map = os.path.join(mapped, "libanswer.so")
        # libbeside.so is found by the RUNPATH of the program that calls, which the hook must not hide.
        out = job.good([loader, in_map, "libbeside.so", in_map, os.path.join(mapped, "no.so")]).decode()
        lines = out.splitlines()
        proc.expect_equal([line.split()[0] for line in lines], ["42", "42", "42", "-1"], "answers")
        proc.expect("No such file" in lines[3] and "no.so" in lines[3], "the loader's error: " + lines[3])
        out = job.good(["sh", "-c", "cd %s && exec %s ./libanswer.so" % (mapped, loader)]).decode()
        proc.expect_equal(out.split()[0], "42", "from inside")
        out = job.good([paths.PYTHON, "-c", CTYPES, os.path.join(mapped, "text"), in_map]).decode()
        proc.expect_equal(out.splitlines(), ["5 b'headr'", "42"], "ctypes")


NAMES = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
static const char *base(const char *path)
{
    return strstr(path, "/objects/") ? "cache file" : path;
}
static int visit(struct dl_phdr_info *info, size_t size, void *seen)
{
    (void)size;
    *(int *)seen += strstr(info->dlpi_name, "/objects/") != NULL;
    return 0;
}
int main(int argc, char **argv)
{
    Dl_info info;
    struct link_map *map = NULL;
    int seen = 0;
    void *extra, *handle = dlopen(argv[argc - 1], RTLD_NOW), *answer = handle ? dlsym(handle, "answer") : NULL;
    printf("%s\n", answer && dladdr(answer, &info) ? base(info.dli_fname) : "?");
    printf("%s\n", answer && dladdr1(answer, &info, &extra, RTLD_DL_LINKMAP) ? base(info.dli_fname) : "?");
    printf("%s\n", handle && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? base(map->l_name) : "?");
    dl_iterate_phdr(visit, &seen);
    printf("%d\n", seen);
    return 0;
}
"""


@test("rclone")
def test_a_library_from_a_map_has_its_cache_files_name():
    _, buckets, _ = library_fixture()
    mapped = os.path.join(proc.temp_folder("hr-doors-map-"), "data")
    with servers.Rclone(buckets) as store, headrace.Job(
            "%s=s3://%s/%s" % (mapped, fixtures.BUCKET, fixtures.PREFIX), store) as job:
        out = job.good([compile_c(NAMES, "-ldl"), os.path.join(mapped, "libanswer.so")]).decode()
        proc.expect_equal(out.splitlines(), ["cache file", "cache file", "cache file", "1"], "dladdr and its kin")


LISTING = """
import os, sys
top = sys.argv[1]
for here in (top, os.path.join(top, 'absent'), os.path.join(top, 'absent', 'way')):
    print(sorted(os.listdir(here)), os.path.isdir(here), sorted(e.is_dir() for e in os.scandir(here)))
    print(os.lstat(here).st_ino == os.stat(here).st_ino, os.access(here, os.R_OK | os.X_OK), os.access(here, os.W_OK))
print(sorted(n for n, _, _ in os.walk(top)) == sorted(os.path.join(top, n).rstrip('/') for n in (
    '', 'real', 'absent', 'absent/way', 'absent/way/a', 'absent/way/b', 'absent/c')))
print(os.path.exists(os.path.join(top, 'absent', 'other')))
"""


@test("rclone")
def test_map_points_are_shown_below_absent_directories():
    _, buckets, _ = library_fixture()
    top = os.path.join(proc.temp_folder("hr-doors-map-"), "top")
    os.makedirs(os.path.join(top, "real"))
    source = "s3://%s/%s" % (fixtures.BUCKET, fixtures.PREFIX)
    maps = [os.path.join(top, name) + "=" + source for name in ("absent/way/a", "absent/way/b", "absent/c")]
    with servers.Rclone(buckets) as store, headrace.Job(maps, store) as job:
        lines = job.good([paths.PYTHON, "-c", LISTING, top]).decode().splitlines()
        proc.expect_equal(lines, [
            "['absent', 'real'] True [True, True]", "True True True",
            "['c', 'way'] True [True, True]", "True True True",
            "['a', 'b'] True [True, True]", "True True True",
            "True", "False"], "what Python sees")
        out = job.good(["ls", "-R", top]).decode()
        for name in ("absent/way/a:\nlibanswer.so\ntext\n", "absent/way:\na\nb\n", "absent:\nc\nway\n"):
            proc.expect(name in out, "ls -R shows " + name, out)
        proc.expect(not os.path.exists(os.path.join(top, "absent")), "a directory was made")
