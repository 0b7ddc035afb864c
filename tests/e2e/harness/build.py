"""C programs made by tests: compiled with the machine's gcc into a temporary folder."""
import os

from . import paths, proc


def compile_c(text, *flags, name="program"):
    folder = proc.temp_folder("hr-cc-")
    source = os.path.join(folder, name + ".c")
    with open(source, "w") as out:
        out.write(text)
    return compile_files(os.path.join(folder, name), [source], *flags)


def compile_files(made, sources, *flags):
    """Sources of the checkout (their includes start at its root) into the program `made`."""
    sources = [os.path.join(paths.ROOT, source) for source in sources]
    argv = ["gcc", "-O1", "-g", "-D_GNU_SOURCE", "-I", paths.ROOT, "-o", made, *sources, *flags]
    done = proc.run(argv, 60)
    proc.expect(done.returncode == 0, "gcc failed", proc.tail(done.stderr))
    return made
