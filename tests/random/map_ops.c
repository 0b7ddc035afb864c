/* Calls that map files into memory, and what lies there then. Addresses are not told. */
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/random/random.h"

#define MAPS_MAX 6
#define PAGE 4096u
#define PAGES_MAX 2000u /* 8 MB: a mapping over more than one cell, at times */

struct map {
    unsigned char *at;
    size_t bytes;
    bool split; /* in parts of different protection, which the kernel does not let grow; ours may have such
                   parts at once */
};
static struct map maps[MAPS_MAX];

static struct map *some_map(void)
{
    size_t first = draw(MAPS_MAX);
    for (size_t i = 0; i < MAPS_MAX; i++) {
        struct map *map = &maps[(first + i) % MAPS_MAX];
        if (map->at) {
            return map;
        }
    }
    return NULL;
}

static void forget(struct map *map)
{
    munmap(map->at, map->bytes);
    map->at = NULL;
}

/* Of each page, as it is now: up to PAGES_TOLD of them are looked at. */
#define PAGES_TOLD 64
static void say_pages(const struct map *map)
{
    size_t pages = (map->bytes + PAGE - 1) / PAGE;
    size_t step = pages / PAGES_TOLD + 1;
    uint64_t sum = 0, one;
    size_t faults = 0;
    for (size_t page = 0; page < pages; page += step) {
        if (hash_safely(map->at + page * PAGE, PAGE, &one)) {
            sum = sum * 31 + one;
        } else {
            sum = sum * 31 + 1;
            faults++;
        }
    }
    say(" pages %zu faults %zu %016llx", pages, faults, (unsigned long long)sum);
}

static void run_mmap(void)
{
    static const int prots[] = {PROT_READ,
                                PROT_READ,
                                PROT_READ,
                                PROT_READ | PROT_WRITE,
                                PROT_NONE,
                                PROT_WRITE,
                                PROT_READ | PROT_EXEC};
    static const int kinds[] = {MAP_PRIVATE, MAP_SHARED, MAP_SHARED_VALIDATE, 0};
    static const int extras[] = {MAP_POPULATE, MAP_NORESERVE, MAP_DENYWRITE, MAP_NONBLOCK};
    struct map *map = &maps[draw(MAPS_MAX)];
    int fd = percent(97) ? file_fd() : -1;
    size_t bytes = percent(70) ? draw(200000) : draw(PAGES_MAX) * PAGE + draw(PAGE);
    off_t offset = percent(50) ? 0 : draw_offset();
    int prot = prots[draw(7)], flags = kinds[draw(percent(90) ? 2 : 4)] | draw_flags(extras, 4, 10);
    if (percent(90)) {
        offset &= ~(off_t)(PAGE - 1);
    }
    offset = flags & (MAP_PRIVATE | MAP_SHARED) ? offset : 0;
    bytes = percent(2) && flags ? SIZE_MAX - 5000 : bytes;
    say(" %d %zu %lld prot %d flags %x", fd, bytes, (long long)offset, prot, (unsigned)flags);
    void *at = CALL(mmap(NULL, bytes, prot, flags, fd, offset));
    say_result(at == MAP_FAILED ? -1 : 0);
    if (at == MAP_FAILED) {
        return;
    }
    if (map->at) {
        forget(map);
    }
    *map = (struct map){.at = at, .bytes = bytes};
    say_pages(map);
}

static size_t some_page(const struct map *map)
{
    return draw((uint32_t)((map->bytes + PAGE - 1) / PAGE)) * PAGE;
}

/* Over a part of another mapping, which is replaced there. */
static void run_over(void)
{
    struct map *map = some_map();
    int fd = file_fd();
    if (!map || map->bytes < 3 * PAGE) {
        return;
    }
    size_t from = some_page(map);
    size_t bytes = draw((uint32_t)(map->bytes - from)) + 1;
    off_t offset = draw_offset() & ~(off_t)(PAGE - 1);
    int flags = MAP_FIXED | (percent(70) ? MAP_PRIVATE : MAP_SHARED);
    say(" %d %zu %zu %lld %x", fd, from, bytes, (long long)offset, (unsigned)flags);
    void *at = CALL(mmap(map->at + from, bytes, PROT_READ, flags, fd, offset));
    say_result(at == MAP_FAILED ? -1 : 0);
    map->split = true;
    say_pages(map);
}

static void run_look(void)
{
    struct map *map = some_map();
    if (map) {
        say_pages(map);
    }
}

static void run_touch(void)
{
    struct map *map = some_map();
    if (map) {
        size_t at = draw((uint32_t)map->bytes);
        say(" %zu %s", at, touch_safely(map->at + at, 77) ? "written" : "fault");
    }
}

static void run_protect(void)
{
    struct map *map = some_map();
    if (map) {
        size_t from = some_page(map);
        size_t bytes = map->bytes - from > PAGE ? draw((uint32_t)(map->bytes - from)) : PAGE;
        int prot = (int)draw(4);
        say(" %zu %zu %d", from, bytes, prot);
        SAY_CALL(mprotect(map->at + from, bytes, prot));
        map->split = true;
        say_pages(map);
    }
}

static void run_sync(void)
{
    static const int kinds[] = {MS_ASYNC, MS_SYNC, MS_INVALIDATE | MS_ASYNC, MS_SYNC | MS_ASYNC, 64};
    unsigned char residency[PAGES_MAX + 100];
    struct map *map = some_map();
    uint64_t byte;
    if (!map || map->bytes > PAGES_MAX * PAGE) {
        return;
    }
    size_t from = some_page(map) + (percent(5) ? 1 : 0);
    int kind = kinds[draw(5)];
    int advice = (int)draw(5);
    switch (draw(4)) {
    case 0:
        say(" msync %zu %d", from, kind);
        SAY_CALL(msync(map->at + from, map->bytes - from, kind));
        break;
    case 1:
        say(" mincore %zu", from);
        SAY_CALL(mincore(map->at + from, map->bytes - from, residency));
        break;
    case 2:
        map->split = true;
        say(" mlock %zu", from);
        if (hash_safely(map->at + from, 1,
                        &byte)) { /* what the kernel says of others depends on what is behind */
            say_result(CALL(mlock(map->at + from, PAGE)) == 0 ? 0 : -1);
        }
        munlock(map->at + from, PAGE);
        break;
    default:
        map->split = true;
        say(" madvise %zu %d", from, advice);
        SAY_CALL(madvise(map->at + from, map->bytes - from, advice));
        say_pages(map);
    }
}

/* A hole in the middle stays: looking there is a fault. Nothing else is mapped meanwhile but by us. */
static void run_unmap(void)
{
    struct map *map = some_map();
    if (map) {
        size_t pages = (map->bytes + PAGE - 1) / PAGE;
        size_t keep_pages = draw((uint32_t)pages);
        say(" keeps %zu of %zu", keep_pages, pages);
        SAY_CALL(munmap(map->at + keep_pages * PAGE, (pages - keep_pages) * PAGE));
        map->bytes = keep_pages * PAGE;
        if (keep_pages == 0) {
            map->at = NULL;
        } else {
            say_pages(map);
        }
    }
}

static void run_remap(void)
{
    struct map *map = some_map();
    if (map && !map->split) {
        size_t bytes = percent(50) ? draw(200000) + 1 : map->bytes + draw(5) * PAGE;
        int flags = percent(85) ? MREMAP_MAYMOVE : percent(50) ? 64 : MREMAP_MAYMOVE | MREMAP_DONTUNMAP;
        size_t old = percent(5) ? 0 : map->bytes;
        say(" %zu %zu %x", old, bytes, (unsigned)flags);
        void *at = CALL(mremap(map->at, old, bytes, flags));
        say_result(at == MAP_FAILED ? -1 : 0);
        if (at != MAP_FAILED && (old == 0 || (flags & MREMAP_DONTUNMAP))) {
            struct map second = {.at = at, .bytes = bytes};
            say_pages(&second);
            munmap(at, bytes);
        } else if (at != MAP_FAILED) {
            *map = (struct map){.at = at, .bytes = bytes};
            say_pages(map);
        }
    }
}

const struct op map_ops[] = {
    {"mmap", 45, run_mmap},        {"look", 20, run_look},      {"touch", 15, run_touch},
    {"mprotect", 12, run_protect}, {"sync", 15, run_sync},      {"munmap", 15, run_unmap},
    {"mremap", 15, run_remap},     {"mmap-over", 10, run_over}, {0}};
