"""Files for programs that take any bytes: text, a few hundred KB of noise, and more than small_max as it comes."""
import os
import random
import sys

from said import text


def make(folder):
    rng = random.Random(1)
    for name, data in (("words.txt", text(1, 16000)), ("noise.bin", rng.randbytes(700001)),
                       ("large.bin", rng.randbytes((9 << 20) + 123)), ("short.txt", text(2, 20)), ("empty", b"")):
        with open(os.path.join(folder, name), "wb") as out:
            out.write(data)


make(sys.argv[2])
