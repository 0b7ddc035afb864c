/* The index of segments alone, against a list that is searched from end to end. */
#include "tests/unit/cache/faces.h"

#include "fetch/cache/inside.h"

#define PAGES (HR_CELL_BYTES / 4096)

static struct hr_object *new_segment(uint64_t face_id, uint64_t offset, uint64_t size)
{
    struct hr_object_segment *segment = calloc(1, sizeof(*segment));
    assert_non_null(segment);
    segment->object.cached = (struct hr_cached){.kind = HR_CACHED_SEGMENT, .size = size, .file_id = 1};
    segment->face_id = face_id;
    segment->offset = offset;
    return &segment->object;
}

static bool holds(const struct hr_object *object, uint64_t face_id, uint64_t offset, uint64_t size)
{
    uint64_t first = hr_cached_offset(&object->cached);
    return hr_cached_face_id(&object->cached) == face_id && first <= offset &&
           offset + size <= first + object->cached.size;
}

struct model {
    struct hr_object *list[8192];
    size_t count;
};

static void check_at(const struct hr_segments *segments, const struct model *model, uint64_t face_id,
                     uint64_t offset)
{
    const struct hr_object *found = hr_segments_at(segments, face_id, offset);
    uint64_t longest = 0;
    uint64_t bytes = 0;
    unsigned count = 0;
    unsigned is_count = 0;
    uint64_t is_bytes = 0;
    for (size_t i = 0; i < model->count; i++) {
        const struct hr_cached *cached = &model->list[i]->cached;
        if (holds(model->list[i], face_id, offset, 1) && cached->size > longest) {
            longest = cached->size;
        }
        if (hr_cached_face_id(cached) == face_id &&
            hr_cached_offset(cached) / HR_CELL_BYTES == offset / HR_CELL_BYTES) {
            count++;
            bytes += cached->size;
        }
    }
    assert_true(found ? holds(found, face_id, offset, 1) && found->cached.size == longest : !longest);
    hr_segments_measure(segments, face_id, offset, &is_count, &is_bytes);
    assert_true(is_count == count && is_bytes == bytes);
}

static void forget(struct hr_segments *segments, struct model *model, struct hr_object_face *faces,
                   struct hr_object *object)
{
    size_t at = 0;
    while (model->list[at] != object) {
        assert_true(++at < model->count);
    }
    model->list[at] = model->list[--model->count];
    hr_segments_remove(segments, &faces[hr_cached_face_id(&object->cached) - 1].object, object);
    free(object);
}

static void random_ranges(void **state)
{
    (void)state;
    struct hr_segments segments = {0};
    struct hr_object_face *faces = calloc(3, sizeof(*faces));
    static struct model model;
    model.count = 0;
    srand(7);
    for (int f = 0; f < 3; f++) {
        faces[f].object.cached.file_id = (uint64_t)f + 1;
    }
    for (int step = 0; step < 30000; step++) {
        uint64_t face_id = 1 + (uint64_t)(rand() % 3);
        uint64_t page = (uint64_t)rand() % PAGES;
        uint64_t most = PAGES - page < 9 || rand() % 200 == 0 ? PAGES - page : 9;
        uint64_t size = (1 + (uint64_t)rand() % most) * 4096;
        uint64_t offset = (uint64_t)(rand() % 3) * CELL + page * 4096;
        bool covered = false;
        for (size_t i = 0; i < model.count && !covered; i++) {
            covered = holds(model.list[i], face_id, offset, size);
        }
        struct hr_object *over = hr_segments_over(&segments, face_id, offset, size);
        assert_true((over != NULL) == covered && (!over || holds(over, face_id, offset, size)));
        if (!covered) {
            struct hr_object *segment = new_segment(face_id, offset, size);
            struct hr_object *inside = NULL;
            while ((inside = hr_segments_inside(&segments, face_id, offset, size))) {
                assert_true(holds(segment, face_id, hr_cached_offset(&inside->cached), inside->cached.size));
                forget(&segments, &model, faces, inside);
            }
            for (size_t i = 0; i < model.count; i++) {
                const struct hr_cached *left = &model.list[i]->cached;
                assert_false(holds(segment, hr_cached_face_id(left), hr_cached_offset(left), left->size));
            }
            assert_int_equal(hr_segments_add(&segments, &faces[face_id - 1].object, segment), 0);
            model.list[model.count++] = segment;
        }
        if (model.count && rand() % 3 == 0) {
            forget(&segments, &model, faces, model.list[(size_t)rand() % model.count]);
        }
        assert_int_equal(segments.count, model.count);
        check_at(&segments, &model, face_id, (uint64_t)rand() % (3 * CELL));
    }
    while (model.count) {
        forget(&segments, &model, faces, model.list[0]);
    }
    assert_true(!segments.count && !segments.cells); /* cells go with their last segment */
    for (int f = 0; f < 3; f++) {
        assert_null(faces[f].segments);
    }
    free(faces);
}

/* An object of 2 TiB, every cell of it here. */
static void terabytes(void **state)
{
    (void)state;
    enum { CELLS = 1 << 18 };
    struct hr_segments segments = {0};
    struct hr_object_face *face = calloc(1, sizeof(*face));
    face->object.cached.file_id = 1;
    for (uint64_t i = 0; i < CELLS; i++) {
        uint64_t cell = i * 7919 % CELLS;
        assert_int_equal(hr_segments_add(&segments, &face->object, new_segment(1, cell * CELL, CELL)), 0);
    }
    for (uint64_t i = 0; i < CELLS; i++) {
        uint64_t offset = i * CELL + hr_mix64(i) % CELL;
        assert_true(holds(hr_segments_at(&segments, 1, offset), 1, offset, 1));
        assert_null(hr_segments_at(&segments, 2, offset));
    }
    assert_null(hr_segments_at(&segments, 1, CELLS * CELL));
    assert_int_equal(segments.count, CELLS);
    while (face->segments) {
        struct hr_object *segment = face->segments;
        hr_segments_remove(&segments, &face->object, segment);
        free(segment);
    }
    assert_true(!segments.count && !segments.cells);
    free(face);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_ranges),
        cmocka_unit_test(terabytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
