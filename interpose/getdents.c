#include "interpose/getdents.h"

#include <stdatomic.h>

#include "interpose/dirstream.h"
#include "interpose/standin.h"
#include "interpose/sys.h"
#include "interpose/inner.h"

/* Directories read at once by raw descriptor; a walker holds one a level. */
#define CURSORS 64
/* A descriptor's byte is this plus the number of its cursor; below: no cursor. */
#define FIRST_MARK 2
/* A turn that does not end is one that a fork cut off. */
#define TURN_YIELDS 10000

enum cursor_state { CURSOR_FREE, CURSOR_OPENING, CURSOR_LIVE };

struct cursor {
    _Atomic uint32_t state;
    _Atomic uint32_t busy; /* one reader at a time */
    DIR *dir;              /* NULL until something is read */
};
static struct cursor cursors[CURSORS];

static struct cursor *cursor_of(int fd)
{
    unsigned mark =
        fd < HR_STANDIN_MARKS ? atomic_load_explicit(&hr_standin_marks[fd], memory_order_acquire) : 0;
    return mark >= FIRST_MARK && mark < FIRST_MARK + CURSORS ? &cursors[mark - FIRST_MARK] : NULL;
}

/* Ends the cursors that no descriptor names any more. */
static void collect(void)
{
    bool named[CURSORS] = {false};
    for (int fd = 0; fd < HR_STANDIN_MARKS; fd++) {
        unsigned mark = atomic_load_explicit(&hr_standin_marks[fd], memory_order_relaxed);
        if (mark >= FIRST_MARK && mark < FIRST_MARK + CURSORS) {
            named[mark - FIRST_MARK] = true;
        }
    }
    for (unsigned i = 0; i < CURSORS; i++) {
        uint32_t live = CURSOR_LIVE;
        if (!named[i] && atomic_compare_exchange_strong(&cursors[i].state, &live, CURSOR_OPENING)) {
            if (cursors[i].dir) {
                hr_dirstream_close(cursors[i].dir);
            }
            atomic_store_explicit(&cursors[i].state, CURSOR_FREE, memory_order_release);
        }
    }
}

static struct cursor *claim(void)
{
    for (unsigned i = 0; i < CURSORS; i++) {
        uint32_t free_state = CURSOR_FREE;
        if (atomic_compare_exchange_strong(&cursors[i].state, &free_state, CURSOR_OPENING)) {
            return &cursors[i];
        }
    }
    return NULL;
}

/* A cursor for a descriptor that has none. */
static struct cursor *give_cursor(int fd)
{
    struct cursor *cursor = fd < HR_STANDIN_MARKS ? claim() : NULL;
    if (!cursor && fd < HR_STANDIN_MARKS) {
        collect();
        cursor = claim();
    }
    if (cursor) {
        cursor->dir = NULL;
        atomic_store_explicit(&cursor->busy, 0, memory_order_relaxed);
        atomic_store_explicit(&hr_standin_marks[fd], (uint8_t)(FIRST_MARK + (cursor - cursors)),
                              memory_order_release);
        atomic_store_explicit(&cursor->state, CURSOR_LIVE, memory_order_release);
    }
    return cursor;
}

void hr_getdents_share(int fd)
{
    if (!cursor_of(fd)) {
        give_cursor(fd);
    }
}

/* The descriptor's cursor with its stream open, for one reader until end_turn. */
static int begin_turn(int fd, const struct hr_place *place, struct cursor **ret)
{
    struct cursor *cursor = cursor_of(fd);
    if (!cursor) {
        cursor = give_cursor(fd);
    }
    if (!cursor) {
        return -EMFILE;
    }
    for (unsigned i = 0; atomic_exchange_explicit(&cursor->busy, 1, memory_order_acquire) && i < TURN_YIELDS;
         i++) {
        HR_SYS0(SYS_sched_yield);
    }
    int error = cursor->dir ? 0 : hr_dirstream_open(place, -1, &cursor->dir);
    if (error < 0) {
        atomic_store_explicit(&cursor->busy, 0, memory_order_release);
        return error;
    }
    *ret = cursor;
    return 0;
}

static void end_turn(struct cursor *cursor)
{
    atomic_store_explicit(&cursor->busy, 0, memory_order_release);
}

static ssize_t fill(DIR *dir, char *buffer, size_t size)
{
    size_t used = 0;
    for (;;) {
        long position = hr_dirstream_tell(dir);
        const struct dirent64 *entry = hr_dirstream_next(dir);
        if (!entry) {
            return (ssize_t)used;
        }
        if (entry->d_reclen > size - used) {
            hr_dirstream_seek(dir, position);
            return used > 0 ? (ssize_t)used : -EINVAL;
        }
        memcpy(buffer + used, entry, entry->d_reclen);
        used += entry->d_reclen;
    }
}

ssize_t hr_getdents(int fd, const struct hr_place *place, void *buffer, size_t size)
{
    struct cursor *cursor;
    int error = begin_turn(fd, place, &cursor);
    if (error < 0) {
        return error;
    }
    ssize_t result = fill(cursor->dir, buffer, size < INT32_MAX ? size : INT32_MAX);
    end_turn(cursor);
    return result;
}

off_t hr_getdents_seek(int fd, const struct hr_place *place, off_t offset, int whence)
{
    struct cursor *cursor;
    if ((whence != SEEK_SET && whence != SEEK_CUR) || offset < 0 || (whence == SEEK_CUR && offset != 0)) {
        return -EINVAL;
    }
    int error = begin_turn(fd, place, &cursor);
    if (error < 0) {
        return error;
    }
    if (whence == SEEK_SET) {
        hr_dirstream_seek(cursor->dir, offset);
    }
    offset = hr_dirstream_tell(cursor->dir);
    end_turn(cursor);
    return offset;
}
