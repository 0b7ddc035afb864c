"""PIL: each format's reader, by name, by file and in parts."""
import os
import random

from PIL import Image, ImageSequence
from said import main, said

WAYS = {"a.jpg": {"quality": 92}, "progressive.jpg": {"quality": 90, "progressive": True}, "a.png": {}, "a.webp": {"quality": 95},
        "lossless.webp": {"lossless": True}, "raw.tiff": {}, "lzw.tiff": {"compression": "tiff_lzw"},
        "packed.tiff": {"compression": "tiff_adobe_deflate"}, "a.bmp": {}, "a.ppm": {}, "a.jp2": {}, "a.tga": {}}


def make(folder):
    rng = random.Random(1)
    picture = Image.frombytes("RGB", (420, 360), rng.randbytes(420 * 360 * 3))
    for name, options in WAYS.items():
        picture.save(os.path.join(folder, name), **options)
    frames = [Image.frombytes("L", (200, 200), rng.randbytes(40000)) for _ in range(6)]
    for name in ("frames.gif", "frames.tiff"):
        frames[0].save(os.path.join(folder, name), save_all=True, append_images=frames[1:])


def use(folder):
    for name in WAYS:
        path = os.path.join(folder, name)
        with Image.open(path) as picture:
            said("%s %s %s" % (name, picture.size, picture.format), picture.convert("RGB").tobytes())
        with open(path, "rb") as file, Image.open(file) as picture:
            said("%s file" % name, picture.resize((64, 64)).tobytes(), file.tell() > 0)
        with open(path, "rb", buffering=0) as file:
            said("%s raw" % name, Image.open(file).tobytes())
    with Image.open(os.path.join(folder, "a.jpg")) as picture:
        picture.draft("L", (100, 100))
        said("draft", picture.tobytes())
    for name in ("frames.gif", "frames.tiff"):
        with Image.open(os.path.join(folder, name)) as picture:
            said(name, *[frame.convert("L").tobytes() for frame in ImageSequence.Iterator(picture)])
            picture.seek(3)
            said(name + " seek", picture.convert("L").tobytes())
    with Image.open(os.path.join(folder, "raw.tiff")) as picture:  # mapped by PIL itself
        said("crop", picture.crop((100, 100, 200, 200)).tobytes())


main(make, use)
