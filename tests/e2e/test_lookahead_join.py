"""Look-ahead for a main process that opens nothing of the map: its list of files is a local one, and only its workers
read them. It joins the daemon that is there when it tells them of a batch."""
import hashlib
import json
import os
import random
import shutil

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
def main():
    torch.manual_seed(3)
    listed = Listed(sys.argv[1])
    parts = torch.utils.data.random_split(listed, (0.75, 0.25)) if sys.argv[3] == 'split' else [listed]
    samplers = [torch.utils.data.distributed.DistributedSampler(part, 1, 0, seed=3) for part in parts]
    loaders = [torch.utils.data.DataLoader(part, batch_size=8, sampler=sampler, num_workers=2, collate_fn=list,
                                           multiprocessing_context=sys.argv[5])
               for part, sampler in zip(parts, samplers)]
    print(is_joined())
    for epoch in range(int(sys.argv[4])):
        for sampler in samplers:
            sampler.set_epoch(epoch)
        seen = dict(item for loader in loaders for batch in loader for item in batch)
        print(hashlib.sha256(''.join(seen[index] for index in range(len(listed))).encode()).hexdigest())
    print(is_joined())
if __name__ == '__main__':
    main()
"""


def listed_argv(local, data, cache, kind="sorted", start="fork"):
    """Two epochs over the files of `local` as they are called below `data`; and what it must print in each."""
    files = sorted(fixtures.tree_digests(local).items())
    if kind != "sorted":
        random.Random(11).shuffle(files)
    folder = proc.temp_folder("hr-list-")
    listed, program = os.path.join(folder, "listed.json"), os.path.join(folder, "program.py")
    with open(listed, "w") as file:
        json.dump([os.path.join(data, name) for name, _ in files], file)
    with open(program, "w") as file:
        file.write(LISTED)
    return ([paths.PYTHON, program, listed, cache, kind, "2", start],
            hashlib.sha256("".join(digest for _, digest in files).encode()).hexdigest())


def check_listed(by_run, kind="sorted", fixture=None, joins=True, **settings):
    """Two epochs have every file's right bytes; the main process begins outside and is in it at its end."""
    with scene(fixture, delay_ms=30, **settings) as s:
        argv, want = listed_argv(s.local, s.data, s.job.cache, kind)
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


def unnamed(s):
    """The job's environment without HEADRACE_CACHE_DIR, which is where the default leads to; and how often the command
    was asked where that is."""
    folder = proc.temp_folder("hr-bin-")
    asked = os.path.join(folder, "asked")
    shutil.copy(os.path.join(paths.BUILD, "libheadrace.so"), folder)
    with open(os.path.join(folder, "headrace"), "w") as file:
        file.write("#!/bin/sh\necho \"$@\" >> '%s'\nexec '%s/headrace' \"$@\"\n" % (asked, paths.BUILD))
    os.chmod(file.name, 0o755)
    env = dict(s.job.preload_env(), LD_PRELOAD=os.path.join(folder, "libheadrace.so"),
               XDG_CACHE_HOME=os.path.dirname(s.job.cache))
    for name in ("HEADRACE_CACHE_DIR", "TMPDIR"):
        env.pop(name, None)

    def questions():
        with open(asked) as file:
            return [line.split()[3:] for line in file if line.startswith("attach ")]
    return env, questions


def check_unnamed(kind, start, fixture=None):
    cache = os.path.join(proc.temp_folder("headrace-cache-"), "headrace")
    with scene(fixture, delay_ms=30, cache=cache) as s:
        env, questions = unnamed(s)
        argv, want = listed_argv(s.local, s.data, cache, kind, start)
        done = s.job.preload(argv, env=env)
        proc.expect(done.returncode == 0, "status %s" % done.returncode, proc.tail(done.stdout, done.stderr),
                    s.job.log_tail())
        proc.expect_equal(done.stdout.decode().split(), ["False", want, want, "True"], "joined, digests, joined")
        proc.expect_equal(done.stderr.decode(), "", "what was said")
        finds = questions().count(["--find"])
        proc.expect(1 <= finds <= 3, "processes that tell the main process of the cache: 1 to 3", questions())
        headrace.wait_idle(s.job)
        training.expect_one_get_each(s.front.log(), s.job, s.fixture)
        return s.job.status()["plan"]


@test(NEEDS, timeout=120)
def test_lookahead_of_a_main_process_that_knows_no_cache():
    """Variables alone, the cache where it is by default."""
    check_announced(check_unnamed("sorted", "fork"))


@test(NEEDS, timeout=240)
def test_lookahead_of_a_main_process_that_knows_no_cache_and_spawns():
    check_announced(check_unnamed("sorted", "spawn", fixtures.numbered(BYTES, FILES)))


@test(NEEDS, timeout=120, tries=2)
def test_rows_of_a_main_process_that_knows_no_cache():
    """What was announced before it knew is learned from the second epoch."""
    plan = check_unnamed("rows", "fork", fixtures.numbered(BYTES, FILES))
    check_announced(plan)
    proc.expect_well(plan["lookahead_table"] >= 0.95 * FILES, "indices whose files are known", plan)


@test(NEEDS, timeout=120)
def test_a_loader_of_other_files():
    """A map that nobody reads, and a loader of local files: it asks three times at most, and nothing is made or begun."""
    cache = os.path.join(proc.temp_folder("headrace-cache-"), "headrace")
    with scene(cache=cache) as s:
        env, questions = unnamed(s)
        argv, want = listed_argv(s.local, s.local, cache)
        done = proc.run(argv, 120, env=env)
        proc.expect(done.returncode == 0, "status %s" % done.returncode, proc.tail(done.stdout, done.stderr))
        proc.expect_equal(done.stdout.decode().split(), ["False", want, want, "False"], "joined, digests, joined")
        proc.expect_equal(done.stderr.decode(), "", "what was said")
        proc.expect_equal(questions(), [["--find"]] * 2, "questions: at batches 8 and 64 of 100")
        proc.expect(not os.path.exists(cache), "no cache directory is made")
        proc.expect_equal(len(s.front.log().gets), 0, "requests")


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
