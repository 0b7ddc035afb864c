"""Small C programs made by tests: compiled with the machine's gcc into a temporary folder."""
import os

from . import proc


def compile_c(text, *flags, name="program"):
    folder = proc.temp_folder("hr-cc-")
    source = os.path.join(folder, name + ".c")
    with open(source, "w") as out:
        out.write(text)
    made = os.path.join(folder, name)
    done = proc.run(["gcc", "-O1", "-g", "-D_GNU_SOURCE", "-o", made, source, *flags], 60)
    proc.expect(done.returncode == 0, "gcc failed", proc.tail(done.stderr))
    return made
