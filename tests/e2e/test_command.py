"""The command: its output for people and for scripts."""
import json
import os
import re

from harness import fixtures, headrace, proc
from harness.case import test
from harness.scene import scene

NEEDS = ("nginx", "rclone")

STATUS_KEYS = ("pid", "uptime_s", "requests.get", "requests.list", "requests.head", "requests.put", "bytes.fetched",
               "bytes.wasted", "cache.hits", "cache.misses", "cache.bytes", "cache.faces", "index.objects", "index.bytes",
               "inflight", "retries", "hedges", "errors", "wait_ms")


@test(NEEDS)
def test_version_and_help():
    with scene(fixtures.mixed()) as s:
        for argv in (["version"], ["--version"]):
            done = s.job.command(*argv)
            proc.expect(done.returncode == 0 and re.match(rb"headrace \d+\.\d+\.\d+", done.stdout), "version", done.stdout)
        for argv in (["help"], ["--help"], ["help", "run"]):
            done = s.job.command(*argv)
            proc.expect(done.returncode == 0 and b"headrace" in done.stdout, "help %s" % argv, done.stdout, done.stderr)
        for word in (b"run", b"ls", b"stat", b"cat", b"status", b"stop", b"config"):
            proc.expect(word in s.job.command("help").stdout, "help does not name %s" % word.decode())


@test(NEEDS)
def test_status_json_keys_and_counts():
    with scene() as s:
        s.job.good(["bash", "-c", "cat %s/n000/img_000?0.jpg >/dev/null" % s.data])
        headrace.wait_idle(s.job)
        status, log = s.job.status(), s.front.log()
        for key in STATUS_KEYS:
            status[key]
        proc.expect_equal((status["requests.get"], status["requests.list"], status["requests.head"], status["requests.put"]),
                          (len(log.gets), len(log.lists), 0, 0), "requests by status and by the server's log")
        proc.expect_equal(status["bytes.fetched"], sum(r.bytes for r in log.good), "bytes.fetched and the server's log")
        proc.expect_equal(status["index.objects"], 400, "index.objects")
        proc.expect(s.job.command("status").stdout.count(b"\n") >= 3, "status for people")


@test(NEEDS)
def test_status_and_stop_without_a_daemon():
    with scene() as s:
        done = s.job.command("status")
        proc.expect(done.returncode != 139 and (done.stdout + done.stderr).strip(), "status says nothing")
        done = s.job.command("stop")
        proc.expect(done.returncode in (0, 1), "stop: %d" % done.returncode, proc.tail(done.stderr))


@test(NEEDS)
def test_config_shows_values_and_origins():
    """Later wins: file, environment, command line."""
    with scene() as s:
        path = os.path.join(proc.temp_folder(), "config")
        with open(path, "w") as out:
            out.write("# mine\nconnections = 11\ntimeout_s = 12\nlog_level = debug\n")
        s.job.more_env.update({"HEADRACE_CONFIG": path, "HEADRACE_TIMEOUT_S": "13"})
        text = s.job.command("config").stdout.decode()
        rows = {line.split()[0]: line for line in text.splitlines() if line.split()}
        for name, value, origin in (("connections", "11", "file"), ("timeout_s", "13", "env"),
                                    ("log_level", "debug", "file"), ("small_max", "8M", "default")):
            proc.expect(name in rows and value in rows[name], "%s is not %s: %s" % (name, value, rows.get(name)))
            proc.expect(origin in rows[name].lower() or path in rows[name] or "HEADRACE_" in rows[name],
                        "no origin %s in: %s" % (origin, rows[name]))


@test(NEEDS)
def test_ls_stat_cat():
    with scene(fixtures.mixed()) as s:
        s.job.good(["true"])
        listed = s.job.command("ls", s.data)
        proc.expect(listed.returncode == 0, "ls", proc.tail(listed.stderr))
        for name in os.listdir(s.local):
            proc.expect(os.fsencode(name) in listed.stdout, "ls lacks " + name, listed.stdout)
        deep = s.job.command("ls", "-R", s.data)
        proc.expect(b"three.txt" in deep.stdout and b"f59.dat" in deep.stdout, "ls -R", deep.stdout[-500:])
        one = s.job.command("stat", s.data + "/b/mega.bin")
        proc.expect(one.returncode == 0 and str(3 << 20).encode() in one.stdout.replace(b",", b""), "stat", one.stdout,
                    one.stderr)
        for place in (s.data + "/b/mega.bin", "s3://bkt/train/b/mega.bin"):
            cat = s.job.command("cat", place)
            with open(os.path.join(s.local, "b/mega.bin"), "rb") as file:
                proc.expect(cat.stdout == file.read(), "cat %s: %d bytes" % (place, len(cat.stdout)), proc.tail(cat.stderr))
        for argv in (["stat", s.data + "/none"], ["cat", s.data + "/none"], ["ls", s.data + "/none"]):
            done = s.job.command(*argv)
            proc.expect(done.returncode == 1 and b"none" in done.stderr, "%s: status %d" % (argv, done.returncode),
                        done.stderr)


@test(NEEDS)
def test_set_on_the_command_line():
    with scene() as s:
        cache = os.path.join(proc.temp_folder(), "other")
        env = {name: value for name, value in s.job.env().items() if name != "HEADRACE_CACHE_DIR"}
        argv = [s.job.program, "run", "--map", s.job.maps[0], "--set", "cache_dir=" + cache, "--set", "prefetch=off", "--"]
        other = headrace.Job(s.job.maps, s.front, cache=cache)
        with other:
            done = proc.run(argv + ["ls", s.data], 30, env=env)
            proc.expect(done.returncode == 0, "run --set", proc.tail(done.stderr))
            other.note_daemon()
            proc.expect(os.path.exists(os.path.join(cache, "control")), "cache_dir of --set is not used", os.listdir(cache))


@test(NEEDS)
def test_status_json_is_one_object():
    with scene() as s:
        s.job.good(["true"])
        data = json.loads(s.job.command("status", "--json").stdout)
        proc.expect(isinstance(data, dict) and data["pid"] > 0, "status --json", data)


EXTRA = (["version", "x"], ["--version", "x"], ["help", "run", "x"], ["help", "settings", "x"], ["help", "--man", "x"], ["stop", "x"],
         ["config", "x"], ["status", "x"], ["status", "--json", "x"], ["report", "x"], ["report", "--json", "x"], ["top", "x"],
         ["top", "--count", "1", "x"], ["stall", "1", "x"], ["doctor", "true", "x"], ["completion", "bash", "x"], ["attach", "x"],
         ["probe", "x"], ["daemon", "--cache-dir", "/none", "x"], ["bench", "s3://b", "s3://c"], ["index", "export", "f", "/p", "x"],
         ["index", "import", "f", "x"], ["ls", "-x"], ["du", "-x"], ["count", "-x"], ["refresh", "-x"], ["warm", "-x"], ["run", "-x"])


@test()
def test_a_word_too_many_is_an_error():
    job = headrace.Job("/data/a=s3://b/p", "http://127.0.0.1:9", timeout_s=1)
    for argv in EXTRA:
        done = job.command(*argv)
        proc.expect_equal((done.returncode, done.stdout), (2, b""), "status and output of %s" % argv)
        proc.expect(b"usage: headrace " in done.stderr or b"is no option" in done.stderr, "%s: no usage" % argv, done.stderr)


@test()
def test_names_of_no_map_are_told():
    """One line each, that says which name, and why it is nobody's."""
    here = os.path.realpath(proc.temp_folder("hr-here-"))
    job = headrace.Job("/data/a=s3://b/p", "http://127.0.0.1:9", timeout_s=1)
    bare = dict(job.env())
    for command in (["ls"], ["ls", "-R"], ["du"], ["count"], ["refresh"], ["stat"], ["cat"], ["warm"], ["warm", "--to", here + "/to"]):
        for name, want in (("", "headrace: '': an empty name"), (".", "headrace: .: %s is in no map (HEADRACE_MAP maps /data/a)" % here),
                           ("/none", "headrace: /none is in no map (HEADRACE_MAP maps /data/a)"),
                           ("x\ny\x1b[", "headrace: x\\x0ay\\x1b[: %s/x\\x0ay\\x1b[ is in no map" % here)):
            done = job.command(*command, name, cwd=here)
            lines = done.stderr.decode().splitlines()
            proc.expect(done.returncode == 1 and done.stdout == b"" and lines and lines[0].startswith(want),
                        "%s %r" % (command, name), done.returncode, lines)
    for name, want in (("/data", "headrace: /data is in no map, it lies above /data/a"),
                       ("http://b/p", "headrace: http://b/p: unknown scheme `http`"), ("s3://", "headrace: s3://: the bucket is missing")):
        done = job.command("stat", name)
        proc.expect(done.returncode == 1 and done.stderr.decode().startswith(want), name, done.stderr)
    done = job.command("ls", "/none", env=bare)
    proc.expect(b"HEADRACE_MAP is not set" in done.stderr, "without a map", done.stderr)
    job.stop()


@test()
def test_bench_names_a_store_that_does_not_answer():
    job = headrace.Job([], "http://127.0.0.1:9", timeout_s=5)
    done = job.command("bench", "s3://bucket/some", timeout=30)
    lines = done.stderr.decode().splitlines()
    proc.expect_equal((done.returncode, done.stdout, len(lines)), (1, b"", 2), "status, output, lines: %s" % lines)
    proc.expect("no answer from http://127.0.0.1:9 yet (LIST s3://bucket/some/)" in lines[0], "the first line", lines)
    proc.expect("check the endpoint" in lines[1], "the second line", lines)
    # The settings of a map count here, too.
    done = job.command("bench", "s3://bucket/some", timeout=30, env=dict(job.env(), HEADRACE_ENDPOINT="http://127.0.0.1:7", HEADRACE_TIMEOUT_S="1"))
    proc.expect(b"127.0.0.1:7" in done.stderr, "the endpoint", done.stderr)
