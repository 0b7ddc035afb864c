"""`headrace doctor`: what it finds wrong, and what it says about programs."""
import os
import shutil
import stat

from harness import fixtures, headrace, proc
from harness.build import compile_c
from harness.case import test
from harness.scene import scene

NEEDS = ("nginx", "rclone")
FINE = ("cache", "open files", "memory", "map", "credentials", "endpoint", "list", "get", "clock", "preload")
MAIN = "int main(void){return 0;}\n"


def findings(job, **change):
    """Exit status and {what: (finding, text)} of the last line of each kind."""
    env = {**job.env(), "HEADRACE_MAP": ";".join(job.maps), **change}
    done = job.command("doctor", env=env)
    rows = {}
    for line in done.stdout.decode().splitlines():
        rows[line[6:18].strip()] = (line[:5].strip(), line[19:])
    return done.returncode, rows


def expect_wrong(job, what, *words, **change):
    code, rows = findings(job, **change)
    proc.expect(code == 1 and what in rows and rows[what][0] == "WRONG", "no finding about %s" % what, code, rows)
    for word in words:
        proc.expect(word in rows[what][1], "%s does not say %s" % (what, word), rows[what])
    return rows


@test(NEEDS)
def test_doctor_finds_nothing_wrong():
    with scene(fixtures.mixed()) as s:
        code, rows = findings(s.job)
        s.job.note_daemon()
        proc.expect_equal(code, 0, rows)
        for what in FINE:
            proc.expect(what in rows and rows[what][0] in ("ok", "note"), "no finding about " + what, rows)
        for what in ("credentials", "endpoint", "list", "get", "clock", "preload"):
            proc.expect_equal(rows[what][0], "ok", what)


@test(NEEDS)
def test_doctor_tells_what_is_wrong_with_the_store():
    with scene(fixtures.mixed()) as s:
        nobody = "http://127.0.0.1:%d" % proc.free_port()
        rows = expect_wrong(s.job, "endpoint", "check the endpoint", AWS_ENDPOINT_URL=nobody)
        proc.expect_equal(rows["get"][0], "note", "get is not tried")
        proc.expect("proxy" not in rows, "a proxy that nobody set", rows)
        rows = expect_wrong(s.job, "endpoint", AWS_ENDPOINT_URL=nobody, https_proxy="http://user:hidden@127.0.0.1:9")
        proc.expect("https_proxy" in rows["proxy"][1] and "hidden" not in str(rows), "a proxy", rows)
        rows = expect_wrong(s.job, "list", "secret access key", AWS_SECRET_ACCESS_KEY="wrong")
        proc.expect("s3:ListBucket" not in rows["list"][1], "a wrong secret is no missing permission", rows["list"])
        expect_wrong(s.job, "credentials", "profile", AWS_PROFILE="nobody-has-this")
        expect_wrong(s.job, "endpoint", "bucket", HEADRACE_MAP=s.data + "=s3://no-such-bucket/x")
        expect_wrong(s.job, "map", "nothing is mapped", HEADRACE_MAP="")
        code, rows = findings(s.job, HEADRACE_MAP=s.data + "=s3://bkt/no/such/prefix")
        proc.expect_equal((code, rows["list"][0]), (0, "note"), "an empty prefix")
        s.job.note_daemon()


@test(NEEDS)
def test_doctor_tells_what_is_wrong_with_the_place():
    with scene(fixtures.mixed()) as s:
        expect_wrong(s.job, "settings", "/proc/none", HEADRACE_CACHE_DIR="/proc/none")
        expect_wrong(s.job, "settings", "timeout_s", HEADRACE_TIMEOUT_S="soon")
        expect_wrong(s.job, "map point", "not empty", HEADRACE_MAP="/usr=s3://bkt/train")
        s.job.note_daemon()


@test((*NEEDS, "faketime"))
def test_doctor_tells_a_wrong_clock():
    with scene(fixtures.mixed()) as s:
        env = {**s.job.env(), "HEADRACE_MAP": s.job.maps[0]}
        done = proc.run(["faketime", "-f", "+20m", s.job.program, "doctor"], 40, env=env)
        s.job.note_daemon()
        proc.expect(done.returncode == 1 and b"WRONG clock" in done.stdout and b"set this machine's clock" in done.stdout,
                    "a clock 20 minutes ahead", proc.tail(done.stdout, done.stderr))


def elf_header(wide, machine):
    """The first bytes of an ELF program for another machine."""
    head = b"\x7fELF" + bytes([2 if wide else 1, 1, 1]) + bytes(9) + (2).to_bytes(2, "little")
    return head + machine.to_bytes(2, "little") + bytes(44)


def written(name, data):
    path = os.path.join(proc.temp_folder("hr-prog-"), name)
    with open(path, "wb") as out:
        out.write(data)
    os.chmod(path, 0o755)
    return path


GO_NOTE = (b'__attribute__((section(".note.go.buildid"), used, aligned(4))) static const unsigned char note[] = '
           b'{4,0,0,0, 4,0,0,0, 4,0,0,0, 71,111,0,0, 120,120,120,120};\n')


@test()
def test_doctor_explains_programs():
    job = headrace.Job("/none=s3://bkt/train", "http://127.0.0.1:1")
    static, dynamic = compile_c(MAIN, "-static"), compile_c(MAIN)
    go = compile_c(GO_NOTE.decode() + MAIN)
    other = 183 if os.uname().machine == "x86_64" else 62  # EM_AARCH64, EM_X86_64
    setuid = shutil.copy(dynamic, proc.temp_folder("hr-prog-"))
    cases = [(dynamic, 0, "can be preloaded"), ("sh", 0, "can be preloaded"), (static, 1, "static program"),
             (go, 1, "made by Go"), (written("wide", elf_header(True, other)), 1, "another architecture"),
             (written("narrow", elf_header(False, 3)), 1, "another architecture"),
             (written("script", b"#!/bin/sh\necho\n"), 0, "a script for /bin/sh"),
             (written("over", b"#!%s\n" % os.fsencode(static)), 1, "static program"),
             (written("text", b"no program\n"), 0, "can be preloaded"), ("no-such-program", 1, "No such file"),
             ("/etc/passwd", 1, "Permission denied")]
    loader = next((p for p in ("/lib/ld-musl-x86_64.so.1", "/lib/ld-musl-aarch64.so.1") if os.path.exists(p)), "")
    if loader:
        cases.append((compile_c(MAIN, "-Wl,--dynamic-linker=" + loader), 1, "another libc"))
    if os.geteuid() == 0:
        os.chown(setuid, 12345, 12345)
        os.chmod(setuid, 0o4755)
        proc.expect(os.stat(setuid).st_mode & stat.S_ISUID, "no setuid bit")
        cases.append((setuid, 1, "setuid program"))
    for program, status, words in cases:
        done = job.command("doctor", program)
        said = (done.stdout + done.stderr).decode()
        proc.expect(done.returncode == status and words in said, "%s: status %d" % (program, done.returncode), said)
    done = job.command("doctor", "--what")
    proc.expect_equal(done.returncode, 2, "usage")
