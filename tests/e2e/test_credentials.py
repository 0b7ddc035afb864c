"""Credentials that come from elsewhere: an emulated metadata service, STS and a helper program give keys that a real
rclone takes; what has expired is refused before it reaches rclone."""
import json
import os
import re
import stat
import time

from harness import faults, fixtures, headrace, proc, servers
from harness.case import test

NEEDS = ["rclone"]
ROLE = "arn:aws:iam::111122223333:role/trainer"
SECRET = servers.SECRET
IDS = ["ASIA%04d" % n for n in range(200)]


class ManyKeys(servers.Rclone):
    """rclone that knows all the ids, so that only the gate decides which one is good."""

    def command(self):
        argv, extra = super().command()
        for one in IDS:
            argv[-1:-1] = ["--auth-key", "%s,%s" % (one, SECRET)]
        return argv, extra


class Issuer(faults.Local):
    """Metadata service (version 2) and STS on one port. Each asking gives the next id, good for `life_s`."""

    def __init__(self, life_s):
        self.life_s, self.asked, self.revoked = life_s, [], False
        self.ends = {}
        super().__init__()

    def fresh(self):
        with self.lock:
            one = IDS[len(self.ends)]
            end = time.time() + self.life_s
            self.ends[one] = end
        whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(end))
        return one, "token-of-" + one, "%s.%03dZ" % (whole, end * 1000 % 1000)

    def answer(self, handler):
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0)).decode()
        with self.lock:
            self.asked.append((handler.command, handler.path, body, dict(handler.headers)))
        roles = "/latest/meta-data/iam/security-credentials/"
        if handler.path == "/latest/api/token":
            handler.reply(200, [], b"metadata-token")
        elif handler.headers.get("x-aws-ec2-metadata-token") == "metadata-token" and handler.path == roles:
            handler.reply(200, [], b"node-role")
        elif handler.headers.get("x-aws-ec2-metadata-token") == "metadata-token" and handler.path == roles + "node-role":
            one, token, end = self.fresh()
            handler.reply(200, [], json.dumps({"Code": "Success", "AccessKeyId": one, "SecretAccessKey": SECRET,
                                               "Token": token, "Expiration": end}).encode())
        elif handler.command == "POST" and self.revoked:
            handler.reply(403, [], b"<ErrorResponse><Error><Code>AccessDenied</Code><Message>not allowed to assume it"
                                   b"</Message></Error></ErrorResponse>")
        elif handler.command == "POST":
            handler.reply(200, [], ("<R><S><Credentials><AccessKeyId>%s</AccessKeyId><SessionToken>%s</SessionToken>"
                                    "<Expiration>%s</Expiration><SecretAccessKey>%s</SecretAccessKey></Credentials></S>"
                                    "</R>" % (self.fresh() + (SECRET,))).encode())
        else:
            handler.reply(401, [], b"")


class Gate(faults.FaultProxy):
    """Before rclone: an id that the issuer did not give, or that has ended, is refused as AWS does."""

    def __init__(self, upstream, issuer):
        self.issuer, self.used, self.refused, self.server = issuer, {}, 0, upstream
        super().__init__(upstream, lambda path, nth: None)

    def answer(self, handler):
        found = re.search("Credential=([^/]+)/", handler.headers.get("Authorization", ""))
        one = found.group(1) if found else ""
        token = handler.headers.get("x-amz-security-token")
        good = one in self.issuer.ends and token == "token-of-" + one and not self.issuer.revoked
        code = "InvalidAccessKeyId" if not good else "ExpiredToken" if time.time() > self.issuer.ends[one] else None
        with self.lock:
            self.used[one] = self.used.get(one, 0) + 1
            self.refused += code is not None
        if code:
            text = "<Error><Code>%s</Code><Message>refused</Message></Error>" % code
            handler.reply(400 if good else 403, [("Content-Type", "application/xml")], text.encode())
        else:
            super().answer(handler)


class Stage:
    """rclone, the gate before it, the issuer, and a job without keys of its own."""

    def __init__(self, life_s, **settings):
        self.fixture = fixtures.images()
        self.issuer = Issuer(life_s)
        self.store = ManyKeys(self.fixture)
        self.gate = Gate(self.store, self.issuer)
        self.data = os.path.join(proc.temp_folder("hr-"), "data")
        self.local = fixtures.tree(self.fixture)
        self.job = headrace.Job("%s=s3://%s/%s" % (self.data, fixtures.BUCKET, fixtures.PREFIX), self.gate, **settings)

    def env(self, **more):
        env = {name: value for name, value in self.job.env().items() if not name.startswith("AWS_")}
        return dict(env, AWS_ENDPOINT_URL_S3=self.gate.url, AWS_REGION="us-east-1", **more)

    def __enter__(self):
        self.job.__enter__()
        return self

    def __exit__(self, *what):
        try:
            self.job.__exit__(*what)
        finally:
            for one in (self.gate, self.store, self.issuer):
                one.stop()

    def no_secret_is_told(self, *texts):
        told = "".join(texts) + self.job.log_tail(1000000)
        for word in (SECRET, "token-of-", "metadata-token", "web-token"):
            proc.expect(word not in told, "%s is told" % word, told[-2000:])


READ_SLOWLY = """
import hashlib, os, sys, time
names = sorted(os.path.join(d, n) for d, _, files in os.walk(sys.argv[1]) for n in files)[:60]
for name in names:
    print(os.path.relpath(name, sys.argv[1]), hashlib.sha256(open(name, 'rb').read()).hexdigest())
    time.sleep(0.07)
"""


def expect_same(stage, text):
    have = dict(line.split() for line in text.splitlines())
    proc.expect_equal(len(have), 60, "files read")
    for name, digest in have.items():
        proc.expect_equal(digest, fixtures.file_digest(os.path.join(stage.local, name)), name)


@test(NEEDS)
def test_keys_that_expire_are_renewed_in_mid_epoch():
    """Instance metadata whose keys live a second: the epoch runs over several sets and sees no error."""
    with Stage(1.0, prefetch="off") as stage:
        env = stage.env(AWS_EC2_METADATA_SERVICE_ENDPOINT=stage.issuer.url)
        expect_same(stage, stage.job.python(READ_SLOWLY, stage.data, env=env))
        proc.expect(len([one for one in stage.gate.used if stage.gate.used[one]]) >= 3, "sets of keys", str(stage.gate.used))
        paths = [path for _, path, _, _ in stage.issuer.asked]
        proc.expect_equal(paths.count("/latest/api/token"), len(stage.issuer.ends), "one token for each set")
        stage.no_secret_is_told(str(stage.job.status()))


@test(NEEDS)
def test_one_asking_for_all_processes():
    """Eight processes over two maps of one role: STS is asked once."""
    with Stage(3600) as stage:
        token = os.path.join(proc.temp_folder(), "token")
        with open(token, "w") as out:
            out.write("web-token\n")
        env = stage.env(AWS_WEB_IDENTITY_TOKEN_FILE=token, AWS_ROLE_ARN=ROLE, AWS_ENDPOINT_URL_STS=stage.issuer.url)
        stage.job.maps.append("%s2=s3://%s/" % (stage.data, fixtures.BUCKET))
        out = stage.job.good(["sh", "-c", "for n in 1 2 3 4 5 6 7 8; do ls $0 $0'2' >/dev/null & done; wait; ls $0",
                              stage.data], env=env)
        proc.expect_equal(out.decode().split(), sorted(os.listdir(stage.local)), "names")
        proc.expect_equal(len(stage.issuer.asked), 1, "askings")
        method, path, body, headers = stage.issuer.asked[0]
        proc.expect("Action=AssumeRoleWithWebIdentity" in body and "WebIdentityToken=web-token" in body, body)
        proc.expect("Authorization" not in headers, "the request is not signed")
        stage.no_secret_is_told(str(stage.job.status()))


@test(NEEDS)
def test_revoked_role_is_one_message_and_eacces():
    """A profile that assumes a role with keys of another; then STS and the store refuse."""
    with Stage(3600, prefetch="off") as stage:
        home = proc.temp_folder()
        os.mkdir(os.path.join(home, ".aws"))
        with open(os.path.join(home, ".aws", "config"), "w") as out:
            out.write("[profile trainer]\nrole_arn = %s\nsource_profile = base\n[profile base]\n"
                      "aws_access_key_id = AKBASE\naws_secret_access_key = %s\n" % (ROLE, SECRET))
        env = stage.env(HOME=home, AWS_PROFILE="trainer", AWS_ENDPOINT_URL_STS=stage.issuer.url)
        names = sorted(os.path.join(d, n) for d, _, files in os.walk(stage.local) for n in files)[:4]
        here = [os.path.join(stage.data, os.path.relpath(name, stage.local)) for name in names]
        with open(names[0], "rb") as file:
            proc.expect_equal(stage.job.good(["cat", here[0]], env=env), file.read(), "bytes")
        proc.expect("Credential=AKBASE/" in stage.issuer.asked[0][3]["authorization"], str(stage.issuer.asked[0]))
        stage.issuer.revoked = True
        done = stage.job.run(["cat"] + here[1:], env=env)
        told = done.stderr.decode()
        proc.expect(done.returncode != 0 and done.stdout == b"", "cat of what may not be read", told)
        proc.expect_equal(told.count("Permission denied"), 3, "EACCES: %s" % told)
        lines = [line for line in told.splitlines() if line.startswith("headrace")]
        proc.expect_equal(len(lines), 1, "lines: %s" % told)
        proc.expect("role:" + ROLE[:12] in lines[0], lines[0])
        stage.no_secret_is_told(told)


@test(NEEDS)
def test_helper_program_and_expired_login():
    """credential_process gives keys; an SSO login that has expired is a line that says what to run."""
    with Stage(3600) as stage:
        home = proc.temp_folder()
        os.makedirs(os.path.join(home, ".aws", "sso", "cache"))
        one, token, end = stage.issuer.fresh()
        helper = os.path.join(home, "helper")
        with open(helper, "w") as out:
            out.write("#!/bin/sh\necho '%s'\n" % json.dumps({
                "Version": 1, "AccessKeyId": one, "SecretAccessKey": SECRET, "SessionToken": token, "Expiration": end}))
        os.chmod(helper, stat.S_IRWXU)
        with open(os.path.join(home, ".aws", "config"), "w") as out:
            out.write("[default]\ncredential_process = %s\n[profile login]\nsso_session = corp\nsso_account_id = 1\n"
                      "sso_role_name = r\n[sso-session corp]\nsso_region = eu-west-1\nsso_start_url = https://x\n" % helper)
        env = stage.env(HOME=home)
        out = stage.job.good(["ls", stage.data], env=env)
        proc.expect_equal(out.decode().split(), sorted(os.listdir(stage.local)), "names")
        stage.no_secret_is_told(str(stage.job.status()))
        done = stage.job.run(["ls", stage.data], env=dict(env, AWS_PROFILE="login"))
        proc.expect_equal(done.returncode, 125, "status")
        proc.expect(b"aws sso login --profile login" in done.stderr, "what to run", proc.tail(done.stderr))
