"""Known orders: our generator against torch itself, and the search on what torch's samplers and loaders hand out."""
import array
import functools
import hashlib
import os
import random
from itertools import islice

from harness import fixtures, headrace, paths, proc, training
from harness.case import test
from harness.scene import scene

NEEDS = ("torch", "gcc")
THRESHOLD = (2 ** 32 - 1) // 20  # from here on torch 2 draws 64 bits a step, the other way round
SIZES = (1, 2, 3, 7, 10, 31, 100, 226, 227, 228, 396, 397, 398, 623, 624, 625, 1000, 1023, 1024, 1025, 1247, 1248, 1249,
         4000, 65535, 65536, 10 ** 5, 10 ** 6)
SEEDS = (0, 1, 42, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 32 + 5, 2 ** 63 - 1, -1, -5, -2 ** 31)
SEEN = 10
LIKELY = 442  # candidates that are tried first
OTHERS = ("python", "numpy-legacy", "numpy")  # generators 1, 2 and 3


def shuffled(generator, seed, n):
    """As Python or numpy themselves do it."""
    import numpy
    if generator == "python":
        order = list(range(n))
        random.Random(seed).shuffle(order)
        return order
    source = numpy.random.RandomState(seed) if generator == "numpy-legacy" else numpy.random.default_rng(seed)
    return source.permutation(n).tolist()


@functools.lru_cache(maxsize=None)
def program():
    made = os.path.join(proc.temp_folder("hr-orders-"), "orders")
    fetch = os.path.join(paths.ROOT, "fetch")
    sources = [os.path.join(fetch, "plan", "order_%s.c" % name) for name in ("torch", "lanes", "others", "batches", "search", "try")]
    sources.append(os.path.join(fetch, "base", "vectors.c"))
    done = proc.run(["gcc", "-O2", "-std=gnu11", "-D_GNU_SOURCE", "-I" + paths.ROOT, "-o", made,
                     os.path.join(paths.ROOT, "tests", "bench", "orders.c"), *sources], 60)
    proc.expect(done.returncode == 0, "gcc failed", proc.tail(done.stderr))
    return made


def said(*args, **options):
    done = proc.run([program(), *map(str, args)], 100, **options)
    proc.expect(done.returncode == 0, "orders %s: status %s" % (args, done.returncode), proc.tail(done.stderr))
    return done.stdout


def order(n, seed, skip=0, replicas=1, rank=0, generator=0, batch=0):
    return array.array("I", said("print", n, seed % 2 ** 64, skip, replicas, rank, generator, batch)).tolist()


def find(n, indices, *more):
    """What the search makes of the first indices of an epoch, as a dict of numbers."""
    lines = "".join("%d %d\n" % pair for pair in enumerate(indices)).encode()
    return {name: int(value) for name, value in
            (word.split("=") for word in said("find", n, *more, input=lines).decode().split())}


def seeded(seed):
    import torch
    return torch.Generator().manual_seed(seed)


@test(NEEDS, timeout=120)
def test_orders_are_those_of_torch():
    import torch
    rng = random.Random(5)
    for n in SIZES:
        seeds = SEEDS + tuple(rng.randrange(-2 ** 63, 2 ** 64) for _ in range(8))
        for seed in seeds if n < 10 ** 5 else rng.sample(seeds, 4):
            want = torch.randperm(n, generator=seeded(seed)).tolist()
            proc.expect(order(n, seed) == want, "randperm(%d) of seed %d differs" % (n, seed))


@test(NEEDS, timeout=120)
def test_orders_of_a_generator_that_goes_on():
    import torch
    from torch.utils.data import DataLoader
    for n in (10, 624, 5000):
        generator = seeded(77)
        torch.randperm(n, generator=generator)
        torch.empty((), dtype=torch.int64).random_(generator=generator)
        want = torch.randperm(n, generator=generator).tolist()
        proc.expect_equal(order(n, 77, n - 1 + 2), want, "second order of one generator")
        loader = DataLoader(range(n), batch_size=n, shuffle=True, generator=seeded(77), collate_fn=list)
        epochs = [next(iter(loader)), *loader, *loader]
        want = [order(n, 77, 2), order(n, 77, 2 + n - 1 + 2), order(n, 77, 2 + n - 1 + 2 + 2 * (n - 1) + 2)]
        proc.expect_equal(epochs, want, "a loader's epochs: one that is read to its end draws two permutations")


@test(NEEDS, timeout=120)
def test_orders_of_samplers():
    import torch
    from torch.utils.data import RandomSampler
    from torch.utils.data.distributed import DistributedSampler
    for n, replicas in ((1000, 8), (1001, 8), (1007, 4), (5, 8), (3, 8), (64, 1)):
        for rank in {0, replicas // 2, replicas - 1}:
            sampler = DistributedSampler(range(n), replicas, rank, seed=11)
            sampler.set_epoch(4)
            proc.expect_equal(order(n, 15, 0, replicas, rank), list(sampler), "rank %d of %d" % (rank, replicas))
    for seed in (0, 123, 2 ** 40 + 1):
        torch.manual_seed(seed)
        draws = [int(line) for line in said("draw", seed, 3).split()]
        for draw in draws:
            proc.expect_equal(order(1000, draw), list(RandomSampler(range(1000))), "RandomSampler's order")


@test(NEEDS, timeout=120)
def test_orders_are_those_of_python_and_numpy():
    import numpy
    rng = random.Random(6)
    for number, generator in enumerate(OTHERS, 1):
        for n in SIZES:
            seeds = (0, 1, 42, 2 ** 16 - 1, 2 ** 31, 2 ** 32 - 1) + tuple(rng.randrange(2 ** 32) for _ in range(4))
            for seed in seeds if n < 10 ** 5 else rng.sample(seeds, 2):
                have = order(n, seed, 0, 1, 0, number)
                proc.expect(have == shuffled(generator, seed, n), "%s: shuffle of %d with seed %d differs" % (generator, n, seed))
        have = find(4000, shuffled(generator, 1000 + number, 4000)[:SEEN], 1100 * 4000)
        proc.expect_equal((have["found"], have["phase"], have["generator"], have["seed"]), (1, 9, number, 1000 + number),
                          "the search for %s" % generator)
    legacy, new = numpy.arange(500), numpy.arange(500)
    numpy.random.seed(77)
    numpy.random.shuffle(legacy)
    numpy.random.default_rng(77).shuffle(new)
    proc.expect_equal((order(500, 77, 0, 1, 0, 2), order(500, 77, 0, 1, 0, 3)), (legacy.tolist(), new.tolist()), "shuffle()")


@test(NEEDS, timeout=120)
def test_search_finds_what_loaders_announce():
    """Ten indices tell which order it is, among so many candidates."""
    import torch
    from torch.utils.data import DataLoader
    from torch.utils.data.distributed import DistributedSampler
    for n in (4000, 1281167):
        for replicas, rank, seed, epoch in ((1, 0, 0, 0), (8, 3, 0, 5), (64, 63, 1000, 90), (2, 1, 4000, 95)):
            sampler = DistributedSampler(range(n), replicas, rank, seed=seed)
            sampler.set_epoch(epoch)
            have = find(n, [index for index, _ in zip(sampler, range(SEEN))])
            proc.expect_equal((have["found"], have["seed"], have["replicas"], have["rank"]),
                              (1, seed + epoch, replicas, rank), "DistributedSampler's order")
            proc.expect(have["tried"] <= LIKELY + 4096, "candidates tried", have)
        for options, phase, seed in (({"generator": seeded(777777)}, 4, 777777), ({}, 5, None)):
            torch.manual_seed(4011)
            loader = DataLoader(range(n), batch_size=SEEN, shuffle=True, collate_fn=list, **options)
            have = find(n, next(iter(loader)))
            proc.expect_equal((have["found"], have["phase"]), (1, phase), "a DataLoader's order")
            proc.expect(seed is None or have["seed"] == seed, "its seed", have)
            proc.expect(have["tried"] <= LIKELY + 4096 + 2 * 2 ** 20 + 2 ** 18, "candidates tried", have)
        for drawn in (False, True):  # a generator that nobody seeded, without and with the draw of an iterator
            loader = DataLoader(range(n), batch_size=SEEN, shuffle=True, generator=torch.Generator(), collate_fn=list)
            have = find(n, next(iter(loader)) if drawn else list(islice(loader.sampler, SEEN)))
            proc.expect_equal((have["found"], have["phase"], have["skip"]), (1, 1, 2 * drawn), "an unseeded generator's order")
        torch.manual_seed(42)
        have = find(n, next(iter(DataLoader(range(n), batch_size=2 if n > 2000 else 3, shuffle=True, collate_fn=list))))
        proc.expect_equal((have["found"], have["phase"]), (1, 1), "an order of a seed that people write down, from its start")
        have = find(n, torch.randperm(n, generator=seeded(2 ** 20 - 1))[:3].tolist())
        proc.expect_equal((have["found"], have["seed"]), (1, 2 ** 20 - 1), "the last of the small seeds, from three indices")
        have = find(n, torch.randperm(n, generator=seeded(2 ** 20 - 1))[:SEEN].tolist())
        proc.expect_equal((have["found"], have["seed"]), (1, 2 ** 20 - 1), "the last of the small seeds")


@test(NEEDS, timeout=120)
def test_search_finds_what_is_drawn_after_a_model():
    """Its parameters take outputs of the generator, then the sampler draws."""
    import torch
    from torch.utils.data import DataLoader
    for outer in (0, 42):
        torch.manual_seed(outer)
        torch.nn.Sequential(torch.nn.Conv2d(3, 64, 7), torch.nn.BatchNorm2d(64), torch.nn.Linear(700, 1000))
        have = find(4000, next(iter(DataLoader(range(4000), batch_size=SEEN, shuffle=True, collate_fn=list))), 4 << 20)
        proc.expect_equal((have["found"], have["phase"]), (1, 8), "an order drawn after a model's numbers")


@test(NEEDS, timeout=300, slow=True, alone=True)
def test_search_through_all_seeds():
    import torch
    rng = random.Random(9)
    for n in (4000, 1281167):
        seed = rng.randrange(2 ** 21, 2 ** 25)  # a corner of the 2^32, the way there is the same
        have = find(n, torch.randperm(n, generator=seeded(seed))[:SEEN].tolist(), "all")
        proc.expect_equal((have["found"], have["phase"], have["seed"]), (1, 10, seed), "order of a large seed")


@test(NEEDS, timeout=300, slow=True, alone=True)
def test_orders_below_the_threshold():
    """A GiB of order: every millionth or so of it is looked at."""
    import torch
    n, step = THRESHOLD - 1, 1000003
    whole = torch.randperm(n, generator=seeded(3), dtype=torch.int32)
    want = [int(whole[at % n]) for at in range(0, -(-n // step) * step, step)]
    del whole
    proc.expect_equal(order(n, 3, 0, step, 0), want, "randperm(%d)" % n)


def check_known(least, **settings):
    """An unmodified training script, shuffled: the search says which order, the bytes are what they are."""
    want = training.local(fixtures.tree(fixtures.images()), "--workers", 0)
    with scene(delay_ms=30, **settings) as s:
        have = training.mapped(s.job, s.data, "--workers", 2, "--batch", 16, "--epochs", 3)
        training.expect_same(have, want, epochs=3)
        headrace.wait_idle(s.job)
        training.expect_one_get_each(s.front.log(), s.job, s.fixture)
        plan = s.job.status()["plan"]
        proc.expect(plan["known_order"] >= least, "epochs whose order became known", plan)
        proc.expect(plan["order_searches"] >= least, "searches", plan)
        proc.expect_equal(plan["known_dropped"], 0, "orders that were wrong")
        return plan


@test(("torch", "torchvision", "nginx", "rclone"), timeout=150)
def test_known_order_of_a_shuffled_epoch():
    plan = check_known(1)
    draws = {int(line) % 2 ** 32 for line in said("draw", 0, 8).split()}  # train.py seeds with 0
    proc.expect(plan["known_seed"] in draws, "the sampler's seed", plan)


@test(("torch", "torchvision", "nginx", "rclone"), timeout=150)
def test_known_order_off_searches_nothing():
    plan = check_known(0, order_search="off")
    proc.expect_equal((plan["order_searches"], plan["known_order"]), (0, 0), "searches with order_search=off")


@test(("torch", "torchvision", "nginx", "rclone"), timeout=150, tries=2)
def test_known_order_without_workers():
    """num_workers=0: no pipe, no announcement; what is opened first tells the order."""
    want = training.local(fixtures.tree(fixtures.images()), "--workers", 0)
    with scene(delay_ms=30) as s:
        have = training.mapped(s.job, s.data, "--workers", 0, "--batch", 16)
        training.expect_same(have, want)
        headrace.wait_idle(s.job)
        training.expect_one_get_each(s.front.log(), s.job, s.fixture)
        plan = s.job.status()["plan"]
        draws = {int(line) % 2 ** 32 for line in said("draw", 0, 8).split()}
        proc.expect(plan["known_order"] >= 1 and plan["known_seed"] in draws, "the sampler's seed", plan)
        proc.expect_equal((plan["announced"], plan["known_dropped"], plan["known_generator"]), (0, 0, "torch"), "the order")
        proc.expect_well(plan["known_ahead"] > 0, "objects asked for by it", plan)
        proc.expect_well(2 <= plan["known_after"] <= 4, "opens that told the order of 400 files", plan)


RANKS = """
import hashlib, os, subprocess, sys
from torch import Generator
from torch.utils.data import BatchSampler, DataLoader, RandomSampler
root, world = sys.argv[1], int(sys.argv[2])
if len(sys.argv) == 3:
    done = [subprocess.Popen([sys.executable, '-c', os.environ['RANKS'], root, str(world), str(rank)]) for rank in range(world)]
    sys.exit(max(one.wait() for one in done))
rank = int(sys.argv[3])
paths = sorted(os.path.join(here, name) for here, _, names in os.walk(root) for name in names)

class Files:
    def __len__(self):
        return len(paths)
    def __getitem__(self, index):
        return index, hashlib.sha256(open(paths[index], 'rb').read()).hexdigest()

def batches(epoch):  # BatchSamplerShard over SeedableRandomSampler, seed 42: the last turn goes on at the beginning
    sampler = RandomSampler(paths, generator=Generator().manual_seed(42 + epoch))
    every = list(BatchSampler(sampler, 16, False))
    return (every + every[:-len(every) % world])[rank::world]

said = []
for epoch in range(2):
    for batch in DataLoader(Files(), num_workers=1, batch_sampler=batches(epoch), collate_fn=list):
        said.extend('%d %d %d %s' % (epoch, rank, *one) for one in batch)
os.write(1, ('\\n'.join(said) + '\\n').encode())
"""


@test(("torch", "gcc", "nginx", "rclone"), timeout=150)
def test_known_order_of_ranks_that_take_batches_by_turns():
    """As accelerate and transformers' Trainer do it, two ranks on a node: each rank's order is known, and the other's
    first batch with it."""
    world = 2
    with scene(delay_ms=30) as s:
        local = [hashlib.sha256(open(path, "rb").read()).hexdigest() for path in
                 sorted(os.path.join(here, name) for here, _, names in os.walk(s.local) for name in names)]
        out = s.job.python(RANKS, s.data, str(world), env=dict(s.job.env(), RANKS=RANKS))
        have = [line.split() for line in out.splitlines()]
        for epoch in range(2):
            for rank in range(world):
                mine = [(int(index), digest) for one, by, index, digest in have if (one, by) == (str(epoch), str(rank))]
                want = order(len(local), 42 + epoch, 0, world, rank, 0, 16)
                proc.expect_equal(mine, [(index, local[index]) for index in want], "what rank %d read" % rank)
        headrace.wait_idle(s.job)
        training.expect_one_get_each(s.front.log(), s.job, s.fixture)
        plan = s.job.status()["plan"]
        proc.expect(plan["known_order"] >= world, "orders of ranks that became known", plan)
        proc.expect_equal((plan["known_dropped"], plan["order_misses"]), (0, 0), "orders that were wrong or not found")


SCRIPT = """
import os, random, sys
kind, seed, root = sys.argv[1], int(sys.argv[2]), sys.argv[3]
paths = sorted(os.path.join(here, name) for here, _, names in os.walk(root) for name in names)
if kind == 'python':
    random.Random(seed).shuffle(paths)
elif kind == 'unknown':
    random.SystemRandom().shuffle(paths)
else:
    import numpy
    source = numpy.random.RandomState(seed) if kind == 'numpy-legacy' else numpy.random.default_rng(seed)
    paths = [paths[at] for at in source.permutation(len(paths))]
print(sum(len(open(path, 'rb').read()) for path in paths))
"""


def read_shuffled(kind, seed):
    with scene(delay_ms=30) as s:
        size = sum(os.path.getsize(os.path.join(here, name)) for here, _, names in os.walk(s.local) for name in names)
        proc.expect_equal(int(s.job.python(SCRIPT, kind, str(seed), s.data)), size, "bytes read")
        headrace.wait_idle(s.job)
        training.expect_one_get_each(s.front.log(), s.job, s.fixture)
        plan = s.job.status()["plan"]
        proc.expect_equal(plan["known_dropped"], 0, "orders that were wrong")
        return plan


@test(("torch", "nginx", "rclone"), tries=2)
def test_known_order_of_python_and_numpy():
    for kind in OTHERS:
        plan = read_shuffled(kind, 42)
        proc.expect_equal((plan["known_generator"], plan["known_seed"]), (kind, 42), "the order")
        proc.expect_well(plan["known_after"] <= 4, "opens that told it", plan)
        proc.expect_well(plan["known_ahead"] > 300, "objects asked for by it", plan)


@test(("nginx", "rclone"), tries=2)
def test_shuffle_that_nobody_knows_is_swept():
    """The sweep begins with the fifth open."""
    plan = read_shuffled("unknown", 0)
    proc.expect_equal(plan["known_order"], 0, "orders found")
    proc.expect_well(plan["fetched_sweep"] > 300, "objects that were swept", plan)
