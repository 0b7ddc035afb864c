"""pressure.py MAPPED LOCAL SEED STEPS SECONDS: reads of small and large objects here and there, compared with a local
copy. Ends after STEPS reads or SECONDS; prints how many of each there were. The first error or wrong byte ends it."""
import os
import random
import sys
import time

LARGE = 8 << 20
PIECES = (1, 4096, 65536, 1 << 20, (9 << 20) + 77)
RUN_BYTES, STEP_BYTES = 12 << 20, 128 << 10


def same(name, at, have, want):
    if have != want:
        raise SystemExit("%s at %d: %d bytes, wanted %d, and other ones" % (name, at, len(have), len(want)))


def whole(mapped, local):
    with open(mapped, "rb") as have, open(local, "rb") as want:
        same(mapped, 0, have.read(), want.read())


def piece(mapped, local, rng):
    with open(mapped, "rb", 0) as have, open(local, "rb", 0) as want:
        at, size = rng.randrange(os.path.getsize(local)), rng.choice(PIECES)
        same(mapped, at, os.pread(have.fileno(), size, at), os.pread(want.fileno(), size, at))


def run(mapped, local, rng):
    """A stretch, in the steps in which programs read on."""
    with open(mapped, "rb", 0) as have, open(local, "rb", 0) as want:
        at = rng.randrange(os.path.getsize(local))
        have.seek(at)
        want.seek(at)
        for _ in range(RUN_BYTES // STEP_BYTES):
            same(mapped, at, have.read(STEP_BYTES), want.read(STEP_BYTES))


def main():
    mapped, local, seed, steps, seconds = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    rng = random.Random(seed)
    names = sorted(os.listdir(mapped if seed % 2 else local))  # with and without an index
    small = [name for name in names if os.path.getsize(os.path.join(local, name)) < LARGE]
    large = [name for name in names if name not in small]
    counts = [0, 0, 0]
    end = time.monotonic() + seconds
    while sum(counts) < steps and time.monotonic() < end:
        which = rng.choice((0, 0, 1, 1, 1, 2))
        name = rng.choice(large if which else small)
        paths = os.path.join(mapped, name), os.path.join(local, name)
        (whole, piece, run)[which](*paths, *([rng] if which else []))
        counts[which] += 1
    print("wholes %d pieces %d runs %d" % tuple(counts))


if __name__ == "__main__":
    main()
