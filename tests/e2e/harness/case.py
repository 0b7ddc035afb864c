"""What a test is: a function test_* of tests/e2e/test_*.py, with what it needs and how long it may take."""
import importlib
import os
import sys

from . import paths, proc


def test(requires=(), timeout=60, alone=False, slow=False, tries=1):
    """requires: names for paths.missing. timeout: seconds. alone: nothing else runs meanwhile (it measures).
    slow: only in the full run. tries: the best of so many runs decides where proc.expect_well failed; any other failure
    is one."""
    def mark(function):
        function.requires = (requires,) if isinstance(requires, str) else tuple(requires)
        function.timeout, function.alone, function.slow, function.tries = timeout, alone, slow, tries
        return function
    return mark


class Case:
    def __init__(self, module, name, function):
        self.module, self.name = module, name
        self.requires = getattr(function, "requires", ())
        self.timeout = getattr(function, "timeout", 60)
        self.alone = getattr(function, "alone", False)
        self.slow = getattr(function, "slow", False)
        self.tries = getattr(function, "tries", 1)
        self.function = function

    def reason_to_skip(self):
        for requirement in self.requires:
            reason = paths.missing(requirement)
            if reason:
                return reason
        return ""


def discover(pattern=""):
    """All tests in order of file and line; a name used twice is an error."""
    sys.path.insert(0, paths.E2E)
    found, names = [], set()
    for file in sorted(os.listdir(paths.E2E)):
        if not (file.startswith("test_") and file.endswith(".py")):
            continue
        module = importlib.import_module(file[:-3])
        functions = [(value.__code__.co_firstlineno, name, value) for name, value in vars(module).items()
                     if name.startswith("test_") and callable(value) and value.__module__ == module.__name__]
        for _, name, function in sorted(functions, key=lambda item: item[0]):
            proc.expect(name not in names, "two tests are called " + name)
            names.add(name)
            if pattern in module.__name__ + "." + name:
                found.append(Case(module.__name__, name, function))
    return found
