"""docs/examples as they are: the Dockerfile built and run by buildah, the pod's containers in namespaces with its volumes."""
import glob
import json
import os
import shutil
import subprocess

from harness import fixtures, machine, paths, proc
from harness.case import test
from harness.scene import scene
from test_dist import TRAIN, bare_root, tarball, unpacked

NEEDS = ("nginx", "rclone", "root")
EXAMPLES = os.path.join(paths.ROOT, "docs", "examples")


def python_root():
    """A bare root with Python: what the examples' images have, and no library of headrace's."""
    root = bare_root([shutil.which(name) for name in ("cp", "ln", "env")] + [paths.PYTHON])
    library = os.path.dirname(os.__file__)
    shutil.copytree(library, root + library, ignore=shutil.ignore_patterns("test", "idlelib", "lib2to3", "__pycache__", "*.a"))
    compiled = os.path.join(library, "lib-dynload")
    needed = subprocess.run(["ldd", *(os.path.join(compiled, name) for name in os.listdir(compiled))], stdout=subprocess.PIPE,
                            universal_newlines=True).stdout
    for path in {word for word in needed.split() if word.startswith("/") and not word.endswith(":")}:
        if not os.path.exists(root + path):
            os.makedirs(os.path.dirname(root + path), exist_ok=True)
            shutil.copy(os.path.realpath(path), root + path)
    os.symlink("python3", root + "/bin/python")
    return root


def digests_of(text):
    """name -> digest of what TRAIN printed, and how many lines that were."""
    lines = [line.split(" ", 1) for line in text.splitlines()]
    return {name: digest for digest, name in lines}, len(lines)


class Builder:
    """buildah with a store of its own and no registry; in a pid namespace, whose end is that of the daemon."""

    def __init__(self):
        self.folder = proc.temp_folder("hr-buildah-")
        with open(self.folder + "/registries.conf", "w") as out:
            out.write("unqualified-search-registries = []\n")
        self.env = dict(os.environ, CONTAINERS_REGISTRIES_CONF=self.folder + "/registries.conf", BUILDAH_ISOLATION="chroot",
                        HOME=self.folder)

    def __call__(self, *argv, timeout=250):
        store = ("--storage-driver", "vfs", "--root", self.folder + "/root", "--runroot", self.folder + "/run")
        done = proc.run([*machine.ENTER, "buildah", *store, *argv], timeout, env=self.env)
        proc.expect(done.returncode == 0, "buildah %s: %d" % (argv[0], done.returncode), proc.tail(done.stdout, done.stderr))
        return done.stdout.decode("utf-8", "surrogateescape")


@test((*NEEDS, "buildah"), timeout=300)
def test_image_of_the_dockerfile():
    """Built without a registry: the base image is made here under the name that FROM has. It runs by what the image itself
    says, with the map and the keys given as `docker run` would."""
    with scene(fixtures.mixed()) as s:
        buildah = Builder()
        base, context = proc.temp_folder("hr-base-"), proc.temp_folder("hr-context-")
        proc.expect_equal(proc.run(["tar", "-C", python_root(), "-cf", base + "/root.tar", "."], 60).returncode, 0, "tar")
        machine.put(base + "/Dockerfile", "FROM scratch\nADD root.tar /\n")
        with open(EXAMPLES + "/Dockerfile") as file:
            text = file.read()
        name = next(line.split()[1] for line in text.splitlines() if line.startswith("FROM "))
        buildah("build", "-t", name, base)
        machine.put(context + "/Dockerfile", text.replace("x86_64", os.uname().machine))
        machine.put(context + "/train.py", TRAIN)
        shutil.copy(tarball(), context)
        buildah("build", "--pull-never", "-t", "train", context)
        image = json.loads(buildah("inspect", "--type", "image", "train"))["OCIv1"]["config"]
        proc.expect_equal(list(image["Volumes"]), ["/cache"], "volumes")
        given = {name: value for name, value in s.job.env().items() if name.startswith("AWS_")}
        given["HEADRACE_MAP"] = "/data=s3://%s/%s" % (fixtures.BUCKET, fixtures.PREFIX)
        options = [word for item in given.items() for word in ("--env", "%s=%s" % item)]
        container = buildah("from", "--pull-never", "train").strip()
        out = buildah("run", "--network", "host", *options, container, "--", *image["Entrypoint"],
                      *image["Cmd"])
        have, count = digests_of(out)
        proc.expect_equal((have, count), (fixtures.tree_digests(s.local), 2 * len(have)), "digests of two epochs")
        place = "/root/*-containers/*/userdata/buildah-volumes/*/headrace/control"
        proc.expect(len(glob.glob(buildah.folder + place)) == 1, "the cache is not in the image's volume")
        proc.expect("LD_PRELOAD" not in json.dumps(image), "the preload is in the image's environment")


# $1: the root; then pairs of a folder and where it is mounted, and after `--` what runs there as the pod's user.
CONTAINER = """
set -e
root=$1 user=$2 group=$3
shift 3
mount --bind "$root" "$root"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
while [ "$1" != -- ]; do
    mkdir -p "$root$2"
    mount --bind "$1" "$root$2"
    [ "$3" = rw ] || mount -o remount,bind,ro "$root$2"
    shift 3
done
shift
exec /usr/sbin/chroot --userspec="$user:$group" --groups= "$root" "$@"
"""


class Pod:
    """pod.yaml, its volumes as folders; each container has mount and pid namespaces of its own over `image`."""

    def __init__(self, s, image):
        import yaml
        with open(EXAMPLES + "/pod.yaml") as file:
            self.spec = yaml.safe_load(file)["spec"]
        self.image = image
        os.chmod(image, 0o755)
        context = self.spec["securityContext"]
        self.user, self.group = context["runAsUser"], context["runAsGroup"]
        self.volumes = {}
        for volume in self.spec["volumes"]:
            proc.expect("emptyDir" in volume, "a volume that this test does not know", volume)
            folder = proc.temp_folder("hr-volume-")
            os.chown(folder, 0, context["fsGroup"])
            os.chmod(folder, 0o2777)
            self.volumes[volume["name"]] = folder
        self.secret = {name: value for name, value in s.job.env().items() if name.startswith("AWS_")}
        self.bucket = "s3://%s/%s" % (fixtures.BUCKET, fixtures.PREFIX)

    def argv(self, container):
        words = []
        for mount in container["volumeMounts"]:
            words += [self.volumes[mount["name"]], mount["mountPath"], "ro" if mount.get("readOnly") else "rw"]
        return [*machine.ENTER, "sh", "-c", CONTAINER, "sh", self.image, str(self.user), str(self.group), *words, "--",
                *container["command"], *container.get("args", [])]

    def env(self, container):
        if "envFrom" in container:
            proc.expect_equal([list(one) for one in container["envFrom"]], [["secretRef"]], "envFrom")
        given = {one["name"]: one["value"].replace("s3://bucket/prefix", self.bucket) for one in container.get("env", [])}
        return {"PATH": "/usr/bin:/bin", **(self.secret if "envFrom" in container else {}), **given}


@test((*NEEDS, "py:yaml"), timeout=300)
def test_pod_of_the_example():
    """The init container's command fills the volume; then both containers run at once, over one cache: each object comes once."""
    with scene(fixtures.mixed(), delay_ms=10) as s:
        image = python_root()
        shutil.move(unpacked(image + "/opt"), image + "/opt/headrace")
        for name in ("train", "evaluate"):
            machine.put(image + "/app/%s.py" % name, TRAIN)
        pod = Pod(s, image)
        for container in pod.spec["initContainers"]:
            done = proc.run(pod.argv(container), 100, env=pod.env(container))
            proc.expect_equal(done.returncode, 0, proc.tail(done.stdout, done.stderr))
        shutil.rmtree(image + "/opt/headrace")
        children, logs = [], []
        for container in pod.spec["containers"]:
            logs.append(os.path.join(proc.temp_folder(), "log"))
            children.append(proc.start(pod.argv(container), logs[-1], env=dict(pod.env(container), HEADRACE_PREFETCH="off")))
        for child, log in zip(children, logs):
            status = child.wait(200)
            with open(log) as file:
                text = file.read()
            proc.expect_equal(status, 0, text[-1500:])
            have, count = digests_of(text)
            proc.expect_equal((have, count), (fixtures.tree_digests(s.local), 2 * len(have)), "digests of two epochs")
        proc.expect_equal(len(children), 2, "containers")
        # What was under way when the first container, and the daemon in it, ended is asked for again.
        keys = s.front.log().keys()
        proc.expect(len(keys) >= len(have) - 1 and sum(keys.values()) <= len(keys) + 8, "GETs", len(keys), sum(keys.values()))
