"""The tree for a machine of another architecture."""
import os

from harness import paths, proc
from harness.case import test

SKIPPED = 77


@test(timeout=600, slow=True)
def test_cross_aarch64_compiles_and_its_slot_and_index_tests_run():
    build = os.path.join(paths.BUILD, "cross-aarch64-linux-gnu")
    done = proc.run(["sh", "scripts/cross", "aarch64-linux-gnu"], 580, cwd=paths.ROOT, env=dict(os.environ, B=build))
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode == SKIPPED:
        raise proc.Skip(text.strip())
    proc.expect_equal(done.returncode, 0, "scripts/cross: " + proc.tail(done.stdout, done.stderr))
    proc.expect("libheadrace.so: AArch64" in text, "the object's machine", text)
    proc.expect(text.count(": 0 of ") == 10, "ten test programs without a failure", text)
