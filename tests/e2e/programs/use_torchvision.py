"""torchvision's own readers, which map the file, and what it does with PIL."""
import os
import random

import torch
from PIL import Image
from said import main, said
from torchvision.datasets.folder import default_loader
from torchvision.io import ImageReadMode, decode_image, decode_jpeg, read_file, read_image

NAMES = ("large.jpg", "large.png", "small.jpg")


def make(folder):
    rng = random.Random(1)
    for name, width, height in zip(NAMES, (1100, 500, 120), (900, 400, 90)):
        picture = Image.frombytes("RGB", (width, height), rng.randbytes(width * height * 3))
        picture.save(os.path.join(folder, name), quality=90)


def use(folder):
    torch.set_num_threads(1)
    for name in NAMES:
        path = os.path.join(folder, name)
        said("read_file " + name, read_file(path).numpy())
        said("read_image " + name, read_image(path).numpy())
        said("decode_image " + name, decode_image(read_file(path), ImageReadMode.GRAY).numpy())
        said("loader " + name, default_loader(path).tobytes())
    said("decode_jpeg", decode_jpeg(read_file(os.path.join(folder, NAMES[0]))).numpy())
    try:
        read_image(os.path.join(folder, "none.jpg"))
    except RuntimeError as error:
        print("none", "No such file" in str(error))


main(make, use)
