/* Shared by the journal's two files: journal_start.c reads what is there, journal.c appends and cleans. */
#ifndef HR_CACHE_JOURNAL_INSIDE_H
#define HR_CACHE_JOURNAL_INSIDE_H

#include <limits.h>

#include "fetch/cache/inside.h"

#define HR_SEGMENT_BYTES (1024u * 1024) /* 5,000 records: moving the living half of one takes some ms */
#define HR_SEGMENT_READ_BYTES (8u * 1024 * 1024) /* of one at most; ours end soon after HR_SEGMENT_BYTES */
#define HR_PENDING_BYTES (1024u * 1024)          /* kept while the disk refuses */

struct hr_segment {
    struct hr_segment *next; /* newer */
    uint32_t number;
    bool moving;         /* its records are being copied: unlinked once the copies are written */
    uint64_t bytes;      /* of records, dead ones too */
    uint64_t live_bytes; /* of records of attached objects */
};

struct hr_journal {
    struct hr_cache *cache;
    struct hr_segment *segments; /* oldest first; the last is `current` when that is not NULL */
    struct hr_segment *current;
    int fd;              /* of current */
    uint64_t good_bytes; /* of current, written whole */
    uint32_t next_number;
    uint64_t bytes;
    uint64_t live_bytes;
    uint32_t epoch;        /* the running one */
    uint32_t synced_epoch; /* proven up to here */
    bool epoch_used;
    uint8_t boot_id[HR_BOOT_ID_BYTES];
    struct hr_buf pending; /* encoded for current, not yet written */
};

void hr_segment_path(const struct hr_journal *journal, uint32_t number, char path[PATH_MAX]);
struct hr_segment *hr_segment_new(struct hr_journal *journal,
                                  uint32_t number); /* the newest; NULL: no memory */
/* The bytes of its file that may be records; `bytes` is emptied before. 0 or -errno. */
int hr_segment_read(const struct hr_journal *journal, const struct hr_segment *segment, struct hr_buf *bytes);
void hr_segment_unlink(struct hr_journal *journal, struct hr_segment *segment); /* frees it too */

#endif
