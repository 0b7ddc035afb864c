"""Look-ahead: what a DataLoader announced to its workers is fetched before it is opened; a loader that lies does no
harm."""
from harness import fixtures, headrace, paths, proc, training
from harness.case import test
from harness.scene import scene

NEEDS = ("torch", "torchvision", "nginx", "rclone")

LIAR = """
import os, pickle, struct, sys
root = sys.argv[1]
paths = sorted(os.path.join(d, f) for d, _, fs in os.walk(root) for f in fs)
read, write = os.pipe()
import time
for batch in range(40):  # announces ranks from 0 on, opens from the other end
    body = pickle.dumps((batch, list(range(batch * 4, batch * 4 + 4))))
    os.write(write, struct.pack('!i', len(body)) + body)
    for path in paths[-1 - batch * 3:-4 - batch * 3:-1]:
        open(path, 'rb').read()
print(len(paths))
"""


def plan_of(s):
    return s.job.status()["plan"]


def check_loader(method, least):
    """Only look-ahead may run ahead: the sweep starts with the 16th open, so the first batches cannot be its work."""
    want = training.local(fixtures.tree(fixtures.images()), "--workers", 0)
    with scene(delay_ms=30) as s:
        have = training.mapped(s.job, s.data, "--workers", 4, "--batch", 16, "--method", method)
        training.expect_same(have, want)
        headrace.wait_idle(s.job)
        training.expect_one_get_each(s.front.log(), s.job, s.fixture)
        plan = plan_of(s)
        proc.expect(plan["lookahead_learned"] >= 1, "learned how indices become paths", plan)
        # Workers that start late find what the sweep brought: their batches may be over before they are understood.
        proc.expect_well(plan["announced"] >= least, "objects announced and understood", plan)
        # An open that was noted before its batch was understood counts as no use of it.
        proc.expect_well(plan["announced_used"] >= 0.9 * plan["announced"], "announced objects that were opened", plan)
        proc.expect(plan["fetched_lookahead"] > 0, "objects fetched because they were announced", plan)
        proc.expect_equal(plan["lookahead_dropped"], 0, "guesses taken back")


@test(NEEDS, timeout=150, tries=2)
def test_lookahead_fork():
    check_loader("fork", 300)


@test(NEEDS, timeout=150, tries=2)
def test_lookahead_spawn():
    check_loader("spawn", 32)


@test(NEEDS, timeout=150, tries=2)
def test_lookahead_forkserver():
    check_loader("forkserver", 32)


@test(NEEDS, timeout=150)
def test_lookahead_off_announces_nothing():
    want = training.local(fixtures.tree(fixtures.images()), "--workers", 0)
    with scene(delay_ms=5, lookahead="off") as s:
        training.expect_same(training.mapped(s.job, s.data, "--workers", 2), want)
        proc.expect_equal(plan_of(s)["announced"], 0, "announced with lookahead=off")


@test(("nginx", "rclone"))
def test_lookahead_of_a_liar_costs_no_byte():
    with scene(delay_ms=5) as s:
        count = int(s.job.python(LIAR, s.data))
        proc.expect_equal(count, 400, "files seen")
        headrace.wait_idle(s.job)
        training.expect_one_get_each(s.front.log(), s.job, s.fixture)


SAMPLES = """
import hashlib, os, sys
import numpy, torch
names = sorted(os.path.join(d, f) for d, _, fs in os.walk(sys.argv[1]) for f in fs)
half = len(names) // 2
class Samples(torch.utils.data.Dataset):
    kinds = {'apart': (names[:half], names[half:]), 'beside': (names[::2], names[1::2])}
    def __len__(self):
        return len(self.kinds[sys.argv[2]][0])
    def __getitem__(self, index):
        digest = hashlib.sha256()
        for files in self.kinds[sys.argv[2]]:
            with open(files[index], 'rb') as file:
                digest.update(file.read())
        return digest.hexdigest()
class Sampler(torch.utils.data.Sampler):  # numpy's integers
    def __init__(self, data):
        self.order = numpy.random.RandomState(4242424242).permutation(len(data))
    def __iter__(self):
        return iter(self.order)
    def __len__(self):
        return len(self.order)
samples = Samples()
loader = torch.utils.data.DataLoader(samples, batch_size=8, sampler=Sampler(samples), num_workers=2, collate_fn=list)
print(hashlib.sha256(''.join(sum(loader, [])).encode()).hexdigest())
"""
SAMPLE_FILES, SAMPLE_BYTES = 1024, 256 << 10  # four times the least that cache_size may be: the sweep ends soon


def check_samples(kind):
    """Every file of a sample is announced, from the opens on that tell which they are."""
    with scene(fixtures.numbered(SAMPLE_BYTES, SAMPLE_FILES), delay_ms=5, cache_size="64M") as s:
        local = proc.run([paths.PYTHON, "-c", SAMPLES, s.local, kind], 100)
        proc.expect_equal(s.job.python(SAMPLES, s.data, kind), local.stdout.decode(), "digest of all samples in their order")
        headrace.wait_idle(s.job)
        plan = plan_of(s)
        proc.expect(plan["lookahead_learned"] >= 2, "bases learned", plan)
        proc.expect(plan["announced"] >= 0.85 * SAMPLE_FILES, "files that were announced", plan)
        proc.expect(plan["announced_used"] >= 0.9 * plan["announced"], "announced files that were opened", plan)
        proc.expect(len(s.front.log().gets) <= 1.02 * SAMPLE_FILES, "GETs", len(s.front.log().gets), plan)


@test(NEEDS, timeout=120)
def test_lookahead_of_images_and_masks():
    check_samples("apart")


@test(NEEDS, timeout=120)
def test_lookahead_of_files_side_by_side():
    check_samples("beside")


LEAVER = """
import hashlib, os, sys
import torch
class Files(torch.utils.data.Dataset):
    def __init__(self, root):
        self.paths = sorted(os.path.join(d, f) for d, _, fs in os.walk(root) for f in fs)
    def __len__(self):
        return len(self.paths)
    def __getitem__(self, index):
        with open(self.paths[index], 'rb') as file:
            return os.path.relpath(self.paths[index], sys.argv[1]), hashlib.sha256(file.read()).hexdigest()
def loader(root, **more):
    return torch.utils.data.DataLoader(Files(root), batch_size=8, shuffle=True, collate_fn=list, **more)
torch.manual_seed(3)
workers = loader(sys.argv[1], num_workers=4, persistent_workers=sys.argv[2] == 'persistent')
for epoch in range(10):
    for number, batch in enumerate(workers):
        if number == 3:
            break
if sys.argv[2] == 'killed':
    batches = iter(workers)
    next(batches)
    os.kill(batches._workers[0].pid, 9)
    try:
        for batch in batches:
            pass
        print('a dead worker was not missed')
    except RuntimeError:
        pass
    del batches
halves = [loader(os.path.join(sys.argv[1], name), num_workers=2) for name in ('n000', 'n001')]
seen = [{}, {}]
for batches in zip(*halves):  # two sets over one map, side by side
    for into, batch in zip(seen, batches):
        into.update(batch)
print(*map(len, seen))
for name, digest in sorted(item for batch in workers for item in batch):
    print(name, digest)
"""


def check_leaver(kind, **settings):
    """Epochs that are left in the middle, ten times; then others, and a whole one with the right bytes. Nothing is left
    waiting in the daemon."""
    with scene(delay_ms=5, **settings) as s:
        lines = s.job.python(LEAVER, s.data, kind).splitlines()
        want = fixtures.tree_digests(s.local)
        proc.expect_equal(lines[0], "50 50", "files of two sets")
        proc.expect_equal(dict(line.split() for line in lines[1:]), want, "digests of a whole epoch")
        headrace.wait_idle(s.job)
        plan = plan_of(s)
        proc.expect_equal((plan["queued"], plan["memory_bytes"], plan["lookahead_waiting"]), (0, 0, 0),
                          "wants, bodies and announcements that wait")
        proc.expect(plan["announced"] > 400, "announced", plan)
        training.expect_one_get_each(s.front.log(), s.job, s.fixture)
        if kind == "anew":
            early = s.job.rss_anon_bytes()
            proc.expect_equal(s.job.python(LEAVER, s.data, kind).splitlines()[1:], lines[1:], "digests, once more")
            late = s.job.rss_anon_bytes()
            proc.expect(late <= early + (4 << 20), "RssAnon of the daemon after 12 epochs and after 24", early, late)


@test(NEEDS, timeout=120)
def test_epochs_left_in_the_middle_leave_nothing():
    check_leaver("anew")


@test(NEEDS, timeout=120)
def test_epochs_left_by_persistent_workers_leave_nothing():
    check_leaver("persistent")


@test(NEEDS, timeout=120)
def test_killed_worker_leaves_nothing():
    check_leaver("killed")
