"""Jupyter itself: a kernel whose kernel.json is README's, its interrupts and restarts."""
import json
import os
import re

from harness import fixtures, headrace, paths, proc, servers
from harness.case import test
from harness.faults import FaultProxy

NEEDS = ("rclone", "py:jupyter_client", "py:ipykernel")
READY_S, CELL_S = 40, 30


def argv_of_readme():
    """The `"argv"` of README's row for Jupyter, with this machine's Python."""
    with open(os.path.join(paths.ROOT, "README.md")) as file:
        row = next(line for line in file if line.startswith("| Jupyter |"))
    argv = json.loads(re.search(r'"argv": (\[.*?\])', row).group(1))
    return [paths.PYTHON if word == "python" else word for word in argv]


class Notebook:
    """What a notebook does with its kernel; the environment is that of a Jupyter server, the map is in kernel.json alone."""

    def __init__(self, job):
        from jupyter_client.manager import KernelManager
        home = proc.temp_folder("hr-jupyter-")
        folder = home + "/data/kernels/headrace"
        os.makedirs(folder)
        with open(folder + "/kernel.json", "w") as out:
            json.dump({"argv": argv_of_readme(), "display_name": "headrace", "language": "python",
                       "env": {"HEADRACE_MAP": ";".join(job.maps)}}, out)
        os.environ.update(job.env(), PATH=job.bin_dir + ":" + os.environ["PATH"], HOME=home, JUPYTER_DATA_DIR=home + "/data",
                          JUPYTER_RUNTIME_DIR=home + "/run", IPYTHONDIR=home + "/ipython", PYDEVD_DISABLE_FILE_VALIDATION="1")
        self.manager = KernelManager(kernel_name="headrace")
        self.client = None
        self.manager.start_kernel()
        self.connect()

    def connect(self):
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=READY_S)

    def reply_to(self, sent):
        while True:
            message = self.client.get_shell_msg(timeout=CELL_S)
            if message["parent_header"].get("msg_id") == sent:
                return message["content"]

    def value(self, expression):
        """What a cell computes, as text."""
        sent = self.client.execute("", user_expressions={"it": expression}, silent=True)
        it = self.reply_to(sent)["user_expressions"]["it"]
        proc.expect_equal(it["status"], "ok", "%s: %s" % (expression, it.get("evalue")))
        return it["data"]["text/plain"]

    def restart(self):
        self.client.stop_channels()
        self.manager.restart_kernel(now=True)
        self.connect()

    def end(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@test(NEEDS)
def test_notebook_interrupt_and_restart():
    """An interrupt ends the cell that waits for an object, not the kernel; after a restart what was read is not fetched."""
    def fault(path, nth):
        return ("stall", 30) if path.endswith("/a/one.txt") and nth == 1 else None
    with servers.Rclone(fixtures.mixed()) as store, FaultProxy(store, fault) as proxy:
        data = os.path.join(proc.temp_folder(), "data")
        source = "%s=s3://%s/%s" % (data, fixtures.BUCKET, fixtures.PREFIX)
        with headrace.Job(source, proxy, access=store.access, secret=store.secret, prefetch="off") as job:
            words = "len(open(%r).read().split())" % (data + "/top.txt")
            notebook = Notebook(job)
            try:
                proc.expect_equal(notebook.value(words), "4", "words")
                daemon = job.daemon_pid()
                stuck = notebook.client.execute("open(%r)" % (data + "/a/one.txt"), stop_on_error=False)
                proc.wait_until(lambda: any(path.endswith("/a/one.txt") for path in list(proxy.seen)), 20, "the cell at its open")
                notebook.manager.interrupt_kernel()
                reply = notebook.reply_to(stuck)
                proc.expect_equal((reply["status"], reply.get("ename")), ("error", "KeyboardInterrupt"), "the cell")
                proc.expect_equal(notebook.value(words), "4", "words, after the interrupt")
                before = notebook.value("__import__('os').getpid()")
                seen = dict(proxy.seen)
                notebook.restart()
                proc.expect(notebook.value("__import__('os').getpid()") != before, "it is the same kernel")
                proc.expect_equal(notebook.value(words), "4", "words, after the restart")
            finally:
                notebook.end()
            proc.expect_equal(job.daemon_pid(), daemon, "the daemon")
            proc.expect_equal([path for path in proxy.seen if path.endswith("/top.txt") and proxy.seen[path] != seen[path]], [],
                              "fetched again")
