#include "fetch/plan/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "fetch/base/buf.h"
#include "fetch/base/cleanup.h"
#include "fetch/base/clock.h"
#include "fetch/base/text.h"
#include "fetch/plan/inner.h"

#define HR_SEEN_LEAST 1024 /* places; grows with the names, 16 to 32 bytes each */
#define HR_PART_TRIES 8    /* others may move it meanwhile, once each */

struct hr_recording {
    struct hr_recording *prev, *next;
    struct hr_plan *plan;
    uint32_t trees[HR_CONTEXT_MAPS_MAX];
    unsigned tree_count, map; /* map: of the line before */
    FILE *out;
    uint64_t *seen; /* hashes of what was written; 0: free */
    uint64_t seen_room, count;
    int64_t last_ms;
    int error; /* the first; nothing is written any more */
    char path[PATH_MAX], part[PATH_MAX + 8];
};

/* Locked, so that a recording that goes on, in whatever daemon, is told from one that nobody will end; empty,
 * and what was in it kept. Its descriptor or -errno. A file system that cannot lock is taken as it is. */
static int open_part(const char *part, bool *ret_kept)
{
    char old[PATH_MAX + 16];
    snprintf(old, sizeof old, "%s.old", part);
    for (int i = 0; i < HR_PART_TRIES; i++) {
        struct stat st, named;
        hr_cleanup_fd int fd = open(part, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (fd < 0) {
            return -errno;
        }
        if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
            return -EBUSY;
        }
        if (fstat(fd, &st) < 0) {
            return -errno;
        }
        if (lstat(part, &named) < 0 || named.st_ino != st.st_ino || named.st_dev != st.st_dev) {
            continue; /* it got its name, or was kept, while we came for it */
        }
        if (!S_ISREG(st.st_mode) || st.st_size <= (off_t)sizeof HR_ORDER_HEADER) { /* no name is in it */
            return ftruncate(fd, 0) < 0 && S_ISREG(st.st_mode) ? -errno : hr_steal_fd(fd);
        }
        if (rename(part, old) < 0) {
            return -errno;
        }
        *ret_kept = true;
    }
    return -EBUSY;
}

int hr_recording_begin(struct hr_plan *plan, const uint32_t *trees, unsigned count, const char *file,
                       struct hr_recording **ret, bool *ret_kept)
{
    bool kept = false;
    struct hr_recording *recording = calloc(1, sizeof *recording);
    if (!recording) {
        return -ENOMEM;
    }
    recording->plan = plan;
    recording->tree_count = count < HR_CONTEXT_MAPS_MAX ? count : HR_CONTEXT_MAPS_MAX;
    memcpy(recording->trees, trees, recording->tree_count * sizeof *trees);
    recording->last_ms = hr_clock_ms();
    snprintf(recording->path, sizeof recording->path, "%s", file);
    snprintf(recording->part, sizeof recording->part, "%s.part", recording->path);
    recording->seen_room = HR_SEEN_LEAST;
    recording->seen = calloc(recording->seen_room, sizeof *recording->seen);
    int fd = recording->seen ? open_part(recording->part, &kept) : -ENOMEM;
    int error = fd < 0 ? fd : 0;
    if (fd >= 0 && !(recording->out = fdopen(fd, "w"))) {
        error = -errno;
        close(fd);
    }
    if (error == 0 && fprintf(recording->out, HR_ORDER_HEADER "\n") < 0) {
        error = -EIO;
    }
    if (error < 0) {
        if (recording->out) {
            fclose(recording->out);
        }
        free(recording->seen);
        free(recording);
        return error;
    }
    DL_APPEND(plan->recordings, recording);
    *ret = recording;
    *ret_kept = kept;
    return 0;
}

const char *hr_recording_file(const struct hr_recording *recording)
{
    return recording->path;
}

/* True: it was not there. */
static bool put_hash(uint64_t *seen, uint64_t room, uint64_t hash)
{
    uint64_t at = hash & (room - 1);
    while (seen[at] && seen[at] != hash) {
        at = (at + 1) & (room - 1);
    }
    bool is_new = seen[at] == 0;
    seen[at] = hash;
    return is_new;
}

static void grow(struct hr_recording *recording)
{
    uint64_t room = recording->seen_room * 2;
    uint64_t *seen = calloc(room, sizeof *seen);
    if (!seen) {
        recording->error = -ENOMEM;
        return;
    }
    for (uint64_t i = 0; i < recording->seen_room; i++) {
        if (recording->seen[i]) {
            (void)put_hash(seen, room, recording->seen[i]);
        }
    }
    free(recording->seen);
    recording->seen = seen;
    recording->seen_room = room;
}

static bool is_new(struct hr_recording *recording, unsigned map, const char *path, uint32_t path_len)
{
    uint64_t hash = hr_index_hash_seeded(map, path, path_len);
    if ((recording->count + 1) * 2 > recording->seen_room) {
        grow(recording);
    }
    return recording->error == 0 && put_hash(recording->seen, recording->seen_room, hash ? hash : 1);
}

static void write_line(struct hr_recording *recording, unsigned map, const char *path, uint32_t path_len)
{
    struct hr_buf line = HR_BUF_INIT(4 * HR_KEY_MAX);
    int error = map != recording->map ? hr_buf_printf(&line, "@%u\n", map) : 0;
    if (error == 0) {
        error = hr_percent_encode(path, path_len, true, &line);
    }
    if (error == 0 && fprintf(recording->out, "%s\n", line.data) < 0) {
        error = -EIO;
    }
    hr_buf_release(&line);
    recording->map = map;
    recording->count++;
    recording->last_ms = hr_clock_ms();
    recording->error = error;
}

void hr_recording_name(struct hr_plan_tree *tree, const char *path, uint32_t path_len)
{
    struct hr_recording *recording;
    DL_FOREACH(tree->plan->recordings, recording)
    {
        for (unsigned map = 0; map < recording->tree_count && recording->error == 0; map++) {
            if (recording->trees[map] == tree->number) {
                if (is_new(recording, map, path, path_len)) {
                    write_line(recording, map, path, path_len);
                }
                break;
            }
        }
    }
}

void hr_recording_entry(struct hr_plan_tree *tree, uint32_t entry)
{
    char path[HR_KEY_MAX + 1];
    int len = tree->plan->recordings ? hr_index_path(&tree->index, entry, path, sizeof path) : -1;
    if (len > 0) {
        hr_recording_name(tree, path, (uint32_t)len);
    }
}

int64_t hr_recording_last_ms(const struct hr_recording *recording)
{
    return recording->last_ms;
}

void hr_recording_flush(struct hr_recording *recording)
{
    if (fflush(recording->out) != 0 && recording->error == 0) {
        recording->error = -errno;
    }
}

void hr_recording_end(struct hr_recording *recording)
{
    struct hr_plan *plan = recording->plan;
    for (unsigned map = 0; map < recording->tree_count; map++) {
        struct hr_plan_tree *tree = hr_tree_get(plan, recording->trees[map]);
        if (tree) {
            hr_tree_drain_uses(tree);
        }
    }
    int error = recording->error;
    if (fflush(recording->out) != 0 && error == 0) {
        error = -errno;
    }
    if (error == 0 && rename(recording->part, recording->path) < 0) { /* while nobody else may have it */
        error = -errno;
    }
    if (error < 0) {
        hr_log(HR_LOG_ERROR, "cannot record to %s: %s", recording->path, strerror(-error));
        (void)unlink(recording->part);
    } else {
        hr_log(HR_LOG_INFO, "recorded %llu names to %s", (unsigned long long)recording->count,
               recording->path);
    }
    fclose(recording->out);
    DL_DELETE(plan->recordings, recording);
    free(recording->seen);
    free(recording);
}
