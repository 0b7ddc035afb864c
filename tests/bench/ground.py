"""The same ground for every row, so that none pays for what lies before it or for the machine under it: nothing left to write,
memory that this machine really has, and inodes that are not of files just deleted."""
import mmap
import os
import sys

from harness import paths, proc

SPARE_BYTES = 256 << 20  # beside the data: what programs and daemon hold themselves
LARGE_BYTES = 1 << 30    # the kernel then gives other pages than those that were freed last, too: nearly all are touched
FEW_FILES = 100          # an unlink of fewer is not felt by the rows after it
POPULATE = getattr(mmap, "MAP_POPULATE", 0x8000)  # Python 3.10 and later name it
TOUCH = "import mmap, sys; mmap.mmap(-1, int(sys.argv[1]), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | int(sys.argv[2])).close()"
LIMIT_S = 120


def available_bytes():
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:"))


def prepare(data_bytes):
    """Before a row that puts so many bytes into files or memory. Under a hypervisor that hands out memory at its first use, the
    first touch of a page costs some microseconds (4.8 instead of 1.4 here): a child has it beforehand, for whoever comes."""
    os.sync()
    available = available_bytes()
    touched = available * 3 // 4 if data_bytes > LARGE_BYTES else min(data_bytes * 5 // 4 + SPARE_BYTES, available // 2)
    done = proc.run([sys.executable, "-c", TOUCH, str(touched), str(POPULATE)], LIMIT_S)
    proc.expect(done.returncode == 0, "memory could not be touched", proc.tail(done.stderr))


def tree_bytes(folder):
    return sum(os.path.getsize(os.path.join(here, name)) for here, _, names in os.walk(folder) for name in names)


def put_away(folder):
    """Ends a temp_folder. One of many files stays on disk until the benches have ended, but not in memory: ext4 does not give
    inodes that were deleted less than a minute or five ago to new files, and passes over each of them at every create."""
    files = [os.path.join(here, name) for here, _, names in os.walk(folder) for name in names]
    if len(files) < FEW_FILES:
        proc.force_remove(folder)
        return
    os.sync()
    for path in files:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue  # a socket, or gone meanwhile
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError:
            pass  # a pipe has no pages
        finally:
            os.close(fd)
