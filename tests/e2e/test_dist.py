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


def tarball():
    """A copy of the packed tarball, made now; tests that run beside each other take turns."""
    with open(os.path.join(paths.BUILD, ".dist.lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = os.path.join(paths.ROOT, make("dist").split()[-1])
        proc.expect(path.endswith(".tar.gz") and os.path.exists(path), "no tarball: " + path)
        return shutil.copy(path, proc.temp_folder("hr-tar-"))


def unpacked(folder, packed=None):
    proc.expect_equal(proc.run(["tar", "-xzf", packed or tarball(), "-C", folder], 60).returncode, 0, "tar")
    return glob.glob(folder + "/headrace-*")[0]


def libraries_of(program):
    """Files that a program needs, its loader among them."""
    text = subprocess.run(["ldd", program], stdout=subprocess.PIPE, universal_newlines=True).stdout
    return [word for word in text.split() if word.startswith("/")]


def bare_root():
    """A root directory with glibc, a few tools and no library of headrace's."""
    root = proc.temp_folder("hr-root-")
    for name in ("proc", "dev", "tmp", "etc", "opt", "bin", "var/tmp"):
        os.makedirs(os.path.join(root, name))
    os.chmod(root + "/tmp", 0o1777)
    extra = [path for path in libraries_of(paths.HEADRACE) if "libcurl" in path]
    proc.expect(extra, "headrace itself needs no libcurl here: the test shows nothing")
    wanted = [shutil.which(name) for name in TOOLS]
    for library in ("libm.so.6", "libresolv.so.2", "libnss_files.so.2", "libnss_dns.so.2", "libpthread.so.0", "libdl.so.2",
                    "librt.so.1"):
        wanted += [paths.library(library)] if paths.library(library) else []
    for path in wanted:
        for file in [path, *(libraries_of(path) if path in map(shutil.which, TOOLS) else [])]:
            place = root + ("/bin/" + os.path.basename(file) if file == shutil.which(os.path.basename(file)) else file)
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
        proc.expect_equal(done.returncode, 99, "the build's own headrace is not disturbed: the test shows nothing")
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
    first, folder = tarball(), proc.temp_folder("hr-dist-")
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
    proc.expect_equal(fixtures.file_digest(tarball()), fixtures.file_digest(first), "two tarballs of one build")


@test(NEEDS, timeout=120)
def test_install_and_uninstall():
    with scene(fixtures.mixed()) as s:
        prefix = proc.temp_folder("hr-prefix-")
        make("install", "PREFIX=" + prefix)
        found = sorted(os.path.relpath(os.path.join(here, name), prefix)
                       for here, _, names in os.walk(prefix) for name in names)
        proc.expect_equal(found, ["bin/headrace", "bin/headrace-entrypoint", "lib/headrace/headrace",
                                  "lib/headrace/headrace-entrypoint", "lib/headrace/libheadrace.so"], "installed")
        env = map_env(s.job, PATH=prefix + "/bin:" + os.environ["PATH"])
        done = proc.run(["headrace-entrypoint", "cat", s.data + "/top.txt"], 30, env=env)
        s.job.note_daemon()
        proc.expect_equal((done.returncode, done.stdout[:5]), (0, b"hello"), proc.tail(done.stderr))
        make("uninstall", "PREFIX=" + prefix)
        left = [name for _, _, names in os.walk(prefix) for name in names]
        proc.expect_equal(left, [], "left after uninstall")
        proc.expect(not os.path.isdir(prefix + "/lib/headrace"), "an empty folder is left")
