"""`headrace run --record` and `--replay`: yesterday's order of opens is fetched ahead of today's job."""
import os
import random
import signal

from harness import headrace, proc
from harness.case import test
from harness.scene import scene

NEEDS = ("nginx", "rclone")
READ = """
import hashlib, sys
total = hashlib.sha256()
for line in open(sys.argv[2]):
    with open(sys.argv[1] + '/' + line.rstrip('\\n'), 'rb') as file:
        total.update(file.read())
print(total.hexdigest())
"""


def shuffled(s, seed, folders=("",)):
    """A file with paths relative to the map, a line each."""
    names = sorted(os.path.relpath(os.path.join(d, f), s.local) for d, _, fs in os.walk(s.local) for f in fs)
    names = [name for name in names if name.startswith(tuple(folders))]
    random.Random(seed).shuffle(names)
    path = os.path.join(proc.temp_folder(), "names")
    with open(path, "w") as out:
        out.write("".join(name + "\n" for name in names))
    return names, path


def run(job, options, argv):
    plain = job.run_argv(argv)
    at = plain.index("--")
    done = proc.run(plain[:at] + options + plain[at:], 60, env=job.env())
    job.note_daemon()
    return done


def reader(s, path):
    return ["/usr/bin/python3", "-c", READ, s.data, path]


def lines_of(path):
    with open(path) as file:
        return file.read().splitlines()


@test(NEEDS, tries=2)
def test_record_then_replay():
    with scene(delay_ms=5) as s:
        names, listed = shuffled(s, 1)
        order = os.path.join(proc.temp_folder(), "order")
        first = run(s.job, ["--record", order], reader(s, listed))
        proc.expect(first.returncode == 0, "run --record", proc.tail(first.stderr))
        proc.wait_until(lambda: os.path.exists(order), 10, "the order is written when the job has ended")
        proc.expect_equal(lines_of(order), ["headrace-order 1"] + names, "the order of first opens")
        with headrace.Job(s.job.maps, s.front, list="all") as other:  # a cache of its own, cold
            before = s.front.log().keys()
            second = run(other, ["--replay", order], reader(s, listed))
            proc.expect_equal(second.stdout, first.stdout, "the same bytes")
            plan = other.status()["plan"]
            gets = sum(s.front.log().keys().values()) - sum(before.values()) - other.status()["hedges"]
            proc.expect(gets <= len(names), "one GET an object", gets)
            proc.expect_equal(plan["replay_steps"], len(names), "names of the order")
            proc.expect_equal((plan["replay_misses"], plan["replay_dropped"], plan["fetched_sweep"]), (0, 0, 0),
                              "misses, orders dropped, objects swept")
            proc.expect_equal(plan["fetched_replay"] + plan["fetched_demand"], len(names), "objects by reason")
            proc.expect_well(plan["fetched_replay"] > 0.8 * len(names), "most were there before they were asked for", plan)


@test(NEEDS)
def test_replay_of_another_program():
    with scene() as s:
        names, listed = shuffled(s, 2, ("n000", "n001", "n002"))
        order = os.path.join(proc.temp_folder(), "order")
        with open(order, "w") as out:
            out.write("headrace-order 1\n# by hand\n" + "".join("n007/img_%05d.jpg\n" % n for n in range(7, 400, 8))
                      + "n000/not%20there\n")
        done = run(s.job, ["--replay", order], reader(s, listed))
        proc.expect(done.returncode == 0, "run --replay", proc.tail(done.stderr))
        headrace.wait_idle(s.job)
        plan = s.job.status()["plan"]
        proc.expect_equal((plan["replay_steps"], plan["replay_unknown"]), (50, 1), "names, unknown names")
        proc.expect_equal(plan["replay_dropped"], 1, "orders that the job did not follow")
        fetched = len(s.front.log().gets) - s.job.status()["hedges"]
        proc.expect(fetched <= 400, "no object twice but by hedges", fetched)


def start_recorded(s):
    """A program that opens one object and stays: (the order's file, the program)."""
    order = os.path.join(proc.temp_folder(), "order")
    argv = s.job.run_argv(["sh", "-c", "cat %s/n000/img_00008.jpg >/dev/null; exec sleep 60" % s.data])
    at = argv.index("--")
    return order, proc.start(argv[:at] + ["--record", order] + argv[at:], os.path.join(proc.temp_folder(), "log"),
                             env=s.job.env())


@test(NEEDS)
def test_stop_writes_the_order():
    with scene() as s:
        order, child = start_recorded(s)
        proc.wait_until(lambda: s.job.command("status").returncode == 0 and len(s.front.log().gets) == 1, 10, "the open")
        s.job.daemon_pid()
        s.job.stop()
        proc.expect_equal(lines_of(order), ["headrace-order 1", "n000/img_00008.jpg"], "the order at `headrace stop`")
        child.kill()
        child.wait()


@test(NEEDS)
def test_killed_daemon_leaves_the_part():
    with scene() as s:
        order, child = start_recorded(s)
        expected = ["headrace-order 1", "n000/img_00008.jpg"]
        proc.wait_until(lambda: os.path.exists(order + ".part") and lines_of(order + ".part") == expected, 10,
                        "the open is in the file while its program runs")
        os.kill(s.job.daemon_pid(), signal.SIGKILL)
        child.kill()
        child.wait()
        proc.expect(not os.path.exists(order), "no order has been ended")
        proc.expect_equal(lines_of(order + ".part"), expected, "what was opened until then")
        done = run(s.job, ["--replay", order], ["true"])
        proc.expect_equal(done.returncode, 125, "status of --replay of the order that is missing")
        proc.expect(b"--replay " + order.encode() + b".part" in done.stderr, "what to replay instead", proc.tail(done.stderr))
        done = run(s.job, ["--replay", order + ".part"], ["cat", s.data + "/n000/img_00008.jpg"])
        proc.expect(done.returncode == 0, "run --replay", proc.tail(done.stderr))
        proc.expect_equal(s.job.status()["plan"]["replay_steps"], 1, "names of the order")
        done = run(s.job, ["--record", order], ["cat", s.data + "/n000/img_00016.jpg"])
        proc.expect(order.encode() + b".part.old now" in done.stderr, "where the part went", proc.tail(done.stderr))
        proc.expect_equal(lines_of(order + ".part.old"), expected, "the part is kept")
        proc.wait_until(lambda: os.path.exists(order), 10, "the order is written when the job has ended")
        proc.expect_equal(lines_of(order), ["headrace-order 1", "n000/img_00016.jpg"], "the order of the next run")
        proc.expect(not os.path.exists(order + ".part"), "no part is left")


@test(NEEDS)
def test_two_records_to_one_file():
    """Side by side the second is refused, from another daemon, too, and the first is whole; one after the other each is."""
    with scene() as s:
        order, child = start_recorded(s)
        part = ["headrace-order 1", "n000/img_00008.jpg"]
        proc.wait_until(lambda: os.path.exists(order + ".part") and lines_of(order + ".part") == part, 10, "the open")
        with headrace.Job(s.job.maps, s.front) as other:
            for job in (s.job, other):
                done = run(job, ["--record", order], ["cat", s.data + "/n000/img_00016.jpg"])
                proc.expect(done.returncode == 125 and b"another job is recorded to it now" in done.stderr, "refused",
                            done.returncode, proc.tail(done.stderr))
        proc.expect_equal(lines_of(order + ".part"), part, "the first is as it was")
        child.kill()
        child.wait()
        done = run(s.job, ["--record", order], ["cat", s.data + "/n000/img_00016.jpg"])
        proc.expect_equal((done.returncode, done.stderr), (0, b""), "the next run, at once")
        proc.wait_until(lambda: lines_of(order) == ["headrace-order 1", "n000/img_00016.jpg"], 10, "its order")
        proc.expect(not os.path.exists(order + ".part.old"), "nothing was left over")


@test(NEEDS)
def test_orders_that_cannot_be():
    with scene() as s:
        bad = os.path.join(proc.temp_folder(), "bad")
        with open(bad, "w") as out:
            out.write("something else\n")
        for options, text in ((["--replay", bad], b"is no recorded order"), (["--replay", bad + "x"], b"No such file"),
                              (["--record", "/none/at/all"], b"cannot record")):
            done = run(s.job, options, ["true"])
            proc.expect(done.returncode == 125 and text in done.stderr, "%s: %d" % (options, done.returncode), done.stderr)
        with open(bad, "w") as out:
            out.write("headrace-order 1\n@1\na\n")
        done = run(s.job, ["--replay", bad], ["true"])
        proc.expect(done.returncode == 125 and b"this job has 1 maps" in done.stderr, "a map that is not", done.stderr)
