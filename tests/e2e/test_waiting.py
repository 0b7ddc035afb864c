"""What commands say while a store keeps them waiting, and how they end."""
import os
import signal
import socket

from harness import headrace, proc
from harness.case import test

CLOSED = "http://127.0.0.1:9"  # discard: nobody serves it any more
WORDS = b"still waiting, for up to "


def commands(point, folder):
    return {"ls": ["ls", point], "stat": ["stat", point + "/x"], "cat": ["cat", point + "/x"], "du": ["du", point],
            "refresh": ["refresh", point], "warm": ["warm", point],
            "export": ["index", "export", os.path.join(folder, "names"), point]}


def job_at(endpoint, **settings):
    folder = proc.temp_folder()
    return headrace.Job("%s/data=s3://bkt/p" % folder, endpoint, access="a", secret="b", **settings), folder


def read(path):
    with open(path, "rb") as file:
        return file.read()


def say_once_and_stop(endpoint, words):
    """Each command says what it waits for, in words, once; and ends by Ctrl-C."""
    job, folder = job_at(endpoint, timeout_s=600)
    with job:
        env = dict(job.env(), HEADRACE_MAP=";".join(job.maps))
        running = {name: (proc.start([job.program, *argv], os.path.join(folder, name + ".log"), env=env))
                   for name, argv in commands(folder + "/data", folder).items()}
        for name in running:
            log = os.path.join(folder, name + ".log")
            proc.wait_until(lambda log=log: WORDS in read(log), 15, "%s says what it waits for" % name)
        for name, child in running.items():
            proc.expect(child.poll() is None, "%s has ended" % name)
            child.send_signal(signal.SIGINT)
            proc.expect_equal(child.wait(30), -signal.SIGINT, "status of %s after Ctrl-C" % name)
            said = read(os.path.join(folder, name + ".log"))
            proc.expect_equal(said.count(WORDS), 1, "lines of %s" % name)
            for word in (b"headrace: ", endpoint.encode(), b"s3://bkt/p", *words):
                proc.expect(word in said, "%s does not say %s" % (name, word), said)


@test(timeout=60)
def test_commands_say_what_they_wait_for_where_nothing_listens():
    say_once_and_stop(CLOSED, [b"connect"])


@test(timeout=60)
def test_commands_say_what_they_wait_for_where_nobody_answers():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(128)
        say_once_and_stop("http://127.0.0.1:%d" % silent.getsockname()[1], [])


@test(timeout=60)
def test_commands_end_with_the_reason():
    """The time is over: a line with the endpoint and what it said, and status 1."""
    endpoint = CLOSED
    job, folder = job_at(endpoint, timeout_s=1)
    with job:
        for name, argv in commands(folder + "/data", folder).items():
            done = job.command(*argv)
            proc.expect_equal(done.returncode, 1, "status of " + name)
            proc.expect(endpoint.encode() in done.stderr and b"check the endpoint" in done.stderr, "reason of " + name,
                        done.stderr)
