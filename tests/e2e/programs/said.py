"""What the programs here share: `python3 use_X.py make FOLDER` writes the data, `python3 use_X.py FOLDER` reads it and prints a
line for each way of reading: its name and a digest."""
import hashlib
import multiprocessing
import random
import sys


def said(name, *parts):
    """One line. Bytes and what has a buffer are digested as they are, everything else by its repr."""
    digest = hashlib.sha256()
    for part in parts:
        try:
            digest.update(memoryview(part).cast("B"))
        except (TypeError, ValueError):
            digest.update(part.tobytes() if hasattr(part, "tobytes") else repr(part).encode())
    print(name, digest.hexdigest())


def text(seed, lines):
    """Lines of words and numbers, distinct for each seed."""
    rng = random.Random(seed)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randrange(2, 9))) for _ in range(400)]
    return "".join("%d %s %d\n" % (number, " ".join(rng.choices(words, k=6)), rng.randrange(1 << 30))
                   for number in range(lines)).encode()


def main(make, use):
    if multiprocessing.parent_process():
        return  # a worker that imports its parent's script
    if sys.argv[1] == "make":
        make(sys.argv[2])
    else:
        use(sys.argv[1])
