"""Wrong words and wrong places: one clear line, the right exit status or errno, and never a hang."""
import os

from harness import fixtures, front, headrace, paths, proc, servers
from harness.case import test
from harness.scene import scene

NEEDS = ("nginx", "rclone")

READ = ("import os, sys\n"
        "for name in sys.argv[1:]:\n"
        "    try:\n"
        "        print('read', len(open(name, 'rb').read()))\n"
        "    except OSError as e: print('open', e.errno)\n"
        "    try: print('listed', len(os.listdir(name)))\n"
        "    except OSError as e: print('list', e.errno)\n")


def lines_of(stderr):
    return [line for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]


def refused(job, words, maps=None, settings=()):
    """`headrace run` refuses: status not 0, the command does not run, one line with the words in it."""
    argv = [job.program, "run"]
    for one in maps if maps is not None else job.maps:
        argv += ["--map", one]
    for one in settings:
        argv += ["--set", one]
    marker = os.path.join(proc.temp_folder(), "ran")
    done = proc.run(argv + ["--", "touch", marker], 60, env=job.env())
    job.note_daemon()
    proc.expect(done.returncode != 0, "run was not refused (%s)" % " ".join(argv[2:]))
    proc.expect(not os.path.exists(marker), "the command ran all the same")
    lines = lines_of(done.stderr)
    proc.expect_equal(len(lines), 1, "lines of the refusal: %s" % lines)
    for word in [words] if isinstance(words, str) else words:
        proc.expect(word in lines[0], "'%s' is not in: %s" % (word, lines[0]))
    return lines[0]


@test(NEEDS)
def test_unknown_scheme():
    with scene() as s:
        refused(s.job, "ftp", ["%s=ftp://host/x" % s.data])


@test(NEEDS)
def test_missing_bucket():
    with scene() as s:
        refused(s.job, "bucket", ["%s=s3://" % s.data])
        refused(s.job, "bucket", ["%s=s3:///prefix" % s.data])


@test(NEEDS)
def test_malformed_maps_run_refuses():
    with scene() as s:
        for bad in ("%s" % s.data, "=s3://bkt/x", "/=s3://bkt/x", "%s=s3://bkt/x?nope=1" % s.data,
                    "%s=s3://bkt/x?prefetch=maybe" % s.data, "%s=s3://bkt/%%zz" % s.data, "%s/../..=s3://bkt/" % s.data):
            refused(s.job, "", [bad])
        refused(s.job, s.data, ["%s=s3://bkt/a" % s.data, "%s=s3://bkt/b" % s.data])


@test(NEEDS)
def test_malformed_maps_bare_preload_drops_them():
    """The program runs, one stderr line tells, the good map works."""
    with scene(fixtures.mixed()) as s:
        env = dict(s.job.preload_env(), HEADRACE_MAP="%s-bad=ftp://x/y;%s" % (s.data, s.job.maps[0]))
        done = s.job.preload(["cat", s.data + "/top.txt"], env=env)
        proc.expect_equal((done.returncode, done.stdout[:5]), (0, b"hello"), "cat (%s)" % proc.tail(done.stderr))
        lines = lines_of(done.stderr)
        proc.expect(len(lines) == 1 and "ftp" in lines[0], "one line that tells", lines)


@test(NEEDS)
def test_unknown_and_wrong_settings_are_refused():
    with scene() as s:
        refused(s.job, "nonsense", settings=["nonsense=1"])
        refused(s.job, "connections", settings=["connections=many"])
        refused(s.job, "cache_size", settings=["cache_size=-5"])
        s.job.more_env["HEADRACE_CONNECTIONS"] = "0"
        refused(s.job, "connections")


@test(NEEDS)
def test_usage_errors():
    with scene() as s:
        for argv in (["run"], ["run", "--map"], ["run", "--bogus", "--", "true"], ["nosuchcommand"], ["cat"]):
            done = s.job.command(*argv)
            proc.expect(done.returncode not in (0, 139, 134), "status %d of %s" % (done.returncode, argv))
            proc.expect(1 <= len(lines_of(done.stderr)) <= 3, "usage of %s" % argv, proc.tail(done.stderr))


@test(NEEDS, timeout=90)
def test_wrong_secret_is_eacces_once():
    with scene() as s:
        job = headrace.Job(s.job.maps, s.front, secret="notthesecret1")
        with job:
            names = [os.path.join(s.data, "n000", name) for name in sorted(os.listdir(s.local + "/n000"))[:20]]
            done = job.run([paths.PYTHON, "-c", READ, s.data, *names], 60)
            answers = done.stdout.decode().split("\n")
            proc.expect_equal(answers[1], "list 13", "listing the root (%s)" % proc.tail(done.stderr))
            proc.expect_equal(set(answers[2::2]), {"open 13", ""}, "errno of every open")
            lines = lines_of(done.stderr)
            proc.expect(1 <= len(lines) <= 2, "lines on stderr, not one a file", *lines[:5])
            proc.expect("403" in lines[0] or "denied" in lines[0].lower() or "SignatureDoesNotMatch" in lines[0],
                        "the line tells what happened", lines[0])
            log = s.front.log()
            proc.expect(len(log.gets) + len(log.lists) <= 25, "requests with a wrong secret", log)


@test(NEEDS, timeout=90)
def test_unreachable_endpoint_is_eio():
    with scene() as s:
        url = "http://127.0.0.1:%d" % proc.free_port()
        with headrace.Job(s.job.maps, url, timeout_s=3) as job:
            done = job.run([paths.PYTHON, "-c", READ, s.data + "/n000/img_00000.jpg"], 60)
            proc.expect_equal(done.stdout.split(b"\n")[0], b"open 5", "errno (%s)" % proc.tail(done.stderr))
            lines = lines_of(done.stderr)
            proc.expect(lines and url.rpartition("/")[2] in lines[0], "the message names the endpoint", *lines)


@test(NEEDS, timeout=90)
def test_name_that_does_not_resolve_is_eio():
    with scene() as s:
        with headrace.Job(s.job.maps, "http://headrace-none.invalid:9000", timeout_s=3) as job:
            done = job.run([paths.PYTHON, "-c", READ, s.data + "/n000/img_00000.jpg"], 60)
            proc.expect_equal(done.stdout.split(b"\n")[0], b"open 5", "errno (%s)" % proc.tail(done.stderr))
            proc.expect(b"headrace-none.invalid" in done.stderr, "the message names the endpoint", proc.tail(done.stderr))


@test(NEEDS)
def test_bucket_that_does_not_exist():
    with scene() as s:
        with headrace.Job("%s=s3://nosuchbucket/train" % s.data, s.front) as job:
            done = job.run([paths.PYTHON, "-c", READ, s.data])
            first = done.stdout.split(b"\n")
            proc.expect(first[1].startswith(b"list") and first[1] != b"list 0", "a listing of nothing came out",
                        proc.tail(done.stdout, done.stderr))
            proc.expect(b"nosuchbucket" in done.stderr, "the message names the bucket", proc.tail(done.stderr))


@test(NEEDS)
def test_each_job_is_told_what_is_wrong():
    """Also when the one before it was told the same a moment ago."""
    with scene() as s:
        with headrace.Job("%s=s3://nosuchbucket/train" % s.data, s.front) as job:
            for _ in range(2):
                for argv in (["cat", s.data + "/x"], ["ls", s.data]):
                    lines = lines_of(job.run(argv).stderr)
                    proc.expect(len(lines) == 2 and "nosuchbucket" in lines[0] and "check" in lines[0], "lines of %s" % argv, lines)


@test(NEEDS)
def test_empty_map_is_told():
    """Once for each job that reads its root, also when the listing is that of an earlier job."""
    with scene(fixtures.mixed()) as s:
        for source, words in (("bkt/nothing/here", "check bucket and prefix"), ("bkt/train/top.txt", "s3://bkt/train/top.txt/"),
                              ("bkt/train?include=*.none", "include and exclude"), ("bkt/none?list=dirs", "s3://bkt/none/")):
            with headrace.Job("%s=s3://%s" % (s.data, source), s.front, cache=s.job.cache) as job:
                for _ in range(2):
                    done = job.run(["sh", "-c", 'cd "$1" && ls -A && ls -A "$1"; cat none 2>&1', "sh", s.data])
                    lines = lines_of(done.stderr)
                    proc.expect(len(lines) == 1 and words in lines[0], "lines of " + source, lines, done.stdout, job.log_tail())
        with headrace.Job("%s=s3://bkt/train/with space" % s.data, s.front) as job:
            done = job.run(["ls", s.data, s.data + "/none"])
            proc.expect_equal((done.stdout.count(b"x y.txt"), len(lines_of(done.stderr))), (1, 1), "a map of one object")


def told_while_it_waits(child, log, words):
    """A line of the trouble comes while the program waits for the store, which is tried for an hour."""
    def text():
        with open(log) as file:
            return file.read()
    proc.wait_until(lambda: "still trying" in text(), 40, "a line")
    lines = [line for line in text().splitlines() if "still trying" in line]
    proc.expect(len(lines) == 1 and all(word in lines[0] for word in words), "what it says", lines)
    proc.expect(child.poll() is None, "the program has ended")


@test(NEEDS, timeout=90)
def test_long_trouble_is_told_while_it_lasts():
    url, log = "http://127.0.0.1:%d" % proc.free_port(), os.path.join(proc.temp_folder(), "log")
    data = os.path.join(proc.temp_folder("hr-"), "data")
    with headrace.Job("%s=s3://bkt/train" % data, url, timeout_s=3600) as job:
        child = job.start(["cat", data + "/n000/img_00000.jpg"], log=log)
        try:
            told_while_it_waits(child, log, (url, "check the endpoint", "for up to 3"))
        finally:
            proc.stop(child)


LARGE = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
print(len(os.pread(fd, 10, 0)), flush=True)
while not os.path.exists(sys.argv[2]): time.sleep(0.02)
print(os.pread(fd, 10, 18 << 20))
"""


@test(NEEDS, timeout=90)
def test_long_trouble_is_told_to_a_reader_of_a_large_object():
    folder = proc.temp_folder()
    log, cut = os.path.join(folder, "log"), os.path.join(folder, "cut")
    with scene(fixtures.mixed_large(), timeout_s=3600, prefetch="off") as s:
        child = s.job.start([paths.PYTHON, "-c", LARGE, s.data + "/b/mega.bin", cut], log=log)
        try:
            proc.wait_until(lambda: os.path.getsize(log) > 0, 30, "the first bytes")
            s.front.stop()
            open(cut, "w").close()
            told_while_it_waits(child, log, (s.front.url, "b/mega.bin", "check the endpoint"))
        finally:
            proc.stop(child)


@test(NEEDS)
def test_prefix_without_keys():
    """An empty prefix is an empty directory or ENOENT, consistently; never an invented name."""
    with scene() as s:
        with headrace.Job("%s=s3://bkt/nothing/here" % s.data, s.front) as job:
            out = job.python(READ + "print(os.path.isdir(sys.argv[1]), os.path.exists(sys.argv[1] + '/x'))\n"
                             "try: open(sys.argv[1] + '/x')\nexcept OSError as e: print(e.errno)", s.data)
            proc.expect("listed 0" in out or "list 2" in out, "an empty listing", out)
            proc.expect(out.endswith("False\n2\n"), "ENOENT below it", out)


@test(NEEDS)
def test_prefix_ends_at_a_slash():
    """s3://bkt/train/a is not s3://bkt/train/a-b nor a.c."""
    with scene(fixtures.mixed()) as s:
        with headrace.Job("%s=s3://bkt/train/a" % s.data, s.front) as job:
            proc.expect_equal(job.good(["ls", s.data]).split(), [b"deep", b"one.txt", b"two.bin"], "ls")


@test(NEEDS)
def test_cache_directory_not_writable():
    with scene() as s:
        for bad in ("/proc/headrace-cache", os.path.join(s.local, "n000", "img_00000.jpg")):
            job = headrace.Job(s.job.maps, s.front, cache=bad)
            refused(job, bad)


@test(NEEDS + ("root",))
def test_cache_directory_owned_by_somebody_else():
    with scene() as s:
        folder = os.path.join(proc.temp_folder(), "theirs")
        os.mkdir(folder, 0o700)
        os.chown(folder, 65534, 65534)
        refused(headrace.Job(s.job.maps, s.front, cache=folder), [folder, "belongs"])
        proc.expect_equal(os.listdir(folder), [], "what headrace left in it")


@test(NEEDS)
def test_cache_directory_is_a_symlink():
    with scene() as s:
        folder = proc.temp_folder()
        os.mkdir(os.path.join(folder, "real"), 0o700)
        link = os.path.join(folder, "link")
        os.symlink("real", link)
        refused(headrace.Job(s.job.maps, s.front, cache=link), [link, "symlink"])
        proc.expect_equal(os.listdir(os.path.join(folder, "real")), [], "what headrace left in it")


@test(NEEDS)
def test_cache_directory_open_to_others():
    with scene(fixtures.mixed()) as s:
        folder = os.path.join(proc.temp_folder(), "wide")
        os.mkdir(folder)
        os.chmod(folder, 0o777)
        job = headrace.Job(s.job.maps, s.front, cache=folder)
        done = job.run(["cat", s.data + "/top.txt"])
        with job:
            mode = os.stat(folder).st_mode & 0o777
            proc.expect(done.returncode != 0 or mode == 0o700, "used with mode %o" % mode, proc.tail(done.stderr))


FAKE_NFS = r"""
#include <dlfcn.h>
#include <string.h>
#include <sys/vfs.h>
#define NFS_SUPER_MAGIC 0x6969
#define FAKE(call, type, what, by_path)                            \
    int call(type at, struct what *out)                            \
    {                                                              \
        int (*real)(type, struct what *) = dlsym(RTLD_NEXT, #call); \
        int status = real(at, out);                                \
        if (status == 0 && (by_path)) out->f_type = NFS_SUPER_MAGIC; \
        return status;                                             \
    }
FAKE(statfs, const char *, statfs, strstr(at, "onnfs"))
FAKE(statfs64, const char *, statfs64, strstr(at, "onnfs"))
FAKE(fstatfs, int, statfs, 1)
FAKE(fstatfs64, int, statfs64, 1)
"""


@test(NEEDS)
def test_cache_directory_on_a_network_file_system():
    """statfs says NFS (a shim under the command): refused, and the line names the directory."""
    from harness.build import compile_c
    with scene() as s:
        shim = compile_c(FAKE_NFS, "-shared", "-fPIC", "-ldl", name="fakenfs.so")
        folder = os.path.join(proc.temp_folder(), "onnfs")
        job = headrace.Job(s.job.maps, s.front, cache=folder)
        job.more_env["LD_PRELOAD"] = shim
        refused(job, folder)


@test(NEEDS)
def test_map_over_a_non_empty_directory():
    """run refuses, unless hide=yes; the bare preload warns and the map wins."""
    with scene(fixtures.mixed()) as s:
        os.mkdir(s.data)
        with open(os.path.join(s.data, "mine"), "w") as out:
            out.write("local")
        line = refused(s.job, s.data)
        proc.expect("hide" in line, "the line names the way out", line)
        job = headrace.Job("%s=s3://bkt/train?hide=yes" % s.data, s.front, cache=s.job.cache)
        proc.expect(job.good(["cat", s.data + "/top.txt"]).startswith(b"hello"), "hide=yes")
        done = s.job.preload(["sh", "-c", "cat %s/top.txt; cat %s/mine" % (s.data, s.data)])
        proc.expect(done.stdout.startswith(b"hello") and b"local" not in done.stdout, "the map wins", done.stdout)
        warned = [line for line in lines_of(done.stderr) if "headrace" in line]
        proc.expect(any(s.data in line and "empty" in line for line in warned), "a warning", *lines_of(done.stderr))


@test(NEEDS)
def test_long_cache_directory():
    """Longer than a socket's address may be: works or is refused in one line."""
    with scene(fixtures.mixed()) as s:
        folder = os.path.join(proc.temp_folder(), *["a-rather-long-folder-name-%02d" % n for n in range(6)])
        os.makedirs(os.path.dirname(folder))
        job = headrace.Job(s.job.maps, s.front, cache=folder)
        done = job.run(["cat", s.data + "/top.txt"])
        with job:
            if done.returncode == 0:
                proc.expect(done.stdout.startswith(b"hello"), "cat", done.stdout)
            else:
                proc.expect_equal(len(lines_of(done.stderr)), 1, "lines: %s" % proc.tail(done.stderr))


@test(NEEDS)
def test_credentials_from_profile_files():
    """Keys and endpoint from ~/.aws files and AWS_PROFILE."""
    with scene(fixtures.mixed()) as s:
        home = proc.temp_folder()
        os.mkdir(os.path.join(home, ".aws"))
        with open(os.path.join(home, ".aws", "credentials"), "w") as out:
            out.write("[default]\naws_access_key_id = nobody\naws_secret_access_key = nothing\n"
                      "[trainer]\naws_access_key_id = %s\naws_secret_access_key=%s\n" % (servers.ACCESS, servers.SECRET))
        with open(os.path.join(home, ".aws", "config"), "w") as out:
            out.write("[profile trainer]\nregion = us-east-1\nendpoint_url = %s\n" % s.front.url)
        env = {name: value for name, value in s.job.env().items() if not name.startswith("AWS_")}
        env.update({"HOME": home, "AWS_PROFILE": "trainer"})
        done = s.job.run(["cat", s.data + "/top.txt"], env=env)
        proc.expect_equal((done.returncode, done.stdout[:5]), (0, b"hello"), "cat by profile (%s)" % proc.tail(done.stderr))
