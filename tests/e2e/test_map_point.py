"""The map point itself (absent, an empty local directory, one that hides files) and symlinks that lead into a map."""
import contextlib
import os

from harness import fixtures, headrace, paths, proc
from harness.build import compile_c
from harness.case import test
from harness.scene import scene

NEEDS = ("nginx", "rclone")
POINTS = ("absent", "empty", "hidden")


def bash(script, *args):
    return ["bash", "-c", script, "bash", *args]


@contextlib.contextmanager
def points(in_root=False):
    """Three map points in one directory; with in_root one more in `/`, where nothing is made."""
    with scene(fixtures.mixed()) as s:
        work = os.path.realpath(proc.temp_folder("hr-point-"))
        os.mkdir(work + "/empty")
        os.mkdir(work + "/hidden")
        with open(work + "/hidden/local", "w") as out:
            out.write("local\n")
        source = "s3://%s/%s" % (fixtures.BUCKET, fixtures.PREFIX)
        maps = ["%s/%s=%s%s" % (work, name, source, "?hide=yes" if name == "hidden" else "") for name in POINTS]
        s.work, s.rooted = work, "/hr-map-point-%d" % os.getpid()
        s.job.maps = maps + (["%s=%s" % (s.rooted, source)] if in_root else [])
        yield s
        proc.expect(not os.path.exists(work + "/absent") and not os.path.exists(s.rooted), "a map point was made")
        proc.expect_equal(os.listdir(work + "/hidden"), ["local"], "what was hidden")


def lines(out):
    return out.decode().splitlines()


@test(NEEDS)
def test_map_point_is_shown_by_ls_and_globs_of_its_parent():
    with points(in_root=True) as s:
        proc.expect_equal(lines(s.job.good(["ls", s.work])), ["absent", "empty", "hidden"], "ls of the parent")
        proc.expect(os.path.basename(s.rooted) in lines(s.job.good(["ls", "/"])), "ls / does not show it")
        code = ("import glob, sys; print(sorted(glob.glob(sys.argv[1] + '/*/top.txt')), glob.glob(sys.argv[2][:-3] + '*/top.txt'))")
        want = "%s %s" % (["%s/%s/top.txt" % (s.work, name) for name in POINTS], [s.rooted + "/top.txt"])
        proc.expect_equal(s.job.python(code, s.work, s.rooted).strip(), want, "globs of Python")
        out = lines(s.job.good(bash('cd "$1"; echo */top.txt; echo "$1"/[eh]*/a-b; echo "${2%%???}"*/empty; ls -d "$1"/*/local || :',
                                    s.work, s.rooted), cwd="/"))
        proc.expect_equal(out, [" ".join("%s/top.txt" % name for name in POINTS),
                                " ".join("%s/%s/a-b" % (s.work, name) for name in POINTS[1:]), s.rooted + "/empty"],
                          "globs of a shell")


@test(NEEDS)
def test_map_point_df():
    with points(in_root=True) as s:
        for path in [os.path.join(s.work, name) for name in POINTS] + [s.rooted]:
            for asked in (path, path + "/a/one.txt"):  # sizes are known once the prefix is listed
                out = lines(s.job.good(bash('ls "$2" >&2; df --output=size,avail,file "$1"', asked, path)))
                proc.expect_equal((len(out), out[1].split()[2]), (2, asked), "df " + asked)
                proc.expect(int(out[1].split()[0]) > 0, "a size of %s" % out[1])


@test(NEEDS)
def test_map_point_is_a_mount_point_that_du_and_find_do_not_cross():
    with points() as s:
        inside = [os.path.join(s.work, name) for name in POINTS]
        code = "import os, sys; print([os.path.ismount(p) for p in sys.argv[1:]], os.path.ismount(sys.argv[1] + '/a'))"
        proc.expect_equal(s.job.python(code, *inside).strip(), "[True, True, True] False", "ismount")
        out = lines(s.job.good(["find", s.work, "-xdev"]))
        proc.expect_equal(sorted(out), sorted([s.work] + inside), "find -xdev")
        out = lines(s.job.good(["find", s.work, "-name", "three.txt"]))
        proc.expect_equal(sorted(out), sorted(path + "/a/deep/er/still/three.txt" for path in inside), "find")
        out = [line.split("\t")[1] for line in lines(s.job.good(["du", "-a", "-x", s.work]))]
        proc.expect(s.work in out and not [path for path in out if path.count("/") > s.work.count("/") + 1], "du -x", out)
        whole = int(s.job.good(["du", "-s", "--apparent-size", "-B1", s.work]).split()[0])
        proc.expect(whole > 3 * (3 << 20), "du counts %d bytes" % whole)


STEPS = """
cd "$1"; echo "$PWD $(/bin/pwd -L) $(/bin/pwd -P)"
cd a/deep; echo "$PWD $(pwd -P) $(readlink /proc/self/cwd)"
cd ..; echo "$PWD $(pwd -L) $(pwd -P)"
cd ../..; echo "$PWD $(pwd -P) $(readlink /proc/self/cwd)"
cd -P "$1/.."; echo "$PWD"
cd "$1/a" && ls ../../neighbour && cat ../top.txt | head -1
"""


@test(NEEDS)
def test_map_point_working_directory_and_ways_up():
    """PWD, pwd -L and -P, /proc/self/cwd, and `..` across the root, of bash and of dash."""
    with points() as s:
        with open(s.work + "/neighbour", "w"):
            pass
        for name in POINTS:
            top = os.path.join(s.work, name)
            deep = top + "/a/deep"
            want = [" ".join([top] * 3), " ".join([deep] * 3), " ".join([top + "/a"] * 3), " ".join([s.work] * 3), s.work,
                    "../../neighbour", "hello headrace"]
            for shell in ("bash", "dash"):
                script = STEPS if shell == "bash" else STEPS.replace('cd -P "$1/.."', 'cd "$1/.."')
                proc.expect_equal(lines(s.job.good([shell, "-c", script, "sh", top])), want, "%s in %s" % (shell, name))


WHERE = """
import os, sys
top = sys.argv[1]
os.chdir(top + '/a')
print(os.getcwd(), os.readlink('/proc/self/cwd'), os.readlink('/proc/%d/cwd' % os.getpid()), os.path.realpath('.'))
print(os.path.realpath(top + '/a/../b/mega.bin'), os.path.realpath('../top.txt'), os.path.realpath('no/such'))
os.chdir('..')
print(os.getcwd(), os.listdir('..') == os.listdir(os.path.dirname(top)))
os.chdir('..')
print(os.getcwd(), os.readlink('/proc/self/cwd'))
gone = os.path.join(os.getcwd(), 'gone')
os.mkdir(gone)
os.chdir(gone)
os.rmdir(gone)
try: print(os.getcwd())
except FileNotFoundError: print('gone')
os.chdir(top)
print(os.getcwd())
"""


@test(NEEDS)
def test_map_point_getcwd_realpath_and_proc_self_cwd():
    with points() as s:
        for name in POINTS:
            top = os.path.join(s.work, name)
            want = [" ".join([top + "/a"] * 4), "%s/b/mega.bin %s/top.txt %s/a/no/such" % (top, top, top), top + " True",
                    "%s %s" % (s.work, s.work), "gone", top]
            proc.expect_equal(s.job.python(WHERE, top).splitlines(), want, name)
            out = lines(s.job.good(bash("cd $1/a; realpath . ../b/mega.bin $1/../%s/empty; realpath -e no/such || echo none" % name, top)))
            proc.expect_equal(out, [top + "/a", top + "/b/mega.bin", top + "/empty", "none"], "realpath(1), " + name)


@test(NEEDS)
def test_map_point_link_of_the_working_directory_in_small_buffers():
    """readlink cuts without a word: of what is cut the mapped path, too; of an ordinary directory the kernel's."""
    code = ("import ctypes, os, sys\nlibc = ctypes.CDLL(None)\n"
            "for folder in sys.argv[1:]:\n"
            "    os.chdir(folder)\n"
            "    for size in (1, 7, len(folder) - 1, len(folder), len(folder) + 1, 4000):\n"
            "        room = ctypes.create_string_buffer(4001)\n"
            "        got = libc.readlink(b'/proc/self/cwd', room, ctypes.c_size_t(size))\n"
            "        print(got, room.value.decode() == folder[:size])\n")
    with points() as s:
        folders = [os.path.join(s.work, "absent", "a"), s.work]
        want = ["%d True" % min(size, len(folder)) for folder in folders
                for size in (1, 7, len(folder) - 1, len(folder), len(folder) + 1, 4000)]
        proc.expect_equal(s.job.python(code, *folders).splitlines(), want, "what readlink gives")


@test(NEEDS)
def test_map_point_getcwd_in_a_folder_that_went_away():
    """The cache is emptied under a program that stands in a map: the place keeps its name and can be left."""
    code = ("import os, shutil, sys\nos.chdir(sys.argv[1] + '/a/deep')\nshutil.rmtree(sys.argv[2] + '/dirs')\n"
            "print(os.getcwd(), open('-dash').read().strip())\nos.chdir('..')\nprint(os.getcwd(), sorted(os.listdir('.')))\n")
    with points() as s:
        top = os.path.join(s.work, "absent")
        out = s.job.python(code, top, s.job.cache).splitlines()
        proc.expect_equal(out, ["%s/a/deep dash" % top, "%s/a ['deep', 'one.txt', 'two.bin']" % top], "getcwd")


# ---- symlinks that lead into a map

LINKED = """
import os, sys
print(open('train/top.txt').read().split()[0], len(os.listdir('train')), os.path.isdir('train'), os.path.islink('train'))
print(sorted(name for _, _, names in os.walk('.', followlinks=True) for name in names if name.startswith('f0'))[:2])
print(os.path.realpath('train/a/one.txt'), os.path.realpath('train'), os.readlink('train'))
print(os.stat('train/b').st_ino == os.stat(sys.argv[1] + '/b').st_ino, os.lstat('train').st_size, os.path.exists('train/none'))
print(open('one').readline().strip(), os.access('train', os.R_OK), sorted(e.name for e in os.scandir('train/b'))[0])
os.chdir('train')
print(os.getcwd(), open('top.txt').readline().strip())
"""


def linked(s, top):
    """A working directory with symlinks into the map: to its root, relative to a file, and through another symlink."""
    here = os.path.join(s.work, "here")
    os.mkdir(here)
    os.symlink(top, here + "/train")
    os.symlink("train/a/one.txt", here + "/one")
    os.symlink("../%s/b" % os.path.basename(top), here + "/up")
    os.symlink("nowhere", here + "/dangling")
    return here


def expect_linked(s, here, top):
    out = s.job.python(LINKED, top, cwd=here).splitlines()
    proc.expect_equal(out, ["hello %d True True" % len(os.listdir(s.local)), "['f00.dat', 'f01.dat']",
                            "%s/a/one.txt %s %s" % (top, top, top), "True %d False" % len(top),
                            "one True mega.bin", top + " hello headrace"], "Python")
    out = lines(s.job.good(bash('cat train/top.txt one | head -1; ls train/b up; cd train/a && pwd -P && cat two.bin | sha256sum'),
                           cwd=here))
    names = sorted(os.listdir(s.local + "/b"))
    proc.expect_equal((out[0], out[-2]), ("hello headrace", top + "/a"), "shell")
    proc.expect_equal(out[-1].split()[0], fixtures.file_digest(s.local + "/a/two.bin"), "digest")
    proc.expect_equal([line for line in out if line in names], names * 2, "ls of both")
    proc.expect(b"No such file" in s.job.run(["cat", "dangling"], cwd=here).stderr, "a dangling symlink is none")


@test(NEEDS)
def test_symlinks_found_by_run_are_aliases():
    with points() as s:
        for name in POINTS:
            here = linked(s, os.path.join(s.work, name))
            expect_linked(s, here, os.path.join(s.work, name))
            proc.run(["rm", "-r", here])


@test(NEEDS)
def test_symlinks_in_arguments_are_aliases():
    with points() as s:
        top, home = os.path.join(s.work, "empty"), proc.temp_folder("hr-home-")
        os.symlink(top, home + "/data")
        for argument in (home + "/data/top.txt", "--file=%s/data/top.txt" % home):
            out = s.job.python("import sys; print(open(sys.argv[1].split('=')[-1]).readline().strip())", argument, cwd="/")
            proc.expect_equal(out, "hello headrace\n", argument)
        out = s.job.python("import os, sys; print(os.path.exists(sys.argv[1]))", home + "/da" + "ta/none", cwd="/")
        proc.expect_equal(out, "False\n", "a name that is not there")


@test(NEEDS)
def test_symlink_itself_stays_a_symlink():
    """lstat, readlink, unlink, rename and a new symlink are the local directory's; then it leads nowhere else."""
    code = """
import os, stat, sys
print(stat.S_ISLNK(os.lstat('train').st_mode), os.readlink('train') == sys.argv[1])
os.rename('train', 'moved')
print(os.path.lexists('train'), os.path.exists('train/top.txt'))
os.mkdir('train')
open('train/own', 'w').write('own')
print(os.listdir('train'), open('train/own').read())
os.remove('train/own'); os.rmdir('train')
os.symlink(sys.argv[1] + '/b', 'train')
print(len(os.listdir('train')))
os.unlink('train')
print(sorted(os.listdir('.')))
"""
    with points() as s:
        top = os.path.join(s.work, "absent")
        here = linked(s, top)
        out = s.job.python(code, top, cwd=here).splitlines()
        proc.expect_equal(out, ["True True", "False False", "['own'] own", str(len(os.listdir(s.local + "/b"))),
                                "['dangling', 'moved', 'one', 'up']"], "the symlink")
        done = s.job.run(bash("echo x > moved/new || echo x > moved/a-b; ls -l moved"), cwd=here)
        proc.expect_equal(done.stderr.count(b"Read-only file system"), 2, "writes through the symlink: " + proc.tail(done.stderr))


@test(NEEDS)
def test_symlinks_follow_finds_those_that_run_did_not_see():
    code = """
import os, sys
os.symlink(sys.argv[1], sys.argv[2] + '/late')
os.makedirs(sys.argv[2] + '/deep/er')
os.symlink('../../late/a/..', sys.argv[2] + '/deep/er/link')
for path in (sys.argv[2] + '/late', sys.argv[2] + '/deep/er/link'):
    try: print(len(os.listdir(path)), os.path.isdir(path), open(path + '/a/../top.txt').readline().strip(), len(list(os.scandir(path))))
    except OSError as e: print(e.strerror)
try:
    os.chdir(sys.argv[2] + '/deep/er/link'); print(os.getcwd(), os.path.exists('none'))
except OSError as e: print(e.strerror)
"""
    with points() as s:
        top, places = os.path.join(s.work, "absent"), [proc.temp_folder("hr-late-") for _ in range(3)]
        total = len(os.listdir(s.local))
        follow = ["%d True hello headrace %d" % (total, total)] * 2 + [top + " False"]
        none = ["No such file or directory"] * 3
        s.job.maps = [s.job.maps[0]]
        proc.expect_equal(s.job.python(code, top, places[0], cwd="/").splitlines(), none, "symlinks=run")
        plain = s.job.maps[0]
        s.job.maps = [plain + "?symlinks=follow"]
        proc.expect_equal(s.job.python(code, top, places[1], cwd="/").splitlines(), follow, "of the map")
        s.job.maps, s.job.settings["symlinks"] = [plain], "follow"
        proc.expect_equal(s.job.python(code, top, places[2], cwd="/").splitlines(), follow, "of all maps")


INSIDE_LIBC = r"""
#include <errno.h>
#include <fts.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
static int files;
static int visit(const char *path, const struct stat *stat, int type, struct FTW *at)
{
    (void)path, (void)stat, (void)at;
    files += type == FTW_F;
    return 0;
}
int main(int argc, char **argv)
{
    struct statvfs volume = {0};
    struct statfs old = {0};
    char *roots[] = {argv[argc - 1], NULL};
    FTS *walk = fts_open(roots, FTS_LOGICAL, NULL);
    int listed = 0;
    for (FTSENT *entry; walk && (entry = fts_read(walk));) listed += entry->fts_info == FTS_F;
    if (walk) fts_close(walk);
    int walked = nftw(roots[0], visit, 8, 0) < 0 ? errno : 0;
    int known = statvfs(roots[0], &volume) < 0 ? errno : 0;
    printf("%d %d %d %d %d %d\n", listed, walked, files, known, statfs(roots[0], &old) < 0, (volume.f_flag & ST_RDONLY) != 0);
    return 0;
}
"""


@test(NEEDS)
def test_symlinks_follow_holds_for_walks_and_sizes_inside_libc():
    """fts, nftw, statfs and statvfs, whose ways libc goes by itself; without the setting they find nothing."""
    program = compile_c(INSIDE_LIBC)
    with points() as s:
        place = proc.temp_folder("hr-late-")
        os.symlink(os.path.join(s.work, "absent"), place + "/late")
        s.job.maps = [s.job.maps[0]]
        asked = [paths.PYTHON, "-c", "import os, sys; os.execv(sys.argv[1], [sys.argv[1], sys.argv[2] + '/late/b'])", program, place]
        proc.expect_equal(lines(s.job.good(asked, cwd="/")), ["0 2 0 2 1 0"], "symlinks=run")
        s.job.settings["symlinks"] = "follow"
        count = len(os.listdir(s.local + "/b"))
        proc.expect_equal(lines(s.job.good(asked, cwd="/")), ["%d 0 %d 0 0 1" % (count, count)], "symlinks=follow")


@test(NEEDS)
def test_symlinks_off_and_the_context_key():
    """Without aliases the kernel's answer stands; a job that has some has the same context as one that has none."""
    with points() as s:
        here = linked(s, os.path.join(s.work, "absent"))
        code = "import os; print(os.environ.get('HEADRACE_ALIAS', '').count(';'), os.path.exists('train/top.txt'))"
        proc.expect_equal(s.job.python(code, cwd=here), "2 True\n", "aliases")
        proc.expect_equal(s.job.python(code, cwd="/"), "0 False\n", "none in another directory")
        proc.expect_equal(s.job.status()["contexts"], 1, "contexts")
        s.job.settings["symlinks"] = "off"
        proc.expect_equal(s.job.python(code, cwd=here), "0 False\n", "symlinks=off")
