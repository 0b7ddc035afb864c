/* libc functions that open or stat a name inside themselves, where no hook sees it: answered here, or given
 * the whole object's cache file. */
#include <nl_types.h>

#include "interpose/door.h"
#include "interpose/view.h"
#include "interpose/inner.h"

#define EVICTED_TRIES 8 /* each one fetched the object anew: a cache that small cannot serve it */

/* ---- questions ---- */

static key_t key_of(const struct stat *stat, int id)
{
    return (key_t)((stat->st_ino & 0xffff) | ((stat->st_dev & 0xff) << 16) | (((unsigned)id & 0xff) << 24));
}

/* libc's formula over the map's own numbers, so that processes agree on the key. */
key_t ftok(const char *path, int id)
{
    struct hr_place place;
    struct hr_object object;
    struct stat stat;
    if (!hr_door_target(AT_FDCWD, &path, &place)) {
        return HR_REAL(ftok)(path, id);
    }
    int error = hr_view_find(&place, &object);
    if (error < 0) {
        return (key_t)hr_edge(error);
    }
    hr_view_stat(&object, &stat);
    return key_of(&stat, id);
}

/* What depends on the file system; the rest is libc's own, the same for every path. */
static long limit_of(int name)
{
    switch (name) {
    case _PC_NAME_MAX:
        return HR_NAME_BYTES_MAX;
    case _PC_LINK_MAX:
        return 1;
    case _PC_FILESIZEBITS:
        return 64;
    case _PC_2_SYMLINKS:
        return 0;
    default:
        return HR_REAL(pathconf)("/", name);
    }
}

long pathconf(const char *path, int name)
{
    struct hr_place place;
    struct hr_object object;
    if (!hr_door_target(AT_FDCWD, &path, &place)) {
        struct stat nearest;
        struct hr_place way;
        long limit = HR_REAL(pathconf)(path, name);
        if (limit >= 0 || !hr_way_missed(AT_FDCWD, path, &way)) {
            return limit;
        }
        hr_way_nearest(&way, &nearest);
        return HR_REAL(pathconf)(way.path, name);
    }
    int error = hr_view_find(&place, &object);
    return error < 0 ? hr_edge(error) : limit_of(name);
}

long fpathconf(int fd, int name)
{
    return hr_door_fd(fd) ? limit_of(name) : HR_REAL(fpathconf)(fd, name);
}

/* ---- opened inside libc ---- */

typedef void *(*open_fn)(const char *path, const void *how);

/* What `open` gives of the cache file; between being asked for and being opened it may be evicted. */
static void *open_whole(const struct hr_place *place, open_fn open_it, const void *how)
{
    char file[HR_PLACE_MAX];
    for (int tries = 0; tries < EVICTED_TRIES; tries++) {
        int len = hr_view_cache_path(place, file, sizeof(file));
        if (len < 0) {
            hr_edge(len);
            return NULL;
        }
        void *opened = open_it(file, how);
        if (opened || errno != ENOENT) {
            return opened;
        }
    }
    hr_edge(-EIO);
    return NULL;
}

static void *open_mounts(const char *path, const void *mode)
{
    return HR_REAL(setmntent)(path, mode);
}

FILE *setmntent(const char *path, const char *mode)
{
    struct hr_place place;
    if (!hr_door_target(AT_FDCWD, &path, &place)) {
        return HR_REAL(setmntent)(path, mode);
    }
    if (mode[0] != 'r' || strchr(mode, '+')) {
        hr_edge(-EROFS);
        return NULL;
    }
    return open_whole(&place, open_mounts, mode);
}

FILE *__setmntent(const char *path, const char *mode)
{
    struct hr_place place;
    return hr_door_target(AT_FDCWD, &path, &place) ? setmntent(place.path, mode)
                                                   : HR_REAL(__setmntent)(path, mode);
}

/* fopen's other name, in programs of long ago. */
FILE *_IO_fopen(const char *path, const char *mode)
{
    return HR_UNLIKELY(hr_active) ? fopen(path, mode) : HR_REAL(_IO_fopen)(path, mode);
}

#define NO_CATALOGUE ((nl_catd)-1)

static void *open_catalogue(const char *path, const void *flag)
{
    nl_catd opened = HR_REAL(catopen)(path, *(const int *)flag);
    return opened == NO_CATALOGUE ? NULL : opened;
}

/* Only a name with a slash is a path; others are looked for along NLSPATH. */
nl_catd catopen(const char *name, int flag)
{
    struct hr_place place;
    if (!name || !strchr(name, '/') || !hr_door_target(AT_FDCWD, &name, &place)) {
        return HR_REAL(catopen)(name, flag);
    }
    void *opened = open_whole(&place, open_catalogue, &flag);
    return opened ? opened : NO_CATALOGUE;
}
