"""Where things are in the checkout, and what this machine has."""
import functools
import glob
import os
import shutil
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
E2E = os.path.join(ROOT, "tests", "e2e")
BUILD = os.path.join(ROOT, "build")
HEADRACE = os.path.join(BUILD, "headrace")
LIBRARY = os.path.join(BUILD, "libheadrace.so")
PYTHON = "/usr/bin/python3"  # the distribution's: python3-torch belongs to it
VENV_BIN = os.path.join(BUILD, "venv", "bin")
VENV_ALL_PYTHON = os.path.join(BUILD, "venv-all", "bin", "python3")  # scripts/venv --all
TOOLS = os.path.join(BUILD, "tools")
NGINX_MODULES = "/usr/lib/nginx/modules"


def find_program(name):
    """Path of a program, ours before the system's; None when there is none."""
    for folder in (VENV_BIN, TOOLS):
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK):
            return path
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def has_nginx_module(language):
    return os.path.exists(os.path.join(NGINX_MODULES, "ngx_http_%s_module.so" % language))


@functools.lru_cache(maxsize=None)
def python_has(module, python=PYTHON):
    """Isolated, so that no file beside us is taken for a module; asked twice, because another package manager's run
    may just be replacing parts of it."""
    code = "import importlib.util as u, sys; sys.exit(0 if u.find_spec(%r) else 1)" % module
    for pause_s in (0, 2):
        time.sleep(pause_s)
        if os.access(python, os.X_OK) and subprocess.run(
                [python, "-I", "-c", code], stdin=subprocess.DEVNULL).returncode == 0:
            return True
    return False


@functools.lru_cache(maxsize=None)
def library(name):
    """Path of a shared library by its name, in the loader's folders or one below them; '' when there is none."""
    asked = subprocess.run(["gcc", "-print-file-name=" + name], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           universal_newlines=True).stdout.strip()
    if os.path.isabs(asked):
        return os.path.realpath(asked)
    for folder in ("/usr/lib/%s-linux-gnu" % os.uname().machine, "/usr/lib"):
        for path in (os.path.join(folder, name), *sorted(glob.glob(os.path.join(folder, "*", name)))):
            if os.path.exists(path):
                return path
    return ""


@functools.lru_cache(maxsize=None)
def can_mount():
    """A private tmpfs for a full disk: needs its own mount namespace."""
    done = subprocess.run(["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=1m none /mnt"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return done.returncode == 0


NAMESPACES = ("unshare", "-Urmpf", "--mount-proc", "--kill-child")  # root in user, mount and pid namespaces of its own


@functools.lru_cache(maxsize=None)
def has_namespaces():
    """A container's stand-in; for root too, some kernels and containers refuse it."""
    done = subprocess.run([*NAMESPACES, "mount", "-t", "tmpfs", "none", "/mnt"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return done.returncode == 0


@functools.lru_cache(maxsize=None)
def missing(requirement):
    """'' when the machine has it, else the reason why a test that needs it is skipped."""
    if requirement in ("torch", "torchvision", "PIL"):
        return "" if python_has(requirement) else "no python3-%s for %s" % (requirement, PYTHON)
    if requirement == "nginx":
        scripted = has_nginx_module("lua") or has_nginx_module("perl")
        return "" if find_program("nginx") and scripted else "no nginx with lua or perl"
    if requirement == "root":
        return "" if os.geteuid() == 0 else "not root"
    if requirement == "namespaces":
        return "" if has_namespaces() else "the kernel refuses namespaces of its own"
    if requirement == "mount":
        return "" if can_mount() else "may not mount a tmpfs of its own"
    if requirement == "python-test":
        return "" if python_has("test.test_os") else "no libpython3-testsuite"
    if requirement.startswith("py:"):
        return "" if python_has(requirement[3:]) else "no module %s for %s" % (requirement[3:], PYTHON)
    if requirement.startswith("venv-all:"):
        module = requirement[9:]
        return "" if python_has(module, VENV_ALL_PYTHON) else "no module %s in build/venv-all" % module
    if requirement.startswith("lib:"):
        return "" if library(requirement[4:]) else "no library " + requirement[4:]
    if requirement.startswith("build-"):
        return "" if os.path.exists(os.path.join(ROOT, requirement, "headrace")) else "no " + requirement
    return "" if find_program(requirement) else "no program " + requirement
