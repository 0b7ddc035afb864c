"""A directory that is there only because maps lie below it: it is entered, opened, read and left as a local one is. Each
program runs on a local copy and on maps, and says the same."""
import contextlib
import os
import re
import shutil

from harness import fixtures, paths, proc
from harness.build import compile_c
from harness.case import test
from harness.scene import scene

NEEDS = ("nginx", "rclone")
BELOW = ("sets/x", "sets/y", "sets/more/deep/z")


@contextlib.contextmanager
def ways():
    """s.copy and s.top: sets/x, sets/y and sets/more/deep/z, each the same tree; of s.top nothing is there."""
    with scene(fixtures.mixed()) as s:
        s.copy, s.top = (os.path.realpath(proc.temp_folder("hr-ways-")) for _ in range(2))
        for name in BELOW:
            shutil.copytree(s.local, os.path.join(s.copy, name))
        source = "s3://%s/%s" % (fixtures.BUCKET, fixtures.PREFIX)
        s.job.maps = ["%s/%s=%s" % (s.top, name, source) for name in BELOW]
        yield s
        proc.expect_equal(os.listdir(s.top), [], "what is there of the map points")


def same(s, argv, what, **options):
    """What argv(root) says on both, and on the copy alone."""
    local = proc.run(argv(s.copy), 60, **options)
    proc.expect_equal(local.returncode, 0, "%s on the copy: %s" % (what, proc.tail(local.stderr)))
    mapped = s.job.run(argv(s.top), **options)
    for old, new in ((local.stdout, mapped.stdout), (local.stderr, mapped.stderr)):
        want = old.decode("utf-8", "replace").replace(s.copy, "TOP").splitlines()
        have = new.decode("utf-8", "replace").replace(s.top, "TOP").splitlines()
        differ = [pair for pair in zip(have, want) if pair[0] != pair[1]]
        proc.expect(have == want, what, "(have, want): %s; %d and %d lines" % (differ[:4], len(have), len(want)))
    proc.expect_equal(mapped.returncode, 0, what)
    return local.stdout.decode()


SHELL = """
cd "$1/sets" && echo "$PWD $(/bin/pwd -L) $(/bin/pwd -P) $(readlink /proc/self/cwd) $(realpath . x/a)"
ls; ls -d .; cat x/top.txt; stat -c %F . x; echo *; echo */top.txt; echo more/*/z/top.txt
test -d . && test -r . && test -x . && test ! -e none && echo tests
cd more && echo "$PWD" && cat deep/z/top.txt ../x/a/one.txt && cd .. && echo "$PWD" && cd .. && ls && cd sets/more/deep && /bin/pwd
cd ../../x && /bin/pwd && cd .. && /bin/pwd -P && (cd / && cat "$OLDPWD/y/top.txt")
cat none 2>&1; ls none 2>&1; rm none 2>&1; rmdir none 2>&1
/bin/sh -c '/bin/pwd; ls; exec cat y/top.txt'
realpath "$1/sets" "$1/sets/more/../y" "$1/sets/none"; readlink "$1/sets"; readlink -f "$1/sets/more"
"""


@test(NEEDS)
def test_ways_are_working_directories_of_shells():
    with ways() as s:
        for shell in ("bash", "dash"):
            said = same(s, lambda root: [shell, "-c", SHELL, "sh", root], shell)
            proc.expect("tests" in said and said.count("hello headrace") == 4, "what it says of the copy", said)


@test(NEEDS)
def test_ways_are_walked_by_find_ls_du_and_tar():
    with ways() as s:
        order = '| LC_ALL=C sort'
        for script in ('find "$1/sets" -printf "%p %y\\n"' + order, 'cd "$1/sets" && find . -name "t*.txt" -execdir wc -c {} \\; ' + order,
                       'cd "$1/sets/more" && find .. -name top.txt' + order, 'LC_ALL=C ls -R "$1/sets"',
                       'cd "$1/sets" && tar c . | tar t' + order, 'cd "$1" && grep -rl headrace sets' + order,
                       'cd "$1/sets" && du -a --apparent-size x | cut -f 2' + order, 'ls -l "$1/sets" 2>&1 | cut -c 1'):
            said = same(s, lambda root: ["bash", "-c", script, "sh", root], script)
            proc.expect(said.count("\n") >= 3, script + " says little", said)


PYTHON = """
import os, stat, sys
top = sys.argv[1]
os.chdir(top + '/sets')
print(os.getcwd(), sorted(os.listdir('.')), sorted(e.name for e in os.scandir() if e.is_dir()), os.path.realpath('.'))
here = os.open('.', os.O_RDONLY | os.O_DIRECTORY)
there = os.open(top + '/sets/more', os.O_RDONLY)
print(os.readlink('/proc/self/fd/%d' % there) if len(sys.argv) == 2 else top + '/sets/more')
print(sorted(os.listdir(here)), sorted(os.listdir(there)), os.path.sameopenfile(here, os.dup(here)))
for a, b in ((os.stat(here), os.stat('.')), (os.stat(there), os.stat('more')), (os.stat(here), os.stat(top + '/sets'))):
    print(stat.S_ISDIR(a.st_mode), os.path.samestat(a, b), a.st_mtime == b.st_mtime)
print(os.stat('x', dir_fd=here).st_ino == os.stat(top + '/sets/x').st_ino, os.access('deep/z', os.R_OK, dir_fd=there))
with open(os.open('x/top.txt', os.O_RDONLY, dir_fd=here)) as f: print(f.readline().strip())
with open(os.open('../y/top.txt', os.O_RDONLY, dir_fd=there)) as f: print(f.readline().strip())
os.fchdir(there)
print(os.getcwd(), os.listdir('.'), len(list(os.walk('.'))) > 3, open('deep/z/top.txt').readline().strip())
os.chdir('..'); print(os.getcwd())
for flags in (os.O_WRONLY, os.O_RDWR | os.O_CREAT, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW):
    try: os.open(top + '/sets', flags)
    except OSError as e: print(e.strerror)
for what in (lambda: os.open('none', os.O_RDONLY, dir_fd=here), lambda: os.open('none/below', os.O_CREAT | os.O_WRONLY),
             lambda: os.unlink('none'), lambda: os.rename('none', 'other'), lambda: os.readlink('more'), lambda: os.chdir('none'),
             lambda: os.unlink('none', dir_fd=there), lambda: os.stat('none', dir_fd=here), lambda: os.read(here, 10)):
    try: print(what())
    except OSError as e: print(e.strerror)
import glob, shutil, subprocess
print(sorted(glob.glob('*/top.txt')), sorted(glob.glob('**/deep')), sorted(n for _, _, f, _ in os.fwalk('.') for n in f)[:3])
print(subprocess.run(['/bin/pwd'], capture_output=True, text=True).stdout.strip(),
      subprocess.run(['cat', 'z/top.txt'], cwd=top + '/sets/more/deep', capture_output=True, text=True).stdout.strip())
pid = os.fork()
if pid == 0:
    os.execv('/bin/ls', ['ls'])
os.waitpid(pid, 0)
pid = os.posix_spawn('/bin/ls', ['ls', '-x'], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 9, top + '/sets/more', os.O_RDONLY, 0)])
print(os.waitpid(pid, 0)[1])
print(os.statvfs('.').f_bsize > 0, os.listxattr(top + '/sets') if not os.listxattr(top) else [])
"""


@test(NEEDS)
def test_ways_by_path_by_descriptor_and_by_working_directory_of_python():
    with ways() as s:
        said = same(s, lambda root: [paths.PYTHON, "-c", PYTHON, root], "Python")
        proc.expect("['more', 'x', 'y'] ['deep']" in said, "what it says of the copy", said)


INSIDE = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static char here[4096];
static int seen;
static int visit(const char *path, const struct stat *stat, int kind, struct FTW *at)
{
    (void)path, (void)stat, (void)at;
    seen += kind == FTW_F;
    return 0;
}
static void entries(const char *what, int fd)
{
    char buffer[4096];
    int names = 0;
    for (long got; (got = syscall(SYS_getdents64, fd, buffer, sizeof(buffer))) > 0;) {
        for (long at = 0; at < got; at += ((struct dirent64 *)(buffer + at))->d_reclen) names++;
    }
    printf("%s: %d names\n", what, names);
}
static void start(const char *what, posix_spawn_file_actions_t *actions)
{
    char *argv[] = {"pwd", "-P", NULL};
    pid_t pid;
    int status = -1, error = posix_spawn(&pid, "/bin/pwd", actions, NULL, argv, environ);
    if (!error) waitpid(pid, &status, 0);
    printf("%s: %d %d\n", what, error, status);
    posix_spawn_file_actions_destroy(actions);
}
int main(int argc, char **argv)
{
    struct stat by_fd, by_path, named;
    struct statfs volume;
    struct dirent **list;
    glob_t found = {0};
    posix_spawn_file_actions_t actions;
    setvbuf(stdout, NULL, _IONBF, 0);
    printf("%d", chdir(argv[argc - 1]) || chdir("sets")), printf(" %s\n", getcwd(here, sizeof(here)));
    printf("%ld %s\n", syscall(SYS_getcwd, here, sizeof(here)) > 0 ? 1L : 0L, here);
    int fd = open(".", O_RDONLY | O_DIRECTORY), path_fd = open(here, O_PATH | O_DIRECTORY | O_CLOEXEC);
    printf("%d %d %d\n", fd >= 0, path_fd >= 0, open(here, O_RDONLY | O_DIRECTORY | O_CREAT, 0600) >= 0);
    fstat(fd, &by_fd), stat(here, &by_path), fstatat(path_fd, "", &named, AT_EMPTY_PATH);
    printf("%d %d %d\n", by_fd.st_ino == by_path.st_ino, by_fd.st_dev == named.st_dev, by_path.st_ino == named.st_ino);
    fstatat(AT_FDCWD, "", &named, AT_EMPTY_PATH);
    printf("%d %d\n", by_fd.st_ino == named.st_ino, S_ISDIR(named.st_mode));
    entries("getdents64", fd);
    lseek(fd, 0, SEEK_SET);
    entries("again", fd);
    lseek(fd, 0, SEEK_SET);
    DIR *dir = fdopendir(fd);
    int names = 0, at_end = 0;
    for (struct dirent *entry; (entry = readdir(dir));) names++;
    rewinddir(dir);
    while (readdir(dir)) at_end++;
    fstat(dirfd(dir), &named);
    printf("%d %d %d\n", names, at_end, named.st_ino == by_path.st_ino);
    closedir(dir);
    dir = opendir("more");
    printf("%d %d\n", fstatat(dirfd(dir), "deep/z/top.txt", &named, 0), openat(dirfd(dir), "../x/top.txt", O_RDONLY) >= 0);
    closedir(dir);
    int count = scandir(".", &list, NULL, alphasort);
    printf("%d %s %s\n", count, list[2]->d_name, list[count - 1]->d_name);
    printf("%d %zu\n", glob("*/top.txt", 0, NULL, &found), found.gl_pathc);
    printf("%d", nftw(".", visit, 8, FTW_CHDIR | FTW_PHYS)), printf(" %d\n", seen);
    char *roots[] = {".", NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL, NULL);
    int files = 0;
    for (FTSENT *entry; (entry = fts_read(walk));) files += entry->fts_info == FTS_F;
    fts_close(walk);
    printf("%d %s\n", files, getcwd(here, sizeof(here)));
    printf("%d %d\n", statfs(".", &volume), statfs(here, &volume));
    printf("%d %s\n", fchdir(path_fd) || chdir("more/deep/.."), get_current_dir_name());
    posix_spawn_file_actions_init(&actions), posix_spawn_file_actions_addchdir_np(&actions, "..");
    start("addchdir ..", &actions);
    posix_spawn_file_actions_init(&actions), posix_spawn_file_actions_addfchdir_np(&actions, path_fd);
    posix_spawn_file_actions_addchdir_np(&actions, "more/deep");
    start("addfchdir and on", &actions);
    pid_t child = vfork();
    if (child == 0) {
        if (chdir("../x") == 0) execl("/bin/pwd", "pwd", "-P", NULL);
        _exit(9);
    }
    waitpid(child, &count, 0);
    printf("%d %s\n", count, getcwd(here, sizeof(here)));
    printf("%d", mkdir("none/below", 0700)), printf(" %s\n", strerror(errno));
    printf("%d", (int)syscall(SYS_chdir, "..")), printf(" %s\n", getcwd(here, sizeof(here)));
    printf("%d", chdir("sets/more/../x/..")), printf(" %s\n", getcwd(here, sizeof(here)));
    printf("%d", access("more", W_OK) == 0 ? 0 : errno == EROFS ? 0 : errno), printf(" %d\n", access(".", R_OK | X_OK));
    return 0;
}
"""


@test(NEEDS)
def test_ways_in_calls_of_libc():
    program = compile_c(INSIDE)
    with ways() as s:
        said = same(s, lambda root: [program, root], "calls")
        proc.expect("getdents64: 5 names" in said, "what it says of the copy", said)


@test(NEEDS)
def test_ways_are_no_place_for_programs_that_cannot_see_them():
    """A static program is not started there, by a line that says why; a stand-in that went away keeps its name."""
    static = compile_c('#include <unistd.h>\nint main(void) { return write(1, "ran\\n", 4) != 4; }', "-static")
    with ways() as s:
        done = s.job.run(["bash", "-c", 'cd "$1/sets" && exec "$2"', "sh", s.top, static])
        proc.expect_equal((done.returncode, done.stdout), (126, b""), "status, output")
        proc.expect(("not started in %s/sets" % s.top) in done.stderr.decode(), "no line: " + proc.tail(done.stderr))
        proc.expect_equal(s.job.good([static]), b"ran\n", "elsewhere")
        code = ("import os, shutil, sys\nos.chdir(sys.argv[1] + '/sets')\nshutil.rmtree(sys.argv[2] + '/dirs')\n"
                "print(os.getcwd(), sorted(os.listdir('.')), open('x/top.txt').readline().strip())\n"
                "os.chdir('more'); print(os.getcwd())\n")
        proc.expect_equal(s.job.python(code, s.top, s.job.cache).splitlines(),
                          ["%s/sets ['more', 'x', 'y'] hello headrace" % s.top, s.top + "/sets/more"], "without its stand-in")


@test(NEEDS)
def test_ways_that_are_made_later_are_the_local_directory():
    code = ("import os, sys\ntop = sys.argv[1]\nos.chdir(top + '/sets')\nos.mkdir(top + '/sets'); os.mkdir('own')\n"
            "print(sorted(os.listdir('.')), sorted(os.listdir(top + '/sets')), os.path.isdir('own'))\n"
            "open('own/file', 'w').write('local')\nprint(open(top + '/sets/own/file').read(), open('x/top.txt').readline().strip())\n"
            "os.chdir(top + '/sets')\nprint(os.getcwd(), sorted(os.listdir('.')))\n"
            "os.chdir('/')\nos.remove(top + '/sets/own/file'); os.rmdir(top + '/sets/own'); os.rmdir(top + '/sets')\n"
            "print(os.listdir(top + '/sets'))")
    with ways() as s:
        out = s.job.python(code, s.top).splitlines()
        names = "['more', 'own', 'x', 'y']"
        proc.expect_equal(out[0], "%s %s True" % (names, names), "names")
        proc.expect_equal(out[1:3], ["local hello headrace", "%s/sets %s" % (s.top, names)], "files")
        proc.expect_equal(sorted(re.findall(r"\w+", out[3])), ["more", "x", "y"], "gone again")


MAKES = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#define MARK 4242
extern char **environ;
static char sets[4096], more[4096], new[4096], other[4096], map[4096], temporary[4096];
static int closed(int fd) { return fd < 0 ? -1 : close(fd); }
static int stream(FILE *file) { return file ? fclose(file) : -1; }
static int named(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", new);
    int result = bind(fd, (struct sockaddr *)&address, sizeof(address)), error = errno;
    close(fd);
    errno = error;
    return result;
}
static char *template(const char *suffix)
{
    snprintf(temporary, sizeof(temporary), "%s/XXXXXX%s", more, suffix);
    return temporary;
}
/* What is there now, and nothing of it left. */
static void say(const char *what, int result)
{
    int error = errno, gone = -1;
    struct stat stat;
    printf("%s: %d %s", what, result, result ? strerror(error) : error == MARK ? "kept" : "errno changed");
    printf(" %o", lstat(new, &stat) ? 0 : stat.st_mode);
    gone = remove(new);
    if (temporary[0]) gone = remove(temporary);
    temporary[0] = 0;
    printf(" %d", gone);
    rmdir(more), rmdir(sets);
    printf(" %d %d\n", lstat(more, &stat), lstat(map, &stat));
}
#define SAY(call) (errno = MARK, say(#call, (call)))
/* A program that writes what was made, its output being an action with a path of what it is to make. */
static int spawned(const char *path, const char *stand)
{
    posix_spawn_file_actions_t actions;
    char *argv[] = {"echo", "made", NULL}, text[8] = "";
    pid_t pid;
    int status = -1, before = errno;
    posix_spawn_file_actions_init(&actions);
    if (stand) posix_spawn_file_actions_addchdir_np(&actions, stand);
    posix_spawn_file_actions_addopen(&actions, 1, path, O_CREAT | O_WRONLY | O_TRUNC, 0640);
    int error = posix_spawn(&pid, "/bin/echo", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    bool kept = errno == before;
    if (!error) waitpid(pid, &status, 0);
    int fd = open(new, O_RDONLY);
    bool made = fd >= 0 && read(fd, text, 8) == 5 && memcmp(text, "made\n", 5) == 0;
    if (fd >= 0) close(fd);
    errno = error ? error : kept ? before : EBADMSG;
    return error ? -1 : made ? status : -2;
}
int main(int argc, char **argv)
{
    const char *top = argv[argc - 1];
    snprintf(sets, sizeof(sets), "%s/sets", top), snprintf(more, sizeof(more), "%s/more", sets);
    snprintf(new, sizeof(new), "%s/new", more), snprintf(other, sizeof(other), "%s/other", top);
    snprintf(map, sizeof(map), "%s/deep/z", more);
    umask(022);
    SAY(mkdir(new, 0750));
    SAY(mkdirat(AT_FDCWD, new, 0700));
    SAY(closed(open(new, O_CREAT | O_WRONLY, 0600)));
    SAY(closed(open(new, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644)));
    SAY(closed(openat(AT_FDCWD, new, O_CREAT | O_WRONLY, 0600)));
    SAY(closed(creat(new, 0640)));
    SAY(stream(fopen(new, "w")));
    SAY(stream(fopen(new, "a+")));
    SAY(stream(freopen(new, "w", fopen("/dev/null", "r"))));
    SAY(symlink("anywhere", new));
    SAY(symlinkat("anywhere", AT_FDCWD, new));
    SAY(mkfifo(new, 0600));
    SAY(mknod(new, S_IFREG | 0600, 0));
    SAY(named());
    SAY(closed(mkstemp(template(""))));
    SAY(closed(mkostemps(template(".txt"), 4, O_CLOEXEC)));
    SAY(mkdtemp(template("")) ? 0 : -1);
    close(creat(other, 0600));
    SAY(link(other, new));
    SAY(linkat(AT_FDCWD, other, AT_FDCWD, new, 0));
    SAY(rename(other, new));
    mkdir(other, 0700);
    SAY(renameat(AT_FDCWD, other, AT_FDCWD, new));
    SAY(rename(other, new));
    close(creat(other, 0600));
    SAY(renameat2(AT_FDCWD, other, AT_FDCWD, new, RENAME_NOREPLACE));
    SAY((int)syscall(SYS_mkdirat, AT_FDCWD, new, 0700));
    SAY(closed((int)syscall(SYS_openat, AT_FDCWD, new, O_CREAT | O_WRONLY, 0600)));
    SAY((int)syscall(SYS_symlinkat, "anywhere", AT_FDCWD, new));
    SAY(closed((int)syscall(SYS_openat2, AT_FDCWD, new, &(uint64_t[3]){O_CREAT | O_WRONLY, 0640, 0}, 24)));
    SAY(spawned(new, NULL));
    SAY(spawned("new", more));
    SAY(spawned("more/new", sets));
    SAY(spawned("sets/more/../more/new", top));
    SAY(spawned("more/none/new", sets));
    SAY(closed(open(new, O_WRONLY)));
    SAY(stream(fopen(new, "r+")));
    SAY(unlink(new));
    snprintf(new, sizeof(new), "%s/none/new", more);
    SAY(mkdir(new, 0700));
    printf("%d %s\n", chdir(top), "relative");
    snprintf(new, sizeof(new), "sets/./more/new");
    SAY(mkdir(new, 0700));
    SAY(closed(open(new, O_CREAT | O_WRONLY, 0600)));
    printf("%d %s\n", chdir(more), "inside");
    snprintf(new, sizeof(new), "new");
    SAY(mkdir(new, 0700));
    SAY(closed(open(new, O_CREAT | O_WRONLY, 0600)));
    SAY(stream(fopen(new, "w")));
    SAY(spawned(new, NULL));
    snprintf(new, sizeof(new), "../new");
    SAY(symlink("anywhere", new));
    int fd = open(sets, O_RDONLY | O_DIRECTORY);
    printf("%d\n", mkdirat(fd, "new", 0700));
    printf("%d\n", unlinkat(fd, "new", AT_REMOVEDIR));
    return chdir("/");
}
"""


@test(NEEDS)
def test_what_is_made_in_a_way_makes_the_way():
    """A local user sees a directory there and makes things in it: it is made then, as `mkdir` would."""
    program = compile_c(MAKES)
    with ways() as s:
        said = same(s, lambda root: [program, root], "calls")
        proc.expect(said.count(": 0 ") >= 30 and said.count(": -1 ") >= 4, "what it says of the copy", said)
        proc.expect_equal([at for at in os.walk(s.top)][2:], [], "what is left")
        os.rmdir(os.path.join(s.top, "sets"))


@test(NEEDS)
def test_programs_make_their_folders_beside_a_map():
    code = ("import os, sys, tempfile\nsets = sys.argv[1] + '/sets'\nos.makedirs(sets + '/more/out/logs', exist_ok=True)\n"
            "open(sets + '/more/out/logs/1', 'w').write('kept')\nprint(sorted(os.listdir(sets)), sorted(os.listdir(sets + '/more')))\n"
            "with tempfile.TemporaryDirectory(dir=sets) as d: print(os.path.dirname(d) == sets)\n"
            "print(open(sets + '/x/top.txt').readline().strip())")
    with ways() as s:
        out = s.job.python(code, s.top).splitlines()
        proc.expect_equal(out, ["['more', 'x', 'y'] ['deep', 'out']", "True", "hello headrace"], "what it says")
        with open(os.path.join(s.top, "sets/more/out/logs/1")) as file:
            proc.expect_equal(file.read(), "kept", "the file, without headrace")
        shutil.rmtree(os.path.join(s.top, "sets"))
        s.job.good(["sh", "-c", 'mkdir -p "$1/sets/own/deep" && echo kept > "$1/sets/own/deep/file"', "sh", s.top])
        proc.expect(os.path.exists(s.top + "/sets/own/deep/file"), "no file of the shell")
        shutil.rmtree(os.path.join(s.top, "sets"))


FAILS = """
import ctypes, os, sys, tempfile
top = sys.argv[1]
sets, other, libc = top + '/sets', top + '/other', ctypes.CDLL(None, use_errno=True)
open(other, 'w').close()
def said(result):
    if result != 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
EXCHANGE, HERE = 2, -100
for new in (sets + '/none/../new', sets + '/new/', sets + '/new/.', sets + '/' + 'n' * 256, sets + '/top/new', sets + '/new/..'):
    flags = os.O_CREAT | os.O_WRONLY
    for make in (lambda: os.close(os.open(new, flags)), lambda: os.close(os.open(new, flags | os.O_EXCL)), lambda: open(new, 'w').close(),
                 lambda: os.symlink('anywhere', new), lambda: os.mkfifo(new), lambda: os.link(other, new), lambda: os.rename(other, new),
                 lambda: os.mkdir(new) if new[-1] != '/' else os.mkdir(sets + '/none/new'), lambda: os.rename(top + '/gone', new),
                 lambda: said(libc.renameat2(HERE, other.encode(), HERE, (sets + '/new').encode(), EXCHANGE)),
                 lambda: tempfile.mkdtemp(dir=sets + '/none')):
        try: print(make(), 'was made')
        except OSError as e: print(e.strerror)
here = os.open(top, os.O_RDONLY)
os.symlink('nowhere', top + '/dangling')
for make in (lambda: os.symlink('', sets + '/new'), lambda: os.symlink('', 'sets/new', dir_fd=here),
             lambda: os.link('dangling', 'sets/new', src_dir_fd=here, dst_dir_fd=here, follow_symlinks=True)):
    try: print(make(), 'was made')
    except OSError as e: print(e.strerror)
os.unlink(top + '/dangling')
os.unlink(other)
"""


@test(NEEDS)
def test_what_cannot_be_made_in_a_way_makes_none():
    with ways() as s:
        said = same(s, lambda root: [paths.PYTHON, "-c", FAILS, root], "calls")
        proc.expect("was made" not in said, "what it says of the copy", said)


@test(NEEDS)
def test_a_way_that_cannot_be_made_says_why():
    """/sys lets nobody make a directory."""
    code = ("import errno, os\nfor what in (lambda: os.mkdir('/sys/hr-none/new'), lambda: open('/sys/hr-none/new', 'w'),\n"
            "             lambda: os.symlink('a', '/sys/hr-none/new'), lambda: __import__('tempfile').mkdtemp(dir='/sys/hr-none')):\n"
            "    try: what()\n    except OSError as e: print(e.errno in (errno.EPERM, errno.EACCES, errno.EROFS), e.strerror)\n")
    with scene(fixtures.mixed(), point="/sys/hr-none/x") as s:
        said = s.job.python(code).splitlines()
        proc.expect(len(said) == 4 and all(line.startswith("True") for line in said), "answers", said)


@test(NEEDS)
def test_symlinks_lead_to_ways():
    """What `run` saw, and with symlinks=follow what it did not."""
    script = ('cd "$1/at" && ls link && cat link/x/top.txt && cat link/more/deep/z/top.txt && test -d link && stat -L -c %F link\n'
              '(cd link && /bin/pwd -P && ls) && (cd link/more && /bin/pwd -P) && find link/ -name top.txt | LC_ALL=C sort\n'
              'readlink link; mkdir link/new && rmdir link/new && rmdir "$1/sets" 2>/dev/null; ls link/more; ls link/none 2>&1; true')
    for setting in ("run", "follow"):
        with ways() as s:
            s.job.settings["symlinks"] = setting
            for root in (s.copy, s.top):
                os.mkdir(os.path.join(root, "at"))
                os.symlink("../sets", os.path.join(root, "at/link"))
            # The last argument is what `run` looks at; under another name it is for the program alone.
            seen = "%s/at/link" if setting == "run" else "%s/at/none"
            said = same(s, lambda root: ["bash", "-c", script, "sh", root, seen % root], setting)
            proc.expect(said.count("hello headrace") == 2, "what it says of the copy", said)
            shutil.rmtree(os.path.join(s.top, "at"))


ITSELF = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
static char sets[4096], more[4200], fd_name[64];
static void say(const char *what, FILE *stream)
{
    struct stat stat;
    printf("%s: %s", what, stream ? "opened" : strerror(errno));
    if (stream) printf(" %d", fgetc(stream)), printf(" %s", strerror(errno)), fclose(stream);
    printf(" %d\n", lstat(sets, &stat) == 0 && S_ISDIR(stat.st_mode));
}
int main(int argc, char **argv)
{
    char text[4096];
    snprintf(sets, sizeof(sets), "%s/sets", argv[argc - 1]), snprintf(more, sizeof(more), "%s/more", sets);
    say("w", fopen(sets, "w")), say("a", fopen(more, "a")), say("r", fopen(more, "r")), say("re", fopen(sets, "re"));
    say("freopen w", freopen(sets, "w", fopen("/dev/null", "r"))), say("freopen r", freopen(more, "r", fopen("/dev/null", "r")));
    printf("%ld %ld\n", pathconf(more, _PC_NAME_MAX), pathconf("none", _PC_NAME_MAX));
    printf("%d %d\n", access(more, R_OK | W_OK | X_OK), access("none", W_OK));
    printf("%d", symlink("x", sets)), printf(" %s\n", strerror(errno));
    printf("%d", mknod(sets, S_IFREG | 0600, 0)), printf(" %s\n", strerror(errno));
    int way = open(more, O_PATH);
    snprintf(fd_name, sizeof(fd_name), "/dev/fd/%d", way);
    ssize_t got = readlink(fd_name, text, sizeof(text));
    printf("%.*s\n", got > 0 ? (int)got : 0, text);
    int fd = open(more, O_TMPFILE | O_RDWR, 0600);
    printf("%d %zd\n", fd < 0 ? errno : 0, write(fd, "x", 1));
    rmdir(more), rmdir(sets); /* O_TMPFILE made them; of the copy they stay */
    return 0;
}
"""


@test(NEEDS)
def test_a_way_is_no_file():
    """Streams do not make a file of it, what has no name is made in it, its name is asked for by descriptor."""
    program = compile_c(ITSELF)
    with ways() as s:
        said = same(s, lambda root: [program, root], "streams")
        proc.expect("w: Is a directory 1" in said and "r: opened -1 Is a directory 1" in said, "what it says of the copy", said)
