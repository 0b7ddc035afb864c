#include "interpose/segment_table.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "interpose/sys.h"
#include "interpose/inner.h"

/* ---- which file holds what ---- */

#define BUCKETS 64 /* powers of two; with the ways: 512 cells, 4 GiB of whole ones, in 24 KiB */
#define WAYS 8
#define WHOLE_CELL UINT64_MAX /* of files that reach over cells */

/* Written under an odd version; a place that its writer left odd is never used again. */
struct place {
    _Atomic uint32_t version;
    _Atomic uint64_t face_id;
    _Atomic uint64_t offset;
    _Atomic uint64_t bytes;
    _Atomic uint64_t file_id;
};

static struct place places[BUCKETS][WAYS];

static struct place *bucket_of(uint64_t face_id, uint64_t cell)
{
    return places[hr_mix64(face_id ^ cell * 0x9e3779b97f4a7c15ull) % BUCKETS];
}

static uint64_t cell_of(const struct hr_segment *segment)
{
    return segment->bytes > HR_CELL_BYTES ? WHOLE_CELL : segment->offset / HR_CELL_BYTES;
}

/* One place as it is; false: it is being written. Acquire keeps the second look at the version behind the
 * fields. */
static bool read_place(const struct place *place, uint64_t *ret_face_id, struct hr_segment *ret)
{
    uint32_t version = atomic_load_explicit(&place->version, memory_order_acquire);
    *ret_face_id = atomic_load_explicit(&place->face_id, memory_order_acquire);
    ret->offset = atomic_load_explicit(&place->offset, memory_order_acquire);
    ret->bytes = atomic_load_explicit(&place->bytes, memory_order_acquire);
    ret->file_id = atomic_load_explicit(&place->file_id, memory_order_acquire);
    return !(version & 1) && atomic_load_explicit(&place->version, memory_order_relaxed) == version;
}

static bool write_place(struct place *place, uint64_t face_id, const struct hr_segment *segment)
{
    uint32_t version = atomic_load_explicit(&place->version, memory_order_relaxed);
    if ((version & 1) || !atomic_compare_exchange_strong(&place->version, &version, version + 1)) {
        return false;
    }
    /* Release keeps each field behind the odd version. */
    atomic_store_explicit(&place->face_id, face_id, memory_order_release);
    atomic_store_explicit(&place->offset, segment->offset, memory_order_release);
    atomic_store_explicit(&place->bytes, segment->bytes, memory_order_release);
    atomic_store_explicit(&place->file_id, segment->file_id, memory_order_release);
    atomic_store_explicit(&place->version, version + 2, memory_order_release);
    return true;
}

bool hr_segment_recall(uint64_t face_id, uint64_t offset, struct hr_segment *ret)
{
    const uint64_t cells[] = {offset / HR_CELL_BYTES, WHOLE_CELL};
    for (unsigned c = 0; c < 2; c++) {
        struct place *bucket = bucket_of(face_id, cells[c]);
        for (unsigned way = 0; way < WAYS; way++) {
            uint64_t found;
            if (read_place(&bucket[way], &found, ret) && found == face_id && offset >= ret->offset &&
                offset - ret->offset < ret->bytes) {
                return true;
            }
        }
    }
    return false;
}

void hr_segment_remember(uint64_t face_id, const struct hr_segment *segment)
{
    static _Atomic uint32_t hand;
    struct place *bucket = bucket_of(face_id, cell_of(segment));
    struct hr_segment known;
    uint64_t found;
    unsigned start = atomic_fetch_add_explicit(&hand, 1, memory_order_relaxed);
    unsigned empty = WAYS;
    for (unsigned way = 0; way < WAYS; way++) {
        if (!read_place(&bucket[way], &found, &known)) {
            continue;
        }
        if (found == face_id && known.file_id == segment->file_id) {
            return;
        }
        if (found == 0 || (found == face_id && known.offset == segment->offset)) {
            empty = way;
        }
    }
    if (empty < WAYS && write_place(&bucket[empty], face_id, segment)) {
        return;
    }
    for (unsigned i = 0; i < WAYS && !write_place(&bucket[(start + i) % WAYS], face_id, segment); i++) {
    }
}

void hr_segment_forget(uint64_t face_id, const struct hr_segment *segment)
{
    static const struct hr_segment none;
    struct place *bucket = bucket_of(face_id, cell_of(segment));
    struct hr_segment known;
    uint64_t found;
    for (unsigned way = 0; way < WAYS; way++) {
        if (read_place(&bucket[way], &found, &known) && found == face_id &&
            known.file_id == segment->file_id) {
            write_place(&bucket[way], 0, &none);
        }
    }
}

/* ---- mappings ---- */

#define WINDOWS 16 /* of at most a cell: 128 MiB of address space, which is the page cache's memory */
#define CHANGING (-1)

/* users: readers copying from it, or CHANGING, which only 0 may become. What it holds changes under CHANGING
 * alone; a reader counts itself in, looks again, copies. */
struct window {
    _Atomic int32_t users;
    _Atomic uint32_t used; /* since the hand came by last */
    _Atomic uint64_t face_id;
    _Atomic uint64_t offset; /* in the object */
    _Atomic uint64_t bytes;
    const char *_Atomic base;
};

static struct window windows[WINDOWS];

static bool holds(const struct window *window, uint64_t face_id, uint64_t offset)
{
    uint64_t start = atomic_load_explicit(&window->offset, memory_order_relaxed);
    return atomic_load_explicit(&window->face_id, memory_order_relaxed) == face_id && offset >= start &&
           offset - start < atomic_load_explicit(&window->bytes, memory_order_relaxed);
}

static bool enter(struct window *window)
{
    int32_t users = atomic_load_explicit(&window->users, memory_order_relaxed);
    while (users != CHANGING) {
        if (atomic_compare_exchange_weak_explicit(&window->users, &users, users + 1, memory_order_acquire,
                                                  memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

static void leave(struct window *window)
{
    atomic_fetch_sub_explicit(&window->users, 1, memory_order_release);
}

size_t hr_segment_copy_mapped(uint64_t face_id, void *buffer, size_t bytes, uint64_t offset)
{
    static _Atomic uint32_t last;
    unsigned start = atomic_load_explicit(&last, memory_order_relaxed);
    for (unsigned i = 0; i < WINDOWS; i++) {
        unsigned at = (start + i) % WINDOWS;
        struct window *window = &windows[at];
        if (!holds(window, face_id, offset) || !enter(window)) {
            continue;
        }
        size_t copied = 0;
        if (holds(window, face_id, offset)) {
            uint64_t skip = offset - atomic_load_explicit(&window->offset, memory_order_relaxed);
            uint64_t left = atomic_load_explicit(&window->bytes, memory_order_relaxed) - skip;
            copied = bytes < left ? bytes : (size_t)left;
            memcpy(buffer, atomic_load_explicit(&window->base, memory_order_relaxed) + skip, copied);
            atomic_store_explicit(&window->used, 1, memory_order_relaxed);
        }
        leave(window);
        if (copied > 0) {
            if (i > 0) {
                atomic_store_explicit(&last, at, memory_order_relaxed);
            }
            return copied;
        }
    }
    return 0;
}

/* One that nobody reads and that was not used for a round, or is empty. NULL: all are busy. */
static struct window *claim_window(void)
{
    static _Atomic uint32_t hand;
    for (unsigned i = 0; i < 2 * WINDOWS; i++) {
        struct window *window = &windows[atomic_fetch_add_explicit(&hand, 1, memory_order_relaxed) % WINDOWS];
        int32_t idle = 0;
        if (!atomic_exchange_explicit(&window->used, 0, memory_order_relaxed) &&
            atomic_compare_exchange_strong(&window->users, &idle, CHANGING)) {
            return window;
        }
    }
    return NULL;
}

void hr_segment_map(uint64_t face_id, const struct hr_segment *segment, int fd, uint64_t offset)
{
    struct stat stat;
    uint64_t in_file = (offset - segment->offset) / HR_CELL_BYTES * HR_CELL_BYTES;
    uint64_t bytes = segment->bytes - in_file;
    bytes = bytes < HR_CELL_BYTES ? bytes : HR_CELL_BYTES;
    /* Beyond the file's end would be SIGBUS. */
    if (HR_SYS2(SYS_fstat, fd, &stat) < 0 || (uint64_t)stat.st_size < in_file + bytes) {
        return;
    }
    struct window *window = claim_window();
    if (!window) {
        return;
    }
    const char *old = atomic_load_explicit(&window->base, memory_order_relaxed);
    if (old) {
        HR_SYS2(SYS_munmap, old, atomic_load_explicit(&window->bytes, memory_order_relaxed));
    }
    long base = HR_SYS6(SYS_mmap, 0, bytes, PROT_READ, MAP_SHARED, fd, in_file);
    bool mapped = base > 0 || base < -4095;
    atomic_store_explicit(&window->face_id, mapped ? face_id : 0, memory_order_relaxed);
    atomic_store_explicit(&window->offset, segment->offset + in_file, memory_order_relaxed);
    atomic_store_explicit(&window->bytes, mapped ? bytes : 0, memory_order_relaxed);
    atomic_store_explicit(&window->base, mapped ? (const char *)base : NULL, memory_order_relaxed);
    atomic_store_explicit(&window->used, 1, memory_order_relaxed);
    atomic_store_explicit(&window->users, 0, memory_order_release);
}
