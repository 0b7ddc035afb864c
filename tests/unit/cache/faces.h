/* Faces and segments in the cache's tests: made, and checked against what they should hold. */
#ifndef TESTS_UNIT_CACHE_FACES_H
#define TESTS_UNIT_CACHE_FACES_H

#include "tests/unit/cache/lab.h"

#define CELL ((uint64_t)HR_CELL_BYTES)
#define LARGE (5 * CELL + 12345) /* an object that ends inside a page */

LAB_FN int face_try(struct lab *lab, const char *key, const char *etag, uint64_t size, uint64_t *ret_id)
{
    struct lab_put state = {.lab = lab};
    struct hr_put_options options = lab_options(&state, key, etag, size);
    options.kind = HR_CACHED_FACE;
    int r = hr_put_begin(lab->cache, &options, &state.put);
    if (r < 0) {
        return r;
    }
    hr_put_finish(state.put, NULL);
    lab_wait(&state);
    *ret_id = state.file_id;
    assert_true(state.error || state.kind == HR_CACHED_FACE);
    return state.error;
}

LAB_FN uint64_t face_put(struct lab *lab, const char *key, uint64_t size)
{
    uint64_t id = 0;
    assert_int_equal(face_try(lab, key, "e", size, &id), 0);
    return id;
}

LAB_FN int segment_begin(struct lab *lab, struct lab_put *state, const char *key, uint64_t face_id,
                         uint64_t offset, uint64_t size)
{
    *state = (struct lab_put){.lab = lab};
    struct hr_put_options options = lab_options(state, key, "e", size);
    options.kind = HR_CACHED_SEGMENT;
    options.face_id = face_id;
    options.offset = offset;
    return hr_put_begin(lab->cache, &options, &state->put);
}

/* The bytes of the object behind `offset`, as the put's bytes from 0. */
LAB_FN void segment_give(struct lab_put *state, const char *key, uint64_t offset, uint64_t size)
{
    struct hr_buf part;
    lab_fill(&part, key, offset, size);
    assert_int_equal(hr_put_part(state->put, 0, &part, lab_on_written, state), 0);
}

LAB_FN int segment_try(struct lab *lab, const char *key, uint64_t face_id, uint64_t offset, uint64_t size,
                       uint64_t *ret_id)
{
    struct lab_put state;
    int r = segment_begin(lab, &state, key, face_id, offset, size);
    if (r < 0) {
        return r;
    }
    segment_give(&state, key, offset, size);
    hr_put_finish(state.put, NULL);
    lab_wait(&state);
    assert_int_equal(state.written_bytes, size);
    *ret_id = state.file_id;
    return state.error;
}

LAB_FN uint64_t segment_put(struct lab *lab, const char *key, uint64_t face_id, uint64_t offset,
                            uint64_t size)
{
    uint64_t id = 0;
    assert_int_equal(segment_try(lab, key, face_id, offset, size, &id), 0);
    return id;
}

/* Is the segment's file there, 0400, and does it hold these bytes of the object? */
LAB_FN bool range_right(const struct lab *lab, uint64_t file_id, const char *key, uint64_t offset,
                        uint64_t size)
{
    char path[PATH_MAX];
    struct stat st;
    struct hr_buf want;
    lab_path(lab, file_id, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    lab_fill(&want, key, offset, size);
    char *got = malloc(size + 1);
    bool right = !fstat(fd, &st) && (st.st_mode & 07777) == 0400 && (uint64_t)st.st_size == size &&
                 read(fd, got, size + 1) == (ssize_t)size && !memcmp(got, want.data, size);
    free(got);
    hr_buf_release(&want);
    (void)close(fd);
    return right;
}

LAB_FN bool segment_right(const struct lab *lab, const struct hr_cached *cached)
{
    return range_right(lab, cached->file_id, hr_cached_key(cached), hr_cached_offset(cached), cached->size);
}

LAB_FN struct hr_cache_stats stats_of(struct lab *lab)
{
    struct hr_cache_stats stats;
    hr_cache_stats(lab->cache, &stats);
    return stats;
}

LAB_FN const struct hr_cached *find_face(struct lab *lab, const char *key)
{
    return hr_cache_face(lab->cache, &lab_source, key, (uint32_t)strlen(key), "e");
}

/* file_id of the segment that is found at an offset, 0: none. */
LAB_FN uint64_t id_at(struct lab *lab, uint64_t face_id, uint64_t offset)
{
    const struct hr_cached *cached = hr_cache_segment(lab->cache, face_id, offset);
    assert_true(!cached ||
                (cached->kind == HR_CACHED_SEGMENT && hr_cached_face_id(cached) == face_id &&
                 hr_cached_offset(cached) <= offset && offset - hr_cached_offset(cached) < cached->size));
    return cached ? cached->file_id : 0;
}

LAB_FN int lab_setup(void **state)
{
    struct lab *lab = malloc(sizeof(*lab));
    lab_start(lab);
    *state = lab;
    return 0;
}

LAB_FN int lab_teardown(void **state)
{
    lab_end(*state);
    free(*state);
    return 0;
}

#endif
