"""Several loaders over one data set in one process: an evaluation inside an epoch and behind one that was left, and two
that are read side by side. Each has its own order."""
from harness import fixtures, headrace, paths, proc, training
from harness.case import test
from harness.scene import scene

NEEDS = ("torch", "nginx", "rclone")

LOADERS = training.FILES + """
import torch

def loader(seed, part=None):
    part = part or files
    sampler = DistributedSampler(part, 1, 0, seed=seed) if seed is not None else None
    return DataLoader(part, batch_size=8, sampler=sampler, num_workers=2, collate_fn=list, persistent_workers=True)

def say(read):
    print(len(read), hashlib.sha256(''.join(sorted(read)).encode()).hexdigest())

files = Files(sys.argv[1])
kind = sys.argv[2]
if kind == 'subsets':
    mixed = torch.randperm(len(files), generator=torch.Generator().manual_seed(1)).tolist()
    half = len(files) // 2
    train, other = loader(3, Subset(files, mixed[:half])), loader(1000, Subset(files, mixed[half:]))
else:
    train, other = loader(3), loader(1000 if kind == 'beside' else None)
for epoch in range(int(sys.argv[3])):
    seen, seen_other = [], []
    train.sampler.set_epoch(epoch)
    if kind in ('beside', 'subsets'):
        other.sampler.set_epoch(epoch)
    if kind == 'beside':
        for one, two in zip(train, other):
            seen += one
            seen_other += two
    else:
        for number, batch in enumerate(train):
            seen += batch
            if kind == 'left' and number == 20:
                break
            if kind == 'inside' and number == 20:
                seen_other = sum(other, [])
        if kind != 'inside':
            seen_other = sum(other, [])
    say(seen)
    say(seen_other)
"""
FILES, BYTES = 1280, 128 << 10  # the least cache there is holds 40 % of it


def read_loaders(kind, epochs=2):
    """The plan's figures, and how many GETs it took. What is read are the same bytes as on the disk."""
    with scene(fixtures.numbered(BYTES, FILES), delay_ms=5, cache_size="64M") as s:
        local = proc.run([paths.PYTHON, "-c", LOADERS, s.local, kind, str(epochs)], 100)
        have = s.job.python(LOADERS, s.data, kind, str(epochs))
        proc.expect_equal(have, local.stdout.decode(), "files and digests of the epochs")
        headrace.wait_idle(s.job)
        plan, gets = s.job.status()["plan"], len(s.front.log().gets)
        proc.expect_equal((plan["queued"], plan["memory_bytes"], plan["lookahead_waiting"]), (0, 0, 0),
                          "wants, bodies and announcements that wait")
        opens = sum(int(line.split()[0]) for line in have.splitlines())
        proc.expect(gets <= 1.02 * opens, "GETs", gets, opens)
        return plan, gets


@test(NEEDS, timeout=150, tries=2)
def test_evaluation_inside_an_epoch():
    """In the listing's order, in the middle of each epoch: that one's order stays known."""
    plan, _ = read_loaders("inside")
    # The evaluation's first batch may be heard of before those that show that its indices ascend.
    proc.expect_well(plan["known_order"] == 2 and plan["order_searches"] <= 3, "orders that became known, searches", plan)
    proc.expect_equal(plan["known_dropped"], 0, "orders that were wrong")


@test(NEEDS, timeout=150, tries=2)
def test_loaders_side_by_side():
    """Two shuffled ones. By one known epoch for both they overwrite each other with each batch, which costs 3,600 GETs."""
    plan, gets = read_loaders("beside")
    proc.expect_well(plan["known_order"] >= 4, "orders that became known", plan)
    proc.expect_well(plan["order_searches"] <= 8 and plan["order_misses"] == 0, "searches, and those in vain", plan)
    # While one order is known alone, a queue that was taken for that loader's may bring a batch of the other.
    proc.expect_well(plan["known_dropped"] <= 2, "orders that were dropped", plan)
    proc.expect_well(gets <= 0.62 * 4 * FILES, "GETs of two epochs each", gets, plan)


@test(NEEDS, timeout=150, tries=2)
def test_evaluation_behind_an_epoch_that_was_left():
    """The workers of both are kept."""
    plan, _ = read_loaders("left")
    proc.expect_well(plan["known_order"] == 2, "orders that became known", plan)
    proc.expect_equal(plan["known_dropped"], 0, "orders that were wrong")


@test(NEEDS, timeout=150, tries=2)
def test_training_and_evaluation_over_two_subsets():
    """Both shuffled, in turns, out of one data set. The first epoch tells which files they are of, the later ones' orders
    become known, once each."""
    plan, _ = read_loaders("subsets", epochs=3)
    proc.expect_well(plan["known_order"] == 4 and plan["order_searches"] <= 6, "orders that became known, searches", plan)
    proc.expect_equal(plan["known_dropped"], 0, "orders that were wrong")
