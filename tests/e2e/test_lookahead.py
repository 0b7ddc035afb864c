"""Look-ahead: what a DataLoader announced to its workers is fetched before it is opened; a loader that lies does no
harm."""
from harness import fixtures, headrace, proc, training
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
        proc.expect(plan["announced"] >= least, "objects announced and understood", plan)
        # An open that was noted before its batch was understood counts as no use of it.
        proc.expect(plan["announced_used"] >= 0.9 * plan["announced"], "announced objects that were opened", plan)
        proc.expect(plan["fetched_lookahead"] > 0, "objects fetched because they were announced", plan)
        proc.expect_equal(plan["lookahead_dropped"], 0, "guesses taken back")


@test(NEEDS, timeout=150)
def test_lookahead_fork():
    check_loader("fork", 300)


@test(NEEDS, timeout=150)
def test_lookahead_spawn():
    check_loader("spawn", 32)


@test(NEEDS, timeout=150)
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
