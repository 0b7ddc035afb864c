/* The journal at start: its segments are read and replayed, and the boot is told from earlier ones. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"
#include "fetch/base/clock.h"
#include "fetch/cache/journal_inside.h"

static void read_boot_id(uint8_t boot_id[HR_BOOT_ID_BYTES])
{
    char text[64] = "";
    hr_cleanup_fd int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    size_t digits = 0;
    memset(boot_id, 0, HR_BOOT_ID_BYTES);
    for (ssize_t i = 0; i < got && digits < 2u * HR_BOOT_ID_BYTES; i++) {
        const char *hex = "0123456789abcdef";
        const char *at = text[i] ? strchr(hex, text[i]) : NULL;
        if (at) {
            boot_id[digits / 2] = (uint8_t)((boot_id[digits / 2] << 4) | (at - hex));
            digits++;
        }
    }
    for (size_t i = 0; digits < 2u * HR_BOOT_ID_BYTES && i < HR_BOOT_ID_BYTES; i++) {
        boot_id[i] = (uint8_t)hr_random_u64(); /* unknown: believe no other life */
    }
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The numbers of the segments there, in order. */
static int find_segments(const char *dir, uint32_t **ret_numbers, size_t *ret_count)
{
    char path[PATH_MAX];
    hr_cleanup_free uint32_t *numbers = NULL;
    size_t count = 0;
    size_t room = 0;
    int r = 0;
    (void)snprintf(path, sizeof(path), "%s/records", dir);
    DIR *stream = opendir(path);
    if (!stream) {
        return -errno;
    }
    for (const struct dirent *entry = readdir(stream); !r && entry; entry = readdir(stream)) {
        char *end = NULL;
        unsigned long number = strtoul(entry->d_name, &end, 16);
        if (end != entry->d_name + 8 || strcmp(end, ".log") != 0) {
            continue;
        }
        if (count == room) {
            room = room ? room * 2 : 64;
            uint32_t *more = reallocarray(numbers, room, sizeof(*numbers));
            r = more ? 0 : -ENOMEM;
            numbers = more ? more : numbers;
        }
        if (!r) {
            numbers[count++] = (uint32_t)number;
        }
    }
    (void)closedir(stream);
    if (r < 0) {
        return r;
    }
    if (count) {
        qsort(numbers, count, sizeof(*numbers), by_number);
    }
    *ret_numbers = hr_steal_pointer(numbers);
    *ret_count = count;
    return 0;
}

int hr_segment_read(const struct hr_journal *journal, const struct hr_segment *segment, struct hr_buf *bytes)
{
    char path[PATH_MAX];
    struct stat st;
    hr_segment_path(journal, segment->number, path);
    hr_cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return -errno;
    }
    if (!S_ISREG(st.st_mode)) {
        return -EINVAL;
    }
    size_t want = st.st_size < (off_t)HR_SEGMENT_READ_BYTES ? (size_t)st.st_size : HR_SEGMENT_READ_BYTES;
    hr_buf_reset(bytes);
    int r = hr_buf_reserve(bytes, want);
    while (!r && bytes->len < want) {
        ssize_t got = read(fd, bytes->data + bytes->len, want - bytes->len);
        if (got <= 0) {
            r = got < 0 && errno == EINTR ? 0 : got < 0 ? -errno : -ENODATA;
            continue;
        }
        bytes->len += (size_t)got;
    }
    return r == -ENODATA ? 0 : r;
}

static int replay_segment(struct hr_journal *journal, struct hr_segment *segment, const struct hr_buf *bytes,
                          hr_journal_replay_fn replay, void *owner)
{
    struct hr_record record;
    size_t used = 0;
    size_t at = 0;
    bool other_boot = true;
    while (at < bytes->len && !hr_record_decode(bytes->data + at, bytes->len - at, &record, &used)) {
        at += used;
        if (record.epoch > journal->epoch) {
            journal->epoch = record.epoch;
        }
        if (record.kind == HR_RECORD_SEGMENT) {
            other_boot = memcmp(record.id, journal->boot_id, sizeof(record.id)) != 0;
        }
        if (record.kind == HR_RECORD_OBJECT) {
            int r = replay(owner, journal, segment, &record, other_boot);
            if (r < 0) {
                return r;
            }
        } else if (record.kind != HR_RECORD_IDS && record.epoch > journal->synced_epoch) {
            journal->synced_epoch = record.epoch;
        }
    }
    segment->bytes = at;
    journal->bytes += at;
    return 0;
}

int hr_journal_open(struct hr_cache *cache, hr_journal_replay_fn replay, void *owner, struct hr_journal **ret)
{
    hr_cleanup(hr_buf_release) struct hr_buf bytes = HR_BUF_INIT(HR_SEGMENT_READ_BYTES);
    hr_cleanup_free uint32_t *numbers = NULL;
    size_t count = 0;
    struct hr_journal *journal = calloc(1, sizeof(*journal));
    if (!journal) {
        return -ENOMEM;
    }
    journal->cache = cache;
    journal->fd = -1;
    hr_buf_init(&journal->pending, 2 * HR_PENDING_BYTES);
    read_boot_id(journal->boot_id);
    int r = find_segments(cache->dir, &numbers, &count);
    for (size_t i = 0; !r && i < count; i++) {
        struct hr_segment *segment = hr_segment_new(journal, numbers[i]);
        r = segment ? 0 : -ENOMEM;
        if (!r && !hr_segment_read(journal, segment, &bytes)) {
            r = replay_segment(journal, segment, &bytes, replay, owner);
            if (!r && !segment->bytes) {
                hr_segment_unlink(journal, segment); /* no record in it: an older layout's, or damage */
            }
        }
    }
    if (r < 0) {
        hr_journal_close(journal);
        return r;
    }
    journal->next_number = count ? numbers[count - 1] + 1 : 1;
    /* What earlier lives of this boot did not sync is synced with this life's first epoch. */
    journal->epoch_used = journal->epoch > journal->synced_epoch;
    journal->epoch++;
    *ret = journal;
    return 0;
}
