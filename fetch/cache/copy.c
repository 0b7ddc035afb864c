/* A part that comes out of a segment: the loop's half finds the segment and pins it, the writer's copies. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"
#include "fetch/cache/put.h"

#define COPY_BYTES (256u * 1024) /* where the kernel does not copy: fits in L2 */

/* Its file is there and right, or it leaves the cache. */
static bool file_right(struct hr_cache *cache, struct hr_object *segment)
{
    char path[PATH_MAX];
    struct stat st;
    hr_object_path(cache->dir, segment->cached.file_id, path);
    if (!lstat(path, &st) && hr_object_matches(segment, &st, cache->dev)) {
        return true;
    }
    hr_cache_leave(cache, segment);
    return false;
}

int hr_put_copy(struct hr_put *put, uint64_t offset, uint64_t bytes, uint64_t face_id,
                void (*written)(void *owner, uint64_t bytes), void *written_owner)
{
    struct hr_cache *cache = put->cache;
    const struct hr_cached *cached = &put->object->cached;
    const struct hr_identity identity = hr_object_identity(put->object);
    const struct hr_object *face = hr_face_by_id(cache, face_id);
    if (!bytes || offset > cached->size || bytes > cached->size - offset ||
        (face && !hr_is_version(face, &identity))) {
        return -EINVAL;
    }
    uint64_t from = hr_cached_offset(cached) + offset; /* in the object */
    struct hr_object *segment = hr_segments_over(&cache->segments, face_id, from, bytes);
    if (!segment || !file_right(cache, segment)) {
        return -ENOENT;
    }
    struct hr_part *part = calloc(1, sizeof(*part));
    if (!part) {
        return -ENOMEM;
    }
    part->offset = offset;
    part->len = bytes;
    part->source = segment;
    part->source_offset = from - hr_object_segment(segment)->offset;
    part->written = written;
    part->written_owner = written_owner;
    int r = hr_put_give(put, part);
    if (r < 0) {
        free(part);
        return r;
    }
    hr_segment_pin(segment);
    return 0;
}

void hr_part_let_go(struct hr_cache *cache, struct hr_part *part)
{
    if (!part->source) {
        return;
    }
    if (part->source_bad && hr_table_by_id(cache, part->source->cached.file_id) == part->source) {
        hr_cache_leave(cache, part->source);
    }
    hr_segment_unpin(part->source);
    part->source = NULL;
}

/* ---- on a writer thread ---- */

/* The file was here when the part was given; what it is now is looked at again. */
static int source_open(const struct hr_cache *cache, struct hr_part *part, int *ret_fd)
{
    char path[PATH_MAX];
    struct stat st;
    hr_object_path(cache->dir, part->source->cached.file_id, path);
    hr_cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno != ENOENT && errno != ELOOP && errno != ENOTDIR) {
        return -errno;
    }
    if (fd < 0 || fstat(fd, &st) < 0 || !hr_object_matches(part->source, &st, cache->dev)) {
        part->source_bad = true;
        return -EIO;
    }
    *ret_fd = hr_steal_fd(fd);
    return 0;
}

/* Bytes that the kernel copied; fewer than asked for where it cannot. */
static uint64_t copy_inside(int from_fd, off_t from, int to_fd, off_t to, uint64_t bytes)
{
    uint64_t done = 0;
    while (done < bytes) {
        ssize_t got = copy_file_range(from_fd, &from, to_fd, &to, bytes - done, 0);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        done += (uint64_t)got;
    }
    return done;
}

static int copy_through(int from_fd, off_t from, int to_fd, off_t to, uint64_t bytes)
{
    hr_cleanup_free char *room = malloc(COPY_BYTES);
    if (!room) {
        return -ENOMEM;
    }
    for (uint64_t done = 0; done < bytes;) {
        size_t want = bytes - done < COPY_BYTES ? (size_t)(bytes - done) : COPY_BYTES;
        ssize_t got = pread(from_fd, room, want, from + (off_t)done);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got < 0 ? -errno : -EIO; /* shorter than it was: somebody cut it */
        }
        int r = hr_write_at(to_fd, room, (size_t)got, to + (off_t)done);
        if (r < 0) {
            return r;
        }
        done += (uint64_t)got;
    }
    return 0;
}

int hr_part_copy(const struct hr_cache *cache, int to_fd, struct hr_part *part)
{
    hr_cleanup_fd int fd = -1;
    int r = source_open(cache, part, &fd);
    if (r < 0) {
        return r;
    }
    off_t from = (off_t)part->source_offset;
    off_t to = (off_t)part->offset;
    uint64_t done = copy_inside(fd, from, to_fd, to, part->len);
    /* Any reason why the kernel stopped (EXDEV, ENOSPC, a short source) shows here again, or goes away. */
    return done < part->len ? copy_through(fd, from + (off_t)done, to_fd, to + (off_t)done, part->len - done)
                            : 0;
}
