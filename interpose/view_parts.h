/* Between view.c, view_open.c, view_warm.c and identity.c. */
#ifndef HR_VIEW_PARTS_H
#define HR_VIEW_PARTS_H

#include <stdatomic.h>
#include <time.h>

#include "interpose/context.h"
#include "interpose/peek.h"
#include "interpose/view.h"

/* Rounds of "the generation was replaced, look again" or "evicted meanwhile, ask again" before giving up with
 * EIO. */
#define HR_VIEW_TRIES 100

static inline void hr_view_fill(struct hr_object *ret, unsigned map, const struct hr_tree *tree,
                                uint32_t kind, uint64_t size, int64_t mtime_ns)
{
    *ret = (struct hr_object){.kind = kind,
                              .map = map,
                              .size = kind == HR_KIND_DIR ? HR_DIR_SIZE_BYTES : size,
                              .mtime_ns = kind == HR_KIND_DIR && tree->dirs_ns ? tree->dirs_ns : mtime_ns,
                              .dev = tree->dev};
}

/* Does the index know no more of it than its name? */
static inline bool hr_view_by_name(const struct hr_tree_view *view, uint32_t entry)
{
    return atomic_load_explicit(&view->states->by_name, memory_order_relaxed) > 0 &&
           HR_STATE_BY_NAME(atomic_load_explicit(&view->states->states[entry].word, memory_order_acquire));
}

/* Which object was opened when, and for which batch. Hints for the daemon, never trusted. */
static inline void hr_view_note_use(const struct hr_session *session, const struct hr_tree_view *view,
                                    uint32_t entry)
{
    struct hr_uses *uses = view->uses;
    uint32_t clock = atomic_load_explicit(&session->control->use_clock, memory_order_relaxed);
    uint32_t at = atomic_fetch_add_explicit(&uses->head, 1, memory_order_relaxed);
    atomic_store_explicit(&uses->last[entry], (uint8_t)clock, memory_order_relaxed);
    uint32_t tag = atomic_load_explicit(&hr_peek_tag, memory_order_relaxed);
    atomic_store_explicit(&uses->ring[at % HR_USES_RING], HR_USE(entry, tag), memory_order_relaxed);
}

/* ---- as the kernel would tell it */

#define HR_VIEW_NS 1000000000ll
#define HR_VIEW_BLOCK_BYTES 512         /* of st_blocks, on every file system */
#define HR_VIEW_IO_BYTES_MAX (16 << 10) /* a buffer beyond it costs readers of whole files more; measured */
#define HR_VIEW_IO_BYTES_MIN 4096       /* a page */
#define HR_VIEW_SMALL_BYTES (1 << 20)   /* what is larger is read in places, by pages; ours */

static inline uint32_t hr_view_io_bytes(uint64_t size)
{
    if (size > HR_VIEW_SMALL_BYTES) {
        return HR_VIEW_IO_BYTES_MIN;
    }
    uint32_t pages = ((uint32_t)size + HR_VIEW_IO_BYTES_MIN - 1) & ~(uint32_t)(HR_VIEW_IO_BYTES_MIN - 1);
    return pages < HR_VIEW_IO_BYTES_MIN   ? HR_VIEW_IO_BYTES_MIN
           : pages > HR_VIEW_IO_BYTES_MAX ? HR_VIEW_IO_BYTES_MAX
                                          : pages;
}

/* Sizes are below 2^63. */
static inline uint64_t hr_view_blocks(uint64_t size)
{
    return (size + HR_VIEW_BLOCK_BYTES - 1) / HR_VIEW_BLOCK_BYTES;
}

static inline struct timespec hr_view_time_of(int64_t mtime_ns)
{
    int64_t seconds = mtime_ns / HR_VIEW_NS;
    int64_t rest = mtime_ns - seconds * HR_VIEW_NS;
    return rest < 0 ? (struct timespec){.tv_sec = seconds - 1, .tv_nsec = rest + HR_VIEW_NS}
                    : (struct timespec){.tv_sec = seconds, .tv_nsec = rest};
}

int hr_view_tree(const struct hr_session *session, const struct hr_place *place, uint32_t *ret_tree);

/* One round of hr_view_find, with HR_OP_LOOK or HR_OP_OPEN where there is no index; ret_file_id is set only
 * when the daemon answered an OPEN of a file (then ret->tree is NULL). -EAGAIN: get the session again. */
int hr_view_locate(const struct hr_session *session, const struct hr_place *place, enum hr_op op,
                   struct hr_object *ret, uint64_t *ret_file_id);

#endif
