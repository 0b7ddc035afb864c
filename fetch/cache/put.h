/* A put, shared between its two sides: put.c on the loop, objects.c on a writer thread; copy.c has both. At
 * any time at most one writer thread works on a put, and while it does (running) the loop touches only what
 * is under the lock.
 */
#ifndef HR_CACHE_PUT_H
#define HR_CACHE_PUT_H

#include <pthread.h>
#include <stddef.h>

#include "fetch/cache/extents.h"
#include "fetch/cache/inside.h"

struct hr_part {
    struct hr_part *next;
    uint64_t offset;
    uint64_t len;
    struct hr_buf bytes;      /* released as soon as it is written or given up */
    struct hr_object *source; /* pinned segment to copy from, in place of bytes; or NULL */
    uint64_t source_offset;   /* in its file */
    bool source_bad;          /* its file is not what it was */
    void (*written)(void *owner, uint64_t bytes);
    void *written_owner;
};

struct hr_parts {
    struct hr_part *head;
    struct hr_part *tail;
};

struct hr_put {
    /* The loop's. */
    struct hr_work work;
    struct hr_cache *cache;
    struct hr_put *previous; /* in cache->puts */
    struct hr_put *next;
    struct hr_object *object; /* becomes the cached object */
    uint64_t face_id;         /* of a segment: the face that this put holds; else 0 */
    uint64_t charge;
    uint64_t landed_bytes;
    void (*done)(void *owner, struct hr_put *put, int error, const struct hr_cached *cached);
    void *owner;
    struct hr_extents extents;
    unsigned room_tries;
    bool running;        /* between push and settle */
    bool awaits_unlinks; /* met ENOSPC, and what was given up is not unlinked yet */
    bool settling;       /* in the callbacks of settle */
    bool finish_called;  /* hr_put_finish was */
    bool abort_called;
    int failed; /* what the writer met, for hr_put_part to tell early */

    pthread_mutex_t lock; /* of this group: the loop's orders, taken over by the writer */
    struct hr_parts incoming;
    int order_error; /* give up with this */
    bool finish_asked;

    struct hr_verify verify; /* set before finish_asked, not changed after */

    /* The writer's while running, the loop's otherwise. */
    struct hr_parts todo;
    struct hr_parts landed;    /* memory is free again, callbacks are due */
    struct hr_object *victims; /* to be unlinked first */
    int fd;                    /* of the file until it is sealed; -1 */
    int result;                /* first error */
    bool finishing;
    bool need_room; /* stopped at ENOSPC: todo and the file stay as they are */
    bool verified;
    bool sealed;   /* the file is whole and stamped */
    bool scrapped; /* nothing is left of the file */
    char md5_hex[33];
};

static inline void hr_parts_append(struct hr_parts *list, struct hr_part *part)
{
    part->next = NULL;
    if (list->tail) {
        list->tail->next = part;
    } else {
        list->head = part;
    }
    list->tail = part;
}

static inline struct hr_part *hr_parts_take(struct hr_parts *list)
{
    struct hr_part *part = list->head;
    list->head = part->next;
    if (!list->head) {
        list->tail = NULL;
    }
    part->next = NULL;
    return part;
}

/* put.c: takes a part over for the writer; on an error it is still the caller's. */
int hr_put_give(struct hr_put *put, struct hr_part *part);

static inline struct hr_put *hr_put_of(struct hr_work *work)
{
    return (struct hr_put *)((char *)work - offsetof(struct hr_put, work));
}

/* objects.c: the writer's side, a struct hr_work's run. */
void hr_put_run(struct hr_work *work);
/* Takes over what the loop ordered since; false: nothing is to be done. */
bool hr_put_take_orders(struct hr_put *put);
/* All of the object is in memory, in one part, nothing of it on the disk, and its digests are known and not
 * yet looked at. */
bool hr_put_is_whole(const struct hr_put *put);
int hr_write_at(int fd, const char *bytes, size_t len, off_t at); /* all of it: 0 or -errno */

/* together.c: a struct hr_work's together. */
void hr_puts_verify(struct hr_work *first);

/* copy.c */
int hr_part_copy(const struct hr_cache *cache, int to_fd, struct hr_part *part); /* writer: 0 or -errno */
void hr_part_let_go(struct hr_cache *cache, struct hr_part *part); /* loop: unpins what it was copied from */

#endif
