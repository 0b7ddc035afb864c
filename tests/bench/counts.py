"""Instructions a warm file against a local one, by callgrind: the difference of two runs of other lengths, so that starting
and ending fall out. A plain reader, and one that decodes by PIL."""
import os
import re

import cloud as emulated
import lab
from harness import fixtures, paths, proc

FEW, MANY = 40, 140
AIM = 1.05
READER = """
import sys
root, most, decode = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "decode"
import os
if decode:
    from PIL import Image
names = sorted(os.path.join(here, name) for here, _, files in os.walk(root) for name in files)
for name in names[:most]:
    with open(name, "rb") as file:
        if decode:
            Image.open(file).convert("RGB")
        else:
            file.read()
"""


def instructions(place, files, how, job=None):
    out = os.path.join(proc.temp_folder(), "callgrind")
    argv = ["valgrind", "--tool=callgrind", "--callgrind-out-file=" + out, paths.PYTHON, "-c", READER, place, str(files), how]
    env = dict(job.env() if job else os.environ, PYTHONHASHSEED="0")
    done = proc.run(job.run_argv(argv) if job else argv, lab.LIMIT_S, env=env)
    found = re.search(rb"Collected : (\d+)", done.stderr)
    proc.expect(done.returncode == 0 and found, "callgrind", proc.tail(done.stdout, done.stderr))
    return int(found.group(1))


def a_file(place, how, job=None):
    return (instructions(place, MANY, how, job) - instructions(place, FEW, how, job)) / (MANY - FEW)


def main(options):
    book = lab.Book("counts", "%d and %d JPEGs of 110 KB, warm; instructions a file" % (FEW, MANY))
    if paths.missing("valgrind"):
        book.row("callgrind", note="skipped: no valgrind")
        book.save()
        return
    with emulated.Cloud(lab.pictures(200), 0) as cloud, lab.job(cloud, fixtures.PREFIX) as job:
        tree, data = fixtures.tree(cloud.buckets), job.maps[0].partition("=")[0]
        job.good([paths.PYTHON, "-c", READER, data, "200", "read"])
        for how in ("read", "decode"):
            mark = cloud.mark()
            local, warm = a_file(tree, how), a_file(data, how, job)
            proc.expect_equal(len(cloud.log(mark).gets), 0, "GETs of warm files")
            book.row("open, %s, close" % ("read" if how == "read" else "decode by PIL"), local=round(local), warm=round(warm))
            book.at_most("instructions a file, warm / local, %s" % how, AIM, warm / local)
    book.save()
