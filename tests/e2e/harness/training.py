"""Epochs of train.py (or its stand-in) on a local tree and on a map, and what the front server must have seen."""
import os

from . import fixtures, paths, proc

TRAIN = os.path.join(paths.E2E, "train.py")
STAND_IN = os.path.join(paths.E2E, "loader.py")
EPOCH_LIMIT_S = 150
# What scripts of tests begin with: the digest of each file of a sorted walk.
FILES = """
import hashlib, os, sys
from torch.utils.data import DataLoader, Dataset, Subset
from torch.utils.data.distributed import DistributedSampler

class Files(Dataset):
    def __init__(self, root):
        self.paths = sorted(os.path.join(d, f) for d, _, fs in os.walk(root) for f in fs)
    def __len__(self):
        return len(self.paths)
    def __getitem__(self, index):
        with open(self.paths[index], 'rb') as file:
            return hashlib.sha256(file.read()).hexdigest()
"""


def argv(folder, *args, script=TRAIN):
    return [paths.PYTHON, script, folder, *map(str, args)]


def parse(out):
    """One dict an epoch line; numbers as numbers."""
    epochs = []
    for line in out.decode("utf-8", "replace").splitlines():
        if line.startswith("epoch="):
            pairs = dict(word.split("=", 1) for word in line.split())
            epochs.append({name: value if name == "digest" else float(value) for name, value in pairs.items()})
    return epochs


def local(folder, *args, script=TRAIN, **options):
    done = proc.run(argv(folder, *args, script=script), EPOCH_LIMIT_S, **options)
    proc.expect(done.returncode == 0, "local run: status %d" % done.returncode, proc.tail(done.stdout, done.stderr))
    return parse(done.stdout)


def mapped(job, folder, *args, script=TRAIN, **options):
    done = job.run(argv(folder, *args, script=script), EPOCH_LIMIT_S, **options)
    proc.expect(done.returncode == 0, "mapped run: status %s" % done.returncode, proc.tail(done.stdout, done.stderr),
                job.log_tail())
    return parse(done.stdout)


def expect_same(have, want, epochs=1):
    """Every epoch read every file with its right bytes and label."""
    proc.expect(len(have) == epochs, "%d epochs printed, want %d" % (len(have), epochs))
    for one in have:
        proc.expect_equal((one["files"], one["digest"]), (want[0]["files"], want[0]["digest"]), "files and digest")


def expect_one_get_each(log, job, fixture, opened=None):
    """The accounting of objects up to small_max: no key fetched twice but by a hedge, nothing but the keys there are,
    every GET that did not succeed counted as a retry or a hedge, no HEAD. `opened`: how many distinct keys the program
    opened, when the sweep is off."""
    status = job.status()
    twice = {path: count for path, count in log.keys().items() if count > 1}
    proc.expect(sum(twice.values()) - len(twice) <= status["hedges"],
                "keys fetched successfully more than once: %s" % list(twice.items())[:5], log)
    there = {"/%s/%s" % (fixtures.BUCKET, key) for key in fixtures.keys(fixture)}
    strange = set(log.keys()) - there
    proc.expect(not strange, "GETs of what is not there: %s" % sorted(strange)[:5])
    proc.expect_equal(len(log.heads), 0, "HEAD requests")
    if opened is not None:
        proc.expect_equal(len(log.keys()), opened, "distinct keys fetched")
    failed = len(log.gets) - len(log.good)
    proc.expect(failed >= status["retries"] and failed <= status["retries"] + status["hedges"],
                "%d GETs did not succeed, with %d retries and %d hedges" % (failed, status["retries"], status["hedges"]))
