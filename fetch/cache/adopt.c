/* At start: records whose file is there as they say become objects, all other files go. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"
#include "fetch/cache/inside.h"

/* Ids in names of files without a record count only below this: a foreign name must not end the numbers. */
#define FOREIGN_ID_END (1ull << 62)

struct adoption {
    struct hr_cache *cache;
    struct hr_object **objects;
    size_t count;
    size_t room;
    uint64_t highest_id;
};

static int replay(void *owner, struct hr_journal *journal, struct hr_segment *segment,
                  const struct hr_record *record, bool other_boot)
{
    struct adoption *adoption = owner;
    struct hr_source_id source;
    if (record->file_id > adoption->highest_id) {
        adoption->highest_id = record->file_id;
    }
    if (adoption->count == adoption->room) {
        size_t room = adoption->room ? adoption->room * 2 : 1024;
        struct hr_object **more = reallocarray(adoption->objects, room, sizeof(struct hr_object *));
        if (!more) {
            return -ENOMEM;
        }
        adoption->objects = more;
        adoption->room = room;
    }
    memcpy(source.bytes, record->id, sizeof(source.bytes));
    const struct hr_identity identity = {(enum hr_cached_kind)record->cached,
                                         &source,
                                         record->key,
                                         record->key_len,
                                         record->etag,
                                         record->etag_len};
    const struct hr_object_facts facts = {.size = record->size,
                                          .mtime_ns = record->mtime_ns,
                                          .salt = record->salt,
                                          .dev = record->dev,
                                          .face_id = record->face_id,
                                          .offset = record->offset};
    struct hr_object *object = hr_object_new(adoption->cache, &identity, &facts);
    if (!object) {
        return errno == EINVAL ? 0 : -ENOMEM;
    }
    object->cached.file_id = record->file_id;
    object->ino = record->ino;
    object->written_s = record->written_s;
    object->nonce = record->nonce;
    object->epoch = record->epoch;
    object->other_boot = other_boot;
    hr_journal_attach(journal, segment, object);
    adoption->objects[adoption->count++] = object;
    return 0;
}

static int by_file_id(const void *a, const void *b)
{
    uint64_t x = (*(struct hr_object *const *)a)->cached.file_id;
    uint64_t y = (*(struct hr_object *const *)b)->cached.file_id;
    return (x > y) - (x < y);
}

static void leave(struct adoption *adoption, struct hr_object *object)
{
    hr_journal_forget(adoption->cache->journal, object);
    free(object);
}

/* Sorted by file id (the order in which they came in), each once: a record moved by cleaning may be there
 * twice. */
static void sort(struct adoption *adoption)
{
    size_t kept = 0;
    if (adoption->count) {
        qsort(adoption->objects, adoption->count, sizeof(struct hr_object *), by_file_id);
    }
    for (size_t i = 0; i < adoption->count; i++) {
        struct hr_object *object = adoption->objects[i];
        if (kept && adoption->objects[kept - 1]->cached.file_id == object->cached.file_id) {
            leave(adoption, object);
        } else {
            adoption->objects[kept++] = object;
        }
    }
    adoption->count = kept;
}

/* A finished file's name in its shelf, exactly as hr_object_path writes it. */
static bool parse_name(const char *name, unsigned shelf, uint64_t *ret_id)
{
    char again[24];
    char *end = NULL;
    errno = 0;
    uint64_t id = strtoull(name, &end, 16);
    (void)snprintf(again, sizeof(again), "%016" PRIx64, id);
    if (errno || strcmp(again, name) != 0 || (id & 0xff) != shelf) {
        return false;
    }
    *ret_id = id;
    return true;
}

static bool adopt_file(struct adoption *adoption, int folder_fd, unsigned shelf, const char *name)
{
    struct hr_object probe;
    struct hr_object *wanted = &probe;
    struct stat st;
    if (!parse_name(name, shelf, &probe.cached.file_id)) {
        return false;
    }
    if (probe.cached.file_id > adoption->highest_id && probe.cached.file_id < FOREIGN_ID_END) {
        adoption->highest_id = probe.cached.file_id;
    }
    struct hr_object **found = adoption->count ? bsearch(&wanted, adoption->objects, adoption->count,
                                                         sizeof(struct hr_object *), by_file_id)
                                               : NULL;
    if (!found || fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return false;
    }
    const struct hr_cache *cache = adoption->cache;
    if (!hr_object_matches(*found, &st, cache->dev) || !hr_journal_proven(cache->journal, *found)) {
        return false;
    }
    (*found)->seen = true;
    return true;
}

/* Looks at every name of a folder; what `adoption` (may be NULL) does not take is removed, but no folder that
 * has something in it, aside from `levels` of folders that are swept like this one. */
static int sweep_folder(struct adoption *adoption, int at_fd, const char *path, unsigned shelf, int levels)
{
    int fd = openat(at_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    if (!stream) {
        int r = -errno;
        hr_close_p(&fd);
        return r;
    }
    for (const struct dirent *entry = readdir(stream); entry; entry = readdir(stream)) {
        const char *name = entry->d_name;
        if (!strcmp(name, ".") || !strcmp(name, "..") ||
            (adoption && adopt_file(adoption, fd, shelf, name))) {
            continue;
        }
        if (unlinkat(fd, name, 0) < 0 && (errno == EISDIR || errno == EPERM)) {
            if (levels) {
                (void)sweep_folder(NULL, fd, name, 0, levels - 1);
            }
            (void)unlinkat(fd, name, AT_REMOVEDIR);
        }
    }
    (void)closedir(stream);
    return 0;
}

static int sweep_all(struct adoption *adoption)
{
    const char *dir = adoption->cache->dir;
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/spool", dir);
    int r = sweep_folder(NULL, AT_FDCWD, path, 0, 1);
    for (unsigned shelf = 0; !r && shelf < 256; shelf++) {
        (void)snprintf(path, sizeof(path), "%s/objects/%02x", dir, shelf);
        r = sweep_folder(adoption, AT_FDCWD, path, shelf, 0);
        r = r == -ENOENT ? 0 : r; /* nothing was put there yet */
    }
    return r;
}

/* One whose file is there and right. It may still be of no use: a segment without its face. */
static int admit_one(struct adoption *adoption, struct hr_object *object)
{
    struct hr_cache *cache = adoption->cache;
    struct hr_object *stays = NULL;
    int r = hr_cache_admit(cache, object, &stays);
    if (stays == object) {
        hr_budget_adopt(&cache->budget, hr_object_charge(object));
        cache->adopted++;
        return 0;
    }
    char path[PATH_MAX];
    hr_object_path(cache->dir, object->cached.file_id, path);
    leave(adoption, object);
    if (r != -ENOMEM) {
        (void)unlink(path);
    }
    return r == -ENOMEM ? r : 0;
}

/* In the order of ids, so that faces come before their segments. */
static int admit_all(struct adoption *adoption)
{
    struct hr_cache *cache = adoption->cache;
    int r = 0;
    size_t i = 0;
    cache->adopting = true;
    for (; !r && i < adoption->count; i++) {
        if (adoption->objects[i]->seen) {
            r = admit_one(adoption, adoption->objects[i]);
        } else {
            leave(adoption, adoption->objects[i]);
        }
    }
    for (; i < adoption->count; i++) {
        leave(adoption, adoption->objects[i]);
    }
    cache->adopting = false;
    hr_faces_trim(cache, NULL);
    return r;
}

static uint64_t count_residents(const struct adoption *adoption)
{
    uint64_t count = 0;
    for (size_t i = 0; i < adoption->count; i++) {
        count += adoption->objects[i]->cached.kind != HR_CACHED_SEGMENT;
    }
    return count;
}

int hr_cache_adopt(struct hr_cache *cache)
{
    struct adoption adoption = {.cache = cache};
    int r = hr_journal_open(cache, replay, &adoption, &cache->journal);
    if (!r) {
        sort(&adoption);
        r = sweep_all(&adoption);
    }
    if (!r) {
        r = hr_ids_open(cache, adoption.highest_id);
    }
    if (!r) {
        const struct hr_residents_options options = {
            .dir = cache->dir,
            .boot = cache->options.boot,
            .expected = count_residents(&adoption),
            .grown = cache->options.residents_grown,
            .owner = cache->options.owner,
        };
        r = hr_residents_open(&options, &cache->residents);
    }
    if (!r) {
        r = admit_all(&adoption);
    } else {
        for (size_t i = 0; i < adoption.count; i++) {
            free(adoption.objects[i]);
        }
    }
    free(adoption.objects);
    return r;
}
