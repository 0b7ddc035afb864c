"""What a map says of an object beside its bytes: key and ETag as extended attributes, and the names that libc, or a program
that watches files, asks for in its own way."""
import hashlib
import json
import os
import shutil
import subprocess

from harness import fixtures, headrace, paths, proc, servers
from harness.case import test

ATTRIBUTES = """
import json, os, sys
root = sys.argv[1]
found = {}
for here, _, names in os.walk(root):
    assert os.listxattr(here) == [], here
    for name in names:
        path = os.path.join(here, name)
        found[os.path.relpath(path, root)] = {a: os.getxattr(path, a).decode() for a in os.listxattr(path)}
print(json.dumps(found))
"""
COPY = """
import os, shutil, sys
shutil.copy2(sys.argv[1], sys.argv[2])
print(open(sys.argv[1], 'rb').read() == open(sys.argv[2], 'rb').read())
"""
NOT_LISTED = """
import errno, os, sys
path = sys.argv[1]
assert os.stat(path).st_size >= 0
for ask in (lambda: os.getxattr(path, 'user.headrace.etag'), lambda: os.getxattr(path, 'user.headrace.key')):
    try:
        ask()
    except OSError as error:
        assert error.errno == errno.ENODATA, error
    else:
        raise AssertionError('an attribute')
print(os.listxattr(path), os.path.basename(os.listdir(os.path.dirname(path))[0]) != '', len(os.listxattr(path)))
"""


class Mapped:
    """The mixed tree, a store that serves it, and a job that has it mapped."""

    def __enter__(self):
        self.folder = fixtures.mixed()
        self.local = fixtures.tree(self.folder)
        self.root = os.path.join(proc.temp_folder("hr-attributes-"), "data")
        self.store = servers.Rclone(self.folder).__enter__()
        self.job = headrace.Job("%s=s3://%s/%s" % (self.root, fixtures.BUCKET, fixtures.PREFIX), self.store).__enter__()
        return self

    def __exit__(self, *error):
        self.job.__exit__(*error)
        self.store.__exit__(*error)

    def some_file(self):
        return sorted(name for name in os.listdir(self.local) if os.path.isfile(os.path.join(self.local, name)))[0]


@test("rclone")
def test_key_and_etag_are_extended_attributes():
    with Mapped() as m:
        found = json.loads(m.job.good([paths.PYTHON, "-c", ATTRIBUTES, m.root]))
        proc.expect(len(found) > 20, "files: %d" % len(found))
        for name, attributes in found.items():
            with open(os.path.join(m.local, name), "rb") as file:
                digest = hashlib.md5(file.read()).hexdigest()
            proc.expect_equal(attributes, {"user.headrace.key": fixtures.PREFIX + "/" + name,
                                           "user.headrace.etag": digest}, name)
        proc.expect_equal(m.job.status()["requests.get"], 0, "requests for objects")


@test("rclone")
def test_attributes_of_names_that_are_not_listed_yet():
    with Mapped() as m:
        out = m.job.good([paths.PYTHON, "-c", NOT_LISTED, os.path.join(m.root, m.some_file())]).decode()
        proc.expect_equal(out, "[] True 2\n", "before and after a listing")


@test("rclone")
def test_copies_with_attributes():
    """Programs that carry attributes over ask by path or by descriptor; each makes a good copy without a word."""
    with Mapped() as m:
        name = m.some_file()
        source, target = os.path.join(m.root, name), proc.temp_folder("hr-copies-")
        proc.expect_equal(m.job.good([paths.PYTHON, "-c", COPY, source, os.path.join(target, "copy2")]), b"True\n", "copy2")
        for number, argv in enumerate((["cp", "-a"], ["cp", "-p"], ["cp", "--preserve=all"])):
            out = os.path.join(target, "cp%d" % number)
            done = m.job.run(argv + [source, out])
            proc.expect_equal((done.returncode, done.stderr), (0, b""), " ".join(argv))
            proc.expect_equal(fixtures.file_digest(out), fixtures.file_digest(os.path.join(m.local, name)), "bytes")


@test("rclone")
def test_tail_follows_by_polling():
    """tail -f of a mapped file: it ends when the process that it was told to wait for has gone, and had no complaint."""
    with Mapped() as m:
        gone = subprocess.Popen(["true"])
        gone.wait()
        name = m.some_file()
        for way in ("-f", "-F"):
            done = m.job.run(["tail", "-c", "+1", way, "-s", "0.1", "--pid=%d" % gone.pid, os.path.join(m.root, name)])
            proc.expect_equal((done.returncode, done.stderr), (0, b""), "tail " + way)
            with open(os.path.join(m.local, name), "rb") as file:
                proc.expect(done.stdout == file.read(), "tail %s: other bytes" % way)


CATALOGUE = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.catopen.restype = ctypes.c_void_p
libc.catgets.restype = ctypes.c_char_p
libc.catgets.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_char_p]
for path in sys.argv[1:]:
    opened = libc.catopen(path.encode(), 0)
    print(opened != ctypes.c_void_p(-1).value and libc.catgets(opened, 1, 2, b'none').decode())
"""
MOUNTS = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.setmntent.restype = ctypes.c_void_p
libc.getmntent.restype = ctypes.POINTER(ctypes.c_char_p)
libc.getmntent.argtypes = [ctypes.c_void_p]
stream = libc.setmntent(sys.argv[1].encode(), b'r')
while True:
    entry = libc.getmntent(stream)
    if not entry:
        break
    print(entry[0].decode(), entry[1].decode())
"""


@test(("rclone",))
def test_files_that_libc_opens_by_itself():
    folder = proc.temp_folder("hr-inside-")
    tree = os.path.join(folder, "buckets", fixtures.BUCKET, fixtures.PREFIX)
    os.makedirs(tree)
    with open(os.path.join(tree, "fstab"), "w") as out:
        out.write("/dev/one /first ext4 ro 0 0\n# a comment\n/dev/two /second xfs rw 0 0\n")
    with open(os.path.join(folder, "messages"), "w") as out:
        out.write("$set 1\n1 first\n2 second\n")
    catalogue = shutil.which("gencat") is not None
    if catalogue:
        proc.expect(proc.run(["gencat", os.path.join(tree, "words.cat"), os.path.join(folder, "messages")],
                             60).returncode == 0, "gencat")
    root = os.path.join(proc.temp_folder("hr-inside-map-"), "data")
    with servers.Rclone(os.path.join(folder, "buckets")) as store, headrace.Job(
            "%s=s3://%s/%s" % (root, fixtures.BUCKET, fixtures.PREFIX), store) as job:
        out = job.good([paths.PYTHON, "-c", MOUNTS, os.path.join(root, "fstab")]).decode()
        proc.expect_equal(out, "/dev/one /first\n/dev/two /second\n", "setmntent")
        if catalogue:
            out = job.good([paths.PYTHON, "-c", CATALOGUE, os.path.join(root, "words.cat"), os.path.join(root, "no.cat"),
                            os.path.join(root, "fstab")]).decode()
            proc.expect_equal(out.splitlines(), ["second", "False", "False"], "catopen")
