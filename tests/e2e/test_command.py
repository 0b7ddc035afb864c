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
