"""Epochs of a DistributedSampler over more than the cache holds, and over objects above small_max."""
import hashlib
import os

from harness import fixtures, headrace, paths, proc, training
from harness.case import test
from harness.scene import scene

NEEDS = ("torch", "nginx", "rclone")
FILES, FILE_BYTES = 160, 1 << 20
CACHE_FILES = 64  # the least that cache_size may be
SHARED_FILES, SHARED_BYTES = 1024, 256 << 10  # of which that is a quarter
SMALLER_BYTES = 192 << 10
EPOCHS = training.FILES + """
files = Files(sys.argv[1])
sampler = DistributedSampler(files, int(sys.argv[3]), 0, seed=3)
loader = DataLoader(files, batch_size=4, sampler=sampler, num_workers=2, collate_fn=list)
for epoch in range(int(sys.argv[2])):
    sampler.set_epoch(int(sys.argv[4]) * epoch)
    read = sorted(sum(loader, []))
    print(len(read), hashlib.sha256("".join(read).encode()).hexdigest())
"""

SHUFFLED = EPOCHS.replace("sampler.set_epoch(int(sys.argv[4]) * epoch)", "pass").replace(
    "batch_size=4, sampler=sampler, num_workers=2", "batch_size=32, shuffle=True, num_workers=4").replace("from torch.utils.data import", "import torch\ntorch.manual_seed(3)\nfrom torch.utils.data import", 1)


def run_epochs(s, epochs, replicas=1, step=1, script=EPOCHS):
    """The plan's figures, and how many GETs it took. What is read are the same bytes as on the disk."""
    args = [str(epochs), str(replicas), str(step)]
    local = proc.run([paths.PYTHON, "-c", script, s.local] + args, 100)
    have = s.job.python(script, s.data, *args)
    proc.expect_equal(have, local.stdout.decode(), "files and digests of the epochs")
    proc.expect(len(have.split()) == 2 * epochs, "lines of the epochs", have)
    headrace.wait_idle(s.job)
    return s.job.status()["plan"], len(s.front.log().gets)


@test(NEEDS, timeout=150, tries=2)
def test_known_order_keeps_what_is_needed():
    """A cache of 64 files of 160: the second epoch finds nearly that many there."""
    with scene(fixtures.numbered(FILE_BYTES, FILES), cache_size="64M") as s:
        plan, gets = run_epochs(s, 2)
        proc.expect(plan["known_order"] >= 2, "epochs whose order was known", plan)
        proc.expect_equal(plan["known_dropped"], 0, "orders that were wrong")
        proc.expect(plan["victims_read"] + plan["victims_last"] > 0, "exchanged by the known order", plan)
        most = 2 * FILES - 0.65 * CACHE_FILES
        proc.expect_well(gets <= most, "GETs of two epochs", gets, most, plan)


@test(NEEDS, timeout=150, tries=2)
def test_predicted_order_keeps_what_this_node_needs():
    """One of two nodes, a quarter of all in its cache: a kept set would have that quarter of each later epoch (1,280 GETs),
    half of it can be there (1,024)."""
    with scene(fixtures.numbered(SHARED_BYTES, SHARED_FILES), cache_size="64M") as s:
        plan, gets = run_epochs(s, 3, replicas=2)
        proc.expect(plan["next_order"] >= 2, "epochs whose next one was predicted", plan)
        proc.expect_equal((plan["next_wrong"], plan["known_dropped"]), (0, 0), "orders that were wrong")
        proc.expect(plan["victims_next"] > 0, "given up by what the next epochs read", plan)
        proc.expect_well(gets <= 1200, "GETs of three epochs", gets, plan)


@test(NEEDS, timeout=150, tries=2)
def test_prediction_that_fails_is_not_repeated():
    """set_epoch counts by tens: one prediction, and no more requests than by a kept set (896)."""
    with scene(fixtures.numbered(SHARED_BYTES, SHARED_FILES), cache_size="64M") as s:
        plan, gets = run_epochs(s, 2, replicas=2, step=10)
        proc.expect_equal((plan["next_right"], plan["known_dropped"]), (0, 0), "predictions that were right, orders dropped")
        proc.expect(plan["next_order"] == 1 and plan["next_wrong"] == 1, "one prediction, which was wrong", plan)
        proc.expect_well(gets <= 940, "GETs of two epochs", gets, plan)


@test(NEEDS, timeout=150, tries=2)
def test_heads_of_announced_objects():
    """Above small_max: what is announced is there, or on its way, when it is read for the first time."""
    with scene(fixtures.numbered(SMALLER_BYTES, FILES), delay_ms=20, small_max="128K") as s:
        plan, gets = run_epochs(s, 1)
        proc.expect_equal(gets, FILES, "GETs, one an object")
        proc.expect_well(plan["heads_ahead"] >= FILES / 2, "beginnings brought ahead", plan)
        proc.expect_well(plan["heads_used"] >= 0.9 * plan["heads_ahead"], "those that were there when they were read", plan)


@test(NEEDS, timeout=150, tries=2)
def test_shuffled_epochs_keep_a_quarter():
    """RandomSampler's seeds, drawn anew each epoch: each order is found once, and the later epochs find a quarter there, or
    nearly."""
    epochs = 4
    with scene(fixtures.numbered(SHARED_BYTES, SHARED_FILES), delay_ms=20, cache_size="64M") as s:
        plan, gets = run_epochs(s, epochs, script=SHUFFLED)
        proc.expect_well(plan["known_order"] == epochs, "epochs whose order became known", plan)
        most = SHARED_FILES + 0.8 * (epochs - 1) * SHARED_FILES
        proc.expect_well(gets <= most, "GETs of %d epochs" % epochs, gets, most, plan)
