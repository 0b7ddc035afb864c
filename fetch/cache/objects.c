/* A put on a writer thread: the file is made, written, verified and stamped. It has its name from the start:
 * nobody was told its number, and without a record the next life removes it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fetch/base/clock.h"
#include "fetch/cache/put.h"
#include "fetch/cache/verify.h"

#define MAKE_TRIES 4 /* its folder missing, the whole tree too, another writer's folder in its place */
#define NONCE_END 1000000000u /* nanoseconds of a second */
/* From here on fallocate costs less than it spares (ext4, 8 MiB: 0.6 of the time of its pwrite). */
#define ALLOCATED_BYTES_MIN (1u << 20)

static bool no_room(int error)
{
    return error == -ENOSPC || error == -EDQUOT;
}

static int file_make(struct hr_put *put)
{
    char path[PATH_MAX];
    hr_object_path(put->cache->dir, put->object->cached.file_id, path);
    int r = 0;
    for (int tries = 0; tries < MAKE_TRIES; tries++) {
        /* The last mode from the start: of a whole object or segment this descriptor may write, nobody else
         * ever may. */
        put->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, hr_object_mode(put->object));
        if (put->fd >= 0) {
            return 0;
        }
        r = -errno;
        if (r == -ENOENT) {
            r = hr_shelf_make(put->cache, put->object->cached.file_id);
            if (r == -ENOENT) {
                r = hr_folders_remake(put->cache);
            }
        } else if (r == -EEXIST) {
            r = unlink(path) < 0 ? -errno : 0; /* not ours: ids are given once */
        }
        if (r < 0) {
            return r;
        }
    }
    return -EIO;
}

int hr_write_at(int fd, const char *bytes, size_t len, off_t at)
{
    while (len) {
        ssize_t done = pwrite(fd, bytes, len, at);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return done < 0 ? -errno : -EIO;
        }
        bytes += done;
        len -= (size_t)done;
        at += done;
    }
    return 0;
}

static int part_write(struct hr_put *put, struct hr_part *part)
{
    if (put->fd < 0) {
        int r = file_make(put);
        if (r < 0) {
            return r;
        }
        /* Several parts: a full disk shows before the first, and the file lies in one piece. Not every file
         * system can; then it shows at a write. Blocks that are taken together cost less than page by page.
         */
        uint64_t size = put->object->cached.size;
        bool ahead = part->len < size || size >= ALLOCATED_BYTES_MIN;
        if (ahead && fallocate(put->fd, 0, 0, (off_t)size) < 0 && no_room(-errno)) {
            return -ENOSPC;
        }
    }
    if (part->source) {
        return hr_part_copy(put->cache, put->fd, part);
    }
    return hr_write_at(put->fd, part->bytes.data, part->len, (off_t)part->offset);
}

/* Times, mode and what identifies the file. */
static int file_stamp(struct hr_put *put)
{
    struct hr_object *object = put->object;
    struct timespec now;
    struct stat st;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    now.tv_nsec = (long)(hr_random_u64() % NONCE_END);
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, now};
    if (futimens(put->fd, times) < 0 || fstat(put->fd, &st) < 0) {
        return -errno;
    }
    if (!st.st_nlink) {
        int r = hr_folders_remake(put->cache); /* it was removed, and others with it */
        return r < 0 ? r : -EIO;
    }
    mode_t mode = hr_object_mode(object);
    if ((st.st_mode & 07777) != mode && fchmod(put->fd, mode) < 0) {
        return -errno;
    }
    if ((uint64_t)st.st_size != hr_object_file_bytes(object) || st.st_dev != put->cache->dev || !st.st_ino) {
        return -EIO; /* somebody cut it, or something was mounted over cache_dir */
    }
    /* As the file system keeps them, which may be coarser than what was set. */
    object->written_s = st.st_mtim.tv_sec;
    object->nonce = (uint32_t)st.st_mtim.tv_nsec;
    object->ino = st.st_ino;
    return object->written_s == st.st_mtim.tv_sec ? 0 : -EOVERFLOW; /* a clock centuries off */
}

static int file_seal(struct hr_put *put)
{
    int r = put->fd < 0 ? file_make(put) : 0; /* an empty object, a face */
    if (!r && !put->verified && hr_verify_wanted(&put->verify)) {
        r = hr_verify_file(&put->verify, put->fd, hr_object_file_bytes(put->object), put->md5_hex);
        put->verified = !r;
    }
    if (!r) {
        r = file_stamp(put);
    }
    if (!r) {
        (void)close(put->fd);
        put->fd = -1;
        put->sealed = true;
    }
    return r;
}

static void file_scrap(struct hr_put *put)
{
    char path[PATH_MAX];
    if (put->fd >= 0 || put->sealed) {
        if (put->fd >= 0) {
            (void)close(put->fd);
            put->fd = -1;
        }
        hr_object_path(put->cache->dir, put->object->cached.file_id, path);
        (void)unlink(path);
        put->sealed = false;
    }
    put->scrapped = true;
}

static void part_land(struct hr_put *put)
{
    struct hr_part *part = hr_parts_take(&put->todo);
    hr_buf_release(&part->bytes);
    hr_parts_append(&put->landed, part);
}

bool hr_put_is_whole(const struct hr_put *put)
{
    const struct hr_part *part = put->todo.head;
    return !put->result && put->finishing && put->fd < 0 && !put->verified && part && !part->source &&
           part->len == put->object->cached.size;
}

/* A bad one never gets to the disk. */
static void verify_early(struct hr_put *put)
{
    const struct hr_part *part = put->todo.head;
    if (hr_put_is_whole(put) && hr_verify_wanted(&put->verify)) {
        put->result =
            hr_verify_bytes(&put->verify, part->bytes.data ? part->bytes.data : "", part->len, put->md5_hex);
        put->verified = !put->result;
    }
}

static void put_step(struct hr_put *put)
{
    int r = 0;
    verify_early(put);
    while (!r && !put->result && put->todo.head) {
        r = part_write(put, put->todo.head);
        if (!r) {
            part_land(put);
        }
    }
    if (!r && !put->result && put->finishing && !put->sealed) {
        r = file_seal(put);
    }
    if (no_room(r)) {
        put->need_room = true;
        return;
    }
    if (r < 0) {
        put->result = r;
    }
    if (put->result) {
        file_scrap(put);
        while (put->todo.head) {
            part_land(put);
        }
    }
}

bool hr_put_take_orders(struct hr_put *put)
{
    (void)pthread_mutex_lock(&put->lock);
    while (put->incoming.head) {
        hr_parts_append(&put->todo, hr_parts_take(&put->incoming));
    }
    put->finishing = put->finish_asked;
    if (!put->result) {
        put->result = put->order_error;
    }
    (void)pthread_mutex_unlock(&put->lock);
    return put->todo.head || (put->result && !put->scrapped) ||
           (put->finishing && !put->sealed && !put->scrapped);
}

void hr_put_run(struct hr_work *work)
{
    struct hr_put *put = hr_put_of(work);
    for (struct hr_object *victim = put->victims; victim; victim = victim->next_victim) {
        char path[PATH_MAX];
        hr_object_path(put->cache->dir, victim->cached.file_id, path);
        (void)unlink(path);
    }
    put->need_room = false;
    while (!put->need_room && hr_put_take_orders(put)) {
        put_step(put);
    }
}
