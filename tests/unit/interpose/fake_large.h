/* A large object in the daemon of fake.h that needs no index: its face, and segments and a whole file that
 * are made when they are asked for. No byte of it is zero, so that a hole shows. Beside fake_face.h, which
 * puts one into the tree. */
#ifndef HR_TESTS_FAKE_LARGE_H
#define HR_TESTS_FAKE_LARGE_H

#include "tests/unit/interpose/fake.h"

#define FAKE_SEGMENT_BYTES 65536u /* a multiple of 4096 */
#define FAKE_SEGMENTS_MAX 64u
#define FAKE_LARGE_BYTES (5u * FAKE_SEGMENT_BYTES + 12345u)

static struct {
    _Atomic uint64_t face_id;
    _Atomic uint64_t segments[FAKE_SEGMENTS_MAX]; /* file ids; 0: not made yet */
    _Atomic uint64_t whole;
    _Atomic int segment_error; /* what an ask at fails_at or beyond is answered with, or 0 */
    _Atomic uint64_t fails_at;
    _Atomic int whole_error;
    _Atomic uint64_t last_wanted; /* bytes of the last SEGMENT ask */
} fake_large;

static unsigned char fake_byte(uint64_t offset)
{
    return (unsigned char)(1 + hr_mix64(offset + 1) % 255);
}

__attribute__((unused)) static bool fake_is_object(const void *bytes, size_t len, uint64_t offset)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < len; i++) {
        if (at[i] != fake_byte(offset + i)) {
            return false;
        }
    }
    return true;
}

/* A file of that part of the object, with a nonce; its record when it is a face's. */
static uint64_t fake_large_file(struct fake *fake, uint64_t offset, uint64_t bytes, mode_t mode)
{
    struct stat st;
    uint64_t id = ++fake->next_file_id;
    mkdir(fake_path(fake, "objects/%02x", (unsigned)(id & 0xff)), 0700);
    const char *path = fake_path(fake, "objects/%02x/%016llx", (unsigned)(id & 0xff), (unsigned long long)id);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    unsigned char *content = malloc(bytes + 1);
    FAKE_MUST(fd >= 0 && content);
    for (uint64_t i = 0; i < bytes; i++) {
        content[i] = fake_byte(offset + i);
    }
    FAKE_MUST(write(fd, content, bytes) == (ssize_t)bytes);
    free(content);
    struct timespec times[2] = {{.tv_nsec = UTIME_NOW},
                                {.tv_sec = 1, .tv_nsec = (long)(hr_mix64(id) % 1000000000u)}};
    FAKE_MUST(futimens(fd, times) == 0 && syscall(SYS_fstat, fd, &st) == 0);
    close(fd);
    if (mode != 0200) {
        return id;
    }
    uint64_t at = hr_ino_slot(st.st_ino, FAKE_RESIDENTS);
    while (fake->residents->records[at].ino != 0) {
        at = (at + 1) % FAKE_RESIDENTS;
    }
    struct hr_resident *record = &fake->residents->records[at];
    atomic_fetch_add(&record->seq, 1);
    record->nonce = (uint32_t)times[1].tv_nsec;
    record->size = FAKE_LARGE_BYTES;
    record->mtime_ns = FAKE_MTIME_NS;
    record->object_dev = FAKE_DEV;
    record->object_ino = hr_object_ino(FAKE_SALT, "p/", 2, "large", 5);
    record->flags = HR_RESIDENT_FACE;
    record->file_id = id;
    atomic_store(&record->ino, st.st_ino);
    atomic_fetch_add(&record->seq, 1);
    return id;
}

static void fake_whole_or_segment(struct fake *fake, const struct hr_slot *slot, struct hr_answer *answer)
{
    struct hr_segment_ask ask;
    FAKE_MUST(slot->path_len == sizeof(ask));
    memcpy(&ask, slot->path, sizeof(ask));
    FAKE_MUST(ask.bytes >= 1 && ask.offset < FAKE_LARGE_BYTES && ask.bytes <= FAKE_LARGE_BYTES - ask.offset);
    bool whole = slot->op == HR_OP_WHOLE;
    answer->error = ask.face_id != fake_large.face_id                 ? -ESTALE
                    : whole                                           ? atomic_load(&fake_large.whole_error)
                    : ask.offset >= atomic_load(&fake_large.fails_at) ? atomic_load(&fake_large.segment_error)
                                                                      : 0;
    if (answer->error) {
        return;
    }
    uint64_t number = ask.offset / FAKE_SEGMENT_BYTES;
    _Atomic uint64_t *file = whole ? &fake_large.whole : &fake_large.segments[number];
    answer->offset = whole ? 0 : number * FAKE_SEGMENT_BYTES;
    answer->size = FAKE_LARGE_BYTES - answer->offset;
    if (!whole) {
        atomic_store(&fake_large.last_wanted, ask.bytes);
        answer->size = answer->size < FAKE_SEGMENT_BYTES ? answer->size : FAKE_SEGMENT_BYTES;
    }
    if (!*file) {
        *file = fake_large_file(fake, answer->offset, answer->size, 0400);
    }
    answer->file_id = *file;
}

/* The object as nobody has read it yet: a new face, no segments. */
__attribute__((unused)) static void fake_large_new(struct fake *fake)
{
    fake->large = fake_whole_or_segment;
    atomic_store(&fake_large.whole, 0);
    atomic_store(&fake_large.last_wanted, 0);
    atomic_store(&fake_large.whole_error, 0);
    atomic_store(&fake_large.segment_error, 0);
    atomic_store(&fake_large.fails_at, 0);
    for (unsigned i = 0; i < sizeof(fake_large.segments) / sizeof(fake_large.segments[0]); i++) {
        atomic_store(&fake_large.segments[i], 0);
    }
    atomic_store(&fake_large.face_id, fake_large_file(fake, 0, 0, 0200));
}

#endif
