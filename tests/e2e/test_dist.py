"""`make dist` and `make install`: headrace where nothing of it was installed."""
import fcntl
import glob
import os
import shutil
import subprocess

from harness import fixtures, paths, proc
from harness.build import compile_c
from harness.case import test
from harness.kit import map_env
from harness.scene import scene

NEEDS = ("nginx", "rclone")
TOOLS = ("sh", "cat", "ls", "find", "xargs", "sort", "sha256sum", "readlink", "tail", "grep", "tar", "gzip", "mkdir")
FATAL = "#include <unistd.h>\n__attribute__((constructor)) static void bad(void){_exit(99);}\n"


def make(*argv):
    build = os.path.relpath(paths.BUILD, paths.ROOT)
    done = proc.run(["make", "-s", "B=" + build, *argv], 100, cwd=paths.ROOT)
    proc.expect(done.returncode == 0, "make %s" % " ".join(argv), proc.tail(done.stdout, done.stderr))
    return done.stdout.decode()


PACKED = (paths.HEADRACE, paths.LIBRARY, *(os.path.join(paths.ROOT, name) for name in (
    "Makefile", "LICENSE", "README.md", "scripts/dist", "scripts/man", "scripts/headrace-entrypoint", "docs/examples/Dockerfile",
    "docs/examples/pod.yaml")))


def tarball(anew=False):
    """A copy of the packed tarball, made now when it is older than what is in it; tests that run beside each other take turns."""
    with open(os.path.join(paths.BUILD, ".dist.lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = glob.glob(os.path.join(paths.BUILD, "dist", "*.tar.gz"))
        if anew or len(found) != 1 or any(os.path.getmtime(path) >= os.path.getmtime(found[0]) for path in PACKED):
            found = [os.path.join(paths.ROOT, make("dist").split()[-1])]
        proc.expect(found[0].endswith(".tar.gz") and os.path.exists(found[0]), "no tarball: " + found[0])
        return shutil.copy(found[0], proc.temp_folder("hr-tar-"))


def unpacked(folder, packed=None):
    proc.expect_equal(proc.run(["tar", "-xzf", packed or tarball(), "-C", folder], 60).returncode, 0, "tar")
    return glob.glob(folder + "/headrace-*")[0]


def libraries_of(program):
    """Files that a program needs, its loader among them."""
    text = subprocess.run(["ldd", program], stdout=subprocess.PIPE, universal_newlines=True).stdout
    return [word for word in text.split() if word.startswith("/")]


def bare_root(more=()):
    """A root directory with glibc, a few tools (`more`: others, by path) and no library of headrace's."""
    root = proc.temp_folder("hr-root-")
    for name in ("proc", "dev", "tmp", "etc", "opt", "bin", "var/tmp"):
        os.makedirs(os.path.join(root, name))
    os.chmod(root + "/tmp", 0o1777)
    extra = [path for path in libraries_of(paths.HEADRACE) if "libcurl" in path]
    proc.expect(extra, "headrace itself needs no libcurl here: the test shows nothing")
    tools = [*map(shutil.which, TOOLS), *more]
    wanted = list(tools)
    for library in ("libm.so.6", "libresolv.so.2", "libnss_files.so.2", "libnss_dns.so.2", "libpthread.so.0", "libdl.so.2",
                    "librt.so.1"):
        wanted += [paths.library(library)] if paths.library(library) else []
    for path in wanted:
        for file in [path, *(libraries_of(path) if path in tools else [])]:
            place = root + ("/bin/" + os.path.basename(file) if file in tools else file)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            if not os.path.exists(place):
                shutil.copy(os.path.realpath(file), place)
    # paths.library resolves links: sonames as the loader asks for them.
    for name in ("libm.so.6", "libresolv.so.2", "libnss_files.so.2", "libnss_dns.so.2", "libpthread.so.0", "libdl.so.2",
                 "librt.so.1"):
        real = paths.library(name)
        if real and os.path.basename(real) != name:
            shutil.copy(real, root + os.path.join(os.path.dirname(real), name))
    return root


def in_root(root, script):
    """argv that runs a shell script with `root` as its root directory, a /proc and the machine's /dev."""
    enter = 'mount --rbind /dev "$1/dev" && mount -t proc proc "$1/proc" && exec chroot "$1" /bin/sh -c "$2"'
    return [*paths.NAMESPACES, "sh", "-c", enter, "sh", root, script]


@test((*NEEDS, "namespaces"), timeout=120)
def test_dist_first_minutes_in_a_bare_root():
    """Unpack, name the map, run: every file of the epoch has the digest of its original."""
    with scene(fixtures.mixed()) as s:
        root = bare_root()
        shutil.copy(tarball(), root + "/opt/headrace.tar.gz")
        script = ("export PATH=/bin && mkdir /opt/headrace && tar -xzf /opt/headrace.tar.gz -C /opt/headrace --strip-components=1 && "
                  "export HEADRACE_MAP='/data=s3://bkt/train' && "
                  "/opt/headrace/headrace-entrypoint sh -c 'cd /data && find . -type f -print0 | xargs -0 sha256sum'")
        env = dict(s.job.env(), HEADRACE_REQUIRED="on", HOME="/tmp")
        del env["HEADRACE_CACHE_DIR"]
        proc.expect(not glob.glob(root + "/**/libcurl*", recursive=True), "a libcurl in the bare root")
        done = proc.run(in_root(root, script), 60, env=env)
        proc.expect_equal(done.returncode, 0, proc.tail(done.stdout, done.stderr))
        have = {}
        for line in done.stdout.decode().splitlines():
            digest, _, name = line.lstrip("\\").partition("  ./")
            have[name] = digest
        proc.expect_equal(have, fixtures.tree_digests(s.local), "digests")


TRAIN = """
import hashlib, multiprocessing, os, random, sys

def look(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest(), os.path.relpath(path, sys.argv[2])

if __name__ == "__main__":
    paths = sorted(os.path.join(here, name) for here, _, names in os.walk(sys.argv[2]) for name in names)
    for epoch in range(2):
        random.Random(epoch).shuffle(paths)
        with multiprocessing.Pool(4) as pool:
            for digest, name in pool.imap(look, paths):
                print(digest, name)
"""
# $1: the root. What the machine has of Debian is there, read-only, without the libraries that headrace would need of it.
DEBIAN = """
set -e
root=$1
for folder in usr bin sbin lib lib64; do
    if [ -L /$folder ]; then ln -sfn "$(readlink /$folder)" "$root/$folder"
    elif [ -d /$folder ]; then mkdir -p "$root/$folder"; mount --rbind /$folder "$root/$folder"; fi
done
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount --bind /etc/alternatives "$root/etc/alternatives"
shift
for library in $HIDDEN; do mount --bind "$root/opt/nothing" "$root/$library"; done
exec chroot "$root" /bin/sh -c "$1"
"""


def debian_root():
    """A root directory to be mounted over by DEBIAN, and the environment for that: libraries of ours that are hidden in it."""
    root = proc.temp_folder("hr-debian-")
    for name in ("proc", "dev", "tmp", "etc/alternatives", "opt", "app", "var/tmp", "root", "cache"):
        os.makedirs(os.path.join(root, name))
    os.chmod(root + "/tmp", 0o1777)
    with open(root + "/opt/nothing", "w"), open(root + "/etc/passwd", "w") as out:
        out.write("root:x:0:0:root:/root:/bin/sh\n")
    hidden = {os.path.realpath(path) for path in libraries_of(paths.HEADRACE)
              if any(word in path for word in ("libcurl", "libjansson", "libunwind"))}
    proc.expect(len(hidden) >= 3, "headrace itself needs none of them here: the test shows nothing")
    return root, {"HIDDEN": " ".join(sorted(hidden))}


def in_debian(s, root, more, script):
    env = dict(s.job.env(), HOME="/root", PATH="/usr/bin:/bin:/usr/sbin:/sbin", **more)
    for name in ("HEADRACE_CACHE_DIR", "TMPDIR"):
        env.pop(name, None)
    return proc.run([*paths.NAMESPACES, "sh", "-c", DEBIAN, "sh", root, script], 60, env=env)


def digests_of(done):
    proc.expect_equal(done.returncode, 0, proc.tail(done.stdout, done.stderr))
    return [tuple(line.split(" ", 1)) for line in done.stdout.decode("utf-8", "surrogateescape").splitlines()]


@test((*NEEDS, "namespaces"), timeout=120)
def test_dist_first_minutes_with_three_commands():
    """Debian with Python and none of headrace's libraries: tar, export, run; two epochs with four workers have the digests
    of the originals."""
    with scene(fixtures.mixed()) as s:
        root, more = debian_root()
        packed = tarball()
        shutil.copy(packed, root + "/opt/headrace.tar.gz")
        shutil.copy(paths.HEADRACE, root + "/opt/headrace-without-its-libraries")
        with open(root + "/app/train.py", "w") as out:
            out.write(TRAIN)
        bare = in_debian(s, root, more, "/opt/headrace-without-its-libraries version")
        proc.expect(bare.returncode != 0, "a libcurl in this root: the test shows nothing")
        folder = os.path.basename(packed)[:-len(".tar.gz")]
        script = ("cd /app && tar -xzf /opt/headrace.tar.gz\n"
                  "export HEADRACE_MAP='/data=s3://bkt/train'\n"
                  "%s/headrace run -- python3 train.py --data /data\n" % folder)
        have = digests_of(in_debian(s, root, more, "set -e\n" + script))
        proc.expect_equal(len(have), 2 * len(set(have)), "two epochs")
        proc.expect_equal({name: digest for digest, name in have}, fixtures.tree_digests(s.local), "digests")


@test(NEEDS, timeout=120)
def test_dist_under_a_hostile_library_path():
    """Libraries of the same names that end whoever loads them lie first in LD_LIBRARY_PATH."""
    with scene(fixtures.mixed()) as s:
        folder, hostile = unpacked(proc.temp_folder("hr-dist-")), proc.temp_folder("hr-bad-")
        bad = compile_c(FATAL, "-shared", "-fPIC", name="bad.so")
        for library in os.listdir(folder + "/lib"):
            if ".so" in library:
                shutil.copy(bad, os.path.join(hostile, library))
        env = map_env(s.job, LD_LIBRARY_PATH=hostile)
        done = proc.run([paths.HEADRACE, "version"], 20, env=env)
        # 99: their constructors ran; 127: the loader misses a name in them before that.
        proc.expect(done.returncode in (99, 127), "the build's own headrace is not disturbed: the test shows nothing",
                    done.returncode, proc.tail(done.stderr))
        for argv in ([folder + "/headrace", "version"], [folder + "/headrace-entrypoint", "cat", s.data + "/top.txt"]):
            done = proc.run(argv, 30, env=env)
            proc.expect(done.returncode == 0 and b"head" in done.stdout, "%s: %d" % (argv, done.returncode),
                        proc.tail(done.stdout, done.stderr))
        proc.expect_equal(done.stderr, b"", "messages of the entrypoint")
        s.job.stop()
        env["LD_PRELOAD"] = folder + "/libheadrace.so"
        done = proc.run(["/bin/cat", s.data + "/top.txt"], 30, env=env)
        proc.expect_equal((done.returncode, done.stdout[:14]), (0, b"hello headrace"), "bare preload: "
                          + proc.tail(done.stderr))
        s.job.note_daemon()


@test(timeout=120)
def test_dist_is_complete_and_says_what_it_needs():
    first, folder = tarball(anew=True), proc.temp_folder("hr-dist-")
    folder = unpacked(folder, first)
    for name in ("LICENSE", "README.md", "VERSION", "headrace", "libheadrace.so", "headrace-entrypoint",
                 "examples/Dockerfile", "lib/ca-certificates.crt"):
        proc.expect(os.path.getsize(os.path.join(folder, name)) > 0, name + " is empty")
    with open(folder + "/VERSION") as file:
        text = file.read()
    needs = [line for line in text.splitlines() if line.startswith("libheadrace.so: glibc ")]
    proc.expect(len(needs) == 1, "VERSION does not tell the object's glibc", text)
    version = tuple(map(int, needs[0].split()[2].split(".")))
    proc.expect(version <= (2, 31), "the object needs glibc %s" % (version,))
    proc.expect("headrace and lib: glibc 2." in text, "VERSION does not tell the daemon's glibc", text)
    proc.expect_equal(fixtures.file_digest(tarball(anew=True)), fixtures.file_digest(first), "two tarballs of one build")


@test(NEEDS, timeout=120)
def test_install_and_uninstall():
    with scene(fixtures.mixed()) as s:
        prefix = proc.temp_folder("hr-prefix-")
        make("install", "PREFIX=" + prefix)
        found = sorted(os.path.relpath(os.path.join(here, name), prefix)
                       for here, _, names in os.walk(prefix) for name in names)
        proc.expect_equal(found, ["bin/headrace", "bin/headrace-entrypoint", "lib/headrace/headrace",
                                  "lib/headrace/headrace-entrypoint", "lib/headrace/libheadrace.so",
                                  "share/bash-completion/completions/headrace", "share/man/man1/headrace.1",
                                  "share/zsh/site-functions/_headrace"], "installed")
        env = map_env(s.job, PATH=prefix + "/bin:" + os.environ["PATH"])
        done = proc.run(["headrace-entrypoint", "cat", s.data + "/top.txt"], 30, env=env)
        s.job.note_daemon()
        proc.expect_equal((done.returncode, done.stdout[:5]), (0, b"hello"), proc.tail(done.stderr))
        make("uninstall", "PREFIX=" + prefix)
        left = [name for _, _, names in os.walk(prefix) for name in names]
        proc.expect_equal(left, [], "left after uninstall")
        proc.expect(not os.path.isdir(prefix + "/lib/headrace"), "an empty folder is left")
