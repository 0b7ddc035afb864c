"""The emulated cloud: nginx with lua (Ubuntu 22.04 has no such module: with perl) in front of a server or of a plain
folder, and what its access log says."""
import collections
import os
import time
import urllib.parse

from . import paths, proc

CONFIG = """\
daemon off;
%(user)sworker_processes %(workers)d;
worker_rlimit_nofile 8192;
pid %(folder)s/nginx.pid;
error_log %(folder)s/error.log warn;
%(load)s
events { worker_connections 4096; }
http {
  log_format hr '$request_method $status $body_bytes_sent $msec $request_time $connection $request_uri $http_range';
  access_log %(folder)s/access.log hr;
  client_body_temp_path %(folder)s/body; proxy_temp_path %(folder)s/proxy; fastcgi_temp_path %(folder)s/fastcgi;
  uwsgi_temp_path %(folder)s/uwsgi; scgi_temp_path %(folder)s/scgi;
  default_type application/octet-stream;
  client_max_body_size 0; sendfile on; tcp_nodelay on; server_tokens off;
  keepalive_timeout %(keepalive_s)ss; keepalive_requests 100000;
  proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
  proxy_buffering on; proxy_buffers 16 16k; proxy_max_temp_file_size 0; proxy_next_upstream off;
  proxy_read_timeout 60s;
  %(scripts)s
  %(upstream)s
  server {
    listen 127.0.0.1:%(port)d backlog=4096;
    %(rate)s
    %(locations)s
  }
}
"""

LUA_SCRIPTS = """\
lua_shared_dict counts 1m;
  init_worker_by_lua_block { math.randomseed(ngx.worker.pid() + ngx.now() * 1000) }"""

LUA_LOCATIONS = """\
location / {
      access_by_lua_block {
        %(wait)s
        %(busy)s
      }
      %(content)s
    }"""

SLOW_DOWN = """\
        local n = ngx.shared.counts:incr("n", 1, 0)
        if n %% %d == 0 then
          ngx.status = 503
          ngx.header["Content-Type"] = "application/xml"
          ngx.say('<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code>'
            .. '<Message>Please reduce your request rate.</Message></Error>')
          return ngx.exit(503)
        end"""

LOGNORMAL = """\
        local z = math.sqrt(-2 * math.log(1 - math.random())) * math.cos(2 * math.pi * math.random())
        ngx.sleep(%.6f * math.exp(%.3f * z))"""

PERL_LOCATIONS = """\
location / { perl wait::handler; }
    location @store { %(content)s }"""

# One worker there: it counts by itself, and sleeping costs it nothing.
PERL = """\
package wait;
use nginx;
my ($median_ms, $sigma, $slow_down, $count) = (%(delay_ms)f, %(sigma)f, %(slow_down)d, 0);
sub handler {
    my $r = shift;
    my $z = sqrt(-2 * log(1 - rand())) * cos(6.283185307 * rand());
    my $ms = $sigma ? $median_ms * exp($sigma * $z) : $median_ms;
    return go($r) if $ms < 1;
    $r->sleep($ms, \\&go);
    return OK;
}
sub go {
    my $r = shift;
    if ($slow_down && ++$count %% $slow_down == 0) {
        $r->status(503);
        $r->send_http_header("application/xml");
        $r->print('<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code>'
            . '<Message>Please reduce your request rate.</Message></Error>') unless $r->header_only;
        return OK;
    }
    $r->internal_redirect('@store');
    return OK;
}
1;
"""

Request = collections.namedtuple("Request", "method status bytes start end connection path query range")


class Front(proc.Served):
    """nginx before `server` (proxied with Host and URI untouched) or over the folder `static`.

    delay_ms: first byte; sigma > 0 makes it lognormal with that median. slow_down: every n-th request is a 503 SlowDown.
    rate: bytes/s of one connection. keepalive_s: idle connections are closed after it."""

    def __init__(self, server=None, static=None, delay_ms=0, sigma=0.0, slow_down=0, rate=0, keepalive_s=5):
        self.folder = proc.temp_folder("headrace-front-")
        self.access_log = os.path.join(self.folder, "access.log")
        self.server = server
        upstream = ""
        if server is not None:
            upstream = "upstream store { server 127.0.0.1:%d; keepalive 256; }" % server.port
            content = "proxy_pass http://store;"
        else:
            content = "root %s;" % static
        script = self.lua if paths.has_nginx_module("lua") else self.perl
        parts = script(content, delay_ms, sigma, slow_down)
        pace = "limit_rate %d; sendfile_max_chunk %d;" % (rate, max(4096, rate // 250)) if rate else ""
        for attempt in range(3):
            self.port = proc.free_port()
            text = CONFIG % {
                "user": "user root;\n" if os.geteuid() == 0 else "", "folder": self.folder,
                "keepalive_s": keepalive_s, "upstream": upstream, "port": self.port, "rate": pace, **parts}
            config = os.path.join(self.folder, "nginx.conf")
            with open(config, "w") as out:
                out.write(text)
            self.child = proc.start([paths.find_program("nginx") or "nginx", "-p", self.folder, "-c", config],
                                    os.path.join(self.folder, "log"))
            try:
                proc.wait_port(self.port, self.child)
                break
            except proc.Failure:
                self.stop()
                if attempt == 2:
                    raise

    def lua(self, content, delay_ms, sigma, slow_down):
        wait = ""
        if delay_ms:
            wait = LOGNORMAL % (delay_ms / 1000, sigma) if sigma else "ngx.sleep(%.6f)" % (delay_ms / 1000)
        busy = SLOW_DOWN % slow_down if slow_down else ""
        modules = ("ndk_http_module", "ngx_http_lua_module")
        return {"load": "\n".join("load_module %s/%s.so;" % (paths.NGINX_MODULES, name) for name in modules), "workers": 2,
                "scripts": LUA_SCRIPTS, "locations": LUA_LOCATIONS % {"wait": wait, "busy": busy, "content": content}}

    def perl(self, content, delay_ms, sigma, slow_down):
        with open(os.path.join(self.folder, "wait.pm"), "w") as out:
            out.write(PERL % {"delay_ms": delay_ms, "sigma": sigma, "slow_down": slow_down})
        return {"load": "load_module %s/ngx_http_perl_module.so;" % paths.NGINX_MODULES, "workers": 1,
                "scripts": "perl_modules %s; perl_require wait.pm;" % self.folder,
                "locations": PERL_LOCATIONS % {"content": content}}

    def mark(self):
        """A place in the log: what comes after it is one measurement."""
        self.settle()
        return os.path.getsize(self.access_log)

    def rests(self):
        """All its processes wait for events: what they have sent is in the log."""
        return all(proc.state(pid) not in "RD" for pid in [self.child.pid] + proc.descendants(self.child.pid))

    def settle(self, quiet_s=0.15, limit_s=30):
        """nginx logs a request after its last byte is out: wait until it rests and the log is quiet."""
        size, since, deadline = -1, time.monotonic(), time.monotonic() + limit_s
        while time.monotonic() < deadline:
            now = os.path.getsize(self.access_log)
            if now != size or not self.rests():
                size, since = now, time.monotonic()
            elif time.monotonic() - since >= quiet_s:
                return
            time.sleep(0.02)

    def log(self, since=0):
        """The requests logged after the mark."""
        self.settle()
        with open(self.access_log, "rb") as file:
            file.seek(since)
            lines = file.read().decode("utf-8", "surrogateescape").splitlines()
        return Log([parse(line) for line in lines if line.count(" ") >= 7])


def parse(line):
    method, status, size, end, seconds, connection, uri, span = line.split(" ", 7)
    path, _, query = uri.partition("?")
    return Request(method, int(status), int(size), float(end) - float(seconds), float(end), int(connection),
                   urllib.parse.unquote(path), query, span)


class Log:
    """Requests of one measurement, counted."""

    def __init__(self, requests):
        self.requests = requests
        self.gets = [r for r in requests if r.method == "GET" and not self.is_list(r)]
        self.lists = [r for r in requests if r.method == "GET" and self.is_list(r)]
        self.heads = [r for r in requests if r.method == "HEAD"]
        self.good = [r for r in self.gets if r.status in (200, 206)]

    @staticmethod
    def is_list(request):
        return "list-type=" in request.query

    def keys(self):
        """path -> how many GETs of the whole object succeeded."""
        return collections.Counter(r.path for r in self.good)

    def in_flight(self):
        """The most GETs that were open at the same moment."""
        steps = sorted([(r.start, 1) for r in self.gets] + [(r.end, -1) for r in self.gets],
                       key=lambda step: (step[0], step[1]))
        now = most = 0
        for _, step in steps:
            now += step
            most = max(most, now)
        return most

    def __str__(self):
        codes = collections.Counter((r.method, r.status) for r in self.requests)
        return "GET %d LIST %d HEAD %d in flight %d: %s" % (
            len(self.gets), len(self.lists), len(self.heads), self.in_flight(), dict(codes))
