"""A machine of its own, as far as services see it: root in new mount, pid and host name namespaces, with users, /run, /tmp,
/root and /usr/local/bin of its own. Loopback is shared, so the store can be reached."""
import os

from . import fixtures, paths, proc
from .kit import kit

USER, UID = "trainer", 4242
HOME = "/mnt/home"
ENTER = ("unshare", "-mpuf", "--mount-proc", "--kill-child")
# Every service lets everybody in and adds nothing of the distribution's: what is shown is what the programs themselves do.
PAM = ("auth sufficient pam_permit.so\naccount sufficient pam_permit.so\npassword sufficient pam_permit.so\n"
       "session optional pam_permit.so\n")
WALK = ("import hashlib, os, sys\n"
        "for here, _, names in os.walk(sys.argv[1]):\n"
        "    for name in names:\n"
        "        path = os.path.join(here, name)\n"
        "        print(hashlib.sha256(open(path, 'rb').read()).hexdigest(), os.path.relpath(path, sys.argv[1]))\n")
PRELUDE = """
set -e
etc=$1 home=$2 kit=$3 root=$4 tmp=$5
hostname "$6"
mount -t tmpfs none /mnt
mkdir /mnt/home
mount --bind "$home" /mnt/home
for name in passwd group shadow hosts pam.d $MORE_ETC; do
    [ -e /etc/$name ] || { echo "no /etc/$name here" >&2; exit 96; }
    mount --bind "$etc/$name" /etc/$name
done
mount --bind "$kit" /usr/local/bin
mount -t tmpfs none /run
mkdir /run/sshd
mount --bind "$root" /root
mount --bind "$tmp" /tmp
cd /
shift 6
"""


def put(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as out:
        out.write(text)
    os.chmod(path, mode)


class Machine:
    """`home` is the user's, `root` is root's: both have a default profile with the store's keys, and walk.py. `name`: its host's,
    which no other test's has."""

    def __init__(self, job):
        self.job = job
        self.etc, self.home, self.root, self.tmp = (proc.temp_folder("hr-%s-" % name) for name in ("etc", "home", "root", "tmp"))
        self.kit = kit()
        self.name = "headrace-%d" % os.getpid()
        os.chmod(self.etc, 0o755)
        os.chmod(self.tmp, 0o1777)
        self.more_etc = []
        for name, line in (("passwd", "%s:x:%d:%d::%s:/bin/sh\n" % (USER, UID, UID, HOME)), ("group", "%s:x:%d:\n" % (USER, UID)),
                           ("shadow", "%s:*:19000:0:99999:7:::\n" % USER)):
            with open("/etc/" + name) as file:
                put(os.path.join(self.etc, name), file.read() + line, 0o600 if name == "shadow" else 0o644)
        put(self.etc + "/hosts", "127.0.0.1 localhost %s\n" % self.name)
        for service in ("other", "su", "su-l", "sudo", "sudo-i", "cron", "sshd"):
            put(os.path.join(self.etc, "pam.d", service), PAM)
        for home in (self.home, self.root):
            put(home + "/.aws/config", "[default]\nregion = us-east-1\nendpoint_url = %s\n" % job.endpoint)
            put(home + "/.aws/credentials", "[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n" % (
                job.access, job.secret), 0o600)
            put(home + "/walk.py", WALK)
        self.own(self.home)

    def shadow(self, name, text, mode=0o644):
        """/etc/NAME, which a package has put there, is ours."""
        put(os.path.join(self.etc, name), text, mode)
        self.more_etc.append(name)

    def own(self, folder):
        """All below it is the user's."""
        for here, folders, names in os.walk(folder):
            for name in [".", *folders, *names]:
                os.chown(os.path.join(here, name), UID, UID)

    def argv(self, script, *args):
        return [*ENTER, "sh", "-c", PRELUDE + script, "sh", self.etc, self.home, self.kit, self.root, self.tmp, self.name, *args]

    def env(self, **more):
        """Of somebody who logged in: no maps, no keys."""
        return {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root", "USER": "root", "SHELL": "/bin/sh",
                "LC_ALL": "C.UTF-8", "MORE_ETC": " ".join(self.more_etc), **more}

    def run(self, script, *args, timeout=60, **env):
        return proc.run(self.argv(script, *args), timeout, env=self.env(**env), cwd="/")

    def good(self, script, *args, timeout=60, **env):
        done = self.run(script, *args, timeout=timeout, **env)
        proc.expect_equal(done.returncode, 0, proc.tail(done.stdout, done.stderr))
        return done.stdout.decode("utf-8", "surrogateescape")


def expect_digests(s, text):
    """What WALK printed is all of the scene's tree."""
    have = dict(reversed(line.split(" ", 1)) for line in text.splitlines() if line.count(" "))
    proc.expect_equal(have, fixtures.tree_digests(s.local), "digests")
