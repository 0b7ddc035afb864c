"""Runs one test in this process: `python3 -m harness.one NAME`. Status 0 passed, 77 skipped, 75 a policy did poorly, 1 failed."""
import os
import sys
import traceback

from . import case, proc

SKIPPED, POOR = 77, 75


def left_behind():
    """headrace processes that outlived the test's end: a daemon nobody stopped."""
    return [proc.command_line(pid) for pid in proc.descendants()
            if proc.alive(pid) and "headrace" in os.path.basename(proc.command_line(pid).split(" ")[0])]


def main(name):
    proc.adopt_orphans()
    cases = [one for one in case.discover() if one.name == name]
    if not cases:
        print("no test called", name)
        return 1
    try:
        cases[0].function()
        left = left_behind()
        proc.expect(not left, "left behind: %s" % left)
    except proc.Skip as skip:
        print(skip)
        return SKIPPED
    except proc.Failure as failure:
        where = traceback.extract_tb(failure.__traceback__)
        for frame in where:
            if frame.filename.startswith(os.path.dirname(os.path.dirname(__file__))):
                print("  at %s:%d %s" % (os.path.basename(frame.filename), frame.lineno, frame.line))
        print(failure)
        return POOR if isinstance(failure, proc.Poor) else 1
    except Exception:  # noqa: whatever the test did not expect is its failure
        traceback.print_exc(file=sys.stdout)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
