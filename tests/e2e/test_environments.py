"""README's "what to add", each row with the real program: what it drops of the preload, and that its line brings it back."""
import os
import re

from harness import fixtures, machine, paths, proc
from harness.case import test
from harness.scene import scene

NEEDS = ("nginx", "rclone", "root")
POINT = "/data"
WALK = "/usr/bin/python3 ~/walk.py " + POINT


def sections(text):
    """Lines after each `== NAME`."""
    found, lines = {}, []
    for line in text.splitlines():
        if line.startswith("== "):
            lines = found.setdefault(line[3:], [])
        else:
            lines.append(line)
    return {name: "\n".join(lines) for name, lines in found.items()}


def expect_missing(parts, *names):
    for name in names:
        proc.expect("cannot access '%s': No such file" % POINT in parts[name], "%s does not drop the preload" % name, parts[name])


SUDOERS = """Defaults env_reset
Defaults secure_path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
%s ALL=(ALL:ALL) NOPASSWD: ALL
"""


@test((*NEEDS, "sudo", "su"))
def test_environment_of_sudo():
    """A user's sudo, with -E or not, and su drop the preload; `sudo headrace run` has it, with root's own cache."""
    script = """
exec 2>&1
echo == plain; ls -d %(point)s
echo == sudo; sudo -n ls %(point)s
echo == sudo -E; sudo -n -E ls %(point)s
echo == su; su -c 'ls %(point)s'
echo == line; sudo -n sh -c '"$@" %(walk)s' sh headrace run --map "$HEADRACE_MAP" --
"""
    with scene(fixtures.mixed(), point=POINT) as s:
        host = machine.Machine(s.job)
        host.shadow("sudoers", SUDOERS % machine.USER, 0o440)
        machine.put(host.home + "/in.sh", script % {"point": POINT, "walk": WALK})
        parts = sections(host.good("su - %s -c \"headrace run --map '$1' -- sh in.sh\"\n" % machine.USER, s.job.maps[0]))
        proc.expect_equal(parts["plain"], POINT, "the map of the caller")
        expect_missing(parts, "sudo", "sudo -E", "su")
        proc.expect("/usr/bin/sudo cannot be preloaded (setuid program)" in parts["sudo"], "nobody is told", parts["sudo"])
        machine.expect_digests(s, parts["line"])
        for home, uid in ((host.home, machine.UID), (host.root, 0)):
            proc.expect_equal(os.stat(home + "/.cache/headrace/control").st_uid, uid, "whose cache is in " + home)


@test((*NEEDS, "su"))
def test_environment_of_su():
    """By root: `su -` starts anew; su alone keeps root's cache directory, which is not the user's: one line, and `su -` is
    what to write."""
    script = """
exec 2>&1
echo == su -; su - %(user)s -c 'ls %(point)s'
echo == su; su %(user)s -c 'ls %(point)s'
echo == line; su - %(user)s -c "headrace run --map '$HEADRACE_MAP' -- %(walk)s"
"""
    with scene(fixtures.mixed(), point=POINT) as s:
        host = machine.Machine(s.job)
        machine.put(host.root + "/in.sh", script % {"user": machine.USER, "point": POINT, "walk": WALK})
        parts = sections(host.good('headrace run --map "$1" -- sh /root/in.sh\n', s.job.maps[0]))
        expect_missing(parts, "su -")
        for word in ("cache directory /root/.cache/headrace cannot be opened: Permission denied", "Input/output error"):
            proc.expect(word in parts["su"], "su alone says " + word, parts["su"])
        machine.expect_digests(s, parts["line"])


CRON = """
mkdir -p /var/spool/cron
mount -t tmpfs none /var/spool/cron
mkdir /var/spool/cron/crontabs
crontab -u %(user)s /mnt/home/tab
cron -f &
cron=$!
until [ -e /mnt/home/end ]; do sleep 0.05; done
kill $cron
cat /mnt/home/out
"""
TAB = """
HEADRACE_MAP=%(map)s
AWS_PROFILE=default
HOME=%(home)s
@reboot exec >out 2>&1; echo == without; ls %(point)s; echo == line; /usr/local/bin/headrace run -- %(walk)s; touch end
"""


@test((*NEEDS, "cron"))
def test_environment_of_cron():
    """cron itself, a user's crontab, by @reboot: no waiting for the minute."""
    with scene(fixtures.mixed(), point=POINT) as s:
        host = machine.Machine(s.job)
        tab = TAB % {"map": s.job.maps[0], "home": machine.HOME, "point": POINT, "walk": WALK}
        machine.put(host.home + "/tab", tab)
        parts = sections(host.good(CRON % {"user": machine.USER}, timeout=40))
        expect_missing(parts, "without")
        machine.expect_digests(s, parts["line"])
        proc.expect(os.path.exists(host.home + "/.cache/headrace/control"), "no cache in HOME")


SSHD = """Port %(port)d
ListenAddress 127.0.0.1
HostKey /root/host
AuthorizedKeysFile /root/key.pub
StrictModes no
UsePAM no
PidFile none
"""
SSH = """Host node
HostName 127.0.0.1
Port %(port)d
User %(user)s
IdentityFile /root/key
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
"""
LOGIN = """
chmod 755 /root
ssh-keygen -q -t ed25519 -N '' -f /root/host
ssh-keygen -q -t ed25519 -N '' -f /root/key
/usr/sbin/sshd -D -e -f /root/sshd_config 2>/root/sshd.log &
until grep -qi listening /root/sshd.log; do sleep 0.05; done
set +e
exec 2>&1
echo == ssh; headrace run --map "$1" -- ssh -F /root/ssh_config node ls %(point)s
echo == line; ssh -F /root/ssh_config node headrace run --map "$1" -- %(walk)s
"""


@test((*NEEDS, "sshd", "ssh"))
def test_environment_of_ssh():
    """sshd itself: nothing of the caller's environment gets there; the map is an argument, the keys are the profile's."""
    with scene(fixtures.mixed(), point=POINT) as s:
        host = machine.Machine(s.job)
        port = proc.free_port()
        machine.put(host.root + "/sshd_config", SSHD % {"port": port})
        machine.put(host.root + "/ssh_config", SSH % {"port": port, "user": machine.USER})
        script = LOGIN % {"point": POINT, "walk": WALK.replace("~", "'~'")}
        parts = sections(host.good(script, s.job.maps[0], timeout=40))
        expect_missing(parts, "ssh")
        machine.expect_digests(s, parts["line"])


UNIT = """[Unit]
DefaultDependencies=no
SuccessAction=exit-force
FailureAction=exit-force
[Service]
Type=oneshot
StandardOutput=append:/root/out
StandardError=append:/root/out
ExecStartPre=/bin/echo == without
ExecStartPre=-/bin/ls %(point)s
ExecStartPre=/bin/echo == line
ExecStart=/usr/local/bin/headrace run -- /usr/bin/python3 /root/walk.py %(point)s
Environment=HEADRACE_MAP=%(map)s
CacheDirectory=train
CacheDirectoryMode=0700
Environment=HEADRACE_CACHE_DIR=%%C/train
EnvironmentFile=/root/keys
ExecStart=/bin/sh /root/again
"""
# systemd-run, called inside a job: as a service of its own, with README's line, and as a scope, which is the caller itself.
AGAIN = """
out="-p StandardOutput=append:/root/out -p StandardError=append:/root/out -p Type=oneshot -p DefaultDependencies=no"
echo == service; headrace run -- systemd-run -q $out ls %(point)s
echo == service line
systemd-run -q $out -p EnvironmentFile=/root/keys -E HEADRACE_CACHE_DIR -- headrace run --map "$HEADRACE_MAP" -- python3 /root/walk.py %(point)s
echo == scope; headrace run -- systemd-run -q --scope -p DefaultDependencies=no python3 /root/walk.py %(point)s
"""
# A control group of its own, of the second version, that takes it for the whole machine's.
BOOT = """
mkdir /mnt/groups
mount -t cgroup2 none /mnt/groups && mkdir /mnt/groups/$(hostname) && echo $$ >/mnt/groups/$(hostname)/cgroup.procs || exit 96
mount -t tmpfs none /etc/systemd/system
cp /root/train.service /etc/systemd/system
mount --bind /root/var-cache /var/cache
exec unshare -mC sh -c 'mount -t cgroup2 none /sys/fs/cgroup && exec setsid /lib/systemd/systemd --system --unit=train.service \\
    --log-target=console --show-status=no'
"""
UNBOOT = "mount -t cgroup2 none /mnt && find /mnt/$0 -depth -type d -exec rmdir {} +"


@test((*NEEDS, "systemctl"))
def test_environment_of_systemd():
    """systemd itself as process 1: a unit of README's lines; the daemon ends with the service. And systemd-run."""
    with scene(fixtures.mixed(), point=POINT) as s:
        host = machine.Machine(s.job)
        os.mkdir(host.root + "/var-cache")
        machine.put(host.root + "/again", AGAIN % {"point": POINT})
        machine.put(host.root + "/train.service", UNIT % {"point": POINT, "map": s.job.maps[0]})
        keys = {name: value for name, value in s.job.env().items() if name.startswith("AWS_")}
        machine.put(host.root + "/keys", "".join("%s=%s\n" % item for item in keys.items()), 0o600)
        try:
            done = host.run(BOOT, timeout=40, container="other")
        finally:
            proc.run(["unshare", "-m", "sh", "-c", UNBOOT, host.name], 20)
        if done.returncode == 96:
            raise proc.Skip("no control group of its own: " + proc.tail(done.stderr))
        proc.expect_equal(done.returncode, 0, proc.tail(done.stdout, done.stderr))
        with open(host.root + "/out") as file:
            parts = sections(file.read())
        expect_missing(parts, "without")
        expect_missing(parts, "service")
        for part in ("line", "service line", "scope"):
            machine.expect_digests(s, parts[part])
        proc.expect(os.path.exists(host.root + "/var-cache/train/control"), "the cache is not in CacheDirectory=")


# One node: controller, node daemon and munge. Steps are followed by cgroups where those of the first version are here (the
# daemon is then killed with the step that started it), else by their parents.
SLURM_CONF = """ClusterName=one
SlurmctldHost=%(name)s(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort=%(first)d
SlurmdPort=%(second)d
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=socket=/run/munge/socket
StateSaveLocation=/mnt/state
SlurmdSpoolDir=/mnt/spool
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ProctrackType=proctrack/%(track)s
TaskPlugin=task/none
TaskProlog=/root/prolog
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SwitchType=switch/none
MpiDefault=none
KillWait=1
NodeName=%(name)s NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""
# The second job: at work when the first is cancelled, and in need of objects after that.
SECOND = """
python3 -u /root/walk.py %(point)s/a >/root/first
until [ -e /root/cut ]; do sleep 0.05; done
python3 -u /root/walk.py %(point)s
until [ -e /root/go ]; do sleep 0.05; done
"""
CLUSTER = """
mkdir /mnt/state /mnt/spool /run/munge
mkdir -m 700 /root/local
head -c 128 /dev/urandom >/root/munge.key
chmod 600 /root/munge.key
/usr/sbin/munged --key-file=/root/munge.key --socket=/run/munge/socket --pid-file=/run/munge/pid --log-file=/root/munge.log \
    --seed-file=/root/munge.seed
export SLURM_CONF=/root/slurm.conf
/usr/sbin/slurmctld -D >/root/slurmctld.log 2>&1 &
/usr/sbin/slurmd -D >/root/slurmd.log 2>&1 &
until sinfo -h -o %%T 2>/root/sinfo.log | grep -q idle; do sleep 0.05; done
daemon() { headrace status --json | sed -n 's/.*"pid": *\\([0-9]*\\).*/daemon \\1/p'; }
set +e
exec 2>&1
echo == without; srun -Q ls %(point)s
export HEADRACE_MAP=$1 HEADRACE_PREFETCH=off
srun -Q -J one headrace run -- sh -c '/usr/bin/python3 -u /root/walk.py %(point)s; sleep 1000' >/root/one &
one=$!
until [ "$(wc -l </root/one)" -gt 2 ]; do sleep 0.05; done
srun -Q -J two headrace run -- sh /root/two.sh >/root/two &
two=$!
until [ "$(wc -l </root/first)" -gt 2 ]; do sleep 0.05; done
export HEADRACE_CACHE_DIR=/root/local/headrace-0
echo == before; daemon
scancel -n one
wait $one; printf '== one\\n%%d\\n' $?
touch /root/cut
until [ "$(wc -l </root/two)" -ge "$2" ]; do sleep 0.05; done
echo == after; daemon
touch /root/go
wait $two; printf '== two\\n%%d\\n' $?; cat /root/two
"""


@test((*NEEDS, "slurmctld", "slurmd", "srun", "munged"), timeout=90)
def test_environment_of_slurm():
    """srun itself. The step's own directory is taken before HOME; a cancelled step takes the daemon along, and the other job,
    which waits for objects, goes on with a new one."""
    freezer = "/sys/fs/cgroup/freezer"
    track = "cgroup" if os.access(freezer + "/cgroup.procs", os.W_OK) else "linuxproc"
    with scene(fixtures.mixed(), point=POINT, delay_ms=30) as s:
        host = machine.Machine(s.job)
        ports = {"first": proc.free_port(), "second": proc.free_port()}
        machine.put(host.root + "/slurm.conf", SLURM_CONF % {"name": host.name, "track": track, **ports})
        machine.put(host.root + "/cgroup.conf", "CgroupAutomount=no\nCgroupMountpoint=/sys/fs/cgroup\n")
        machine.put(host.root + "/two.sh", SECOND % {"point": POINT})
        machine.put(host.root + "/prolog", "#!/bin/sh\necho export SLURM_TMPDIR=/root/local\n", 0o755)
        try:
            files = len(fixtures.tree_digests(s.local))
            parts = sections(host.good(CLUSTER % {"point": POINT}, s.job.maps[0], str(files)))
        finally:
            proc.run(["find", "%s/slurm_%s" % (freezer, host.name), "-depth", "-type", "d", "-exec", "rmdir", "{}", "+"], 20)
        expect_missing(parts, "without")
        proc.expect(parts["one"] != "0", "the first step was not cancelled", parts["before"])
        status, _, text = parts["two"].partition("\n")
        proc.expect_equal(status, "0", "the second step: " + text[-1500:])
        machine.expect_digests(s, text)
        before, after = (re.findall("^daemon [0-9]+$", parts[name], re.M) for name in ("before", "after"))
        proc.expect_equal((len(before), len(after), before == after), (1, 1, track != "cgroup"), "daemons; the same one?")
        proc.expect(not os.path.exists(host.root + "/.cache"), "something was made in the home")
