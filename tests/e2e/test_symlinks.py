"""symlinks=follow, one test a family of calls: what leads through a symlink that `run` did not see is answered as the map
itself is, a symlink at the very end stays one for those who do not follow it, and without the setting nothing changes."""
import contextlib
import os
import shutil

from harness import fixtures, headrace, paths, proc, servers
from harness.build import compile_c
from harness.case import test
from harness.scene import scene

NEEDS = ("nginx", "rclone")
# What no `run` saw: an argument names the folder in which the program's symlink lies, under another name.
BEHIND = [paths.PYTHON, "-c", "import os, sys; os.execv(sys.argv[1], [sys.argv[1], sys.argv[2] + '/' + 'late'] + sys.argv[3:])"]


@contextlib.contextmanager
def followed():
    """A map, and in s.place `late` -> its root, `one` -> a file of it, `dangling` and a local directory with a link below."""
    with scene(fixtures.mixed()) as s:
        s.place = os.path.realpath(proc.temp_folder("hr-late-"))
        s.top = os.path.join(os.path.realpath(proc.temp_folder("hr-top-")), "data")
        s.job.maps = ["%s=s3://%s/%s" % (s.top, fixtures.BUCKET, fixtures.PREFIX)]
        os.mkdir(s.place + "/own")
        for name, target in (("late", s.top), ("one", "late/a/one.txt"), ("dangling", "nowhere"), ("own/deep", "../late/a")):
            os.symlink(target, os.path.join(s.place, name))
        yield s
        proc.expect(not os.path.exists(s.top), "the map point was made")
        proc.expect_equal(sorted(os.listdir(s.place)), ["dangling", "late", "one", "own"], "what is there")


def says(s, program, setting, *args):
    s.job.settings["symlinks"] = setting
    return s.job.good([*BEHIND, program, s.place, *args], cwd="/").decode().splitlines()


HEAD = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <linux/openat2.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <wordexp.h>
extern char **environ;
static char text[8][4096];
static const char *at(int slot, const char *late, const char *more)
{
    snprintf(text[slot], sizeof(text[slot]), "%s%s", late, more);
    return text[slot];
}
static int files;
static int visit(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    (void)path, (void)stat, (void)ftw;
    files += type == FTW_F;
    return 0;
}
#define SAY(what, call) (errno = 0, printf("%s %s\n", what, (long)(call) >= 0 ? "ok" : strerrorname_np(errno)))
int main(int argc, char **argv)
{
    const char *late = argv[1];
    char here[4096];
    (void)argc;
    snprintf(here, sizeof(here), "%.*s", (int)(strrchr(late, '/') - late), late);
    setvbuf(stdout, NULL, _IONBF, 0);
"""


def program(body):
    return compile_c(HEAD + body + "\n    return 0;\n}\n", "-Wno-unused-function", "-ldl")


@test(NEEDS)
def test_symlinks_follow_of_starts():
    """A mapped program is a file of mode 0444: EACCES, by exec and by posix_spawn; one that is not there ENOENT."""
    body = r"""
    char *args[] = {"x", NULL};
    pid_t pid;
    SAY("execv", execv(at(0, late, "/top.txt"), args));
    SAY("execve", execve(at(0, here, "/late/top.txt"), args, environ));
    SAY("execvp", execvp(at(0, late, "/top.txt"), args));
    SAY("execl", execl(at(0, late, "/none"), "x", NULL));
    SAY("execveat", execveat(AT_FDCWD, at(0, here, "/one"), args, environ, 0));
    SAY("execvpe", execvpe(at(0, here, "/one"), args, environ));
    errno = posix_spawn(&pid, at(0, late, "/top.txt"), NULL, NULL, args, environ), printf("spawn %s\n", strerrorname_np(errno));
    errno = posix_spawnp(&pid, at(0, late, "/none"), NULL, NULL, args, environ), printf("spawnp %s\n", strerrorname_np(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, at(0, late, "/top.txt"), O_RDONLY, 0);
    posix_spawn_file_actions_addchdir_np(&actions, at(1, late, "/a"));
    char *cat[] = {"sh", "-c", "head -n 1; /bin/pwd; exec head -n 1 one.txt", NULL};
    int status = -1;
    errno = posix_spawn(&pid, "/bin/sh", &actions, NULL, cat, environ);
    if (errno) printf("actions %s\n", strerrorname_np(errno)); else waitpid(pid, &status, 0), printf("actions %d\n", status);
"""
    with followed() as s:
        made = program(body)
        proc.expect_equal(says(s, made, "run"), [name + " ENOENT" for name in
                          ("execv", "execve", "execvp", "execl", "execveat", "execvpe", "spawn", "spawnp", "actions")], "run")
        proc.expect_equal(says(s, made, "follow"), ["execv EACCES", "execve EACCES", "execvp EACCES", "execl ENOENT", "execveat EACCES",
                          "execvpe EACCES", "spawn EACCES", "spawnp ENOENT", "hello headrace", s.top + "/a", "one", "actions 0"], "follow")


@test("rclone")
def test_symlinks_follow_of_dlopen():
    place, buckets = (os.path.realpath(proc.temp_folder("hr-late-")) for _ in range(2))
    tree = os.path.join(buckets, fixtures.BUCKET, fixtures.PREFIX)
    os.makedirs(tree)
    shutil.copy(compile_c("int answer(void) { return 42; }", "-shared", "-fPIC"), tree + "/libanswer.so")
    os.symlink(place + "/data", place + "/late")
    made = program(r"""
    void *handle = dlopen(at(0, late, "/libanswer.so"), RTLD_NOW);
    printf("%d\n", handle ? ((int (*)(void))dlsym(handle, "answer"))() : -1);
    printf("%d\n", dlopen(at(0, late, "/none.so"), RTLD_NOW) != NULL);
""")
    with servers.Rclone(buckets) as store, headrace.Job("%s/data=s3://%s/%s" % (place, fixtures.BUCKET, fixtures.PREFIX), store) as job:
        for setting, want in (("run", ["-1", "0"]), ("follow", ["42", "0"])):
            job.settings["symlinks"] = setting
            proc.expect_equal(job.good([*BEHIND, made, place], cwd="/").decode().splitlines(), want, setting)


@test(NEEDS)
def test_symlinks_follow_of_glob_and_wordexp():
    body = r"""
    glob_t found = {0};
    wordexp_t words = {0};
    const char *patterns[] = {"/a/*.txt", "/*/top.txt", "/own/*/one.txt", "/top.txt", "/no*"};
    for (int i = 0; i < 5; i++) {
        int result = glob(at(0, i == 1 || i == 2 ? here : late, patterns[i]), 0, NULL, &found);
        printf("%d", result);
        for (size_t j = 0; !result && j < found.gl_pathc; j++) printf(" %s", strlen(here) + found.gl_pathv[j]);
        printf("\n");
    }
    printf("%d", wordexp(at(0, here, "/lat?/t*.txt"), &words, WRDE_NOCMD));
    printf(" %zu %s\n", words.we_wordc, words.we_wordv[0] + strlen(here));
"""
    with followed() as s:
        made = program(body)
        proc.expect_equal(says(s, made, "run"), ["3"] * 5 + ["0 1 /lat?/t*.txt"], "run")
        proc.expect_equal(says(s, made, "follow"), ["0 /late/a/one.txt", "0 /late/top.txt", "0 /own/deep/one.txt",
                          "0 /late/top.txt", "3", "0 1 /late/top.txt"], "follow")


@test(NEEDS)
def test_symlinks_follow_of_extended_attributes():
    body = r"""
    char value[256];
    long got = getxattr(at(0, late, "/top.txt"), "user.headrace.key", value, sizeof(value));
    printf("%.*s\n", got > 0 ? (int)got : 0, value);
    printf("%ld\n", (long)listxattr(at(0, here, "/one"), value, sizeof(value)));
    SAY("llistxattr of the symlink", llistxattr(at(0, here, "/one"), value, sizeof(value)) == 0 ? 0 : -1);
    SAY("lgetxattr", lgetxattr(at(0, late, "/a/one.txt"), "user.headrace.etag", value, sizeof(value)));
    SAY("missing", getxattr(at(0, late, "/none"), "user.x", value, sizeof(value)));
    SAY("other", getxattr(at(0, late, "/top.txt"), "user.x", value, sizeof(value)));
    SAY("setxattr", setxattr(at(0, late, "/top.txt"), "user.x", "1", 1, 0));
    SAY("removexattr", removexattr(at(0, here, "/one"), "user.x"));
"""
    with followed() as s:
        made = program(body)
        proc.expect_equal(says(s, made, "run"), ["", "-1", "llistxattr of the symlink ok"] + [name + " ENOENT" for name in
                          ("lgetxattr", "missing", "other", "setxattr", "removexattr")], "run")
        s.job.good(["ls", s.top])
        proc.expect_equal(says(s, made, "follow"), [fixtures.PREFIX + "/top.txt", "37", "llistxattr of the symlink ok", "lgetxattr ok",
                          "missing ENOENT", "other ENODATA", "setxattr EROFS", "removexattr EROFS"], "follow")


@test(NEEDS)
def test_symlinks_follow_of_changes():
    """A map is read-only through a symlink, too; the symlink itself can be renamed and removed as any local name."""
    body = r"""
    struct timeval times[2] = {{1, 0}, {1, 0}};
    const char *file = at(0, late, "/top.txt"), *fresh = at(1, late, "/fresh"), *local = at(2, here, "/own/file");
    SAY("unlink", unlink(file));
    SAY("unlinkat", unlinkat(AT_FDCWD, file, 0));
    SAY("rmdir", rmdir(at(3, late, "/a")));
    SAY("unlink none", unlink(fresh));
    SAY("mkdir", mkdir(fresh, 0700));
    SAY("mkdir there", mkdir(at(3, late, "/a"), 0700));
    SAY("symlink", symlink("x", fresh));
    SAY("mknod", mknod(fresh, S_IFIFO | 0600, 0));
    SAY("rename inside", rename(file, fresh));
    SAY("open", open(fresh, O_CREAT | O_WRONLY, 0600));
    SAY("open of the symlink", open(late, O_CREAT | O_WRONLY, 0600));
    SAY("creat through the symlink", creat(at(3, here, "/one"), 0600));
    close(creat(local, 0600));
    SAY("rename into", rename(local, fresh));
    SAY("rename out of", rename(file, local));
    SAY("link", link(local, fresh));
    SAY("chmod", chmod(file, 0600));
    SAY("chmod of the target", chmod(at(3, here, "/one"), 0600));
    SAY("chown", chown(file, 0, 0));
    SAY("lchown of the symlink", lchown(at(3, here, "/one"), getuid(), getgid()));
    SAY("utimes", utimes(at(3, here, "/one"), times));
    SAY("utimensat of the symlink", utimensat(AT_FDCWD, at(3, here, "/one"), NULL, AT_SYMLINK_NOFOLLOW));
    SAY("truncate", truncate(at(3, here, "/one"), 0));
    char template[4096];
    snprintf(template, sizeof(template), "%s/tmpXXXXXX", late);
    SAY("mkstemp", mkstemp(template));
    SAY("rename of the symlink", rename(at(3, here, "/one"), at(4, here, "/two")) || rename(text[4], text[3]));
    SAY("unlink of the symlink", unlink(text[3]) || symlink("late/a/one.txt", text[3]));
    SAY("local", unlink(local));
    SAY("dangling", open(at(3, here, "/dangling"), O_CREAT | O_EXCL | O_WRONLY, 0600));
"""
    want = ["unlink EROFS", "unlinkat EROFS", "rmdir EROFS", "unlink none ENOENT", "mkdir EROFS", "mkdir there EEXIST", "symlink EROFS",
            "mknod EROFS", "rename inside EROFS", "open EROFS", "open of the symlink EISDIR", "creat through the symlink EROFS",
            "rename into EXDEV", "rename out of EXDEV", "link EROFS", "chmod EROFS", "chmod of the target EROFS", "chown EROFS",
            "lchown of the symlink ok", "utimes EROFS", "utimensat of the symlink ok", "truncate EROFS", "mkstemp EROFS",
            "rename of the symlink ok", "unlink of the symlink ok", "local ok", "dangling EEXIST"]
    with followed() as s:
        proc.expect_equal(says(s, program(body), "follow"), want, "follow")


@test(NEEDS)
def test_symlinks_follow_of_opens_links_and_watches():
    body = r"""
    struct open_how how = {.flags = O_RDONLY};
    struct stat stat_at;
    struct dirent **list;
    struct statvfs volume = {0};
    char link[4096];
    int dir = open(at(0, here, "/"), O_RDONLY | O_DIRECTORY);
    SAY("open", open(at(0, late, "/top.txt"), O_RDONLY));
    SAY("open, no link", open(at(0, late, "/top.txt"), O_RDONLY | O_NOFOLLOW));
    SAY("open of the symlink", open(at(0, here, "/one"), O_RDONLY | O_NOFOLLOW));
    SAY("openat", openat(dir, "one", O_RDONLY));
    SAY("openat2", syscall(SYS_openat2, AT_FDCWD, at(0, late, "/top.txt"), &how, sizeof(how)));
    SAY("openat2 of a directory's", syscall(SYS_openat2, dir, "late/a/one.txt", &how, sizeof(how)));
    how.flags = O_RDONLY | O_NOFOLLOW;
    SAY("openat2, no link", syscall(SYS_openat2, dir, "one", &how, sizeof(how)));
    how.flags = O_RDONLY, how.resolve = RESOLVE_NO_SYMLINKS;
    SAY("openat2, no links", syscall(SYS_openat2, dir, "late/top.txt", &how, sizeof(how)));
    SAY("syscall", syscall(SYS_openat, dir, "own/deep/one.txt", O_RDONLY));
    printf("%ld\n", (long)readlink(at(0, here, "/one"), link, sizeof(link)));
    SAY("readlink", readlink(at(0, late, "/a/one.txt"), link, sizeof(link)));
    SAY("readlink none", readlink(at(0, late, "/none"), link, sizeof(link)));
    printf("%d", lstat(late, &stat_at)), printf(" %d\n", S_ISLNK(stat_at.st_mode));
    printf("%d", lstat(at(0, late, "/a"), &stat_at)), printf(" %d\n", S_ISDIR(stat_at.st_mode));
    printf("%d", fstatat(dir, "one", &stat_at, AT_SYMLINK_NOFOLLOW)), printf(" %d\n", S_ISLNK(stat_at.st_mode));
    printf("%d\n", scandir(at(0, late, "/a"), &list, NULL, alphasort));
    printf("%d\n", scandirat(dir, "own/deep", &list, NULL, alphasort));
    int watch = inotify_init();
    SAY("watch", inotify_add_watch(watch, at(0, late, "/top.txt"), IN_MODIFY));
    SAY("watch of the target", inotify_add_watch(watch, at(0, here, "/one"), IN_MODIFY));
    SAY("watch of the symlink", inotify_add_watch(watch, at(0, here, "/one"), IN_MODIFY | IN_DONT_FOLLOW));
    printf("%d", statvfs(at(0, late, "/a"), &volume)), printf(" %d\n", (volume.f_flag & ST_RDONLY) != 0);
"""
    with followed() as s:
        made, inside = program(body), len(os.listdir(s.local + "/a")) + 2
        want = ["open ok", "open, no link ok", "open of the symlink ELOOP", "openat ok", "openat2 ok", "openat2 of a directory's ok",
                "openat2, no link ELOOP", "openat2, no links ELOOP", "syscall ok", "14", "readlink EINVAL", "readlink none ENOENT",
                "0 1", "0 1", "0 1", str(inside), str(inside), "watch ENOSPC", "watch of the target ENOSPC", "watch of the symlink ok",
                "0 1"]
        proc.expect_equal(says(s, made, "follow"), want, "follow")
        none = says(s, made, "run")
        proc.expect_equal([none[i] for i in (0, 3, 4, 8, 10, 15, 17, 18, 19)], ["open ENOENT", "openat ENOENT", "openat2 ENOENT",
                          "syscall ENOENT", "readlink ENOENT", "-1", "watch ENOENT", "watch of the target ENOENT",
                          "watch of the symlink ok"], "run")


@test(NEEDS)
def test_symlinks_follow_of_walks_that_begin_outside():
    """fts and nftw begin in a local directory and meet the symlinks on their way."""
    body = r"""
    char *roots[] = {(char *)at(0, here, "/own"), NULL};
    FTS *walk = fts_open(roots, FTS_LOGICAL, NULL);
    int dangling = 0;
    for (FTSENT *entry; (entry = fts_read(walk));) files += entry->fts_info == FTS_F, dangling += entry->fts_info == FTS_SLNONE;
    fts_close(walk);
    printf("%d %d\n", files, dangling);
    files = 0;
    printf("%d", nftw(roots[0], visit, 8, 0)), printf(" %d\n", files);
    walk = fts_open(roots, FTS_PHYSICAL, NULL);
    int links = 0;
    for (FTSENT *entry; (entry = fts_read(walk));) links += entry->fts_info == FTS_SL;
    fts_close(walk);
    printf("%d\n", links);
"""
    with followed() as s:
        made = program(body)
        count = sum(len(names) for _, _, names in os.walk(s.local + "/a"))
        proc.expect_equal(says(s, made, "run"), ["0 1", "0 0", "1"], "run")
        proc.expect_equal(says(s, made, "follow"), ["%d 0" % count, "0 %d" % count, "1"], "follow")


DOTS = """
import errno, os, sys
late = sys.argv[1] + '/late/'
def said(call, *args):
    try:
        return str(call(*args) and 'there')
    except OSError as error:
        return errno.errorcode[error.errno]
for name in ('a/..', 'a/deep/../one.txt', 'none/..', 'none/../a', 'a/one.txt/..', 'a/one.txt/../one.txt', 'a/none/../../..'):
    print(name, said(os.stat, late + name), said(os.listdir, late + name))
"""


@test(NEEDS)
def test_symlinks_follow_goes_back_from_directories_alone():
    """What `..` follows has to be a directory, in the map as before it."""
    with followed() as s:
        s.job.settings["symlinks"] = "follow"
        local = s.place + "/late"
        os.remove(local)
        os.symlink(s.local, local)
        want = proc.run([paths.PYTHON, "-c", DOTS, s.place], cwd="/").stdout.decode()
        os.remove(local)
        os.symlink(s.top, local)
        proc.expect("none/.. ENOENT" in want and "a/one.txt/.. ENOTDIR" in want, "what the local tree says", want)
        have = s.job.good([paths.PYTHON, "-c", DOTS, s.place], cwd="/").decode()
        proc.expect_equal(have, want, "names")
