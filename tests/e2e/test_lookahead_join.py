"""Look-ahead for a main process that opens nothing of the map: its list of files is a local one, and only its workers
read them. It joins the daemon that is there when it tells them of a batch."""
import hashlib
import json
import os
import random

from harness import fixtures, headrace, paths, proc, training
from harness.case import test
from harness.scene import scene

NEEDS = ("torch", "nginx", "rclone")
FILES, BYTES = 1280, 128 << 10

LISTED = """
import hashlib, json, sys
import torch
import torch.utils.data.distributed
class Listed(torch.utils.data.Dataset):
    def __init__(self, listed):
        with open(listed) as file:
            self.paths = json.load(file)
    def __len__(self):
        return len(self.paths)
    def __getitem__(self, index):
        with open(self.paths[index], 'rb') as file:
            return index, hashlib.sha256(file.read()).hexdigest()
def is_joined():
    with open('/proc/self/maps') as file:
        return sys.argv[2] + '/control' in file.read()
torch.manual_seed(3)
listed = Listed(sys.argv[1])
parts = torch.utils.data.random_split(listed, (0.75, 0.25)) if sys.argv[3] == 'split' else [listed]
samplers = [torch.utils.data.distributed.DistributedSampler(part, 1, 0, seed=3) for part in parts]
loaders = [torch.utils.data.DataLoader(part, batch_size=8, sampler=sampler, num_workers=2, collate_fn=list)
           for part, sampler in zip(parts, samplers)]
print(is_joined())
for epoch in range(int(sys.argv[4])):
    for sampler in samplers:
        sampler.set_epoch(epoch)
    seen = dict(item for loader in loaders for batch in loader for item in batch)
    print(hashlib.sha256(''.join(seen[index] for index in range(len(listed))).encode()).hexdigest())
print(is_joined())
"""


def check_listed(by_run, kind="sorted", fixture=None, joins=True, **settings):
    """Two epochs have every file's right bytes; the main process begins outside and is in it at its end."""
    with scene(fixture, delay_ms=30, **settings) as s:
        files = sorted(fixtures.tree_digests(s.local).items())
        if kind != "sorted":
            random.Random(11).shuffle(files)
        want = hashlib.sha256("".join(digest for _, digest in files).encode()).hexdigest()
        listed = os.path.join(proc.temp_folder("hr-list-"), "listed.json")
        with open(listed, "w") as file:
            json.dump([os.path.join(s.data, name) for name, _ in files], file)
        argv = [paths.PYTHON, "-c", LISTED, listed, s.job.cache, kind, "2"]
        done = s.job.run(argv) if by_run else s.job.preload(argv)
        proc.expect(done.returncode == 0, "status %s" % done.returncode, proc.tail(done.stdout, done.stderr),
                    s.job.log_tail())
        proc.expect_equal(done.stdout.decode().split(), ["False", want, want, str(joins)], "joined, digests, joined")
        headrace.wait_idle(s.job)
        training.expect_one_get_each(s.front.log(), s.job, s.fixture)
        return s.job.status()["plan"]


def check_announced(plan):
    proc.expect(plan["lookahead_learned"] >= 1, "learned how indices become paths", plan)
    proc.expect(plan["announced"] > 0, "objects announced and understood", plan)
    proc.expect(plan["announced_used"] > 0, "announced objects that were opened", plan)


@test(NEEDS, timeout=120)
def test_lookahead_of_a_main_process_that_opens_nothing():
    """`headrace run` has attached before it: its first batch joins."""
    check_announced(check_listed(True))


@test(NEEDS, timeout=120)
def test_lookahead_of_a_main_process_whose_worker_attached():
    """Variables alone: the daemon begins with the first open, which is a worker's."""
    check_announced(check_listed(False))


def check_known(kind, orders):
    """The daemon outlives the first epoch, and so does what it learned."""
    plan = check_listed(True, kind, fixtures.numbered(BYTES, FILES))
    check_announced(plan)
    proc.expect_well(plan["known_order"] >= orders, "epochs whose order became known", plan)
    proc.expect_equal(plan["known_dropped"], 0, "orders that were wrong")
    return plan


@test(NEEDS, timeout=120, tries=2)
def test_known_orders_of_a_main_process_that_opens_nothing():
    """The second epoch at least: the first may be over before its indices are understood."""
    check_known("sorted", 1)


@test(NEEDS, timeout=120, tries=2)
def test_rows_of_a_main_process_that_opens_nothing():
    """A list in an order of its own: the second epoch by its table, and in an order that is known."""
    plan = check_known("rows", 1)
    proc.expect_well(plan["lookahead_table"] >= 0.95 * FILES, "indices whose files are known", plan)


@test(NEEDS, timeout=120, tries=2)
def test_subsets_of_a_main_process_that_opens_nothing():
    """random_split: indices of two parts mean two files each, and no byte or request more comes of it."""
    check_known("split", 0)


@test(NEEDS, timeout=120)
def test_lookahead_off_of_a_main_process_that_opens_nothing():
    proc.expect_equal(check_listed(True, lookahead="off")["announced"], 0, "announced with lookahead=off")
