#include "interpose/identity.h"

#include <limits.h>
#include <stdatomic.h>

#include "interpose/context.h"
#include "interpose/standin.h"
#include "interpose/sys.h"
#include "interpose/tiny.h"
#include "interpose/view.h"
#include "interpose/inner.h"

#define TORN_TRIES 1000 /* of one record; the daemon writes 64 bytes */
#define ID_DIGITS 16
/* A field that the daemon may be writing: acquire keeps the second look at `seq` behind it. */
#define SHARED(field) __atomic_load_n(&(field), __ATOMIC_ACQUIRE)

/* One record, whole. False: it is being written and its writer does not come on, or it is another inode's by
 * now. */
static bool read_record(const struct hr_resident *record, uint64_t ino, struct hr_identity *ret,
                        uint32_t *ret_nonce, uint32_t *ret_flags)
{
    for (unsigned i = 0; i < TORN_TRIES; i++) {
        uint32_t seq = atomic_load_explicit(&record->seq, memory_order_acquire);
        if (seq & 1) {
            continue;
        }
        uint64_t found = atomic_load_explicit(&record->ino, memory_order_acquire);
        *ret = (struct hr_identity){.ino = SHARED(record->object_ino),
                                    .dev = SHARED(record->object_dev),
                                    .size = SHARED(record->size),
                                    .mtime_ns = SHARED(record->mtime_ns),
                                    .file_id = SHARED(record->file_id)};
        *ret_nonce = SHARED(record->nonce);
        *ret_flags = SHARED(record->flags);
        if (atomic_load_explicit(&record->seq, memory_order_relaxed) == seq) {
            return found == ino;
        }
    }
    return false;
}

/* is_face: the record is a face's, whose size says nothing of its file's. */
static bool lookup(const struct hr_residents *table, uint64_t ino, bool is_face, uint64_t size,
                   uint32_t nonce, struct hr_identity *ret)
{
    struct hr_identity copy;
    uint32_t its_nonce;
    uint32_t flags;
    uint64_t at = hr_ino_slot(ino, table->capacity);
    if (ino == 0 || ino == HR_INO_GONE) {
        return false;
    }
    for (uint64_t i = 0; i < table->capacity; i++, at = (at + 1) & (table->capacity - 1)) {
        const struct hr_resident *record = &table->records[at];
        uint64_t found = atomic_load_explicit(&record->ino, memory_order_acquire);
        if (found == 0) {
            return false;
        }
        /* An inode may be there twice: evicted but open somewhere, and given again to a new file. */
        if (found == ino && read_record(record, ino, &copy, &its_nonce, &flags) && its_nonce == nonce &&
            (flags & HR_RESIDENT_FACE ? is_face : !is_face && copy.size == size)) {
            *ret = copy;
            return true;
        }
    }
    return false;
}

bool hr_identity_lookup(const struct hr_residents *table, uint64_t ino, uint64_t size, uint32_t nonce,
                        struct hr_identity *ret)
{
    return lookup(table, ino, false, size, nonce, ret);
}

bool hr_identity_lookup_face(const struct hr_residents *table, uint64_t ino, uint32_t nonce,
                             struct hr_identity *ret)
{
    return lookup(table, ino, true, 0, nonce, ret);
}

/* Does the kernel's name of this descriptor look like cache_dir/objects/XX/ID? Asked once in a process that
 * has no session yet, so of inherited descriptors only. */
static bool named_like_ours(int fd)
{
    char path[PATH_MAX];
    uint64_t id;
    static const char gone[] = " (deleted)";
    static const char folder[] = "/objects/";
    int len = hr_standin_readlink(fd, path, sizeof(path));
    if (len < 0) {
        return false;
    }
    size_t end = (size_t)len;
    if (end > sizeof(gone) - 1 && memcmp(path + end - (sizeof(gone) - 1), gone, sizeof(gone) - 1) == 0) {
        end -= sizeof(gone) - 1;
    }
    size_t tail = sizeof(folder) - 1 + 2 + 1 + ID_DIGITS;
    if (end <= tail) {
        return false;
    }
    const char *at = path + end - tail;
    const char *digits = at + sizeof(folder) - 1 + 3;
    return memcmp(at, folder, sizeof(folder) - 1) == 0 && digits[-1] == '/' &&
           memcmp(digits - 3, digits + ID_DIGITS - 2, 2) == 0 && hr_hex_parse(digits, ID_DIGITS, &id);
}

/* Of the form of a cache file: which of the two modes, or 0. */
static unsigned form_of(const struct stat *stat)
{
    unsigned mode = stat->st_mode & 07777;
    bool form = S_ISREG(stat->st_mode) && stat->st_nlink <= 1 && stat->st_uid == (uid_t)hr_view_owner() &&
                (mode == HR_CACHE_FILE_MODE || (mode == HR_FACE_FILE_MODE && stat->st_size == 0));
    return form ? mode : 0;
}

/* fd: -1 when there is none. */
static bool find_identity(int fd, const struct stat *stat, struct hr_identity *ret)
{
    struct hr_session session;
    unsigned mode = form_of(stat);
    if (!mode) {
        return false;
    }
    bool known = hr_session_peek(&session);
    if (known && stat->st_dev != session.control->cache_dev) {
        return false;
    }
    if (!known && ((fd >= 0 && !named_like_ours(fd)) || hr_session_get(&session) < 0 ||
                   stat->st_dev != session.control->cache_dev)) {
        return false;
    }
    /* Without a new daemon the records of the old one are still true. */
    if (known && atomic_load_explicit(&session.control->retired, memory_order_acquire) &&
        hr_session_get(&session) == 0 && stat->st_dev != session.control->cache_dev) {
        return false;
    }
    const struct hr_residents *table = hr_session_residents();
    uint32_t nonce = (uint32_t)stat->st_mtim.tv_nsec;
    return table &&
           lookup(table, stat->st_ino, mode == HR_FACE_FILE_MODE, (uint64_t)stat->st_size, nonce, ret);
}

enum hr_face_look hr_identity_face(int fd, const struct stat *stat, struct hr_identity *ret)
{
    if (form_of(stat) != HR_FACE_FILE_MODE) {
        return HR_FACE_NOT;
    }
    if (find_identity(fd, stat, ret)) {
        return HR_FACE_FOUND;
    }
    return named_like_ours(fd) ? HR_FACE_LOST : HR_FACE_NOT;
}

static struct hr_object object_of(const struct hr_identity *identity)
{
    return (struct hr_object){.kind = HR_KIND_FILE,
                              .size = identity->size,
                              .mtime_ns = identity->mtime_ns,
                              .ino = identity->ino,
                              .dev = identity->dev};
}

/* What a descriptor stands for; false: the kernel's answer stands. */
static bool find_object(int fd, const struct stat *stat, struct hr_object *ret)
{
    struct hr_identity identity;
    struct hr_place place;
    if (HR_UNLIKELY(S_ISDIR(stat->st_mode) && hr_standin_maybe(fd))) {
        return hr_path_of_fd(fd, &place) && hr_view_find(&place, ret) == 0;
    }
    if (!find_identity(fd, stat, &identity)) {
        return false;
    }
    *ret = object_of(&identity);
    return true;
}

void hr_identity_stat(int fd, struct stat *stat)
{
    struct hr_object object;
    if (find_object(fd, stat, &object)) {
        hr_view_stat(&object, stat);
    }
}

void hr_identity_stat_path(struct stat *stat)
{
    struct hr_identity identity;
    if (form_of(stat) == HR_FACE_FILE_MODE && find_identity(-1, stat, &identity)) {
        struct hr_object object = object_of(&identity);
        hr_view_stat(&object, stat);
    }
}

void hr_identity_statx(int fd, unsigned mask, struct statx *stat)
{
    struct hr_object object;
    uint64_t major = stat->stx_dev_major;
    uint64_t minor = stat->stx_dev_minor;
    struct stat plain = {
        /* glibc's dev_t, which is the kernel's new_encode_dev for numbers of 32 bits */
        .st_dev =
            (minor & 0xff) | (major & 0xfff) << 8 | (minor & ~0xffull) << 12 | (major & ~0xfffull) << 32,
        .st_ino = stat->stx_ino,
        .st_mode = stat->stx_mode,
        .st_nlink = stat->stx_nlink,
        .st_uid = stat->stx_uid,
        .st_size = (off_t)stat->stx_size,
        .st_mtim = {.tv_sec = stat->stx_mtime.tv_sec, .tv_nsec = stat->stx_mtime.tv_nsec},
    };
    if (find_object(fd, &plain, &object)) {
        hr_view_statx(&object, mask, stat);
    }
}

bool hr_identity_of(int fd, struct hr_identity *ret)
{
    struct stat stat;
    return HR_SYS2(SYS_fstat, fd, &stat) == 0 && find_identity(fd, &stat, ret);
}

bool hr_identity_fd(int fd, struct stat *ret)
{
    struct hr_identity identity;
    if (!hr_identity_of(fd, &identity)) {
        return false;
    }
    struct hr_object object = object_of(&identity);
    hr_view_stat(&object, ret);
    return true;
}
