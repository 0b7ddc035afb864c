"""OpenCV's readers: pictures by stdio and streams, a film by its libav."""
import os

os.environ["OPENCV_LOG_LEVEL"] = "ERROR"  # its warnings carry times

import cv2  # noqa: E402
import numpy as np  # noqa: E402
from said import main, said  # noqa: E402

NAMES = ("a.jpg", "a.png", "a.tiff", "a.webp", "a.bmp")


def make(folder):
    rng = np.random.default_rng(1)
    picture = rng.integers(0, 256, (360, 420, 3), dtype=np.uint8)
    for name in NAMES:
        assert cv2.imwrite(os.path.join(folder, name), picture)
    assert cv2.imwritemulti(os.path.join(folder, "pages.tiff"), [picture, 255 - picture, picture // 2])
    film = cv2.VideoWriter(os.path.join(folder, "a.avi"), cv2.VideoWriter_fourcc(*"MJPG"), 10, (320, 240))
    for number in range(12):
        film.write(rng.integers(0, 256, (240, 320, 3), dtype=np.uint8))
    film.release()
    storage = cv2.FileStorage(os.path.join(folder, "a.yml"), cv2.FILE_STORAGE_WRITE)
    storage.write("m", rng.standard_normal((60, 200)))
    storage.release()


def use(folder):
    cv2.setNumThreads(1)
    for name in NAMES:
        path = os.path.join(folder, name)
        said("imread " + name, cv2.imread(path))
        said("gray " + name, cv2.imread(path, cv2.IMREAD_GRAYSCALE))
        said("reduced " + name, cv2.imread(path, cv2.IMREAD_REDUCED_COLOR_4))
        said("imdecode " + name, cv2.imdecode(np.fromfile(path, dtype=np.uint8), cv2.IMREAD_COLOR))
    said("pages", *cv2.imreadmulti(os.path.join(folder, "pages.tiff"))[1])
    film = cv2.VideoCapture(os.path.join(folder, "a.avi"))
    for number in range(20):
        good, frame = film.read()
        said("frame %d %s" % (number, good), frame if good else b"")
    film.set(cv2.CAP_PROP_POS_FRAMES, 5)
    said("seek", film.read()[1])
    storage = cv2.FileStorage(os.path.join(folder, "a.yml"), cv2.FILE_STORAGE_READ)
    said("storage", storage.getNode("m").mat())
    print("none", cv2.haveImageReader(os.path.join(folder, NAMES[0])), cv2.imread(os.path.join(folder, "none.png")))


main(make, use)
