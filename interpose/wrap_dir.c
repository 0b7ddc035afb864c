/* opendir and its kin. A directory of a map is walked in shared memory; one on the way to a map's root is
 * libc's with names added (shown.h); every other DIR is libc's. */
#define HR_HEAP_BY_CONTRACT /* scandir's results are freed by the caller */

#include "interpose/dirstream.h"
#include "interpose/door.h"
#include "interpose/face_read.h"
#include "interpose/getdents.h"
#include "interpose/shown.h"
#include "interpose/standin.h"
#include "interpose/sys.h"
#include "interpose/inner.h"

_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64) &&
                   offsetof(struct dirent, d_name) == offsetof(struct dirent64, d_name),
               "one layout serves both names on 64-bit machines");

static DIR *open_stream(const struct hr_place *place, int fd)
{
    DIR *dir;
    int error = hr_dirstream_open(place, fd, &dir);
    if (error < 0) {
        errno = -error;
        return NULL;
    }
    return dir;
}

/* ---- open, close ---- */

/* May it be a map's, or on the way to one? */
static inline bool worth_a_look(int at, const char *path)
{
    return HR_UNLIKELY(hr_active) && path &&
           (hr_path_maybe(at, path) || (path[0] == '/' && hr_path_above_text(path)));
}

static HR_NOINLINE DIR *opendir_slow(const char *path)
{
    struct hr_place place;
    char way[HR_PLACE_MAX];
    if (hr_path_find_as(AT_FDCWD, path, true, &place)) {
        return open_stream(&place, -1);
    }
    size_t len = hr_path_is_way(AT_FDCWD, path, &place) ? strlen(place.path) : 0;
    memcpy(way, place.path, len);
    DIR *real = HR_REAL(opendir)(hr_path_outside(AT_FDCWD, path, &place));
    if (!real && hr_door_missed(AT_FDCWD, path, true, &place)) {
        return open_stream(&place, -1);
    }
    return real && len > 0 ? hr_shown_open(real, way, len) : real;
}

DIR *opendir(const char *path)
{
    return worth_a_look(AT_FDCWD, path) || HR_UNLIKELY(hr_alias_follows) ? opendir_slow(path)
                                                                         : HR_REAL(opendir)(path);
}

static HR_NOINLINE DIR *fdopendir_maybe(int fd)
{
    struct hr_place place;
    if (hr_path_of_fd(fd, &place)) {
        return open_stream(&place, fd);
    }
    DIR *real = HR_REAL(fdopendir)(fd);
    int len = real ? hr_standin_readlink(fd, place.path, sizeof(place.path)) : 0;
    return len > 0 && hr_path_above(place.path, (size_t)len) ? hr_shown_open(real, place.path, (size_t)len)
                                                             : real;
}

DIR *fdopendir(int fd)
{
    return HR_UNLIKELY(hr_active) && hr_standin_maybe(fd) ? fdopendir_maybe(fd) : HR_REAL(fdopendir)(fd);
}

int closedir(DIR *dir)
{
    if (hr_dirstream_ours(dir)) {
        hr_dirstream_close(dir);
        return 0;
    }
    if (hr_shown_ours(dir)) {
        return hr_shown_close(dir);
    }
    if (HR_UNLIKELY(hr_active) && dir) {
        hr_standin_unmark(HR_REAL(dirfd)(dir)); /* as before any close */
    }
    return HR_REAL(closedir)(dir);
}

int dirfd(DIR *dir)
{
    return hr_dirstream_ours(dir) ? (int)hr_edge(hr_dirstream_fd(dir))
           : hr_shown_ours(dir)   ? hr_shown_fd(dir)
                                  : HR_REAL(dirfd)(dir);
}

/* ---- walk ---- */

static inline bool is_special(const DIR *dir)
{
    return hr_dirstream_ours(dir) || hr_shown_ours(dir);
}

static struct dirent64 *next_special(DIR *dir)
{
    return hr_dirstream_ours(dir) ? hr_dirstream_next(dir) : hr_shown_next(dir);
}

struct dirent64 *readdir64(DIR *dir)
{
    return is_special(dir) ? next_special(dir) : HR_REAL(readdir64)(dir);
}

struct dirent *readdir(DIR *dir)
{
    return is_special(dir) ? (struct dirent *)next_special(dir) : HR_REAL(readdir)(dir);
}

/* The error is the return value. */
static int next_into(DIR *dir, struct dirent64 *entry, struct dirent64 **ret)
{
    int saved = errno;
    errno = 0;
    const struct dirent64 *next = next_special(dir);
    int error = next ? 0 : errno;
    errno = saved;
    if (next) {
        memcpy(entry, next, next->d_reclen);
    }
    *ret = next ? entry : NULL;
    return error;
}

int readdir64_r(DIR *dir, struct dirent64 *entry, struct dirent64 **ret)
{
    return is_special(dir) ? next_into(dir, entry, ret) : HR_REAL(readdir64_r)(dir, entry, ret);
}

int readdir_r(DIR *dir, struct dirent *entry, struct dirent **ret)
{
    return is_special(dir) ? next_into(dir, (struct dirent64 *)entry, (struct dirent64 **)ret)
                           : HR_REAL(readdir_r)(dir, entry, ret);
}

void rewinddir(DIR *dir)
{
    if (hr_dirstream_ours(dir)) {
        hr_dirstream_seek(dir, 0);
    } else if (hr_shown_ours(dir)) {
        hr_shown_rewind(dir);
    } else {
        HR_REAL(rewinddir)(dir);
    }
}

long telldir(DIR *dir)
{
    return hr_dirstream_ours(dir) ? hr_dirstream_tell(dir)
           : hr_shown_ours(dir)   ? hr_shown_tell(dir)
                                  : HR_REAL(telldir)(dir);
}

void seekdir(DIR *dir, long position)
{
    if (hr_dirstream_ours(dir)) {
        hr_dirstream_seek(dir, position);
    } else if (hr_shown_ours(dir)) {
        hr_shown_seek(dir, position);
    } else {
        HR_REAL(seekdir)(dir, position);
    }
}

static HR_NOINLINE ssize_t getdents_maybe(int fd, void *buffer, size_t size)
{
    struct hr_place place;
    if (hr_path_of_fd(fd, &place)) {
        return hr_edge(hr_getdents(fd, &place, buffer, size));
    }
    return HR_REAL(getdents64)(fd, buffer, size);
}

ssize_t getdents64(int fd, void *buffer, size_t size)
{
    return HR_UNLIKELY(hr_active) && hr_standin_maybe(fd) ? getdents_maybe(fd, buffer, size)
                                                          : HR_REAL(getdents64)(fd, buffer, size);
}

/* Before the real one: it takes the position by itself, inside libc. */
static inline bool takes_entries(int fd)
{
    return HR_UNLIKELY(hr_active) && hr_standin_maybe(fd);
}

ssize_t getdirentries64(int fd, char *buffer, size_t size, off64_t *ret_base)
{
    if (!takes_entries(fd)) {
        return HR_REAL(getdirentries64)(fd, buffer, size, ret_base);
    }
    off64_t base = lseek64(fd, 0, SEEK_CUR);
    ssize_t got = base < 0 ? -1 : getdents64(fd, buffer, size);
    if (got > 0) {
        *ret_base = base;
    }
    return got;
}

ssize_t getdirentries(int fd, char *buffer, size_t size, off_t *ret_base)
{
    return takes_entries(fd) ? getdirentries64(fd, buffer, size, (off64_t *)ret_base)
                             : HR_REAL(getdirentries)(fd, buffer, size, ret_base);
}

typedef off_t (*lseek_fn)(int, off_t, int);

static HR_NOINLINE off_t lseek_maybe(lseek_fn real, int fd, off_t offset, int whence)
{
    struct hr_place place;
    struct hr_face face;
    if (hr_face_maybe(fd) && hr_face_of(fd, &face)) {
        return hr_edge(hr_face_seek(fd, &face, offset, whence));
    }
    if (hr_path_of_fd(fd, &place)) {
        return hr_edge(hr_getdents_seek(fd, &place, offset, whence));
    }
    return real ? real(fd, offset, whence) : hr_edge(HR_SYS3(SYS_lseek, fd, offset, whence));
}

static inline off_t lseek_any(lseek_fn real, int fd, off_t offset, int whence)
{
    return (HR_UNLIKELY(hr_active) && HR_UNLIKELY(hr_standin_maybe(fd))) || HR_UNLIKELY(!real)
               ? lseek_maybe(real, fd, offset, whence)
               : real(fd, offset, whence);
}

off_t lseek(int fd, off_t offset, int whence)
{
    return lseek_any(hr_real.lseek, fd, offset, whence);
}

off64_t lseek64(int fd, off64_t offset, int whence)
{
    return lseek_any(hr_real.lseek64, fd, offset, whence);
}

off_t __lseek(int fd, off_t offset, int whence)
{
    return lseek_any(hr_real.__lseek, fd, offset, whence);
}

/* An old name that new programs cannot link to: there may be no real one. */
off64_t llseek(int fd, off64_t offset, int whence)
{
    return lseek_any(HR_REAL(llseek), fd, offset, whence);
}

/* ---- scandir ---- */

typedef int (*filter_fn)(const struct dirent64 *);
typedef int (*compare_fn)(const struct dirent64 **, const struct dirent64 **);

struct found {
    struct dirent64 **list;
    size_t count, room;
};

static void drop_found(struct found *found)
{
    for (size_t i = 0; i < found->count; i++) {
        free(found->list[i]);
    }
    free(found->list);
}

static int keep(struct found *found, const struct dirent64 *entry)
{
    if (found->count == found->room) {
        size_t room = found->room ? 2 * found->room : 32;
        struct dirent64 **list = realloc(found->list, room * sizeof(*list));
        if (!list) {
            return -ENOMEM;
        }
        found->list = list;
        found->room = room;
    }
    struct dirent64 *copy = malloc(entry->d_reclen);
    if (!copy) {
        return -ENOMEM;
    }
    memcpy(copy, entry, entry->d_reclen);
    found->list[found->count++] = copy;
    return 0;
}

/* Takes the stream over. */
static int scan(DIR *dir, struct dirent64 ***ret, filter_fn filter, compare_fn compare)
{
    struct found found = {0};
    const struct dirent64 *entry;
    int saved = errno;
    int error = 0;
    while (error == 0 && (errno = 0, entry = readdir64(dir))) {
        if (!filter || filter(entry)) {
            error = found.count < INT32_MAX ? keep(&found, entry) : -EOVERFLOW;
        }
    }
    error = error ? error : -errno;
    closedir(dir);
    if (error < 0) {
        drop_found(&found);
        return error;
    }
    if (compare && found.count > 1) {
        qsort(found.list, found.count, sizeof(found.list[0]), (int (*)(const void *, const void *))compare);
    }
    errno = saved;
    *ret = found.list;
    return (int)found.count;
}

#define NOT_OURS INT32_MIN

static HR_NOINLINE int scan_slow(int at, const char *path, struct dirent64 ***ret, filter_fn filter,
                                 compare_fn compare)
{
    struct hr_place place;
    DIR *dir;
    if (hr_path_find_as(at, path, true, &place) || hr_alias_ahead(at, path, true, &place)) {
        dir = open_stream(&place, -1);
    } else if (hr_path_is_way(at, path, &place)) {
        dir = opendir_slow(place.path);
    } else {
        return NOT_OURS;
    }
    return dir ? scan(dir, ret, filter, compare) : -errno;
}

/* The real call's when not ours; *path may then point into *scratch. */
static int scan_ours(int at, const char **path, struct hr_place *scratch, struct dirent64 ***ret,
                     filter_fn filter, compare_fn compare)
{
    if (!worth_a_look(at, *path) && !HR_UNLIKELY(hr_alias_follows)) {
        return NOT_OURS;
    }
    int result = scan_slow(at, *path, ret, filter, compare);
    if (result == NOT_OURS) {
        *path = hr_path_outside(at, *path, scratch);
        return NOT_OURS;
    }
    return (int)hr_edge(result);
}

int scandirat64(int at, const char *path, struct dirent64 ***ret, filter_fn filter, compare_fn compare)
{
    struct hr_place scratch;
    int result = scan_ours(at, &path, &scratch, ret, filter, compare);
    return result == NOT_OURS ? HR_REAL(scandirat64)(at, path, ret, filter, compare) : result;
}

int scandir64(const char *path, struct dirent64 ***ret, filter_fn filter, compare_fn compare)
{
    struct hr_place scratch;
    int result = scan_ours(AT_FDCWD, &path, &scratch, ret, filter, compare);
    return result == NOT_OURS ? HR_REAL(scandir64)(path, ret, filter, compare) : result;
}

int scandirat(int at, const char *path, struct dirent ***ret, int (*filter)(const struct dirent *),
              int (*compare)(const struct dirent **, const struct dirent **))
{
    struct hr_place scratch;
    int result =
        scan_ours(at, &path, &scratch, (struct dirent64 ***)ret, (filter_fn)filter, (compare_fn)compare);
    return result == NOT_OURS ? HR_REAL(scandirat)(at, path, ret, filter, compare) : result;
}

int scandir(const char *path, struct dirent ***ret, int (*filter)(const struct dirent *),
            int (*compare)(const struct dirent **, const struct dirent **))
{
    struct hr_place scratch;
    int result = scan_ours(AT_FDCWD, &path, &scratch, (struct dirent64 ***)ret, (filter_fn)filter,
                           (compare_fn)compare);
    return result == NOT_OURS ? HR_REAL(scandir)(path, ret, filter, compare) : result;
}
