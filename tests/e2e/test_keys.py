"""Keys with any byte S3 allows, and keys that cannot be a path: one written rule each (docs/design.md), never a crash,
never a silent loss."""
import os

from harness import headrace, proc
from harness.faults import DictStore

WALK = ("import os, sys\n"
        "for d, dirs, files in os.walk(os.fsencode(sys.argv[1])):\n"
        "    for n in files: print(os.path.relpath(os.path.join(d, n), os.fsencode(sys.argv[1])))\n")


def with_keys(objects, check, **settings):
    with DictStore(objects) as store:
        data = os.path.join(proc.temp_folder(), "data")
        with headrace.Job("%s=s3://bkt/p" % data, store, **settings) as job:
            check(job, data)


def test_keys_with_odd_bytes():
    """Everything that a file name may hold comes back as it is, readable."""
    names = ["space in name", "plus+sign", "per%cent", "%41", "amp&lt<gt>", "quote'\"", "q?mark#hash", "semi;colon=eq",
             "tab\there", "new\nline", "ctl\x01\x1f", "del\x7f", "back\\slash", "ünï/日本語", "emoji😀", "-dash", ".hidden",
             "..dots", "a:b|c*", "{curly}[square]", "~tilde", "x" * 255, "deep/" + "/".join("d%d" % n for n in range(60)) + "/leaf"]
    objects = {"p/" + name: b"<" + name.encode() + b">" for name in names}

    def check(job, data):
        have = job.python(WALK, data).splitlines()
        proc.expect_equal(sorted(have), sorted(str(os.fsencode(name)) for name in names), "names")
        job.python("import os, sys\nfor d, dirs, files in os.walk(sys.argv[1]):\n    for n in files:\n"
                   "        p = os.path.join(d, n); r = os.path.relpath(p, sys.argv[1])\n"
                   "        assert open(p, 'rb').read() == b'<' + r.encode() + b'>', r\n", data)
    with_keys(objects, check)


def hidden_case(bad, good):
    """The good keys are all there, the bad ones cannot be reached and are told of, nothing crashes."""
    objects = {"p/" + key: b"body of " + key.encode() for key in bad + good}

    def check(job, data):
        have = job.python(WALK, data).splitlines()
        proc.expect_equal(sorted(have), sorted(str(os.fsencode(name)) for name in good), "names")
        for name in good:
            proc.expect_equal(job.good(["cat", os.path.join(data, name)]), b"body of " + name.encode(), name)
        told = job.log_tail(100000) + str(job.status())
        proc.expect("hidden" in told or "cannot be" in told, "no word of the keys that cannot be a path", told[-800:])
        proc.expect(job.daemon_pid(), "the daemon is gone")
    with_keys(objects, check)


def test_keys_with_empty_parts():
    hidden_case(["a//b", "/c", "d///e"], ["a/x", "c", "z"])


def test_keys_with_dot_parts():
    hidden_case(["./x", "../y", "a/./b", "a/../c", ".", ".."], ["a/x", "...", "a/.b"])


def test_keys_too_long_for_a_name():
    hidden_case(["n" * 256, "a/" + "m" * 300], ["a/ok", "n" * 255])


def test_key_beside_its_own_folder():
    """`a` beside `a/b`: one rule says which of the two is seen; the other is told of."""
    objects = {"p/a": b"file a", "p/a/b": b"file b", "p/c": b"c"}

    def check(job, data):
        have = job.python(WALK, data).splitlines()
        proc.expect(have in (["b'c'", "b'a/b'"], ["b'a'", "b'c'"]), "names: %s" % have)
        told = job.log_tail(100000) + str(job.status())
        proc.expect("hidden" in told or "cannot be" in told, "no word of the key that is not seen", told[-800:])
        proc.expect_equal(job.good(["cat", data + "/c"]), b"c", "the neighbour")
    with_keys(objects, check)


def test_keys_that_end_in_a_slash():
    """Folder markers of consoles: the folder is there (empty too), the marker is no file."""
    objects = {"p/": b"", "p/empty/": b"", "p/full/": b"", "p/full/x": b"x"}

    def check(job, data):
        out = job.python("import os, sys\nfor d, dirs, files in sorted(os.walk(sys.argv[1])): "
                         "print(os.path.relpath(d, sys.argv[1]), sorted(dirs), files)", data)
        proc.expect_equal(out.splitlines(), [". ['empty', 'full'] []", "empty [] []", "full [] ['x']"], "walk")
    with_keys(objects, check)


def test_path_cannot_escape_the_prefix():
    """`..` in a path leads out of the map like on any file system, never to other keys."""
    objects = {"p/x": b"inside", "secret": b"outside", "p/../secret2": b"outside"}

    def check(job, data):
        out = job.python("import os, sys\nfor n in ('/../secret', '/%2e%2e/secret', '/x/../../secret', '/../data/x'):\n"
                         "    try: print(open(sys.argv[1] + n).read())\n    except OSError as e: print(e.errno)", data)
        proc.expect_equal(out.split(), ["2", "2", "20", "inside"] if "20" in out else ["2", "2", "2", "inside"], "opens")
    with_keys(objects, check)


def test_ten_thousand_names_in_one_folder():
    objects = {"p/f%05d" % n: b"" for n in range(10000)}

    def check(job, data):
        proc.expect_equal(int(job.python("import os, sys; print(len(set(os.listdir(sys.argv[1]))))", data)), 10000, "names")
        proc.expect_equal(job.python("import os, sys; print(os.path.getsize(sys.argv[1] + '/f09999'))", data), "0\n", "size")
    with_keys(objects, check)
