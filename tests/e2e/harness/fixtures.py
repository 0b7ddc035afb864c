"""Trees of files to train from, made once under build/fixtures and shared read-only; and their digests.

A fixture is a folder of buckets: NAME/bkt/train/n000/img_00000.jpg. With PIL the files are real JPEGs (40 encodings, each
file made distinct by a comment segment: making 2,000 takes a second); without PIL they are random bytes of the same
size."""
import fcntl
import hashlib
import io
import os
import random
import shutil
import sys

from . import paths, proc

BUCKET = "bkt"
PREFIX = "train"
FIXTURES = os.path.join(paths.BUILD, "fixtures")
BASES = 40
COMMENT = 0xFE


def jpeg_bases(side, seed):
    from PIL import Image
    rng = random.Random(seed)
    bases = []
    for _ in range(BASES):
        out = io.BytesIO()
        Image.frombytes("RGB", (side, side), rng.randbytes(side * side * 3)).save(
            out, "JPEG", quality=93, subsampling=0)
        bases.append(out.getvalue())
    return bases


def with_comment(jpeg, text):
    """The same picture as another file: a comment segment right after the start marker."""
    return jpeg[:2] + bytes([0xFF, COMMENT]) + (len(text) + 2).to_bytes(2, "big") + text + jpeg[2:]


def write_tree(root, files, classes, side, seed):
    """`files` pictures in `classes` folders; sides of 224 give 108 KB each, of 64 about 9 KB."""
    rng = random.Random(seed)
    try:
        bases = jpeg_bases(side, seed)
    except ImportError:
        bases = [rng.randbytes(side * side * 2) for _ in range(BASES)]
    for number in range(files):
        folder = os.path.join(root, "n%03d" % (number % classes))
        if number < classes:
            os.makedirs(folder)
        text = b"%06d %s" % (number, rng.randbytes(rng.randrange(16, 2000)))
        with open(os.path.join(folder, "img_%05d.jpg" % number), "wb") as out:
            out.write(with_comment(bases[number % BASES], text))


def in_order(name, make):
    """Makes build/fixtures/NAME once, whoever comes first; a half-made one is thrown away."""
    os.makedirs(FIXTURES, exist_ok=True)
    done = os.path.join(FIXTURES, name)
    with open(os.path.join(FIXTURES, ".lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(done):
            half = done + ".half"
            shutil.rmtree(half, ignore_errors=True)
            make(half)
            os.rename(half, done)
    return done


def images(files=400, classes=8, side=64, seed=1):
    """A folder of buckets; the tree itself is at tree(folder)."""
    name = "images-%d-%d-%d-%d-v1" % (files, classes, side, seed)
    return in_order(name, lambda half: write_tree(os.path.join(half, BUCKET, PREFIX), files, classes, side, seed))


def tree(folder):
    return os.path.join(folder, BUCKET, PREFIX)


def write_mixed(half, large=False):
    """What tools meet: nested folders, odd but legal names, empty, text, binary and large files. `large`: the same names,
    most of them above 64 KiB, none of them whole pages, and one of several cells (fetch/cache/cache.h, HR_CELL_BYTES)."""
    rng = random.Random(7)
    root = os.path.join(half, BUCKET, PREFIX)
    for folder in ("a", "a/deep/er/still", "b", "with space", "ünïcode", "[brackets]"):
        os.makedirs(os.path.join(root, folder))

    def put(name, data):
        with open(os.path.join(root, name), "wb") as out:
            out.write(data)
    put("top.txt", b"hello headrace\nsecond line\n")
    put("empty", b"")
    put(".hidden", b"dot\n")
    put("a/one.txt", b"one\nneedle here\n" * (6000 if large else 40))
    put("a/two.bin", rng.randbytes((8 << 20) + 5 if large else 70000))
    put("a/deep/er/still/three.txt", b"deep needle\n")
    put("a/deep/-dash", b"dash\n")
    put("a-b", b"sorts between a and a/b\n")
    put("a.c", b"sorts too\n")
    put("b/plus+and%25percent.txt", b"100%\n")
    put("b/quote'double\".txt", b"quotes\n")
    put("b/semi;colon&amp.txt", b"needle; & <tag>\n")
    put("with space/x y.txt", b"blank needle\n")
    put("ünïcode/日本.txt", b"needle\n")
    put("[brackets]/glob*.txt", b"star\n")
    put("b/mega.bin", rng.randbytes((20 << 20) + 777 if large else 3 << 20))
    for number in range(60):
        put("a/deep/er/f%02d.dat" % number, rng.randbytes(rng.randrange(65537, 150000) if large else rng.randrange(1, 9000)))


def mixed():
    return in_order("mixed-v1", write_mixed)


def mixed_large():
    return in_order("mixed-large-v1", lambda half: write_mixed(half, True))


def write_large(half):
    root = os.path.join(half, BUCKET, PREFIX)
    os.makedirs(root)
    rng = random.Random(9)
    for name, size in (("eight.bin", 8 << 20), ("eight1.bin", (8 << 20) + 1), ("big.bin", (41 << 20) + 12345)):
        with open(os.path.join(root, name), "wb") as out:
            out.write(rng.randbytes(size))


def large():
    """Objects at and above small_max: fetched in ranges."""
    return in_order("large-v1", write_large)


def write_numbered(half, size, count):
    block = os.urandom(size)
    for i in range(count):
        folder = os.path.join(half, BUCKET, PREFIX, "c%d" % (i % 4))
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "%04d.bin" % i), "wb") as out:
            out.write(b"%08d" % i + block[8:])


def numbered(size, count):
    """So many files of that size in four folders by turns; each begins with its number."""
    return in_order("files-%d-%d-v4" % (count, size), lambda half: write_numbered(half, size, count))


def copy(fixture):
    """A private folder of buckets, for tests that change objects."""
    folder = os.path.join(proc.temp_folder("headrace-fx-"), "buckets")
    shutil.copytree(fixture, folder)
    return folder


def file_digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def tree_digests(root):
    """relative path -> sha256 of every file."""
    return {os.path.relpath(os.path.join(here, name), root): file_digest(os.path.join(here, name))
            for here, _, names in os.walk(root) for name in names}


def keys(folder, bucket=BUCKET):
    """Every key of a bucket folder, sorted bytewise."""
    root = os.path.join(folder, bucket)
    found = [os.path.relpath(os.path.join(here, name), root) for here, _, names in os.walk(root) for name in names]
    return sorted(found, key=os.fsencode)


if __name__ == "__main__":  # FILES CLASSES SIDE: prints the tree, for scripts
    print(tree(images(*map(int, sys.argv[1:4]))))
