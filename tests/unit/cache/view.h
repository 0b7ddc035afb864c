/* The residents table as a client reads it. */
#ifndef TESTS_UNIT_CACHE_VIEW_H
#define TESTS_UNIT_CACHE_VIEW_H

#include <sys/mman.h>

#include "tests/unit/cache/lab.h"

struct view {
    struct hr_residents *map;
    size_t bytes;
};

struct copy {
    uint64_t ino, size, object_ino, file_id;
    int64_t mtime_ns;
    uint32_t nonce, object_dev, flags;
};

LAB_FN bool view_open(struct view *view, const char *dir, uint64_t boot, uint32_t gen)
{
    char path[PATH_MAX];
    struct stat st;
    (void)snprintf(path, sizeof(path), "%s/residents-%016" PRIx64 "-%08" PRIx32, dir, boot, gen);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    view->bytes = (size_t)st.st_size;
    view->map = mmap(NULL, view->bytes, PROT_READ, MAP_SHARED, fd, 0);
    (void)close(fd);
    assert_true(view->map != MAP_FAILED);
    assert_true(view->map->magic == HR_MAGIC_RESIDENTS && view->map->abi_version == HR_ABI_VERSION);
    assert_int_equal(view->map->capacity & (view->map->capacity - 1), 0);
    assert_int_equal(view->bytes,
                     sizeof(struct hr_residents) + view->map->capacity * sizeof(struct hr_resident));
    return true;
}

LAB_FN void view_close(struct view *view)
{
    (void)munmap(view->map, view->bytes);
}

#define LOAD(field) __atomic_load_n(&(field), __ATOMIC_ACQUIRE)

/* False: not there. */
LAB_FN bool look_up(const struct view *view, uint64_t ino, struct copy *ret)
{
    uint64_t capacity = view->map->capacity;
    uint64_t slot = hr_ino_slot(ino, capacity);
    for (uint64_t probes = 0; probes < capacity; probes++, slot = (slot + 1) & (capacity - 1)) {
        struct hr_resident *record = &view->map->records[slot];
        uint64_t here = atomic_load_explicit(&record->ino, memory_order_acquire);
        if (!here) {
            return false;
        }
        if (here != ino) {
            continue;
        }
        for (;;) {
            uint32_t seq = atomic_load_explicit(&record->seq, memory_order_acquire);
            ret->ino = atomic_load_explicit(&record->ino, memory_order_acquire);
            ret->size = LOAD(record->size);
            ret->object_ino = LOAD(record->object_ino);
            ret->file_id = LOAD(record->file_id);
            ret->mtime_ns = LOAD(record->mtime_ns);
            ret->nonce = LOAD(record->nonce);
            ret->object_dev = LOAD(record->object_dev);
            ret->flags = LOAD(record->flags);
            if (!(seq & 1) && atomic_load_explicit(&record->seq, memory_order_relaxed) == seq) {
                break;
            }
        }
        if (ret->ino == ino) {
            return true;
        }
    }
    return false;
}

#endif
