"""The stage of most tests: rclone behind nginx, one map point, one job."""
import contextlib
import os

from . import fixtures, front, headrace, proc, servers


class Scene:
    """store, front, job; `data` is the map point, `local` the same tree on disk, `fixture` its folder of buckets."""

    def __init__(self, fixture, store, cloud, job, data):
        self.fixture, self.store, self.front, self.job, self.data = fixture, store, cloud, job, data
        self.local = fixtures.tree(fixture)


@contextlib.contextmanager
def scene(fixture=None, store=None, delay_ms=0, sigma=0.0, slow_down=0, point=None, options="", **settings):
    """A job whose map point `data` is absent in a folder of its own. `store`: makes the server from the fixture."""
    fixture = fixture or fixtures.images()
    data = point or os.path.join(proc.temp_folder("hr-"), "data")
    with (store or servers.Rclone)(fixture) as server:
        with front.Front(server, delay_ms=delay_ms, sigma=sigma, slow_down=slow_down) as cloud:
            source = "%s=s3://%s/%s%s" % (data, fixtures.BUCKET, fixtures.PREFIX, options)
            with headrace.Job(source, cloud, **settings) as job:
                yield Scene(fixture, server, cloud, job, data)
