"""libsndfile: formats with and without seeking to do, in parts, by name and by descriptor."""
import os

import numpy as np
import soundfile
from said import main, said

NAMES = ("a.wav", "a.flac", "a.ogg", "a.aiff", "f.wav")


def make(folder):
    rng = np.random.default_rng(1)
    data = rng.uniform(-0.8, 0.8, (200000, 2))
    for name in NAMES:
        soundfile.write(os.path.join(folder, name), data, 16000, subtype="FLOAT" if name == "f.wav" else None)


def use(folder):
    for name in NAMES:
        path = os.path.join(folder, name)
        data, rate = soundfile.read(path)
        said("%s %d" % (name, rate), data)
        said("part", soundfile.read(path, start=70000, frames=5000, dtype="int16")[0])
        said("blocks", *soundfile.blocks(path, 9000, overlap=100))
        with soundfile.SoundFile(path) as file:
            parts = [file.frames, file.format]
            for where in (190000, 10, 120000):
                file.seek(where)
                parts.append(file.read(300))
            said("seeks", *parts)
        descriptor = os.open(path, os.O_RDONLY)
        said("descriptor", soundfile.read(descriptor, closefd=False)[0])
        os.close(descriptor)
        with open(path, "rb") as file:
            said("object", soundfile.read(file)[0])


main(make, use)
