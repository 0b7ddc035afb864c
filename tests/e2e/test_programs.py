"""Real programs, unmodified: each says on the map what it says on a local copy, cold and warm, with small_max as it comes and
so small that every file of some size is read in parts. A warm run asks the store for nothing."""
import hashlib
import os
import sys

from harness import fixtures, headrace, paths, proc
from harness.case import test
from test_tools import PYTHON, SHELL, Twin, bash, compare_all, private_scene, py

PROGRAMS = os.path.join(paths.E2E, "programs")
sys.path.insert(0, PROGRAMS)
from said import text  # noqa: E402: lies there

NEEDS = ("nginx", "rclone")
FACES = {"small_max": "64K"}  # the least there is
VARIANTS = {"small_max as it comes": {}, "small_max 64K": FACES}
RUN_LIMIT_S = 45


def program(name):
    return os.path.join(PROGRAMS, name)


def made(name, make, *sources):
    """A fixture, made anew when what makes it changes: make(folder) fills the tree."""
    digest = hashlib.sha256()
    for source in (program("said.py"), *sources):
        with open(source, "rb") as file:
            digest.update(file.read())

    def make_tree(half):
        root = os.path.join(half, fixtures.BUCKET, fixtures.PREFIX)
        os.makedirs(root)
        make(root)
    return fixtures.in_order("program-%s-%s" % (name, digest.hexdigest()[:12]), make_tree)


def made_by(name, python=paths.PYTHON):
    """The data that programs/use_NAME.py makes for itself."""
    script = program("use_%s.py" % name)

    def make(folder):
        done = proc.run([python, script, "make", folder], RUN_LIMIT_S)
        proc.expect(done.returncode == 0, "%s could not make its data" % script, proc.tail(done.stdout, done.stderr))
    return made(name, make, script)


def compare_cold_and_warm(s, twin, table, want):
    """What differs, as texts."""
    wrong = []
    for temperature in ("cold", "warm"):
        mark = s.front.mark()
        for name, argv in table.items():
            difference = twin.compare(argv, want=want[name], limit_s=RUN_LIMIT_S)
            if difference:
                wrong.append("-- %s, %s: %s\n%s" % (name, temperature, " ".join(argv)[:300], difference))
        headrace.wait_idle(twin.job)
        # A name that is not there is remembered for 2 s only.
        asked = [one for one in s.front.log(mark).gets if one.status != 404]
        if temperature == "warm" and asked:
            wrong.append("-- warm, but %d GETs: %s" % (len(asked), asked[:5]))
        if temperature == "cold" and not asked:
            wrong.append("-- cold, and no GET: nothing was read through the map")
    return wrong


def check(fixture, table, more_env=None, **settings):
    """Every command line of the table (name -> argv) on the local copy once, on the map cold and warm in each variant."""
    with private_scene(fixture) as s:
        twin = Twin(s)
        s.job.more_env.update(more_env or {}, PYTHONDONTWRITEBYTECODE="1")
        want = {name: twin.locally(argv, limit_s=RUN_LIMIT_S) for name, argv in table.items()}
        for name, done in want.items():
            proc.expect(done.returncode == 0 and done.stdout, "%s does not work on a local copy: status %d"
                        % (name, done.returncode), proc.tail(done.stdout, done.stderr))
        wrong = []
        for label, variant in VARIANTS.items():
            with headrace.Job(s.job.maps, s.front, **variant, **settings) as job:
                job.more_env = s.job.more_env
                twin.job = job
                wrong += ["%s %s" % (label, one) for one in compare_cold_and_warm(s, twin, table, want)]
                if variant is FACES and not job.status()["cache.faces"]:
                    wrong.append("%s -- no face was made" % label)
        proc.expect(not wrong, "%d differences" % len(wrong), *wrong)


def check_python(name):
    """programs/use_NAME.py, both sides of it."""
    check(made_by(name), {name: [paths.PYTHON, program("use_%s.py" % name), "data"]})


@test(NEEDS + ("torchvision",), timeout=200)
def test_program_torchvision():
    check_python("torchvision")


@test(NEEDS + ("torch",), timeout=200)
def test_program_torch():
    check_python("torch")


@test(NEEDS + ("py:numpy",), timeout=120)
def test_program_numpy():
    check_python("numpy")


@test(NEEDS + ("py:h5py",), timeout=120)
def test_program_h5py():
    check_python("h5py")


@test(NEEDS + ("PIL",), timeout=120)
def test_program_pil():
    check_python("pil")


@test(NEEDS + ("py:cv2",), timeout=120)
def test_program_cv2():
    check_python("cv2")


@test(NEEDS + ("py:soundfile",), timeout=120)
def test_program_soundfile():
    check_python("soundfile")


@test(NEEDS, timeout=120)
def test_program_archives():
    check_python("archives")


@test(NEEDS, timeout=120)
def test_program_sqlite():
    check_python("sqlite")


@test(NEEDS + ("py:lmdb",), timeout=120)
def test_program_lmdb():
    check_python("lmdb")


@test(NEEDS + ("py:pandas",), timeout=120)
def test_program_pandas():
    check_python("pandas")


@test(NEEDS + ("node",), timeout=120)
def test_program_node():
    """Also where its libuv opens and stats by io_uring: some releases do unless told, others only when told."""
    argv = ["node", program("use_node.js"), "data"]
    check(made_by("plain"), {"node": argv, "ring": ["env", "UV_USE_IO_URING=1"] + argv})


FILMS = """\
set -e
noise="testsrc2=size=480x270:rate=15:duration=6,noise=alls=20:all_seed=1"
ffmpeg -v error -f lavfi -i "$noise" -f lavfi -i sine=440:duration=6 -c:v mpeg4 -q:v 4 -c:a aac film.mp4
ffmpeg -v error -i film.mp4 -c copy film.mkv
ffmpeg -v error -i film.mp4 -c copy -movflags +faststart fast.mp4
ffmpeg -v error -i film.mp4 -vn sound.wav
"""
FFMPEG = {
    "whole": "ffmpeg -v error -i data/film.mp4 -f framemd5 -",
    "seek": "ffmpeg -v error -ss 4 -i data/film.mp4 -frames:v 3 -f framemd5 -",
    "remux": "ffmpeg -v error -i data/fast.mp4 -c copy -f md5 -",
    "matroska": "ffmpeg -v error -ss 2.5 -i data/film.mkv -t 1 -f framemd5 -",
    "sound": "ffmpeg -v error -i data/sound.wav -f md5 -",
    "stdin": "ffmpeg -v error -i - -c copy -f md5 - < data/film.mkv",
    "stdin_seeks": "ffmpeg -v error -i /dev/stdin -c copy -f md5 - < data/film.mp4",
    "probe": "ffprobe -v error -show_format -show_packets -of json data/film.mp4 | sha256sum",
}


@test(NEEDS + ("ffmpeg",), timeout=150)
def test_program_ffmpeg():
    def make(folder):
        done = proc.run(["sh", "-c", FILMS], RUN_LIMIT_S, cwd=folder)
        proc.expect(done.returncode == 0, "ffmpeg could not make its films", proc.tail(done.stderr))
        with open(os.path.join(folder, "film.mp4"), "rb") as file:
            film = file.read()
        proc.expect(film.rindex(b"moov") > film.index(b"mdat"), "the index of the film is at its end")
    check(made("ffmpeg", make, __file__), {name: bash(line) for name, line in FFMPEG.items()})


REPOSITORY = """\
set -e
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git init -q --template= work
cd work
for n in 1 2 3 4 5 6; do
    head -c $((n * 150000)) /dev/urandom > noise$n
    seq $n 3 40000 > numbers$n
    git add . && git commit -q -m "$n"
done
git -c pack.packSizeLimit=0 gc -q
head=$(git rev-parse HEAD)
cd .. && mv work/.git repository && rm -rf work
mkdir -p repository/refs/heads && echo $head > repository/refs/heads/side # a bucket keeps no empty folder
git --git-dir=repository config core.bare true
"""
GIT = {
    "log": "git --git-dir=data/repository log -p --stat | sha256sum",
    "fsck": "git --git-dir=data/repository fsck --full --no-dangling && echo good",
    "archive": "git --git-dir=data/repository archive HEAD | sha256sum",
    "clone": "git clone -q data/repository out && cd out && git log --format=%H && sha256sum noise* numbers*",
    "objects": "git --git-dir=data/repository cat-file --batch-all-objects --batch | sha256sum",
}


@test(NEEDS + ("git",), timeout=150)
def test_program_git():
    def make(folder):
        done = proc.run(["sh", "-c", REPOSITORY], RUN_LIMIT_S, cwd=folder)
        proc.expect(done.returncode == 0, "no repository", proc.tail(done.stderr))
    check(made("git", make, __file__), {name: bash(line) for name, line in GIT.items()},
          {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_OPTIONAL_LOCKS": "0"}, prefetch="off")


# Each has a file of its own, $f, so that each meets it cold: lines of text, 650 KB.
TOOLS = {
    "cat": "cat $f | sha256sum; cat < $f | sha256sum; cat $f $f > out; sha256sum < out; cat $f | head -n 1",
    "cp": "cp $f out && cmp $f out; cp --sparse=always $f out2 && cp -a $f out3 && install -m 600 $f out4; sha256sum out*",
    "tar": "tar c --owner=0 --group=0 --mtime=@0 --mode=644 $f | sha256sum; tar c $f | tar xO | sha256sum; "
           "tar tf <(tar c $f)",
    "rsync": "rsync $f out && rsync --inplace -c $f out && head -c 300000 $f > out2 && rsync --no-whole-file $f out2 && "
             "sha256sum out out2",
    "dd": "dd if=$f bs=4096 skip=77 count=5 status=none | sha256sum; dd if=$f bs=1M status=none | sha256sum; "
          "dd if=$f bs=1 skip=65530 count=12 status=none; dd bs=1000 skip=300 count=3 status=none < $f | sha256sum",
    "head_tail": "head -c 70000 $f | sha256sum; head -n 3 $f; tail -c 70000 $f | sha256sum; tail -n 3 $f; head -c -1000 $f | "
                 "sha256sum; tail -c +300000 $f | sha256sum; tail -n +9000 < $f | sha256sum; tac $f | sha256sum",
    "sort": "sort $f | sha256sum; sort -k2 -u $f | sha256sum; sort -n -r -S 100K -T . $f | sha256sum; sort -m $f $f | sha256sum; "
            "shuf --random-source=$f $f | sha256sum",
    "sums": "md5sum < $f; sha1sum $f; b2sum $f; cksum $f; sum $f; openssl dgst -sha256 $f; openssl dgst -md5 < $f",
    "gzip": "gzip -nc $f | sha256sum; gzip -nc < $f | gunzip -t && echo good; base64 $f | sha256sum",
    "xxd": "xxd -s 100000 -l 64 $f; xxd $f | sha256sum; od -A d -j 400000 -N 100 -c $f; strings -n 9 $f | sha256sum",
    "awk": "awk '{ s += $1 } END { print s, NR, FILENAME }' $f; awk 'NR % 1000 == 0' < $f; awk 'FNR == 4' $f $f",
    "perl": "perl -ne '$s += length; END { print \"$s $.\\n\" }' $f; perl -e 'open F, \"<:mmap\", $ARGV[0]; @l = <F>; "
            "print scalar @l, $l[9000]' $f; perl -e 'open F, $ARGV[0]; sysseek F, -50000, 2; sysread F, $b, 60000; "
            "print length $b, substr $b, 40000, 20; seek F, 5, 0; print scalar <F>; print -s F' $f; "
            "perl -MFile::Copy -e 'copy $ARGV[0], \"out\"; print -s \"out\"' $f",
    "sed_grep": "sed -n 100,110p $f; sed s/a/b/g $f | sha256sum; sed -n '$p' $f; grep -c a1 $f; grep -bno '9999$' $f; "
                "grep -z -c . $f; LC_ALL=C grep -F -m 3 77 < $f; fgrep -q nowhere $f; echo $?",
    "wc": "wc $f; wc -c < $f; wc -L $f; (head -c 1000 > out; wc -c) < $f; file $f; stat -c %s $f; test -s $f; echo $?",
    "cmp_diff": "cmp $f <(cat $f) && cmp -i 100 $f $f && diff $f <(sed 5000d $f); cmp $f <(tac $f) | cut -c1-5; "
                "comm -12 $f $f 2>&1 | sha256sum",
    "split": "split -n 7 $f part && sha256sum part*; rm part*; split -n l/3 $f && sha256sum x*; rm x*; split -b 200K $f && "
             "sha256sum x*; csplit -s $f 5000 && sha256sum xx*",
    "columns": "cut -d' ' -f2 $f | tr a-m A-M | sha256sum; paste $f $f | sha256sum; nl $f | tail -n 1; fold -w 20 $f | sha256sum; "
               "uniq -c -f 3 $f | sha256sum; expand $f | fmt | sha256sum; rev $f | sha256sum; join $f $f 2>&1 | sha256sum",
    "bash": "n=0; while read -r a b; do n=$((n + 1)); [ $n -lt 2000 ] || break; done < $f; echo $n $a $b; mapfile -s 9000 -n 2 l "
            "< $f; echo \"${l[@]}\"; t=$(<$f); echo ${#t}; (read -r l; echo $l; head -n 2; cat | sha256sum) < $f; exec 5< $f; "
            "read -r -u 5 l; read -r l <&5; echo $l; sha256sum <&5; (bash -c 'exec 0<&5; read -r l; echo got $l') 5< $f",
    "descriptors": "cat /dev/stdin < $f | sha256sum; sha256sum /dev/fd/5 5< $f; wc -c /proc/self/fd/0 < $f; "
                   "(head -c 100000 > out; cat /dev/stdin | wc -c) < $f; cat <(cat $f) | sha256sum",
    "git_hash": "git hash-object $f; git hash-object --stdin < $f; git --no-pager diff --no-index --stat $f data/cat | tail -n 1",
    "python": "/usr/bin/python3 -c 'import shutil, sys, zlib; shutil.copyfile(sys.argv[1], \"out\"); "
              "print(zlib.crc32(open(\"out\", \"rb\").read()), open(sys.argv[1]).readlines()[-1], len(open(sys.argv[1], "
              "buffering=1 << 20).read()))' $f; /usr/bin/python3 - < $f 2>&1 | tail -n 1",
}


@test(NEEDS + ("rsync", "git", "xxd"), timeout=240)
def test_program_tools():
    def make(folder):
        for name in TOOLS:
            with open(os.path.join(folder, name), "wb") as out:
                out.write(text(name, 12000))
    check(made("tools", make, __file__), {name: bash("f=data/%s; %s" % (name, line)) for name, line in TOOLS.items()},
          prefetch="off")


@test(NEEDS, timeout=60)
def test_program_tar_is_the_first_to_look():
    """It looks at a folder before and after it reads the names, and says "file changed as we read it"."""
    line = "tar czf out.tgz -C data . && tar tzf out.tgz | LC_ALL=C sort | sha256sum"
    check(made_by("plain"), {"tar": bash(line)})


UNPACK = {
    "unzip": "unzip -p data/deflated.zip | sha256sum; unzip -tqq data/stored.zip && unzip -Z1 data/stored.zip | sha256sum; "
             "unzip -qq data/deflated.zip -d out && find out -type f | LC_ALL=C sort | xargs cat | sha256sum",
    "gunzip": "gzip -dc data/a.gz | sha256sum; zcat data/a.gz | head -n 2; gzip -l data/a.gz | tail -n 1; gunzip < data/a.gz | wc",
    "tar": "tar xf data/plain.tar && cat m/* | sha256sum; tar tf data/gz.tar | wc -l; tar xOf data/plain.tar m/033.bin | sha256sum; "
           "tar x < data/gz.tar && cat m/* | sha256sum; tar df data/plain.tar && echo same",
}


@test(NEEDS + ("unzip",), timeout=120)
def test_program_unpack():
    check(made_by("archives"), {name: bash(line) for name, line in UNPACK.items()})


@test(NEEDS + ("rsync",), timeout=300)
def test_tools_same_output_faces():
    """Everything that test_tools compares, with the larger files read in parts."""
    with private_scene(**FACES) as s:
        twin = Twin(s)
        compare_all(twin, SHELL, bash)
        compare_all(twin, PYTHON, py)
