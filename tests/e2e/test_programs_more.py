"""Real programs of the full run: what comes from PyPI (scripts/venv --all), Java and Rust. See test_programs."""
import os

from harness import paths, proc
from harness.case import test
from test_programs import NEEDS, check, made_by, program

COMPILE_LIMIT_S = 120


def check_loader(name):
    """programs/use_NAME.py with the Python of build/venv-all."""
    python = paths.VENV_ALL_PYTHON
    check(made_by(name, python), {name: [python, program("use_%s.py" % name), "data"]})


@test(NEEDS + ("venv-all:pyarrow",), timeout=250, slow=True)
def test_more_arrow():
    check_loader("arrow")


@test(NEEDS + ("torch", "venv-all:safetensors"), timeout=250, slow=True)
def test_more_safetensors():
    check_loader("safetensors")


@test(NEEDS + ("venv-all:datasets",), timeout=250, slow=True)
def test_more_datasets():
    check_loader("datasets")


@test(NEEDS + ("torch", "venv-all:webdataset",), timeout=250, slow=True)
def test_more_webdataset():
    check_loader("webdataset")


@test(NEEDS + ("torch", "venv-all:streaming"), timeout=250, slow=True, alone=True)
def test_more_streaming():
    """alone: its shared memory has names that all processes of the machine share."""
    check_loader("streaming")


@test(NEEDS + ("venv-all:polars",), timeout=150, slow=True)
def test_more_polars():
    check_loader("polars")


@test(NEEDS + ("venv-all:zarr",), timeout=150, slow=True)
def test_more_zarr():
    check_loader("zarr")


def compiled(*argv):
    done = proc.run(argv, COMPILE_LIMIT_S)
    proc.expect(done.returncode == 0, "%s failed" % argv[0], proc.tail(done.stdout, done.stderr))


@test(NEEDS + ("java", "javac"), timeout=250, slow=True)
def test_more_java():
    classes = proc.temp_folder("hr-java-")
    compiled("javac", "-d", classes, program("UseFiles.java"))
    check(made_by("plain"), {"java": ["java", "-cp", classes, "UseFiles", "data"]})


@test(NEEDS + ("rustc",), timeout=250, slow=True)
def test_more_rust():
    made = os.path.join(proc.temp_folder("hr-rust-"), "use_files")
    compiled("rustc", "-O", "-o", made, program("use_files.rs"))
    check(made_by("plain"), {"rust": [made, "data"]})
