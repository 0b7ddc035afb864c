/* A face by its id, without a tree, and files that a part of the object was brought into. */
#ifndef HR_TESTS_FACE_FILES_H
#define HR_TESTS_FACE_FILES_H

#include "interpose/context.h"
#include "interpose/face.h"
#include "tests/unit/interpose/fake_face.h"
#include "tests/unit/interpose/fake_group.h"

#define PAGE 4096u
#define PAGES(count) ((size_t)(count)*PAGE)
#define SIZE ((size_t)FAKE_LARGE_BYTES)
#define SIZE_PAGES ((SIZE + PAGE - 1) / PAGE)

static inline int open_face(int flags)
{
    struct hr_session session;
    assert_int_equal(hr_session_get(&session), 0);
    int fd = hr_face_open(&session, fake_large.face_id, O_RDONLY | O_CLOEXEC | flags);
    assert_true(fd >= 0);
    assert_true(hr_face_maybe(fd));
    return fd;
}

static inline int new_face(void **state)
{
    (void)state;
    fake_large_new(&fake);
    return 0;
}

static inline int scratch(void)
{
    int fd = open("scratch", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    return fd;
}

static inline void holds(int fd, uint64_t offset, size_t bytes)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, bytes);
    char *content = malloc(bytes);
    assert_int_equal(pread(fd, content, bytes, 0), bytes);
    assert_true(fake_is_object(content, bytes, offset));
    free(content);
}

#endif
