#include "fetch/cache/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"
#include "fetch/cache/journal_inside.h"

#define SMALL_SEGMENTS 16 /* each start makes one */

void hr_segment_path(const struct hr_journal *journal, uint32_t number, char path[PATH_MAX])
{
    (void)snprintf(path, PATH_MAX, "%s/records/%08" PRIx32 ".log", journal->cache->dir, number);
}

static uint64_t object_bytes(const struct hr_object *object)
{
    return hr_record_bytes(object->cached.key_len, object->cached.etag_len);
}

static void segment_free(struct hr_journal *journal, struct hr_segment *segment)
{
    struct hr_segment **at = &journal->segments;
    while (*at != segment) {
        at = &(*at)->next;
    }
    *at = segment->next;
    journal->bytes -= segment->bytes;
    free(segment);
}

void hr_segment_unlink(struct hr_journal *journal, struct hr_segment *segment)
{
    char path[PATH_MAX];
    hr_segment_path(journal, segment->number, path);
    (void)unlink(path);
    segment_free(journal, segment);
}

struct hr_segment *hr_segment_new(struct hr_journal *journal, uint32_t number)
{
    struct hr_segment *segment = calloc(1, sizeof(*segment));
    struct hr_segment **at = &journal->segments;
    if (!segment) {
        return NULL;
    }
    segment->number = number;
    while (*at) {
        at = &(*at)->next;
    }
    *at = segment;
    return segment;
}

void hr_journal_attach(struct hr_journal *journal, struct hr_segment *segment, struct hr_object *object)
{
    uint64_t bytes = object_bytes(object);
    object->recorded_in = segment;
    segment->live_bytes += bytes;
    journal->live_bytes += bytes;
}

void hr_journal_forget(struct hr_journal *journal, struct hr_object *object)
{
    struct hr_segment *segment = object->recorded_in;
    if (!segment) {
        return;
    }
    uint64_t bytes = object_bytes(object);
    object->recorded_in = NULL;
    segment->live_bytes -= bytes;
    journal->live_bytes -= bytes;
    if (!segment->live_bytes && segment != journal->current && !segment->moving) {
        hr_segment_unlink(journal, segment);
    }
}

bool hr_journal_proven(const struct hr_journal *journal, const struct hr_object *object)
{
    return !object->other_boot || object->epoch <= journal->synced_epoch;
}

void hr_journal_close(struct hr_journal *journal)
{
    if (!journal) {
        return;
    }
    hr_journal_flush(journal);
    while (journal->segments) {
        struct hr_segment *segment = journal->segments;
        journal->segments = segment->next;
        free(segment);
    }
    hr_close_p(&journal->fd);
    hr_buf_release(&journal->pending);
    free(journal);
}

/* ---- appending ---- */

static int encode(struct hr_journal *journal, const struct hr_record *record)
{
    size_t before = journal->pending.len;
    int r = hr_record_encode(record, &journal->pending);
    if (!r) {
        journal->current->bytes += journal->pending.len - before;
        journal->bytes += journal->pending.len - before;
    }
    return r;
}

/* No file yet: that is flush's, so that adding never fails on a disk. */
static int need_current(struct hr_journal *journal)
{
    if (journal->current) {
        return 0;
    }
    struct hr_segment *segment = hr_segment_new(journal, journal->next_number);
    if (!segment) {
        return -ENOMEM;
    }
    struct hr_record head = {.kind = HR_RECORD_SEGMENT, .epoch = journal->synced_epoch};
    memcpy(head.id, journal->boot_id, sizeof(head.id));
    journal->next_number++;
    journal->current = segment;
    journal->good_bytes = 0;
    hr_buf_reset(&journal->pending);
    return encode(journal, &head);
}

/* The current one takes no more; what of it was not written is lost. */
static void end_current(struct hr_journal *journal)
{
    struct hr_segment *segment = journal->current;
    hr_close_p(&journal->fd);
    journal->fd = -1;
    journal->current = NULL;
    hr_buf_reset(&journal->pending);
    if (segment && !segment->live_bytes) {
        hr_segment_unlink(journal, segment);
    }
}

static int append_object(struct hr_journal *journal, struct hr_object *object)
{
    struct hr_record record = {
        .kind = HR_RECORD_OBJECT,
        .epoch = object->epoch,
        .file_id = object->cached.file_id,
        .size = object->cached.size,
        .ino = object->ino,
        .salt = hr_object_source(object)->salt,
        .mtime_ns = object->cached.mtime_ns,
        .written_s = object->written_s,
        .nonce = object->nonce,
        .dev = hr_object_source(object)->dev,
        .cached = object->cached.kind,
        .face_id = hr_cached_face_id(&object->cached),
        .offset = hr_cached_offset(&object->cached),
        .key = hr_cached_key(&object->cached),
        .key_len = (uint16_t)object->cached.key_len,
        .etag = hr_cached_etag(&object->cached),
        .etag_len = object->cached.etag_len,
    };
    memcpy(record.id, object->cached.source->bytes, sizeof(record.id));
    int r = need_current(journal);
    if (!r) {
        r = encode(journal, &record);
    }
    if (!r) {
        hr_journal_forget(journal, object); /* from the segment it may be moved out of */
        hr_journal_attach(journal, journal->current, object);
    }
    return r;
}

void hr_journal_add(struct hr_journal *journal, struct hr_object *object)
{
    object->epoch = journal->epoch;
    if (!append_object(journal, object)) {
        journal->epoch_used = true;
    }
}

static int write_pending(struct hr_journal *journal)
{
    if (journal->fd < 0) {
        char path[PATH_MAX];
        hr_segment_path(journal, journal->current->number, path);
        journal->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (journal->fd < 0) {
            int r = -errno;
            if (r == -EEXIST) {
                journal->current->number = journal->next_number++;
            }
            return r;
        }
    }
    ssize_t put = write(journal->fd, journal->pending.data, journal->pending.len);
    if (put == (ssize_t)journal->pending.len) {
        journal->good_bytes += (uint64_t)put;
        hr_buf_reset(&journal->pending);
        return 0;
    }
    int r = put < 0 ? -errno : -ENOSPC;
    if (ftruncate(journal->fd, (off_t)journal->good_bytes) < 0) {
        end_current(journal); /* its tail is torn: nothing may follow it */
    }
    return r;
}

/* Writes what is pending, then unlinks the segments whose copies that were. */
static int write_out(struct hr_journal *journal)
{
    int r = journal->pending.len ? write_pending(journal) : 0;
    if (r < 0) {
        if (journal->pending.len > HR_PENDING_BYTES) {
            end_current(journal);
        }
        return r;
    }
    for (struct hr_segment *segment = journal->segments; segment;) {
        struct hr_segment *next = segment->next;
        if (segment->moving && !segment->live_bytes) {
            hr_segment_unlink(journal, segment);
        }
        segment = next;
    }
    if (journal->current && journal->current->bytes >= HR_SEGMENT_BYTES) {
        end_current(journal);
    }
    return 0;
}

/* Writes out before, not after: the segment that it comes from stays. */
static int append_again(struct hr_journal *journal, struct hr_object *object)
{
    int r = journal->pending.len >= HR_PENDING_BYTES ? write_out(journal) : 0;
    return r < 0 ? r : append_object(journal, object);
}

/* Of all objects those whose segment is being moved. */
static int move_by_table(struct hr_journal *journal)
{
    const struct hr_chains *all = &journal->cache->by_id;
    int r = 0;
    for (uint32_t chain = 0; !r && chain < all->heads; chain++) {
        for (struct hr_chained *link = hr_chains_at(all, chain); !r && link; link = link->next) {
            struct hr_object *object = hr_object_of_id(link);
            if (object->recorded_in && object->recorded_in->moving) {
                r = append_again(journal, object);
            }
        }
    }
    return r;
}

/* Those that its file names, if it is there. */
static int move_by_file(struct hr_journal *journal, struct hr_segment *segment)
{
    hr_cleanup(hr_buf_release) struct hr_buf bytes = HR_BUF_INIT(HR_SEGMENT_READ_BYTES);
    struct hr_record record;
    size_t used = 0;
    int r = 0;
    segment->moving = true;
    if (hr_segment_read(journal, segment, &bytes) < 0) {
        return 0;
    }
    for (size_t at = 0; !r && at < bytes.len && segment->live_bytes; at += used) {
        if (hr_record_decode(bytes.data + at, bytes.len - at, &record, &used) < 0) {
            break;
        }
        struct hr_object *object =
            record.kind == HR_RECORD_OBJECT ? hr_table_by_id(journal->cache, record.file_id) : NULL;
        if (object && object->recorded_in == segment) {
            r = append_again(journal, object);
        }
    }
    return r;
}

/* Appends the living records of a segment again. */
static int move_out(struct hr_journal *journal, struct hr_segment *segment)
{
    int r = move_by_file(journal, segment);
    return !r && segment->live_bytes ? move_by_table(journal) : r; /* some were never written */
}

static void clean_one(struct hr_journal *journal)
{
    struct hr_segment *emptiest = NULL;
    for (struct hr_segment *segment = journal->segments; segment; segment = segment->next) {
        if (segment != journal->current && (!emptiest || segment->live_bytes < emptiest->live_bytes)) {
            emptiest = segment;
        }
    }
    if (emptiest) {
        (void)move_out(journal, emptiest);
    }
}

void hr_journal_flush(struct hr_journal *journal)
{
    if (journal->bytes > 2 * HR_SEGMENT_BYTES && journal->bytes > 2 * journal->live_bytes) {
        clean_one(journal);
    }
    (void)write_out(journal);
}

bool hr_journal_wants_rewrite(const struct hr_journal *journal)
{
    uint64_t count = 0;
    for (const struct hr_segment *segment = journal->segments; segment; segment = segment->next) {
        count++;
    }
    return journal->bytes > 2 * journal->live_bytes ||
           count > SMALL_SEGMENTS + 2 * (journal->bytes / HR_SEGMENT_BYTES);
}

static struct hr_segment *moving_behind(const struct hr_journal *journal, uint32_t number)
{
    struct hr_segment *segment = journal->segments;
    while (segment && (!segment->moving || segment->number <= number)) {
        segment = segment->next;
    }
    return segment;
}

void hr_journal_rewrite(struct hr_journal *journal)
{
    struct hr_segment *segment = NULL;
    int r = 0;
    end_current(journal);
    for (segment = journal->segments; segment; segment = segment->next) {
        segment->moving = true;
    }
    for (uint32_t done = 0; !r && (segment = moving_behind(journal, done));) {
        done = segment->number;
        r = move_by_file(journal, segment);
        r = r < 0 ? r : write_out(journal); /* unlinks it */
    }
    if (!r && moving_behind(journal, 0)) {
        r = move_by_table(journal); /* files were gone */
        r = r < 0 ? r : write_out(journal);
    }
    (void)r; /* the disk refuses: the old records stay where they are */
}

/* ---- epochs ---- */

bool hr_journal_epoch_end(struct hr_journal *journal, uint32_t *ret_epoch)
{
    hr_journal_flush(journal);
    if (!journal->epoch_used) {
        return false;
    }
    *ret_epoch = journal->epoch++;
    journal->epoch_used = false;
    return true;
}

void hr_journal_synced(struct hr_journal *journal, uint32_t epoch)
{
    const struct hr_record mark = {.kind = HR_RECORD_SYNCED, .epoch = epoch};
    if (epoch <= journal->synced_epoch) {
        return;
    }
    journal->synced_epoch = epoch;
    if (!need_current(journal)) {
        (void)encode(journal, &mark);
    }
    hr_journal_flush(journal);
}
