/* A face in a tree, opened by its name. */
#ifndef HR_TESTS_FACE_ENTRY_H
#define HR_TESTS_FACE_ENTRY_H

#include "tests/unit/interpose/fake_face.h"
#include "tests/unit/interpose/fake_group.h"

#define LARGE FAKE_MAP "/b.txt"
#define SEGMENT ((off_t)FAKE_SEGMENT_BYTES)
#define SIZE ((off_t)FAKE_LARGE_BYTES)

static char buffer[4 * FAKE_SEGMENT_BYTES];

/* A fresh face: no segment of it is known to anybody. */
static inline int fresh(void **state)
{
    (void)state;
    fake_face_of(&fake, FAKE_B);
    for (int op = 0; op < HR_OP_COUNT; op++) {
        atomic_store(&fake.requests[op], 0);
    }
    return 0;
}

static inline int open_large(void)
{
    errno = 4321;
    int fd = open(LARGE, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(errno, 4321);
    return fd;
}

#endif
