"""Epochs of a DistributedSampler over more than the cache holds, and over objects above small_max."""
import hashlib
import os

from harness import fixtures, headrace, proc
from harness.case import test
from harness.scene import scene

NEEDS = ("torch", "nginx", "rclone")
FILES, FILE_BYTES = 160, 1 << 20
CACHE_FILES = 64  # the least that cache_size may be
SMALLER_BYTES = 192 << 10
EPOCHS = """
import hashlib, os, sys
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

class Files(Dataset):
    def __init__(self, root):
        self.paths = sorted(os.path.join(d, f) for d, _, fs in os.walk(root) for f in fs)
    def __len__(self):
        return len(self.paths)
    def __getitem__(self, index):
        with open(self.paths[index], "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

files = Files(sys.argv[1])
sampler = DistributedSampler(files, 1, 0, seed=3)
loader = DataLoader(files, batch_size=4, sampler=sampler, num_workers=2, collate_fn=list)
for epoch in range(int(sys.argv[2])):
    sampler.set_epoch(epoch)
    print(hashlib.sha256("".join(sorted(sum(loader, []))).encode()).hexdigest())
"""


def files_of(size):
    return fixtures.in_order("files-%d-v3" % size, lambda half: write_files(half, size))


def write_files(half, size):
    block = os.urandom(size)
    for i in range(FILES):
        folder = os.path.join(half, fixtures.BUCKET, fixtures.PREFIX, "c%d" % (i % 4))
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "%04d.bin" % i), "wb") as out:
            out.write(b"%08d" % i + block[8:])


def run_epochs(s, epochs):
    """The plan's figures, and how many GETs it took."""
    have = s.job.python(EPOCHS, s.data, str(epochs))
    digests = "".join(sorted(fixtures.tree_digests(s.local).values()))
    want = hashlib.sha256(digests.encode()).hexdigest() + "\n"
    proc.expect_equal(have, want * epochs, "digests of the epochs")
    headrace.wait_idle(s.job)
    return s.job.status()["plan"], len(s.front.log().gets)


@test(NEEDS, timeout=150)
def test_known_order_keeps_what_is_needed():
    """A cache of 64 files of 160: the second epoch finds nearly that many there."""
    with scene(files_of(FILE_BYTES), cache_size="64M") as s:
        plan, gets = run_epochs(s, 2)
        proc.expect(plan["known_order"] >= 2, "epochs whose order was known", plan)
        proc.expect_equal(plan["known_dropped"], 0, "orders that were wrong")
        proc.expect(plan["victims_read"] + plan["victims_last"] > 0, "exchanged by the known order", plan)
        most = 2 * FILES - 0.75 * CACHE_FILES
        proc.expect(gets <= most, "GETs of two epochs", gets, most, plan)


@test(NEEDS, timeout=150)
def test_heads_of_announced_objects():
    """Above small_max: what is announced is there, or on its way, when it is read for the first time."""
    with scene(files_of(SMALLER_BYTES), delay_ms=20, small_max="128K") as s:
        plan, gets = run_epochs(s, 1)
        proc.expect_equal(gets, FILES, "GETs, one an object")
        proc.expect(plan["heads_ahead"] >= FILES / 2, "beginnings brought ahead", plan)
        proc.expect(plan["heads_used"] >= 0.9 * plan["heads_ahead"], "those that were there when they were read", plan)
