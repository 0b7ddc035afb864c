#include "fetch/cache/residents.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"
#include "interpose/abi.h"

#define CAPACITY_MIN 8192u /* records: 512 KiB */

struct gone {
    uint64_t ino;
    uint64_t file_id;
};

struct hr_residents_table {
    struct hr_residents_options options;
    struct hr_residents *map;
    size_t map_bytes;
    uint64_t capacity;
    uint64_t taken;  /* slots that are not 0: records and tombstones */
    uint64_t buried; /* tombstones among them */
    uint32_t gen;
    uint32_t gone_head; /* the oldest of `gone` */
    uint32_t gone_count;
    struct gone gone[HR_EVICTED_KEPT]; /* evicted records in the order of their eviction */
};

/* Stores with release, in the order of the lines: a reader that sees a field sees the odd seq before it. */
#define PUBLISH(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELEASE)

static uint64_t record_ino(const struct hr_resident *record)
{
    return atomic_load_explicit(&record->ino, memory_order_relaxed); /* this thread is the only writer */
}

static void record_open(struct hr_resident *record)
{
    uint32_t seq = atomic_load_explicit(&record->seq, memory_order_relaxed);
    atomic_store_explicit(&record->seq, seq + 1, memory_order_relaxed);
}

static void record_close(struct hr_resident *record)
{
    uint32_t seq = atomic_load_explicit(&record->seq, memory_order_relaxed);
    atomic_store_explicit(&record->seq, seq + 1, memory_order_release);
}

static void record_write(struct hr_resident *record, const struct hr_resident_fields *fields)
{
    record_open(record);
    PUBLISH(record->nonce, fields->nonce);
    PUBLISH(record->size, fields->size);
    PUBLISH(record->mtime_ns, fields->mtime_ns);
    PUBLISH(record->object_ino, fields->object_ino);
    PUBLISH(record->object_dev, fields->object_dev);
    PUBLISH(record->flags, fields->flags);
    PUBLISH(record->file_id, fields->file_id);
    atomic_store_explicit(&record->ino, fields->ino, memory_order_release);
    record_close(record);
}

/* The record of ino, or NULL; then *ret_free is where it would go. */
static struct hr_resident *find(struct hr_residents *map, uint64_t capacity, uint64_t ino,
                                struct hr_resident **ret_free)
{
    struct hr_resident *free_record = NULL;
    for (uint64_t slot = hr_ino_slot(ino, capacity);; slot = (slot + 1) & (capacity - 1)) {
        struct hr_resident *record = &map->records[slot];
        uint64_t here = record_ino(record);
        if (here == ino) {
            return record;
        }
        if (!free_record && (here == HR_INO_GONE || !here)) {
            free_record = record;
        }
        if (!here) {
            *ret_free = free_record;
            return NULL;
        }
    }
}

static void table_path(const struct hr_residents_table *table, uint32_t gen, char path[PATH_MAX])
{
    (void)snprintf(path, PATH_MAX, "%s/residents-%016" PRIx64 "-%08" PRIx32, table->options.dir,
                   table->options.boot, gen);
}

static int make_file(const struct hr_residents_table *table, uint32_t gen, uint64_t capacity,
                     struct hr_residents **ret)
{
    char path[PATH_MAX];
    size_t bytes = sizeof(struct hr_residents) + capacity * sizeof(struct hr_resident);
    table_path(table, gen, path);
    hr_cleanup_fd int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return -errno;
    }
    /* A hole on a full disk would be SIGBUS in a client. */
    int r = -posix_fallocate(fd, 0, (off_t)bytes);
    struct hr_residents *map = MAP_FAILED;
    if (!r) {
        map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        r = map == MAP_FAILED ? -errno : 0;
    }
    if (r < 0) {
        (void)unlink(path);
        return r;
    }
    map->magic = HR_MAGIC_RESIDENTS;
    map->abi_version = HR_ABI_VERSION;
    map->capacity = capacity;
    *ret = map;
    return 0;
}

static void copy_records(const struct hr_residents_table *table, struct hr_residents *to,
                         uint64_t to_capacity)
{
    for (uint64_t i = 0; i < table->capacity; i++) {
        const struct hr_resident *record = &table->map->records[i];
        uint64_t ino = record_ino(record);
        struct hr_resident *slot = NULL;
        if (!ino || ino == HR_INO_GONE || find(to, to_capacity, ino, &slot)) {
            continue;
        }
        const struct hr_resident_fields fields = {
            .ino = ino,
            .size = record->size,
            .mtime_ns = record->mtime_ns,
            .object_ino = record->object_ino,
            .file_id = record->file_id,
            .object_dev = record->object_dev,
            .nonce = record->nonce,
            .flags = record->flags,
        };
        record_write(slot, &fields);
    }
}

/* A new generation with room for `more` records beyond those there, at most 3/8 full. */
static int next_generation(struct hr_residents_table *table, uint64_t more)
{
    uint64_t need = table->taken - table->buried + more;
    uint64_t capacity = CAPACITY_MIN;
    struct hr_residents *map = NULL;
    char old_path[PATH_MAX];
    while (capacity / 8 * 3 < need) {
        capacity *= 2;
    }
    int r = make_file(table, table->gen + 1, capacity, &map);
    if (r < 0) {
        return r;
    }
    struct hr_residents *old = table->map;
    size_t old_bytes = table->map_bytes;
    if (old) {
        copy_records(table, map, capacity);
        table_path(table, table->gen, old_path);
    }
    table->map = map;
    table->map_bytes = sizeof(struct hr_residents) + capacity * sizeof(struct hr_resident);
    table->capacity = capacity;
    table->taken -= table->buried;
    table->buried = 0;
    table->gen++;
    if (old) {
        if (table->options.grown) {
            table->options.grown(table->options.owner, table->gen);
        }
        atomic_store_explicit(&old->retired, 1, memory_order_release);
        (void)munmap(old, old_bytes);
        (void)unlink(old_path);
    }
    return 0;
}

static int remove_earlier(const char *dir)
{
    DIR *stream = opendir(dir);
    if (!stream) {
        return -errno;
    }
    for (const struct dirent *entry = readdir(stream); entry; entry = readdir(stream)) {
        if (!strncmp(entry->d_name, "residents-", strlen("residents-"))) {
            (void)unlinkat(dirfd(stream), entry->d_name, 0);
        }
    }
    (void)closedir(stream);
    return 0;
}

int hr_residents_open(const struct hr_residents_options *options, struct hr_residents_table **ret)
{
    int r = remove_earlier(options->dir);
    if (r < 0) {
        return r;
    }
    struct hr_residents_table *table = calloc(1, sizeof(*table));
    if (!table) {
        return -ENOMEM;
    }
    table->options = *options;
    r = next_generation(table, options->expected);
    if (r < 0) {
        free(table);
        return r;
    }
    *ret = table;
    return 0;
}

void hr_residents_close(struct hr_residents_table *table)
{
    if (table) {
        (void)munmap(table->map, table->map_bytes);
        free(table);
    }
}

int hr_residents_reserve(struct hr_residents_table *table, uint64_t more)
{
    /* Linear probing: 3/4 full costs a reader 8.5 probes for an inode that is not ours, 7/8 costs 32. */
    if (table->taken + more <= table->capacity / 4 * 3) {
        return 0;
    }
    int r = next_generation(table, more);
    return r < 0 && table->taken + more <= table->capacity / 8 * 7 ? 0 : r;
}

void hr_residents_put(struct hr_residents_table *table, const struct hr_resident_fields *fields)
{
    struct hr_resident *slot = NULL;
    struct hr_resident *record = find(table->map, table->capacity, fields->ino, &slot);
    if (!record) {
        record = slot;
        if (record_ino(record) == HR_INO_GONE) {
            table->buried--;
        } else {
            table->taken++;
        }
    }
    record_write(record, fields);
}

static void bury(struct hr_residents_table *table, const struct gone *gone)
{
    struct hr_resident *slot = NULL;
    struct hr_resident *record = find(table->map, table->capacity, gone->ino, &slot);
    if (!record || record->file_id != gone->file_id || !(record->flags & HR_RESIDENT_EVICTED)) {
        return; /* the inode came again */
    }
    record_open(record);
    atomic_store_explicit(&record->ino, HR_INO_GONE, memory_order_release);
    record_close(record);
    table->buried++;
}

void hr_residents_evict(struct hr_residents_table *table, uint64_t ino, uint64_t file_id)
{
    struct hr_resident *slot = NULL;
    struct hr_resident *record = find(table->map, table->capacity, ino, &slot);
    if (!record || record->file_id != file_id || (record->flags & HR_RESIDENT_EVICTED)) {
        return;
    }
    record_open(record);
    PUBLISH(record->flags, record->flags | HR_RESIDENT_EVICTED);
    record_close(record);
    uint32_t at = (table->gone_head + table->gone_count) % HR_EVICTED_KEPT;
    if (table->gone_count == HR_EVICTED_KEPT) {
        bury(table, &table->gone[at]);
        table->gone_head = (table->gone_head + 1) % HR_EVICTED_KEPT;
        table->gone_count--;
    }
    table->gone[at] = (struct gone){.ino = ino, .file_id = file_id};
    table->gone_count++;
}

int hr_residents_renew(struct hr_residents_table *table, uint64_t more)
{
    return next_generation(table, more);
}

uint32_t hr_residents_gen(const struct hr_residents_table *table)
{
    return table->gen;
}
