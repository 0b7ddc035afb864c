"""tarfile, as a stream and with seeks; zipfile; gzip, bz2, lzma; each on archives as they lie."""
import bz2
import gzip
import io
import lzma
import os
import random
import shutil
import tarfile
import zipfile

from said import main, said, text

PACKED = {"plain": "w", "gz": "w:gz", "xz": "w:xz"}


def make(folder):
    rng = random.Random(1)
    members = [("m/%03d.%s" % (number, "bin" if number % 2 else "txt"),
                rng.randbytes(rng.randrange(1, 60000)) if number % 2 else text(number, 400)) for number in range(60)]
    for name, mode in PACKED.items():
        with tarfile.open(os.path.join(folder, name + ".tar"), mode) as archive:
            for member, data in members:
                info = tarfile.TarInfo(member)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    for name, how in (("stored.zip", zipfile.ZIP_STORED), ("deflated.zip", zipfile.ZIP_DEFLATED)):
        with zipfile.ZipFile(os.path.join(folder, name), "w", how) as archive:
            for member, data in members:
                archive.writestr(zipfile.ZipInfo(member), data, how)
    for name, opener in (("a.gz", gzip.open), ("a.bz2", bz2.open), ("a.xz", lzma.open)):
        with opener(os.path.join(folder, name), "wb") as file:
            file.write(text(1, 20000) + rng.randbytes(200000))


def use(folder):
    def at(name):
        return os.path.join(folder, name)
    for name in PACKED:
        with tarfile.open(at(name + ".tar"), "r|*") as archive:
            said("stream " + name, *[(info.name, archive.extractfile(info).read()) for info in archive])
        with open(at(name + ".tar"), "rb") as file, tarfile.open(fileobj=file, mode="r|*", bufsize=65536) as archive:
            said("skipping " + name, [info.name for info in archive])
        with tarfile.open(at(name + ".tar")) as archive:
            said("names " + name, archive.getnames())
            said("members " + name, *[archive.extractfile("m/%03d.bin" % number).read() for number in (41, 3, 59)])
    with tarfile.open(at("plain.tar")) as archive:
        archive.extractall("out")
    said("extracted", *[open(os.path.join("out/m", name), "rb").read() for name in sorted(os.listdir("out/m"))])
    for name in ("stored.zip", "deflated.zip"):
        with zipfile.ZipFile(at(name)) as archive:
            said("zip " + name, archive.testzip(), archive.namelist())
            said("members " + name, *[archive.read("m/%03d.bin" % number) for number in (59, 1, 31)])
            with archive.open("m/020.txt") as member:
                member.seek(5000)
                said("inside " + name, member.read(100))
    for name, opener in (("a.gz", gzip.open), ("a.bz2", bz2.open), ("a.xz", lzma.open)):
        with opener(at(name), "rb") as file:
            said(name, file.read())
        with opener(at(name), "rt", errors="replace") as file:
            said("line " + name, file.readline(), next(file))
    shutil.unpack_archive(at("deflated.zip"), "unpacked")
    said("unpacked", sorted(os.listdir("unpacked/m")))


main(make, use)
