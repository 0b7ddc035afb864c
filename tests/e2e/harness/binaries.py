"""Results that come out of other programs: cmocka's TAP lines, scripts/checks, and the preload programs."""
import os
import re
import shutil
import signal

from . import fixtures, headrace, paths, proc, servers

UNIT_LIMIT_S = 120
TWIN_LIMIT_S = 60
TAP = re.compile(r"^(not )?ok (?:\d+ )?(?:- )?(# SKIP )?(.*)$")


def programs(*parts):
    """Executables below build folder parts, sorted."""
    root = os.path.join(paths.ROOT, *parts)
    found = [os.path.join(here, name) for here, _, names in os.walk(root) for name in names]
    return sorted(path for path in found if os.access(path, os.X_OK) and not path.endswith((".d", ".o", ".so")))


def tap_results(prefix, text):
    """(name, verdict, detail) of every TAP line; comment lines after a failure are its detail."""
    results, notes = [], []
    for line in text.splitlines():
        match = TAP.match(line)
        if not match:
            notes.append(line)
            continue
        failed, skipped, name = match.groups()
        name, _, reason = name.partition(" # SKIP ")
        verdict = "failed" if failed and not skipped else "skipped" if skipped or reason else "passed"
        notes = [reason] if reason else []
        results.append((prefix + name.strip(), verdict, notes))
    return [(name, verdict, "\n".join(lines[:30]) if verdict != "passed" else "") for name, verdict, lines in results]


def unit(path):
    """The tests of one cmocka program; its death is a failure of its own."""
    build = os.path.relpath(path, paths.ROOT).split(os.sep)[0]
    label = ("" if build == "build" else build[6:] + "/") + os.path.relpath(
        path, os.path.join(paths.ROOT, build, "tests")) + ":"
    env = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP", TMPDIR=proc.temp_folder("hr-unit-"))
    try:
        done = proc.run([path], UNIT_LIMIT_S, env=env, cwd=paths.ROOT)
    except proc.Failure as failure:
        return [(label + "time limit", "failed", str(failure))]
    text = done.stdout.decode("utf-8", "replace")
    results = tap_results(label, text)
    failed = [one for one in results if one[1] == "failed"]
    if (done.returncode != 0 and not failed) or not results:
        cause = signal.Signals(-done.returncode).name if done.returncode < 0 else "status %d" % done.returncode
        results.append((label + "program", "failed", cause + "\n" + proc.tail(done.stdout, done.stderr)))
    elif failed and done.stderr:
        name, verdict, detail = failed[0]
        results[results.index(failed[0])] = (name, verdict, detail + "\n" + proc.tail(done.stderr))
    return results


def fuzz(path, seconds):
    """A parser's fuzzer for so many seconds; its finds stay in a folder that is thrown away."""
    name = "fuzz:" + os.path.basename(path)
    folder = proc.temp_folder("hr-fuzz-")
    corpus = os.path.join(paths.ROOT, "tests", "fuzz", "corpus", os.path.basename(path)[5:])
    argv = [path, "-max_total_time=%d" % seconds, "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=0", folder]
    try:
        done = proc.run(argv + ([corpus] if os.path.isdir(corpus) else []), seconds + 60, cwd=folder)
    except proc.Failure as failure:
        return name, "failed", str(failure)
    return name, "failed" if done.returncode else "passed", proc.tail(done.stderr) if done.returncode else ""


def checks(script):
    """Every line of scripts/checks; a script that speaks no TAP counts as one."""
    name = os.path.basename(script)
    try:
        done = proc.run(["sh", script], 300, cwd=paths.ROOT)
    except proc.Failure as failure:
        return [("checks:" + name, "failed", str(failure))]
    results = []
    for line, verdict, detail in tap_results("checks:", done.stdout.decode("utf-8", "replace")):
        check, _, why = line.partition(": ")
        results.append((check, verdict, why or detail))
    if not results or (done.returncode != 0 and all(one[1] != "failed" for one in results)):
        results.append(("checks:" + name, "failed" if done.returncode else "passed",
                        proc.tail(done.stdout, done.stderr) if done.returncode else ""))
    return results


def comparable(done, *roots):
    """Status and stdout with the tree's place taken out."""
    out = done.stdout
    for root in roots:
        out = out.replace(os.fsencode(root), b"ROOT")
    return done.returncode, out


# The trees of the twins: objects of one request each; mostly large ones, which programs meet as faces; and, for the programs
# that it concerns, another setting.
TREES = (("small", fixtures.mixed, {}, ""), ("large", fixtures.mixed_large, {"small_max": "64K"}, ""),
         ("follow", fixtures.mixed, {"symlinks": "follow"}, "null_path"))


def twins(only=""):
    """Each program of build/tests/preload says and returns the same on a local copy and on the map, cold and then warm. It
    gets the tree as its argument and the tree's parent as working directory. only: a part of the cases' names."""
    found = programs("build", "tests", "preload")
    for label, fixture, settings, program in TREES if found else ():
        cases = [(path, ["preload:%s %s %s" % (os.path.basename(path), state, label) for state in ("cold", "warm")])
                 for path in found if program in os.path.basename(path)]
        cases = [(path, names) for path, names in cases if any(only in name for name in names)]
        if cases:
            with servers.Rclone(fixture()) as store:
                for path, names in cases:
                    yield from twin(path, names, fixture(), store, settings)


def twin(path, names, folder, store, settings):
    """One program with a cache of its own: a result for each run on the map."""
    here, there = proc.temp_folder("hr-tl-"), proc.temp_folder("hr-tm-")
    local, mapped = os.path.join(here, "data"), os.path.join(there, "data")
    shutil.copytree(fixtures.tree(folder), local)
    source = "%s=s3://%s/%s" % (mapped, fixtures.BUCKET, fixtures.PREFIX)
    waiting = list(names)
    try:
        with headrace.Job(source, store, **settings) as job:
            want = comparable(proc.run([path, local], TWIN_LIMIT_S, cwd=here, env=job.env()), here)
            while waiting:
                have = comparable(job.run([path, mapped], TWIN_LIMIT_S, cwd=there), there)
                proc.expect(want == have, difference(want, have))
                yield waiting.pop(0), "passed", ""
    except proc.Failure as failure:
        for name in waiting or names[-1:]:
            yield name, "failed", str(failure)
    finally:
        proc.force_remove(here)


def difference(want, have):
    lines = ["status: local %s, mapped %s" % (want[0], have[0])]
    left, right = want[1].splitlines(), have[1].splitlines()
    for number in range(max(len(left), len(right))):
        a = left[number] if number < len(left) else b"(end)"
        b = right[number] if number < len(right) else b"(end)"
        if a != b:
            lines.append("line %d: local  %r" % (number + 1, a[:300]))
            lines.append("line %d: mapped %r" % (number + 1, b[:300]))
        if len(lines) > 20:
            break
    return "\n".join(lines)
