"""The emulated cloud of the benches: nginx alone, sending plain files with lua in front of it (cloud.lua: first byte
lognormal, 5,500 GET/s then 503, listings, MD5 ETags), so that on few cores little is spent on the server."""
import datetime
import hashlib
import os

from harness import front, paths, proc

HERE = os.path.dirname(os.path.abspath(__file__))
SIGMA = 0.25             # p99 is 1.8 times the median, as S3 shows for small objects in one region
RATE_BYTES = 90 << 20    # of one connection, a second
MOST_A_SECOND = 5500     # GETs; S3's bound of a prefix
IDLE_CLOSE_S = 5
MULTIPART_BYTES = 16 << 20  # larger objects were uploaded in parts of so much

SCRIPTS = """\
lua_shared_dict counts 1m;
  lua_package_path "%(here)s/?.lua;;";
  init_by_lua_block { cloud = require "cloud"; cloud.load("%(table)s") }
  init_worker_by_lua_block { math.randomseed(ngx.worker.pid() + ngx.now() * 1000) }"""

LOCATIONS = """\
etag off;
    location ~ ^/[^/]*/?$ {
      content_by_lua_block { cloud.wait(%(delay)s, %(sigma)s); cloud.list() }
    }
    location / {
      access_by_lua_block { cloud.wait(%(delay)s, %(sigma)s); cloud.object(%(most)d) }
      header_filter_by_lua_block { cloud.etag() }
      root %(root)s;
    }"""


def table(buckets):
    """The keys of a folder of buckets as cloud.lua wants them, made once and kept beside the folder."""
    path = buckets.rstrip("/") + ".keys"
    if os.path.exists(path) and os.path.getmtime(path) >= newest(buckets):
        return path
    rows = []
    for here, _, names in os.walk(buckets):
        for name in names:
            file = os.path.join(here, name)
            status = os.stat(file)
            time = datetime.datetime.fromtimestamp(int(status.st_mtime), datetime.timezone.utc)
            rows.append((os.fsencode(os.path.relpath(file, buckets)), status.st_size, time.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
                         etag(file, status.st_size)))
    with open(path + ".half", "wb") as out:
        for key, size, time, tag in sorted(rows):
            out.write(b"%s\t%d\t%s\t%s\n" % (key, size, time.encode(), tag.encode()))
    os.rename(path + ".half", path)
    return path


def newest(buckets):
    """The newest change of any folder: names came or went."""
    return max(os.stat(here).st_mtime for here, _, _ in os.walk(buckets))


def etag(path, size):
    """Of one PUT: the MD5; of an upload in parts: of anything, and their number."""
    if size > MULTIPART_BYTES:
        return "%s-%d" % (hashlib.md5(path.encode()).hexdigest(), -(-size // MULTIPART_BYTES))
    with open(path, "rb") as file:
        return hashlib.md5(file.read()).hexdigest()


class Cloud(front.Front):
    """`buckets` behind `delay_ms`; rate 0: connections are not paced; most 0: no 503."""

    def __init__(self, buckets, delay_ms, rate=RATE_BYTES, most=MOST_A_SECOND):
        self.buckets, self.table, self.most = buckets, table(buckets), most
        super().__init__(static=buckets, delay_ms=delay_ms, sigma=SIGMA, rate=rate, keepalive_s=IDLE_CLOSE_S)
        self.delay_s = delay_ms / 1000

    def lua(self, content, delay_ms, sigma, slow_down):
        modules = ("ndk_http_module", "ngx_http_lua_module")
        fill = {"here": HERE, "table": self.table, "root": self.buckets, "delay": "%.6f" % (delay_ms / 1000),
                "sigma": "%.3f" % sigma, "most": self.most}
        return {"load": "\n".join("load_module %s/%s.so;" % (paths.NGINX_MODULES, name) for name in modules), "workers": 2,
                "scripts": SCRIPTS % fill, "locations": LOCATIONS % fill}

    def perl(self, *_):
        raise proc.Skip("the emulated cloud needs nginx with lua")

    def pids(self):
        return [self.child.pid] + proc.descendants(self.child.pid)

    def cpu_s(self):
        """CPU seconds of the server so far."""
        return sum(cpu_s(pid) for pid in self.pids())


def cpu_s(pid):
    """CPU seconds of a living process so far."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            words = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
