#include "interpose/standin.h"

#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "interpose/context.h"
#include "interpose/face.h"
#include "interpose/getdents.h"
#include "interpose/sys.h"
#include "interpose/tiny.h"
#include "interpose/way.h"
#include "interpose/inner.h"

#define MAP_HASH_DIGITS 16

_Alignas(uint64_t) _Atomic uint8_t hr_standin_marks[HR_STANDIN_MARKS];

static void set_mark(int fd, uint8_t value)
{
    if (fd >= 0 && fd < HR_STANDIN_MARKS) {
        atomic_store_explicit(&hr_standin_marks[fd], value, memory_order_relaxed);
    }
}

void hr_standin_mark(int fd)
{
    hr_path_through_proc();
    set_mark(fd, 1);
}

void hr_standin_mark_face(int fd)
{
    set_mark(fd, HR_MARK_FACE);
}

void hr_standin_mark_above(int fd)
{
    set_mark(fd, 1);
}

void hr_standin_unmark(int fd)
{
    if (fd < 0 || fd >= HR_STANDIN_MARKS ||
        !atomic_load_explicit(&hr_standin_marks[fd], memory_order_relaxed)) {
        return;
    }
    /* In a vfork child the table is the parent's and its descriptor is still open. A mark too many only costs
     * a look. */
    if (!hr_pid_is_borrowed()) {
        set_mark(fd, 0);
    }
}

void hr_standin_unmark_range(unsigned first, unsigned last)
{
    /* Eight at a time: nearly all are zero. */
    typedef uint64_t __attribute__((may_alias)) word;
    unsigned end = last < HR_STANDIN_MARKS ? last + 1 : HR_STANDIN_MARKS;
    for (unsigned fd = first; fd < end;) {
        if (fd % sizeof(word) == 0 && end - fd >= sizeof(word) &&
            *(const volatile word *)(const void *)&hr_standin_marks[fd] == 0) {
            fd += sizeof(word);
        } else {
            hr_standin_unmark((int)fd++);
        }
    }
}

/* In a vfork child the table is the parent's, whose descriptor `to` may be another one: it keeps its mark. */
static bool keeps_mark(int to)
{
    return to < HR_STANDIN_MARKS && atomic_load_explicit(&hr_standin_marks[to], memory_order_relaxed) != 0 &&
           hr_pid_is_borrowed();
}

/* An empty file that only its owner may write: nearly always a face, and never where output goes. */
static bool has_form_of_face(int fd)
{
    struct stat stat;
    return HR_SYS2(SYS_fstat, fd, &stat) == 0 && S_ISREG(stat.st_mode) && stat.st_size == 0 &&
           (stat.st_mode & 07777) == HR_FACE_FILE_MODE;
}

void hr_standin_mark_arrived(int fd, int flags)
{
    if (flags & O_PATH) {
        hr_standin_mark(fd);
    } else if ((flags & O_ACCMODE) == O_WRONLY && !(flags & O_APPEND) && has_form_of_face(fd)) {
        hr_standin_mark_face(fd);
    } else {
        hr_standin_unmark(fd);
        return;
    }
    atomic_store_explicit(&hr_faces_seen, true, memory_order_relaxed);
}

void hr_standin_copy(int from, int to)
{
    if (from >= HR_STANDIN_MARKS) {
        long flags = HR_SYS3(SYS_fcntl, to, F_GETFL, 0);
        hr_standin_mark_arrived(to, flags < 0 ? 0 : (int)flags);
    } else if (!hr_standin_maybe(from)) {
        hr_standin_unmark(to);
    } else if (!keeps_mark(to)) {
        uint8_t mark = atomic_load_explicit(&hr_standin_marks[from], memory_order_relaxed);
        if (mark != HR_MARK_FACE) {
            hr_getdents_share(from);
            mark = atomic_load_explicit(&hr_standin_marks[from], memory_order_relaxed);
        }
        set_mark(to, mark);
    }
}

int hr_standin_readlink(int fd, char *out, size_t room)
{
    char link[32];
    struct hr_out path;
    hr_out_init(&path, link, sizeof(link));
    hr_out_text(&path, "/proc/self/fd/");
    hr_out_decimal(&path, (uint64_t)fd);
    long len = HR_SYS4(SYS_readlinkat, AT_FDCWD, link, out, room - 1);
    if (len < 0) {
        return (int)len;
    }
    out[len] = '\0';
    return (size_t)len == room - 1 ? -ENAMETOOLONG : (int)len;
}

int hr_standin_number(const char *text)
{
    int number = *text && (*text != '0' || !text[1]) ? 0 : -1;
    for (; number >= 0 && *text; text++) {
        number = *text >= '0' && *text <= '9' && number < INT_MAX / 10 ? number * 10 + (*text - '0') : -1;
    }
    return number;
}

bool hr_standin_each(void (*visit)(void *owner, int fd), void *owner)
{
    char buffer[4096] __attribute__((aligned(8)));
    long dir = HR_SYS4(SYS_openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    long got;
    if (dir < 0) {
        return false;
    }
    while ((got = HR_SYS3(SYS_getdents64, dir, buffer, sizeof(buffer))) > 0) {
        for (long at = 0; at < got;) {
            const struct dirent64 *entry = (const struct dirent64 *)(buffer + at);
            at += entry->d_reclen;
            int fd = hr_standin_number(entry->d_name);
            if (fd >= 0) {
                visit(owner, fd);
            }
        }
    }
    HR_SYS1(SYS_close, dir);
    return true;
}

static void adopt(void *owner, int fd)
{
    (void)owner;
    long flags = HR_SYS3(SYS_fcntl, fd, F_GETFL, 0);
    if (flags >= 0) {
        hr_standin_mark_arrived(fd, (int)flags);
    }
}

void hr_standin_adopt_inherited(void)
{
    (void)hr_standin_each(adopt, NULL);
}

uint64_t hr_standin_hash(unsigned map)
{
    static _Atomic uint64_t known[HR_MAPS_MAX];
    uint64_t hash = atomic_load_explicit(&known[map], memory_order_relaxed);
    if (!hash) {
        hash = hr_map_hash(&hr_maps.map[map]);
        atomic_store_explicit(&known[map], hash, memory_order_relaxed);
    }
    return hash;
}

/* The map whose stand-ins lie under this hash, or -1. */
static int map_of_hash(uint64_t hash)
{
    for (unsigned i = 0; i < hr_maps.count; i++) {
        if (hr_standin_hash(i) == hash) {
            return (int)i;
        }
    }
    return -1;
}

bool hr_standin_place(const char *real_path, struct hr_place *ret)
{
    /* The hash of path and URL says it all; cache_dir may be spelled through symlinks, or not be known yet.
     */
    for (const char *at = real_path; (at = strstr(at, "/dirs/")) != NULL; at++) {
        const char *digits = at + sizeof("/dirs/") - 1;
        uint64_t hash;
        if (!hr_hex_parse(digits, MAP_HASH_DIGITS, &hash)) {
            continue;
        }
        const char *rest = digits + MAP_HASH_DIGITS;
        int map = *rest == '/' || *rest == '\0' ? map_of_hash(hash) : -1;
        if (map < 0 && *rest == '\0' && hr_way_of_hash(hash, ret)) {
            return true;
        }
        if (map < 0) {
            continue;
        }
        struct hr_out path;
        hr_out_init(&path, ret->path, sizeof(ret->path));
        hr_out_text(&path, hr_maps.map[map].path);
        hr_out_text(&path, rest);
        int len = hr_out_done(&path);
        uint32_t root;
        if (len < 0 || !hr_path_under(ret->path, &ret->map, &root)) {
            return false;
        }
        ret->len = (uint32_t)len;
        ret->rel = root + (ret->path[root] == '/');
        ret->must_be_dir = true;
        return true;
    }
    return false;
}
