"""headrace as a user runs it: a private cache, `headrace run`, the bare preload, status, stop."""
import json
import os
import signal
import time

from . import paths, proc, servers

CLEAN = ("HEADRACE_", "AWS_", "LD_PRELOAD", "XDG_", "SLURM_")


class Job:
    """One environment: maps, endpoint, keys, cache. `maps` is a list of PATH=URL."""

    def __init__(self, maps, server, access=None, secret=None, cache=None, bin_dir=None, **settings):
        self.maps = [maps] if isinstance(maps, str) else list(maps)
        self.endpoint = server if isinstance(server, str) else server.url
        store = getattr(server, "server", None) or server
        self.access = access or getattr(store, "access", servers.ACCESS)
        self.secret = secret or getattr(store, "secret", servers.SECRET)
        self.cache = cache or os.path.join(proc.temp_folder("headrace-cache-"), "cache")
        self.bin_dir = bin_dir or paths.BUILD
        # Second requests for slow answers are a matter of time: tests count requests, and those for hedges ask for them.
        self.settings = dict({"hedge": "off"}, **settings)
        self.more_env = {}
        self.pids = set()
        proc.expect(os.path.exists(self.program), "no %s: build first" % self.program)

    @property
    def program(self):
        return os.path.join(self.bin_dir, "headrace")

    def env(self):
        """The environment of a user without any map: endpoint and keys only."""
        env = {name: value for name, value in os.environ.items() if not name.startswith(CLEAN)}
        env.update({"AWS_ENDPOINT_URL": self.endpoint, "AWS_ACCESS_KEY_ID": self.access,
                    "AWS_SECRET_ACCESS_KEY": self.secret, "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
                    "HEADRACE_CACHE_DIR": self.cache, "HOME": os.path.dirname(self.cache), "LC_ALL": "C.UTF-8"})
        env.update({"HEADRACE_" + name.upper(): str(value) for name, value in self.settings.items()})
        env.update(self.more_env)
        return env

    def run_argv(self, argv):
        full = [self.program, "run"]
        for one in self.maps:
            full += ["--map", one]
        return full + ["--"] + list(argv)

    def run(self, argv, timeout=120, **options):
        """`headrace run --map ... -- ARGV`, output captured."""
        done = proc.run(self.run_argv(argv), timeout, env=options.pop("env", None) or self.env(), **options)
        self.note_daemon()
        return done

    def good(self, argv, timeout=120, **options):
        """run, and status 0 is expected; stdout as bytes."""
        done = self.run(argv, timeout, **options)
        proc.expect(done.returncode == 0, "status %s of %s" % (done.returncode, argv), proc.tail(done.stdout, done.stderr),
                    self.log_tail())
        return done.stdout

    def python(self, code, *args, timeout=120, **options):
        """A Python program under headrace; its stdout as text."""
        return self.good([paths.PYTHON, "-c", code, *args], timeout, **options).decode("utf-8", "surrogateescape")

    def start(self, argv, **options):
        """Like run, in the background: a Popen."""
        options.setdefault("env", self.env())
        log = options.pop("log", os.path.join(os.path.dirname(self.cache), "job.log"))
        return proc.start(self.run_argv(argv), log, **options)

    def preload_env(self):
        """The same without the command."""
        return dict(self.env(), LD_PRELOAD=os.path.join(self.bin_dir, "libheadrace.so"),
                    HEADRACE_MAP=";".join(self.maps))

    def preload(self, argv, timeout=120, **options):
        done = proc.run(argv, timeout, env=options.pop("env", None) or self.preload_env(), **options)
        self.note_daemon()
        return done

    def command(self, *argv, timeout=60, **options):
        """Another headrace command with this job's maps in the environment."""
        env = dict(self.env(), HEADRACE_MAP=";".join(self.maps))
        return proc.run([self.program, *argv], timeout, env=options.pop("env", None) or env, **options)

    def status(self):
        done = self.command("status", "--json")
        proc.expect(done.returncode == 0, "headrace status: %d" % done.returncode, proc.tail(done.stdout, done.stderr))
        return Status(json.loads(done.stdout))

    def daemon_pid(self):
        """The living daemon's pid, 0 when there is none."""
        done = self.command("status", "--json")
        if done.returncode != 0:
            return 0
        pid = int(json.loads(done.stdout).get("pid") or 0)
        if pid:
            self.pids.add(pid)
        return pid

    def note_daemon(self):
        """Remembers who has to be gone after stop()."""
        return self.daemon_pid()

    def kill_daemon(self):
        """kill -9; returns its pid."""
        pid = self.daemon_pid()
        proc.expect(pid, "no daemon to kill")
        os.kill(pid, signal.SIGKILL)
        proc.wait_until(lambda: not proc.alive(pid), 5, "daemon %d dead" % pid)
        proc.reap(pid)
        return pid

    def stop(self, seconds=10):
        """`headrace stop`, and every daemon seen is gone."""
        done = self.command("stop")
        for pid in self.pids:
            proc.wait_until(lambda pid=pid: not proc.alive(pid), seconds, "daemon %d gone after stop (%s)"
                            % (pid, proc.tail(done.stdout, done.stderr)))
            proc.reap(pid)
        self.pids.clear()
        return done

    def log_tail(self, limit=1500):
        try:
            with open(os.path.join(self.cache, "daemon.log"), "rb") as file:
                return "daemon.log: ..." + file.read()[-limit:].decode("utf-8", "replace")
        except OSError:
            return "no daemon.log"

    def rss_anon_bytes(self):
        pid = self.daemon_pid()
        proc.expect(pid, "no daemon to measure")
        with open("/proc/%d/status" % pid) as file:
            for line in file:
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) * 1024
        raise proc.Failure("no RssAnon of %d" % pid)

    def __enter__(self):
        return self

    def __exit__(self, kind, *what):
        try:
            self.stop()
        except proc.Failure:
            if kind is None:
                raise


class Status:
    """status --json with dotted names, whether nested or flat."""

    def __init__(self, data):
        self.data = data

    def __getitem__(self, name):
        if name in self.data:
            return self.data[name]
        value = self.data
        for part in name.split("."):
            if not isinstance(value, dict) or part not in value:
                raise proc.Failure("status --json has no %s: %s" % (name, json.dumps(self.data)[:1500]))
            value = value[part]
        return value

    def __str__(self):
        return json.dumps(self.data)


def wait_idle(job, seconds=60):
    """Until nothing is in flight or queued: the sweep has ended or met its bound."""
    def rests():
        status = job.status()
        return status["inflight"] == 0 and status["plan.queued"] == 0

    def idle():
        if not rests():
            return False
        time.sleep(0.2)
        return rests()
    proc.wait_until(idle, seconds, "nothing in flight or queued")
