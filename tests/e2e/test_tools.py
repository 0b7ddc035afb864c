"""The usual tools and Python's file functions say the same on the map as on a local copy, byte for byte, aside from
times, device and inode numbers, modes, owners, block counts, and directories' sizes and link counts."""
import os
import re
import shutil

from harness import fixtures, paths, proc
from harness.case import test
from harness.headrace import Job
from harness.scene import scene

NEEDS = ("nginx", "rclone", "rsync")

# What may differ in `ls -l`: mode, links, owner, group, a directory's size, time. Kept: type, a file's size, name.
LONG = re.compile(rb"^([-dl])[-rwxsStT]{9}[.+@]? +\d+ +\S+ +\S+ +(\d+) +\S+ +\d+ +[\d:]+ (.*)$")
TOTAL = re.compile(rb"^total \d+$")

SHELL = {
    "find": "find data | LC_ALL=C sort",
    "find_types": "find data -type f -size +0 -name '*.txt' | LC_ALL=C sort; find data -type d | LC_ALL=C sort",
    "find_depth": "find data -mindepth 2 -maxdepth 3 -not -name 'f*' -print0 | LC_ALL=C sort -z | od -c",
    "find_exec": "find data -name '*.txt' -exec sha256sum {} + | LC_ALL=C sort",
    "ls": "ls -A data data/a data/nothing",
    "ls_long": "ls -lAR data",
    "du": "du -a --apparent-size -b data | awk -F'\\t' '{print $2}' | LC_ALL=C sort",
    "du_files": "find data -type f -exec du --apparent-size -b {} + | LC_ALL=C sort",
    "stat": "stat -c '%n %s %F' data/top.txt data/empty data/b/mega.bin; stat -c '%n %F' data/a data; stat data/none",
    "cp": "cp -r data out && diff -r data out && (cd out && find . -type f -exec sha256sum {} + | LC_ALL=C sort)",
    "cp_preserve": "cp -a data/a out && (cd out && find . -type f -exec sha256sum {} + | LC_ALL=C sort)",
    "tar": "tar c --sort=name data | tar x -C . --transform 's/^data/out/' && "
           "(cd out && find . -type f -exec sha256sum {} + | LC_ALL=C sort)",
    "tar_numbers": "tar c --sort=name --owner=0 --group=0 --mtime=@0 --mode=644 data | tar tv",
    "diff": "diff -r data ../expected",
    "diff_differs": "diff -rq data/a data/b | LC_ALL=C sort; echo ${PIPESTATUS[0]}",
    "cmp": "cmp data/b/mega.bin ../expected/b/mega.bin && cmp data/top.txt data/a-b",
    "sha256sum": "sha256sum data/* data/a/* data/b/*",
    "md5sum_check": "cd data && sha256sum a/one.txt b/mega.bin > ../sums && sha256sum -c ../sums",
    "grep": "grep -rn needle data | LC_ALL=C sort; grep -rc needle data | LC_ALL=C sort; grep -q nowhere -r data",
    "grep_dir": "grep x data",
    "rsync": "rsync -r data/ out/ && diff -r out ../expected",
    "rsync_dry": "rsync -rn --size-only --out-format=%n ../expected/ out2/ | LC_ALL=C sort; "
                 "rsync -r data/a out2 && ls out2/a",
    "cat": "cat data/top.txt data/none data/a data/empty data/[[]brackets]/*; echo $?",
    "head_tail": "head -c 100 data/b/mega.bin | od -x; tail -c 100 data/b/mega.bin | od -x; tail -n 1 data/a/one.txt",
    "wc": "wc data/*.txt data/a/* 2>&1",
    "dd": "dd if=data/b/mega.bin bs=4096 skip=100 count=3 status=none | sha256sum",
    "file": "file data/top.txt data/empty data/a",
    "bash_redirect": "read -r line < data/top.txt; echo \"$line\"; mapfile -t all < data/a/one.txt; echo ${#all[@]}; "
                     "cat < data/b/plus+and%25percent.txt; cat < data/none; echo $?",
    "bash_glob": "shopt -s globstar nullglob dotglob; echo data/*; echo data/**/*.txt; echo data/a/deep/er/f0?.dat; "
                 "echo data/no*such",
    "bash_tests": "for f in data data/a data/top.txt data/empty data/none; do "
                  "for t in -e -f -d -r -s -h -x; do test $t $f && echo $f $t; done; done; true",
    "bash_cd": "cd data/a && echo \"$PWD\" | sed 's,.*/,,' && ls && cd deep/er && cat still/three.txt && cd ../../.. && "
               "cat top.txt && pwd -P | sed 's,.*/,,'",
    "bash_script": "bash data/top.txt; . data/empty; echo $?",
    "pushd": "cd data; find . -maxdepth 1 | LC_ALL=C sort; find .. -maxdepth 2 -path '../data*' | LC_ALL=C sort",
    "slashes": "cat data//a///one.txt data/./a/../top.txt; ls data/a/.. data/a/deep/../..//; cat data/top.txt/; echo $?",
    "realpath": "realpath --relative-to=. data data/a/../top.txt data/a/deep; readlink -f data/b | sed 's,.*/data,data,'; "
                "readlink data/top.txt; echo $?",
    "xargs": "find data -type f -print0 | LC_ALL=C sort -z | xargs -0 -n 7 cksum",
    "awk_sort": "sort data/a/one.txt | uniq -c; awk 'END{print NR, FILENAME}' data/a/one.txt data/top.txt",
    "install": "install -m 600 data/a/one.txt copy && cat copy",
    "errors": "cat data/none/x; cat data/top.txt/x; ls data/top.txt/; cd data/top.txt; cat data/a; rmdir data/none",
}

PYTHON = {
    "walk": "for d, s, f in sorted(os.walk('data')): print(d, sorted(s), sorted(f))",
    "walk_bottom_up": "for d, s, f in sorted(os.walk('data', topdown=False)): print(d, sorted(s), sorted(f))",
    "scandir": "for e in sorted(os.scandir('data/a'), key=lambda e: e.name): "
               "print(e.name, e.path, e.is_dir(), e.is_file(), e.is_symlink(), e.stat().st_size * e.is_file(), "
               "stat.S_IFMT(e.stat().st_mode))",
    "scandir_fd": "fd = os.open('data/a', os.O_RDONLY); "
                  "print(sorted(os.listdir(fd)), sorted(e.name for e in os.scandir(fd)))",
    "glob": "print(sorted(glob.glob('data/**/*.dat', recursive=True))); print(sorted(glob.glob('data/*'))); "
            "print(glob.glob('data/no*')); print(sorted(glob.glob('[a-e]*', root_dir='data')))",
    "fwalk": "print(sorted((d, sorted(s), sorted((n, os.stat(n, dir_fd=fd).st_size) for n in f)) "
             "for d, s, f, fd in os.fwalk('data')))",
    "pathlib": "p = pathlib.Path('data'); print(sorted(map(str, p.rglob('*')))); print((p / 'top.txt').read_text()); "
               "print((p / 'a' / '..' / 'empty').resolve().name, (p / 'none').exists(), (p / 'a').is_dir(), "
               "p.is_mount() in (True, False))",
    "shutil": "shutil.copytree('data', 'out'); print(sorted(os.path.join(d, n) for d, _, f in os.walk('out') for n in f)); "
              "shutil.copy2('data/b/mega.bin', 'm'); print(hashlib.sha256(open('m', 'rb').read()).hexdigest()); "
              "print(filecmp.cmp('data/top.txt', 'out/top.txt', shallow=False), filecmp.dircmp('data', 'out').diff_files)",
    "rmtree": "seen = []\ntry: shutil.rmtree('copy-of-nothing')\nexcept OSError as e: print(e.errno)",
    "open_modes": "for n in ('data/top.txt', 'data/none', 'data/a', 'data/top.txt/x'):\n"
                  "    try: print(n, len(open(n, 'rb').read()))\n"
                  "    except OSError as e: print(n, e.errno, e.strerror, e.filename)",
    "seek": "f = open('data/b/mega.bin', 'rb'); f.seek(-100, 2); print(f.tell(), f.read().hex()); f.seek(1 << 20); "
            "print(f.read(20).hex()); print(os.pread(f.fileno(), 10, 5).hex(), os.fstat(f.fileno()).st_size)",
    "mmap": "f = open('data/b/mega.bin', 'rb'); m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ); "
            "print(len(m), hashlib.sha256(m).hexdigest())",
    "readinto": "b = bytearray(70000); f = open('data/a/two.bin', 'rb', buffering=0); print(f.readinto(b), "
                "hashlib.sha256(b).hexdigest(), f.read())",
    "sendfile": "i = open('data/a/two.bin', 'rb'); o = open('o', 'wb'); "
                "print(os.sendfile(o.fileno(), i.fileno(), 0, 70000)); "
                "print(hashlib.sha256(open('o', 'rb').read()).hexdigest())",
    "dup_fork": "fd = os.open('data/top.txt', os.O_RDONLY); d = os.dup(fd); print(os.read(fd, 5)); pid = os.fork()\n"
                "if pid == 0: print(os.read(d, 5), flush=True); os._exit(0)\n"
                "os.waitpid(pid, 0); print(os.read(fd, 5))",
    "dir_fd": "d = os.open('data/a', os.O_RDONLY | os.O_DIRECTORY); "
              "print(os.read(os.open('one.txt', os.O_RDONLY, dir_fd=d), 9), "
              "os.stat('deep', dir_fd=d).st_mode >> 12, os.access('one.txt', os.R_OK, dir_fd=d))",
    "chdir": "os.chdir('data/a'); print(os.path.basename(os.getcwd()), open('one.txt').readline(), sorted(os.listdir('.')), "
             "sorted(os.listdir('../b'))); os.chdir('..'); print(os.path.basename(os.getcwd())); os.chdir('..'); "
             "print(os.path.exists('data'))",
    "access": "print([[os.access(n, m) for m in (os.F_OK, os.R_OK)] "
              "for n in ('data', 'data/a', 'data/top.txt', 'data/none')])",
    "subprocess": "print(subprocess.run(['sha256sum', 'data/b/mega.bin'], capture_output=True, text=True).stdout); "
                  "print(subprocess.run(['cat'], stdin=open('data/top.txt'), capture_output=True).stdout); "
                  "print(subprocess.run('ls', cwd='data/a', capture_output=True, text=True).stdout)",
    "utf8": "print(sorted(os.listdir('data/ünïcode')), open('data/ünïcode/日本.txt').read(), "
            "sorted(os.listdir(b'data'))[-1])",
    "linecache": "import linecache, fileinput; print(linecache.getline('data/a/one.txt', 2), "
                 "sum(1 for _ in fileinput.input(['data/a/one.txt', 'data/top.txt'])))",
    "zip_tar": "import tarfile, zipfile\nz = zipfile.ZipFile('z.zip', 'w')\n"
               "for n in sorted(glob.glob('data/a/deep/er/*.dat')): z.writestr(n, open(n, 'rb').read())\n"
               "z.close(); print(len(zipfile.ZipFile('z.zip').namelist()), zipfile.ZipFile('z.zip').testzip())",
}
IMPORTS = ("import filecmp, glob, hashlib, mmap, os, pathlib, shutil, stat, subprocess, sys\n")

# Writing is refused; the same lines as on a local tree that is mounted read-only.
REFUSED = {
    "rm": ("rm data/top.txt", "rm -r data/a", "rm -f data/top.txt", "rmdir data/a", "unlink data/top.txt"),
    "write": ("echo x > data/top.txt", "echo x > data/new", "echo x >> data/top.txt", "touch data/new", "mkdir data/new",
              "cp data/top.txt data/new", "mv data/top.txt data/b/", "mv data/a/one.txt out", "ln -s x data/link",
              "ln data/top.txt data/hard", "chmod 600 data/top.txt", "truncate -s 0 data/top.txt", "touch data/top.txt",
              "mktemp -p data", "tar x -C data -f t.tar", "sed -i s/a/b/ data/top.txt", "dd if=/dev/null of=data/top.txt",
              "setfattr -n user.x -v y data/top.txt"),
}


def normal(text, *roots):
    """Output with places and what may differ taken out."""
    for root in roots:
        text = text.replace(os.fsencode(root), b"WORK")
    lines = []
    for line in text.splitlines():
        match = LONG.match(line)
        if match:
            kind, size, name = match.groups()
            line = kind + b" " + (size if kind == b"-" else b"*") + b" " + name
        lines.append(b"total" if TOTAL.match(line) else line)
    return b"\n".join(lines)


class Twin:
    """Two work folders: in the one `data` is a local copy, in the other it is the map point."""

    def __init__(self, s):
        self.job = s.job
        self.there = os.path.dirname(s.data)
        self.here = os.path.join(proc.temp_folder("hr-"), os.path.basename(self.there))
        shutil.copytree(s.local, os.path.join(self.here, "data"))
        for work in (self.here, self.there):
            expected = os.path.join(os.path.dirname(work), "expected")
            if not os.path.exists(expected):
                shutil.copytree(s.local, expected)

    def clear(self):
        for work in (self.here, self.there):
            for name in os.listdir(work):
                if name != "data":
                    path = os.path.join(work, name)
                    proc.force_remove(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)

    def locally(self, argv, cwd="", limit_s=60):
        """What it says and does on the local copy."""
        done = proc.run(argv, limit_s, cwd=os.path.join(self.here, cwd), env=self.job.env())
        self.clear()
        return done

    def compare(self, argv, cwd="", want=None, limit_s=60):
        """The difference as text, '' when there is none. want: what locally() gave."""
        want = want or self.locally(argv, cwd, limit_s)
        have = self.job.run(argv, limit_s, cwd=os.path.join(self.there, cwd))
        texts = []
        for label, left, right in (("stdout", want.stdout, have.stdout), ("stderr", want.stderr, have.stderr)):
            left = normal(left, self.here, os.path.dirname(self.here))
            right = normal(right, self.there, os.path.dirname(self.there))
            if left != right:
                texts.append("%s local:  %s\n%s mapped: %s" % (label, clip(left, right), label, clip(right, left)))
        if want.returncode != have.returncode:
            texts.append("status local %d, mapped %d" % (want.returncode, have.returncode))
        self.clear()
        return "\n".join(texts)


def clip(text, other):
    """From the first line that differs on."""
    lines, others = text.splitlines(), other.splitlines()
    at = next((n for n, (a, b) in enumerate(zip(lines, others)) if a != b), min(len(lines), len(others)))
    return "line %d: %r" % (at + 1, b"\n".join(lines[at:at + 4])[:600])


def compare_all(twin, table, argv_of):
    wrong = []
    for name, text in table.items():
        difference = twin.compare(argv_of(text))
        if difference:
            wrong.append("-- %s: %s\n%s" % (name, text, difference))
    proc.expect(not wrong, "%d of %d differ" % (len(wrong), len(table)), *wrong)


def bash(text):
    return ["bash", "--norc", "-c", text]


def py(text):
    return [paths.PYTHON, "-c", IMPORTS + text]


def private_scene(fixture=None, **options):
    """The map point inside a folder of its own below one of its own: `..` has nothing else in it."""
    work = os.path.join(proc.temp_folder("hr-"), "work")
    os.mkdir(work)
    return scene(fixture or fixtures.mixed(), point=os.path.join(work, "data"), **options)


@test(NEEDS, timeout=300)
def test_tools_same_output_absent():
    with private_scene() as s:
        compare_all(Twin(s), SHELL, bash)


@test(NEEDS, timeout=200)
def test_python_same_output_absent():
    with private_scene() as s:
        compare_all(Twin(s), PYTHON, py)


@test(NEEDS, timeout=300)
def test_tools_same_output_empty_point():
    """The map point is an empty directory."""
    with private_scene() as s:
        os.mkdir(s.data)
        twin = Twin(s)
        compare_all(twin, SHELL, bash)
        compare_all(twin, PYTHON, py)


@test(NEEDS, timeout=120)
def test_tools_reached_by_relative_paths():
    """./data, ../work/data, from above, at and inside the map."""
    with private_scene() as s:
        twin = Twin(s)
        table = {
            "dot": "cat ./data/top.txt; ls ./data/a; find ./data -name '*.bin' | sort",
            "up": "cat ../work/data/top.txt; find ../work/data/b -type f | sort; cp -r ../work/data/a out && ls out",
            "at": "cd data; cat top.txt ./a/one.txt ../data/a-b; ls . .. ../data/a; cd a; cat ../top.txt; ls ../../data",
            "root": "cd /; ls \"$OLDPWD/data\"; cat \"${OLDPWD#/}/data/top.txt\"",
        }
        compare_all(twin, table, bash)


def expect_refused(s, lines, allow_unknown=()):
    before = fixtures.tree_digests(os.path.join(s.fixture, fixtures.BUCKET))
    work = os.path.dirname(s.data)
    proc.run(["tar", "cf", os.path.join(work, "t.tar"), "--transform=s/top/new/", "-C", s.local, "top.txt"])
    wrong = []
    for line in lines:
        done = s.job.run(bash(line), 30, cwd=work)
        refused = b"Read-only file system" in done.stderr or any(text in done.stderr for text in allow_unknown)
        if done.returncode == 0 or not refused:
            wrong.append("%s: status %d, %r" % (line, done.returncode, done.stderr[-300:]))
    proc.expect(not wrong, "not refused with EROFS", *wrong)
    proc.expect_equal(fixtures.tree_digests(os.path.join(s.fixture, fixtures.BUCKET)), before, "the bucket")


@test(NEEDS, timeout=60)
def test_tools_rm_refused():
    with private_scene() as s:
        expect_refused(s, REFUSED["rm"])


@test(NEEDS, timeout=90)
def test_tools_writes_refused():
    with private_scene() as s:
        expect_refused(s, REFUSED["write"], allow_unknown=(b"Operation not supported",))


@test(NEEDS, timeout=60)
def test_parent_directory_shows_the_map_point():
    with private_scene() as s:
        work = os.path.dirname(s.data)
        with open(os.path.join(work, "neighbour"), "w") as out:
            out.write("x")
        proc.expect_equal(s.job.good(["ls", work]).split(), [b"data", b"neighbour"], "ls of the parent")
        code = "import os, sys; print(sorted(os.listdir(sys.argv[1])), os.path.ismount(sys.argv[2]))"
        proc.expect_equal(s.job.python(code, work, s.data), "['data', 'neighbour'] True\n", "listdir of the parent, ismount")


@test(NEEDS, timeout=60)
def test_several_sources_make_one_directory():
    """Maps below a common folder that does not exist: the folder shows them."""
    with private_scene() as s:
        top = os.path.join(os.path.dirname(s.data), "all", "sets")
        job = Job(["%s/x=s3://bkt/train/a" % top, "%s/y=s3://bkt/train/b" % top], s.front, cache=s.job.cache)
        proc.expect_equal(job.good(["ls", "-R", top + "/y"]).splitlines()[1:3], [b"mega.bin", b"plus+and%25percent.txt"],
                          "ls of one of two")
        proc.expect_equal(job.python("import os, sys; print(sorted(os.listdir(sys.argv[1])))", top).strip(), "['x', 'y']",
                          "the folder above both")


@test(NEEDS, timeout=60)
def test_nested_maps_longest_prefix_wins():
    with private_scene() as s:
        job = Job(["%s=s3://bkt/train" % s.data, "%s/a/over=s3://bkt/train/b" % s.data], s.front, cache=s.job.cache)
        out = job.good(bash("cat %s/a/over/plus+and%%25percent.txt; ls %s/a %s/a/over" % (s.data, s.data, s.data)))
        proc.expect(out.startswith(b"100%\n"), "the inner map's file", out)
        proc.expect(b"over\n" in out and b"one.txt" in out and b"mega.bin" in out, "both directories", out)
