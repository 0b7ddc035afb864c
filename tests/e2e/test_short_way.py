"""The short way of open and stat answers what the long one does, which an odd spelling of the same path takes: with
every setting that says what is there."""
from harness import fixtures, headrace, paths, proc
from harness.case import test
from harness.scene import scene

NEEDS = ("nginx", "rclone")

CODE = r"""
import errno, hashlib, os, sys
top, names = sys.argv[1], sys.argv[2:]
def told(call):
    try: return call()
    except OSError as e: return errno.errorcode[e.errno]
def facts(path):
    st = os.stat(path)
    return st.st_mode, st.st_size, st.st_mtime_ns, st.st_ino, st.st_dev, st.st_blocks, st.st_uid, st.st_nlink
def opened(path, flags):
    fd = os.open(path, flags)
    try:
        st = os.fstat(fd)
        text = b'' if flags & os.O_PATH or not os.path.isfile(path) else os.read(fd, 1 << 20)
        return st.st_mode, st.st_size, st.st_mtime_ns, st.st_ino, hashlib.md5(text).hexdigest()
    finally: os.close(fd)
kinds = (os.O_RDONLY, os.O_RDONLY | os.O_NONBLOCK | os.O_NOATIME, os.O_RDONLY | os.O_DIRECTORY, os.O_RDONLY | os.O_CREAT,
         os.O_RDONLY | os.O_CREAT | os.O_EXCL, os.O_WRONLY, os.O_RDONLY | os.O_TRUNC, os.O_PATH, os.O_RDONLY | os.O_NOFOLLOW)
wrong = right = 0
if 'list' in os.environ.get('FIRST', ''):
    told(lambda: os.listdir(top))
for lap in range(2):
    for name in names:
        for what in [facts] + [lambda p, f=flags: opened(p, f) for flags in kinds]:
            short, long = told(lambda: what(top + '/' + name)), told(lambda: what(top + '/./' + name))
            right += short == long
            if short != long:
                wrong += 1
                print(lap, name[:20], short, long)
print(right, wrong)
"""

NAMES = ("top.txt", "top.txt/", "top.txt/x", "a", "a/", "a/one.txt", "a/one.txt/x", "a/deep", "b/mega.bin", "none", "none/", "none/x",
         "a/none", "n" * 255, "n" * 256, "a/" + "n" * 256, "top.txt/" + "n" * 256, "", "a/" + "/".join(["n" * 200] * 6))


@test(NEEDS)
def test_both_ways_answer_the_same_with_every_setting():
    with scene(fixtures.mixed()) as s:
        source = "%s=s3://%s/%s" % (s.data, fixtures.BUCKET, fixtures.PREFIX)
        for options, first in (("", "list"), ("?list=dirs", "list"), ("?list=none", ""), ("?include=a/**", "list"),
                               ("?exclude=a/one.txt", ""), ("?changed=follow", "list"), ("?symlinks=follow", "list"),
                               ("?revalidate=0", "list"), ("/a\n%s/a/deep=s3://%s/%s/b" % (s.data, fixtures.BUCKET, fixtures.PREFIX), "list")):
            with headrace.Job(source + options, s.front) as job:
                said = job.good(["env", "FIRST=" + first, paths.PYTHON, "-c", CODE, s.data] + list(NAMES)).decode().splitlines()
                proc.expect_equal(said, ["%d 0" % (2 * len(NAMES) * 10)], "%s %s: alike, not alike" % (options, first))
