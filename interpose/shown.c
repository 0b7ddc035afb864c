#include "interpose/shown.h"

#include <fcntl.h>

#include "interpose/context.h"
#include "interpose/path.h"
#include "interpose/standin.h"
#include "interpose/sys.h"
#include "interpose/way.h"
#include "interpose/inner.h"

#define STREAMS 256 /* open at once; a walker holds one a level, and few levels lie above a map */

struct name {
    uint16_t at; /* in hr_maps.map[map].path */
    uint8_t len;
    uint8_t map;
};

struct shown {
    _Atomic uint32_t used;
    DIR *real;
    unsigned count; /* names that are not there really */
    unsigned next;  /* of count */
    bool real_ended;
    struct name names[HR_MAPS_MAX];
    struct dirent64 entry;
};

static struct shown pool[STREAMS];
_Atomic bool hr_shown_met;

_Static_assert(HR_MAPS_MAX <= UINT8_MAX + 1, "a map's number fits");

bool hr_shown_known(const DIR *dir)
{
    return (uintptr_t)dir - (uintptr_t)pool < sizeof(pool);
}

/* Where the component behind `path` (canonical, above the map's root) is in the root. */
static struct name component_of(unsigned map, size_t len)
{
    const char *root = hr_maps.map[map].path;
    size_t at = len == 1 ? 1 : len + 1;
    size_t end = at;
    while (root[end] && root[end] != '/') {
        end++;
    }
    return (struct name){.at = (uint16_t)at, .len = (uint8_t)(end - at), .map = (uint8_t)map};
}

static const char *text_of(const struct name *name)
{
    return hr_maps.map[name->map].path + name->at;
}

static bool leads(unsigned map, const char *path, size_t len)
{
    const struct hr_map *root = &hr_maps.map[map];
    return len < root->path_len && memcmp(path, root->path, len) == 0 && (len == 1 || root->path[len] == '/');
}

static bool is_listed(const struct shown *shown, const struct name *name)
{
    for (unsigned i = 0; i < shown->count; i++) {
        const struct name *other = &shown->names[i];
        if (other->len == name->len && memcmp(text_of(other), text_of(name), name->len) == 0) {
            return true;
        }
    }
    return false;
}

/* Anything but "no such name" leaves it to the real listing. */
static bool is_there(DIR *real, const struct name *name)
{
    char text[HR_NAME_BYTES_MAX + 1];
    struct stat st;
    memcpy(text, text_of(name), name->len);
    text[name->len] = '\0';
    int fd = HR_REAL(dirfd)(real);
    return HR_SYS4(SYS_newfstatat, fd, text, &st, AT_SYMLINK_NOFOLLOW) != -ENOENT;
}

static void collect(struct shown *shown, const char *path, size_t len)
{
    shown->count = 0;
    for (unsigned i = 0; i < hr_maps.count; i++) {
        if (!leads(i, path, len)) {
            continue;
        }
        struct name name = component_of(i, len);
        if (!is_listed(shown, &name) && !is_there(shown->real, &name)) {
            shown->names[shown->count++] = name;
        }
    }
}

static struct shown *claim(void)
{
    for (unsigned i = 0; i < STREAMS; i++) {
        uint32_t unused = 0;
        if (atomic_compare_exchange_strong_explicit(&pool[i].used, &unused, 1, memory_order_acquire,
                                                    memory_order_relaxed)) {
            return &pool[i];
        }
    }
    return NULL;
}

static void release(struct shown *shown)
{
    atomic_store_explicit(&shown->used, 0, memory_order_release);
}

DIR *hr_shown_open(DIR *real, const char *path, size_t len)
{
    int saved = errno;
    struct shown *shown = claim();
    if (!shown) {
        HR_REAL(closedir)(real);
        errno = EMFILE;
        return NULL;
    }
    shown->real = real;
    shown->next = 0;
    shown->real_ended = false;
    collect(shown, path, len);
    errno = saved;
    if (shown->count == 0) {
        release(shown);
        hr_standin_mark_above(HR_REAL(dirfd)(real)); /* what is relative to it may be a map's all the same */
        return real;
    }
    atomic_store_explicit(&hr_shown_met, true, memory_order_relaxed);
    return (DIR *)shown;
}

static struct dirent64 *give(DIR *dir, const char *text, size_t len, uint64_t ino)
{
    struct dirent64 *entry = &((struct shown *)dir)->entry;
    entry->d_ino = ino;
    entry->d_off = hr_shown_tell(dir);
    entry->d_reclen = (unsigned short)((offsetof(struct dirent64, d_name) + len + 1 + 7) & ~(size_t)7);
    entry->d_type = DT_DIR;
    memcpy(entry->d_name, text, len);
    entry->d_name[len] = '\0';
    return entry;
}

struct dirent64 *hr_shown_next(DIR *dir)
{
    struct shown *shown = (struct shown *)dir;
    if (!shown->real_ended) {
        int saved = errno;
        errno = 0;
        struct dirent64 *entry = HR_REAL(readdir64)(shown->real);
        if (entry || errno) {
            errno = entry ? saved : errno;
            return entry;
        }
        errno = saved;
        shown->real_ended = true;
    }
    if (shown->next == shown->count) {
        return NULL;
    }
    /* Of a map's root not what stat says, as at any mount point: asking for that would start a daemon for an
     * `ls /`. */
    const struct name *name = &shown->names[shown->next++];
    return give(dir, text_of(name), name->len,
                hr_way_ino(hr_maps.map[name->map].path, (size_t)name->at + name->len));
}

/* Ours are negative: no file system's are. */
long hr_shown_tell(DIR *dir)
{
    struct shown *shown = (struct shown *)dir;
    return shown->real_ended ? -1 - (long)shown->next : HR_REAL(telldir)(shown->real);
}

void hr_shown_seek(DIR *dir, long position)
{
    struct shown *shown = (struct shown *)dir;
    shown->real_ended = position < 0;
    shown->next = 0;
    if (position < 0) {
        shown->next = position >= -1 - (long)shown->count ? (unsigned)(-1 - position) : shown->count;
    } else {
        HR_REAL(seekdir)(shown->real, position);
    }
}

void hr_shown_rewind(DIR *dir)
{
    struct shown *shown = (struct shown *)dir;
    shown->real_ended = false;
    shown->next = 0;
    HR_REAL(rewinddir)(shown->real);
}

int hr_shown_fd(DIR *dir)
{
    int fd = HR_REAL(dirfd)(((const struct shown *)dir)->real);
    hr_standin_mark_above(fd);
    return fd;
}

int hr_shown_close(DIR *dir)
{
    struct shown *shown = (struct shown *)dir;
    DIR *real = shown->real;
    release(shown);
    hr_standin_unmark(HR_REAL(dirfd)(real));
    return HR_REAL(closedir)(real);
}
