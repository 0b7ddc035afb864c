"""The peers of the epochs bench: mounts (FUSE), libraries in the Dataset, shards, and "copy first". One that cannot run
here is skipped with its reason."""
import contextlib
import os
import shutil
import subprocess
import time

import ground
import lab
from harness import fixtures, paths, proc, servers

PYTHON = os.path.join(paths.BUILD, "venv-peers", "bin", "python3")
LANES = 64           # of "copy first"
MOUNT_LIMIT_S = 15
TRIES = 3            # of MosaicML Streaming, whose forked workers share a connection: lab notes
LIBRARIES = (        # source of epoch.py, name, module, how the workers start
    ("boto3", "boto3 in the Dataset", "boto3", "fork"),
    ("fsspec", "fsspec s3fs in the Dataset (spawn)", "s3fs", "spawn"),      # its own documentation: no fork
    ("obstore", "obstore in the Dataset (spawn)", "obstore", "spawn"),      # its runtime does not live through fork
    ("s3torch", "s3torchconnector S3MapDataset", "s3torchconnector", "fork"),
)


def environment(cloud):
    env = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "HEADRACE_", "LD_PRELOAD"))}
    env.update({"AWS_ENDPOINT_URL": cloud.url, "S3_ENDPOINT_URL": cloud.url, "AWS_ACCESS_KEY_ID": servers.ACCESS,
                "AWS_SECRET_ACCESS_KEY": servers.SECRET, "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1",
                "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null", "HOME": proc.temp_folder()})
    return env


def reason(module):
    """'' when build/venv-peers has it."""
    if not os.access(PYTHON, os.X_OK):
        return "no build/venv-peers (scripts/peers)"
    return "" if paths.python_has(module, PYTHON) else "scripts/peers could not install it"


def fuse_reason():
    if not os.path.exists("/dev/fuse"):
        return "no /dev/fuse"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return "/dev/fuse: " + error.strerror
    return "" if shutil.which("fusermount3") or shutil.which("fusermount") else "no fusermount"


def epoch(cloud, place, *args, python=PYTHON):
    done = proc.run(lab.epoch_argv(place, *args, python=python), lab.LIMIT_S, env=environment(cloud))
    proc.expect(done.returncode == 0, "status %d" % done.returncode, proc.tail(done.stdout, done.stderr, limit=600))
    return lab.lines(done.stdout)[-1]


@contextlib.contextmanager
def mounted(argv, point, env):
    log = os.path.join(os.path.dirname(point), "mount.log")
    os.makedirs(point)
    child = proc.start(argv, log, env=env)
    try:
        deadline = time.monotonic() + MOUNT_LIMIT_S
        while not os.path.ismount(point):
            with open(log, "rb") as file:
                proc.expect(child.poll() is None and time.monotonic() < deadline, "not mounted", file.read()[-300:].decode())
            time.sleep(0.05)
        yield point
    finally:
        subprocess.run([shutil.which("fusermount3") or "fusermount", "-u", "-z", point], stdin=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        proc.stop(child)


def s3fs_argv(cloud, folder, point):
    password = os.path.join(folder, "password")
    with open(os.open(password, os.O_WRONLY | os.O_CREAT, 0o600), "w") as out:
        out.write("%s:%s\n" % (servers.ACCESS, servers.SECRET))
    return [shutil.which("s3fs"), fixtures.BUCKET, point, "-f", "-o", "url=" + cloud.url, "-o", "use_path_request_style",
            "-o", "passwd_file=" + password, "-o", "ro", "-o", "listobjectsv2"]


def rclone_argv(cloud, folder, point):
    return [paths.find_program("rclone"), "mount", remote(cloud), point, "--read-only", "--vfs-cache-mode", "full",
            "--cache-dir", os.path.join(folder, "cache"), "--config", "/dev/null", "--dir-cache-time", "1h"]


def remote(cloud, prefix=""):
    """rclone's name of the bucket without a configuration file."""
    return ":s3,provider=Other,access_key_id=%s,secret_access_key=%s,endpoint='%s',list_version=2,region=us-east-1:%s/%s" % (
        servers.ACCESS, servers.SECRET, cloud.url, fixtures.BUCKET, prefix)


def mounts(cloud, prefix, raw, run):
    for name, argv in (("s3fs mount (Debian)", s3fs_argv), ("rclone mount (full cache)", rclone_argv)):
        program = "s3fs" if argv is s3fs_argv else "rclone"
        why = fuse_reason() or ("" if paths.find_program(program) else "no " + program)
        folder = proc.temp_folder("headrace-peer-")

        def measure(argv=argv, folder=folder):
            point = os.path.join(folder, "mount")
            with mounted(argv(cloud, folder, point), point, environment(cloud)):
                return epoch(cloud, os.path.join(point, prefix), *raw, python=paths.PYTHON)
        run(name, why, measure)


def libraries(cloud, prefix, raw, run):
    url = "s3://%s/%s" % (fixtures.BUCKET, prefix)
    for source, name, module, method in LIBRARIES:
        run(name, reason(module), lambda source=source, method=method: epoch(
            cloud, url, "--source", source, "--method", method, *raw))


def shards(cloud, prefix, raw, run):
    """Its samples lie in shards, so it does not meet the latency of small objects."""
    def measure():
        for left in reversed(range(TRIES)):
            try:
                return epoch(cloud, "s3://%s/%s" % (fixtures.BUCKET, prefix), "--source", "mds", "--scratch",
                             os.path.join(proc.temp_folder(), "shards"), *raw)
            except proc.Failure:
                if not left:
                    raise
        return None
    run("MosaicML Streaming, shards written first", reason("streaming"), measure)


def copies(cloud, prefix, keys, folder):
    """(name, seconds) of each way to copy everything first with LANES lanes; the copies are compared by the epoch."""
    done, size = [], ground.tree_bytes(os.path.join(cloud.buckets, fixtures.BUCKET, prefix))
    rclone = paths.find_program("rclone")
    if rclone:
        to = os.path.join(folder, "rclone")
        ground.prepare(size)
        began = time.monotonic()
        out = proc.run([rclone, "copy", remote(cloud, prefix), to, "--transfers", str(LANES), "--checkers", str(LANES),
                        "--config", "/dev/null", "-q"], lab.LIMIT_S, env=environment(cloud))
        done.append(("rclone copy --transfers %d" % LANES, time.monotonic() - began, to))
        proc.expect(out.returncode == 0, "rclone copy", proc.tail(out.stderr))
    curl = shutil.which("curl")
    if curl:
        to = os.path.join(folder, "curl")
        listed = os.path.join(folder, "list")
        with open(listed, "w") as out:
            for key in keys:
                out.write('url = "%s/%s/%s"\noutput = "%s/%s"\n' % (cloud.url, fixtures.BUCKET, key, to,
                                                                  key[len(prefix) + 1:]))
        ground.prepare(size)
        began = time.monotonic()
        out = proc.run([curl, "--parallel", "--parallel-immediate", "--parallel-max", str(LANES), "--create-dirs", "--fail",
                        "--silent", "-K", listed], lab.LIMIT_S)
        done.append(("curl --parallel-max %d (unsigned, names known)" % LANES, time.monotonic() - began, to))
        proc.expect(out.returncode == 0, "curl", proc.tail(out.stderr))
    return done
