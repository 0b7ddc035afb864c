/* The large object of fake_large.h as an entry of the tree, its record, and evictions of its segments. */
#ifndef HR_TESTS_FAKE_FACE_H
#define HR_TESTS_FAKE_FACE_H

#include "tests/unit/interpose/fake_large.h"

#define FAKE_SEGMENTS ((FAKE_LARGE_BYTES + FAKE_SEGMENT_BYTES - 1) / FAKE_SEGMENT_BYTES)

/* As nobody has read it yet. */
__attribute__((unused)) static void fake_face_of(struct fake *fake, uint32_t entry)
{
    fake_large_new(fake);
    atomic_store(&fake->states->states[entry].file_id, fake_large.face_id);
    fake_set_state(fake, entry, HR_STATE_FACE, 0);
}

__attribute__((unused)) static struct hr_resident *fake_face_record(struct fake *fake)
{
    for (unsigned i = 0; i < FAKE_RESIDENTS; i++) {
        if (fake->residents->records[i].file_id == fake_large.face_id) {
            return &fake->residents->records[i];
        }
    }
    FAKE_MUST(false);
    return NULL;
}

/* What a daemon does that finds the face of an earlier life. */
__attribute__((unused)) static void fake_face_adopt(struct fake *fake, struct fake *earlier)
{
    const struct hr_resident *record = fake_face_record(earlier);
    memcpy(&fake->residents->records[hr_ino_slot(record->ino, FAKE_RESIDENTS)], record, sizeof(*record));
    fake->large = earlier->large;
}

__attribute__((unused)) static const char *fake_segment_path(struct fake *fake, unsigned number)
{
    uint64_t id = atomic_load(&fake_large.segments[number]);
    return fake_path(fake, "objects/%02x/%016llx", (unsigned)(id & 0xff), (unsigned long long)id);
}

/* As an eviction does. */
__attribute__((unused)) static void fake_drop_segment(struct fake *fake, unsigned number)
{
    const char *path = fake_segment_path(fake, number);
    if (atomic_exchange(&fake_large.segments[number], 0)) {
        FAKE_MUST(unlink(path) == 0);
    }
}

__attribute__((unused)) static void fake_drop_segments(struct fake *fake)
{
    for (unsigned i = 0; i < FAKE_SEGMENTS; i++) {
        fake_drop_segment(fake, i);
    }
}

#endif
