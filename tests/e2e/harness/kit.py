"""headrace as it is unpacked or installed somewhere: the command, the object and the entrypoint in one folder."""
import os
import shutil

from . import paths, proc

ENTRYPOINT = os.path.join(paths.ROOT, "scripts", "headrace-entrypoint")


def kit():
    folder = os.path.join(proc.temp_folder("hr-kit-"), "headrace")
    os.makedirs(folder)
    for file in (paths.HEADRACE, paths.LIBRARY, ENTRYPOINT):
        shutil.copy2(file, folder)
    return folder


def map_env(job, **more):
    """Everything by environment, as a container gets it."""
    return {**job.env(), "HEADRACE_MAP": ";".join(job.maps), **more}
