"""The real S3 servers: rclone, SeaweedFS, versitygw. Each starts on a free loopback port and is stopped by pid."""
import os
import time

from . import paths, proc, s3

ACCESS, SECRET = "testkey", "testsecret123"


class Server(proc.Served):
    """A running S3 server. port, access, secret; `folder` is its private place."""
    program = ""
    attempts = 3  # a free port can be taken between the asking and the listening

    def __init__(self, access=ACCESS, secret=SECRET):
        self.access, self.secret = access, secret
        self.folder = proc.temp_folder("headrace-%s-" % type(self).__name__.lower())
        self.binary = paths.find_program(self.program)
        if not self.binary:
            raise proc.Skip("no program %s" % self.program)
        self.log = os.path.join(self.folder, "log")

    def launch(self):
        for attempt in range(self.attempts):
            self.port = proc.free_port()
            argv, extra = self.command()
            self.child = proc.start(argv, self.log, env=dict(os.environ, **extra), cwd=self.folder)
            try:
                proc.wait_port(self.port, self.child)
                return self
            except proc.Failure:
                self.stop()
                if attempt == self.attempts - 1:
                    raise

    def command(self):
        raise NotImplementedError

    def client(self):
        return s3.Client(self.port, self.access, self.secret)


class Rclone(Server):
    """Serves a folder of buckets as it lies on disk; nothing is uploaded."""
    program = "rclone"

    def __init__(self, buckets, access=ACCESS, secret=SECRET):
        super().__init__(access, secret)
        self.buckets = buckets
        self.launch()

    def command(self):
        return [self.binary, "serve", "s3", "--addr", "127.0.0.1:%d" % self.port, "--config", "/dev/null", "--cache-dir",
                os.path.join(self.folder, "cache"), "--auth-key", "%s,%s" % (self.access, self.secret),
                "--vfs-cache-mode", "off", "--dir-cache-time", "1s", self.buckets], {}


class SeaweedFS(Server):
    """weed mini; list order is not bytewise, 10,000 keys a page."""
    program = "weed"

    def __init__(self, buckets=None, bucket="bkt", access=ACCESS, secret=SECRET):
        super().__init__(access, secret)
        self.bucket = bucket
        self.launch()
        self.wait_ready()
        if buckets:
            s3.upload(buckets, bucket, self.port, access, secret)

    def command(self):
        data = os.path.join(self.folder, "data")
        os.makedirs(data, exist_ok=True)
        inner = []  # its gRPC ports would default to port + 10000, beyond 65535 for many a free port
        for name in ("master.port", "filer.port", "volume.port", "admin.port"):
            inner += ["-%s=%d" % (name, proc.free_port()), "-%s.grpc=%d" % (name, proc.free_port())]
        return [self.binary, "mini", "-dir=" + data, "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
                "-s3.port=%d" % self.port, "-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false", "-admin.ui=false",
                "-master.telemetry=false", "-bucket=" + self.bucket,
                "-s3.port.grpc=%d" % proc.free_port()] + inner, {
                    "AWS_ACCESS_KEY_ID": self.access, "AWS_SECRET_ACCESS_KEY": self.secret}

    def wait_ready(self):
        """The port listens before buckets can be written."""
        deadline = time.monotonic() + 40
        while True:
            status, _, data = self.client().request("PUT", self.bucket, ".ready", body=b"x")
            if status == 200:
                self.client().request("DELETE", self.bucket, ".ready")
                return
            if time.monotonic() > deadline:
                raise proc.Failure("SeaweedFS answers %d: %r" % (status, data[:200]))
            time.sleep(0.2)


class Versitygw(Server):
    """Strict signatures and If-Match; ignores encoding-type."""
    program = "versitygw"

    def __init__(self, buckets=None, bucket="bkt", access=ACCESS, secret=SECRET):
        super().__init__(access, secret)
        self.launch()
        if buckets:
            s3.upload(buckets, bucket, self.port, access, secret)

    def command(self):
        data = os.path.join(self.folder, "data")
        os.makedirs(data, exist_ok=True)
        return [self.binary, "--port", "127.0.0.1:%d" % self.port, "--region", s3.REGION, "--keep-alive", "--quiet",
                "posix", data], {"ROOT_ACCESS_KEY": self.access, "ROOT_SECRET_KEY": self.secret}
