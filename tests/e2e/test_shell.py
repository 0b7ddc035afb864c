"""What comes out of the commands' table: completion for shells, the manual page."""
import os
import re

from harness import paths, proc
from harness.case import test

COMPLETE = """
source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
_headrace
printf '%s\\n' "${COMPREPLY[@]}"
"""


def output(*argv):
    done = proc.run([paths.HEADRACE, *argv], 20)
    proc.expect_equal((done.returncode, done.stderr), (0, b""), "headrace " + " ".join(argv))
    return done.stdout.decode()


def commands():
    return list(dict.fromkeys(re.findall(r"^  headrace (\S+)", output("help"), re.M)))


def settings():
    return re.findall(r"^(\w+)(?: \[per map\])? \(default: ", output("help", "settings"), re.M)


@test("bash")
def test_completion_for_bash():
    script = os.path.join(proc.temp_folder(), "headrace.bash")
    with open(script, "w") as file:
        file.write(output("completion", "bash"))

    def words(*line):
        done = proc.run(["bash", "--norc", "-c", COMPLETE, "complete", script, *line], 20)
        proc.expect_equal((done.returncode, done.stderr), (0, b""), "bash: %s" % (line,))
        return sorted(done.stdout.decode().split())
    names = commands()
    proc.expect(len(names) > 12 and "daemon" not in names, "commands", names)
    proc.expect_equal(words("headrace", ""), sorted(names), "every command")
    proc.expect_equal(words("headrace", "sta"), ["stall", "stat", "status"], "by its beginning")
    proc.expect_equal(words("headrace", "status", "-"), ["--json"], "options of a command")
    proc.expect("--map" in words("headrace", "run", "--") and "--replay" in words("headrace", "run", "--"), "of run")
    proc.expect_equal(words("headrace", "run", "--set", ""), sorted(name + "=" for name in settings()), "settings")
    proc.expect_equal(words("headrace", "run", "python3", "--"), [], "the job's own options are not ours")
    proc.expect_equal(words("headrace", "completion", ""), ["bash", "zsh"], "shells")
    proc.expect("settings" in words("headrace", "help", "se"), "help topics")
    proc.expect_equal(proc.run([paths.HEADRACE, "completion", "tcsh"], 20).returncode, 2, "another shell")


@test("zsh")
def test_completion_for_zsh():
    """It is read without a complaint, and offers what the tables have."""
    script = os.path.join(proc.temp_folder(), "_headrace")
    with open(script, "w") as file:
        file.write(output("completion", "zsh"))
    code = ("autoload -U compinit; compinit -D -u; source $1\n"
            "_describe() { print -l -- ${(P)2} }\n_files() { print files }\n"
            "compadd() { [[ $1 == -S ]] && print -l -- ${(P)4} || print -l -- $@ }\n"
            "shift; words=($@) CURRENT=$# PREFIX=$@[-1]\n_headrace\n")

    def offers(*line):
        done = proc.run(["zsh", "-f", "-c", code, "zsh", script, *line], 20)
        proc.expect_equal((done.returncode, done.stderr), (0, b""), "zsh: %s" % (line,))
        return done.stdout.decode().split("\n")
    names = [line.split(":")[0] for line in offers("headrace", "") if line]
    proc.expect_equal(names, commands(), "commands")
    proc.expect_equal(sorted(line for line in offers("headrace", "run", "--set", "") if line),
                      sorted(name + "=" for name in settings()), "settings")
    proc.expect("--json" in offers("headrace", "status", "-"), "options")
    proc.expect_equal(offers("headrace", "warm", "")[0], "files", "paths")


@test()
def test_manual_page_has_every_command_and_setting():
    page = output("help", "--man")
    plain = page.replace("\\-", "-").replace("\\fB", "").replace("\\fI", "").replace("\\fR", "")
    for name in commands():
        proc.expect("\nheadrace %s" % name in plain, "command " + name)
    for name in settings():
        proc.expect("\n%s (" % name in plain, "setting " + name)


@test("man")
def test_manual_page_is_clean_for_man():
    path = os.path.join(proc.temp_folder(), "headrace.1")
    with open(path, "w") as file:
        file.write(output("help", "--man"))
    done = proc.run(["man", "--warnings", "-l", path], 30, env=dict(os.environ, LC_ALL="C.UTF-8", MANWIDTH="100"))
    proc.expect_equal((done.returncode, done.stderr), (0, b""), "man --warnings")
    proc.expect(b"headrace run" in done.stdout and b"SETTINGS" in done.stdout, "the page", done.stdout[:500])


@test("mandoc")
def test_manual_page_is_clean_for_mandoc():
    path = os.path.join(proc.temp_folder(), "headrace.1")
    with open(path, "w") as file:
        file.write(output("help", "--man"))
    done = proc.run(["mandoc", "-T", "lint", "-W", "warning", path], 30)
    # It is made anew with each build: a date would say nothing.
    said = [line for line in done.stdout.decode().splitlines() if "missing date" not in line]
    proc.expect_equal(said, [], "mandoc -T lint")
