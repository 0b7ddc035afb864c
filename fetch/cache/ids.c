/* Numbers of cache files: none is given twice, whatever ends the daemon. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"
#include "fetch/base/clock.h"
#include "fetch/cache/inside.h"

/* Ids are taken in blocks whose end is on the disk (fdatasync) before the first of them is given, so that no
 * crash, not even of the machine, gives one twice. A block is large enough to be asked for once a life. */
#define BLOCK_IDS (1ull << 32)
/* So many folders at a time get 256 files each before the next ones do: a small cache needs no more of them
 * (50 to 80 us each to make), and writers seldom meet in one. */
#define SHELVES_ABREAST 64u

static int read_end(const char *path, uint64_t *ret_end)
{
    char bytes[HR_RECORD_BYTES_MAX];
    struct hr_record record;
    size_t used = 0;
    hr_cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return errno == ENOENT ? 0 : -errno;
    }
    ssize_t got = read(fd, bytes, sizeof(bytes));
    if (got < 0) {
        return -errno;
    }
    /* One that does not decode (a disk error) is as if it were not there: the highest id seen remains. */
    if (!hr_record_decode(bytes, (size_t)got, &record, &used) && record.kind == HR_RECORD_IDS) {
        *ret_end = record.file_id;
    }
    return 0;
}

static int write_end(const char *dir, const char *path, uint64_t end)
{
    char folder[PATH_MAX];
    char fresh[PATH_MAX];
    const struct hr_record record = {.kind = HR_RECORD_IDS, .file_id = end};
    hr_cleanup(hr_buf_release) struct hr_buf bytes = HR_BUF_INIT(HR_RECORD_BYTES_MAX);
    int r = hr_record_encode(&record, &bytes);
    if (r < 0) {
        return r;
    }
    (void)snprintf(folder, sizeof(folder), "%s/records", dir);
    (void)snprintf(fresh, sizeof(fresh), "%s/records/ids.new", dir);
    (void)unlink(fresh);
    hr_cleanup_fd int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return -errno;
    }
    ssize_t put = write(fd, bytes.data, bytes.len);
    if (put != (ssize_t)bytes.len) {
        return put < 0 ? -errno : -ENOSPC;
    }
    if (fdatasync(fd) < 0 || rename(fresh, path) < 0) {
        return -errno;
    }
    hr_cleanup_fd int folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_fd < 0 || (fsync(folder_fd) < 0 && errno != EINVAL)) { /* EINVAL: not of a folder, here */
        return -errno;
    }
    return 0;
}

int hr_ids_persist(struct hr_cache *cache)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/records/ids", cache->dir);
    return write_end(cache->dir, path, cache->id_end);
}

/* The last byte names the folder: of each 256 numbers 64 are given, the same ones 256 times. */
static uint64_t id_behind(uint64_t id)
{
    if ((id + 1) % SHELVES_ABREAST) {
        return id + 1;
    }
    uint64_t row = (id >> 8) + 1;
    return row << 8 | (row >> 8 & 3) * SHELVES_ABREAST;
}

int hr_ids_open(struct hr_cache *cache, uint64_t highest_seen)
{
    char path[PATH_MAX];
    /* A cache that is made anew in the place of a removed one must not give the old one's ids: programs may
     * still hold them. 62 bits: room for blocks above. */
    uint64_t end = 1 + (hr_random_u64() >> 2);
    (void)snprintf(path, sizeof(path), "%s/records/ids", cache->dir);
    int r = read_end(path, &end);
    if (r < 0) {
        return r;
    }
    if (end <= highest_seen) {
        end = highest_seen + 1;
    }
    if (end > HR_FILE_ID_MAX - BLOCK_IDS) {
        return -EOVERFLOW;
    }
    const uint64_t next_id = cache->next_id;
    const uint64_t id_end = cache->id_end;
    cache->next_id = id_behind(end | (SHELVES_ABREAST - 1));
    cache->id_end = end + BLOCK_IDS;
    r = hr_ids_persist(cache);
    if (r < 0) {
        cache->next_id = next_id;
        cache->id_end = id_end;
    }
    return r;
}

int hr_ids_take(struct hr_cache *cache, uint64_t *ret_id)
{
    if (cache->next_id >= cache->id_end) {
        int r = hr_ids_open(cache, cache->id_end - 1);
        if (r < 0) {
            return r;
        }
    }
    *ret_id = cache->next_id;
    cache->next_id = id_behind(cache->next_id);
    return 0;
}
