#include "interpose/identity.h"

#include <limits.h>
#include <stdatomic.h>

#include "interpose/context.h"
#include "interpose/face.h"
#include "interpose/live.h"
#include "interpose/standin.h"
#include "interpose/sys.h"
#include "interpose/tiny.h"
#include "interpose/view_parts.h"
#include "interpose/inner.h"

#define TORN_TRIES 1000 /* of one record; the daemon writes 64 bytes */
#define ID_DIGITS 16
#define QUICK_PROBES 8 /* nearly all chains of a table that is half full are shorter */
/* A field that the daemon may be writing: acquire keeps the second look at `seq` behind it. */
#define SHARED(field) __atomic_load_n(&(field), __ATOMIC_ACQUIRE)

/* One record, whole. False: it is being written and its writer does not come on, or it is another inode's by
 * now. */
static inline bool read_record(const struct hr_resident *record, uint64_t ino, struct hr_identity *ret,
                               uint32_t *ret_nonce, uint32_t *ret_flags)
{
    for (unsigned i = 0; i < TORN_TRIES; i++) {
        uint32_t seq = atomic_load_explicit(&record->seq, memory_order_acquire);
        if (HR_UNLIKELY(seq & 1)) {
            continue;
        }
        uint64_t found = atomic_load_explicit(&record->ino, memory_order_acquire);
        ret->ino = SHARED(record->object_ino);
        ret->dev = SHARED(record->object_dev);
        ret->size = SHARED(record->size);
        ret->mtime_ns = SHARED(record->mtime_ns);
        ret->file_id = SHARED(record->file_id);
        *ret_nonce = SHARED(record->nonce);
        *ret_flags = SHARED(record->flags);
        if (HR_LIKELY(atomic_load_explicit(&record->seq, memory_order_relaxed) == seq)) {
            return found == ino;
        }
    }
    return false;
}

/* is_face: the record is a face's, whose size says nothing of its file's. */
static inline bool lookup(const struct hr_residents *table, uint64_t ino, bool is_face, uint64_t size,
                          uint32_t nonce, struct hr_identity *ret)
{
    uint32_t its_nonce;
    uint32_t flags;
    uint64_t last = table->capacity - 1;
    uint64_t at = hr_ino_slot(ino, table->capacity);
    if (ino == 0 || ino == HR_INO_GONE) {
        return false;
    }
    for (uint64_t i = 0; i <= last; i++, at = (at + 1) & last) {
        const struct hr_resident *record = &table->records[at];
        uint64_t found = atomic_load_explicit(&record->ino, memory_order_acquire);
        if (found == 0) {
            return false;
        }
        /* An inode may be there twice: evicted but open somewhere, and given again to a new file. */
        if (found == ino && read_record(record, ino, ret, &its_nonce, &flags) && its_nonce == nonce &&
            (flags & HR_RESIDENT_FACE ? is_face : !is_face && ret->size == size)) {
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
static inline unsigned form_of(const struct stat *stat)
{
    unsigned mode = stat->st_mode & 07777;
    bool form = S_ISREG(stat->st_mode) && stat->st_nlink <= 1 && stat->st_uid == (uid_t)hr_view_owner() &&
                (mode == HR_CACHE_FILE_MODE || (mode == HR_FACE_FILE_MODE && stat->st_size == 0));
    return form ? mode : 0;
}

/* Where this process has no session yet, or its daemon has gone. fd: -1 when there is none. NULL: not a cache
 * file's, or nobody is there. */
static HR_NOINLINE const struct hr_live *join(int fd, const struct stat *stat)
{
    struct hr_session session;
    const struct hr_live *live = hr_live_now();
    if (live     ? stat->st_dev != live->session.control->cache_dev
        : fd < 0 ? !hr_faces_any() /* other files of such a mode are not worth a first attach */
                 : !named_like_ours(fd)) {
        return NULL;
    }
    /* Without a new daemon the records of the old one are still true. */
    return hr_session_get(&session) < 0 ? live : session.live;
}

/* fd: -1 when there is none. */
static inline bool find_identity(int fd, const struct stat *stat, struct hr_identity *ret)
{
    unsigned mode = form_of(stat);
    if (!mode) {
        return false;
    }
    const struct hr_live *live = hr_live_now();
    if (HR_UNLIKELY(!live || hr_live_retired(live))) {
        live = join(fd, stat);
    }
    if (!live || stat->st_dev != live->session.control->cache_dev) {
        return false;
    }
    const struct hr_residents *table = hr_live_residents(live);
    if (HR_UNLIKELY(!table)) {
        table = hr_session_residents();
    }
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

static inline struct hr_object object_of(const struct hr_identity *identity)
{
    return (struct hr_object){.kind = HR_KIND_FILE,
                              .size = identity->size,
                              .mtime_ns = identity->mtime_ns,
                              .ino = identity->ino,
                              .dev = identity->dev};
}

/* What a descriptor stands for; false: the kernel's answer stands. */
static inline bool find_object(int fd, const struct stat *stat, struct hr_object *ret)
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

static HR_NOINLINE void stat_slowly(int fd, struct stat *stat)
{
    struct hr_object object;
    if (find_object(fd, stat, &object)) {
        hr_view_stat(&object, stat);
    }
}

/* The first record of an inode where its chain is short; NULL: look again. */
static inline const struct hr_resident *first_record(const struct hr_residents *table, uint64_t ino)
{
    uint64_t last = table->capacity - 1;
    uint64_t at = hr_ino_slot(ino, table->capacity);
    for (unsigned i = 0; i < QUICK_PROBES; i++, at = (at + 1) & last) {
        uint64_t found = atomic_load_explicit(&table->records[at].ino, memory_order_acquire);
        if (HR_LIKELY(found == ino)) {
            return &table->records[at];
        }
    }
    return NULL;
}

/* Of the plainest case, a whole object's file whose record is at rest. False: look again. */
static inline bool quick_identity(const struct stat *stat, struct hr_identity *ret)
{
    const struct hr_live *live = hr_live_now();
    if (!live || (stat->st_mode & (S_IFMT | 07777)) != (S_IFREG | HR_CACHE_FILE_MODE) || stat->st_nlink > 1 ||
        stat->st_uid != (uid_t)hr_view_owner() || stat->st_dev != live->session.control->cache_dev ||
        hr_live_retired(live) || stat->st_ino == 0) {
        return false;
    }
    const struct hr_residents *table = hr_live_residents(live);
    const struct hr_resident *record = table ? first_record(table, stat->st_ino) : NULL;
    if (!record) {
        return false;
    }
    uint32_t seq = atomic_load_explicit(&record->seq, memory_order_acquire);
    ret->ino = SHARED(record->object_ino);
    ret->dev = SHARED(record->object_dev);
    ret->size = SHARED(record->size);
    ret->mtime_ns = SHARED(record->mtime_ns);
    if (atomic_load_explicit(&record->ino, memory_order_acquire) != stat->st_ino ||
        SHARED(record->nonce) != (uint32_t)stat->st_mtim.tv_nsec ||
        (SHARED(record->flags) & HR_RESIDENT_FACE) || ret->size != (uint64_t)stat->st_size || (seq & 1)) {
        return false;
    }
    return atomic_load_explicit(&record->seq, memory_order_relaxed) == seq;
}

void hr_identity_stat(int fd, struct stat *stat)
{
    struct hr_identity identity;
    if (HR_UNLIKELY(!quick_identity(stat, &identity))) {
        stat_slowly(fd, stat);
        return;
    }
    /* Size, owner and kind are the kernel's already. */
    const struct timespec time = hr_view_time_of(identity.mtime_ns);
    stat->st_dev = identity.dev;
    stat->st_ino = identity.ino;
    stat->st_mode = S_IFREG | 0444;
    stat->st_nlink = 1;
    stat->st_gid = hr_view_gid;
    stat->st_blksize = (blksize_t)hr_view_io_bytes(identity.size);
    stat->st_blocks = (blkcnt_t)hr_view_blocks(identity.size);
    stat->st_atim = time;
    stat->st_mtim = time;
    stat->st_ctim = time;
}

void hr_identity_stat_path(struct stat *stat)
{
    struct hr_identity identity;
    if (find_identity(-1, stat, &identity)) {
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
