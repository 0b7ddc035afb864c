/* Readers of large objects: windows, caches that are smaller than the object, other versions, trouble,
 * identities. */
#include "fetch/cache/inside.h"
#include "tests/unit/plan/segments.h"

static void test_reading_on_brings_whole_cells_ahead(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t size = 52 * MIB + 5;
    uint64_t face = open_one(lab, &(struct lab_options){0}, size, &object);
    struct hr_answer answer;
    assert_int_equal(lab_get_bytes(lab, face, 0, 4096, false, &answer), 0);
    assert_int_equal(answer.size, HR_CELL_BYTES);
    lab_settle(lab);
    assert_int_equal(object->gets, 2); /* one ahead */
    assert_int_equal(lab_get_bytes(lab, face, 8 * MIB, 4096, false, &answer), 0);
    lab_settle(lab);
    assert_int_equal(object->gets, 6); /* four */
    assert_int_equal(lab_stats(lab).segment_misses, 1);
    lab_read(lab, face, object, 0, size);
    lab_settle(lab);
    assert_int_equal(object->gets, 7);
    assert_int_equal(asked_bytes(lab), size);
    assert_int_equal(object->unmatched, 0);
    struct hr_plan_stats stats = lab_stats(lab);
    assert_int_equal(stats.fetched[HR_REASON_DEMAND] + stats.fetched[HR_REASON_WINDOW], 7);
    assert_true(stats.fetched[HR_REASON_WINDOW] >= 3); /* the others were waited for in the end */
}

/* From the middle on, too, once the run is long. */
static void test_reading_on_from_the_middle(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){0}, 140 * MIB, &object);
    for (uint64_t at = 99 * MIB; at < 130 * MIB;) {
        struct hr_answer answer;
        assert_int_equal(lab_get_bytes(lab, face, at, 128 * KIB, false, &answer), 0);
        lab_check_bytes(lab, answer.file_id, object, answer.offset, answer.size);
        at = answer.offset + answer.size;
    }
    lab_settle(lab);
    assert_true(lab_stats(lab).in_flight_max >= 2); /* a cell and the one behind it */
    assert_int_equal(object->gets, 3 + 6);          /* 128 KiB, 384 KiB, 1.5 MiB; cells to the end */
}

static void test_a_long_read_is_asked_side_by_side(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){.memory_bytes = 80 * MIB}, 100 * MIB, &object);
    s3_hold(lab->s3, true, false);
    lab_ask_bytes(lab, 1, face, 20 * MIB, 20 * MIB, false, 1);
    assert_int_equal(lab_stats(lab).in_flight, 3);
    s3_hold(lab->s3, false, false);
    lab_read(lab, face, object, 20 * MIB, 20 * MIB);
    lab_settle(lab);
    assert_int_equal(object->gets, 3);
    assert_int_equal(asked_bytes(lab), 20 * MIB);                /* not a byte more */
    lab_ask_bytes(lab, 2, face, 40 * MIB, UINT64_MAX, false, 1); /* to the end, as far as the bounds go */
    lab_settle(lab);
    assert_int_equal(lab->answers[1].answer.error, 0);
    assert_int_equal(asked_bytes(lab), 80 * MIB);
}

static void test_two_cells_are_not_taken_to_pieces(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){.small_max_bytes = 64 * KIB}, 9 * MIB + 77, &object);
    lab_read(lab, face, object, 9 * MIB, 77);
    check_range(lab, 0, 8 * MIB, 1 * MIB + 77);
    lab_read(lab, face, object, 3 * MIB, 77);
    check_range(lab, 1, 0, 8 * MIB);
    assert_int_equal(object->gets, 2);
    lab_settle(lab);
}

/* An object that never fits is read to its end, and again. */
static void test_object_larger_than_the_cache_streams(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t size = 70 * MIB + 11;
    uint64_t face = open_one(lab, &(struct lab_options){.cache_bytes = 34 * MIB, .memory_bytes = 32 * MIB},
                             size, &object);
    for (int round = 0; round < 2; round++) {
        lab_read(lab, face, object, 0, size);
    }
    lab_settle(lab);
    unsigned gets =
        object->gets; /* what is brought ahead stays until read; the second round hits what is kept */
    assert_in_range(gets - lab_extra_parts(lab), 9, 18);
    assert_true(cache_stats(lab).bytes <= 34 * MIB);
    assert_true(cache_stats(lab).evictions > 0);
    assert_int_equal(lab_get_bytes(lab, face, 0, 1, true, NULL), -ENOSPC);
    assert_non_null(strstr(lab->control->trees[lab->tree].message, "bucket/big"));
    assert_non_null(strstr(lab->control->trees[lab->tree].message, "cache_size"));
    assert_int_equal(object->gets, gets);
    assert_int_equal(HR_STATE_KIND(lab_word(lab, "big")), HR_STATE_FACE); /* it can still be read */
}

/* What was answered is there to be opened, however long the program takes to come: here all that is on its
 * way arrives first, in the room of what was used last. */
static void test_an_answer_can_be_opened(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t size = 70 * MIB + 11;
    uint64_t face = open_one(lab, &(struct lab_options){.cache_bytes = 34 * MIB, .memory_bytes = 32 * MIB},
                             size, &object);
    hr_loop_disarm(lab->loop, &lab->cache->tick); /* no moment passes */
    unsigned gone = 0;
    for (int round = 0; round < 2; round++) {
        for (uint64_t at = 0; at < size;) {
            struct hr_answer answer;
            assert_int_equal(lab_get_bytes(lab, face, at, size - at, false, &answer), 0);
            lab_settle(lab);
            gone += hr_cache_by_id(lab->cache, answer.file_id) == NULL;
            lab_check_bytes(lab, answer.file_id, object, answer.offset, answer.size);
            at = answer.offset + answer.size;
        }
    }
    assert_true(gone > 0); /* it has left the cache by then, and can be read all the same */
}

/* More waiters than room: all are served, nothing spins. */
static void test_many_random_readers_in_a_small_cache(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){.cache_bytes = 10 * MIB}, 4 * GIB, &object);
    askers = 100;
    for (unsigned i = 1; i <= askers; i++) {
        lab_ask_bytes(lab, i, face, (5 + 3 * i) * HR_CELL_BYTES + 1 * MIB, 1 * MIB, false, i);
    }
    lab_until(lab, all_told);
    for (unsigned i = 1; i <= askers; i++) {
        assert_int_equal(lab->answers[i].answer.error, 0);
        assert_int_equal(lab->answers[i].answer.size, 1 * MIB);
    }
    lab_settle(lab);
    assert_int_equal(object->gets, 100);
    assert_true(cache_stats(lab).bytes <= 10 * MIB);
}

static void test_another_version_is_estale(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){0}, 100 * MIB, &object);
    lab_read(lab, face, object, 50 * MIB, 100);
    snprintf(object->etag, sizeof object->etag, "%s", "0123456789abcdef0123456789abcdef-9");
    s3_hold(lab->s3, true, false);
    askers = 3;
    for (unsigned i = 1; i <= askers; i++) {
        lab_ask_bytes(lab, i, face, 70 * MIB, 100, false, i);
    }
    s3_hold(lab->s3, false, false);
    lab_until(lab, all_told);
    for (unsigned i = 1; i <= askers; i++) {
        assert_int_equal(lab->answers[i].answer.error, -ESTALE);
    }
    assert_non_null(strstr(lab->control->trees[lab->tree].message, "changed=follow"));
    assert_int_equal(lab_get_bytes(lab, face, 50 * MIB, 100, false, NULL), 0); /* is there */
    assert_int_equal(HR_STATE_KIND(lab_word(lab, "big")), HR_STATE_FACE);
    object->always = S3_MISSING;
    assert_int_equal(lab_get_bytes(lab, face, 70 * MIB, 100, false, NULL), -ESTALE); /* never ENOENT */
    object->always = S3_FINE;
    object->size = 99 * MIB;
    object->etag[0] = '\0'; /* a store that ignores the condition */
    assert_int_equal(lab_get_bytes(lab, face, 70 * MIB, 100, false, NULL), -ESTALE);
    lab_settle(lab);
}

/* What is open is lost; who opens again gets the new version. */
static void test_another_version_is_followed(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){.follow = true}, 100 * MIB, &object);
    struct hr_answer answer;
    object->version = 77;
    snprintf(object->etag, sizeof object->etag, "%s", "0123456789abcdef0123456789abcdef-9");
    memcpy(object->listed_etag, object->etag, sizeof object->etag);
    assert_int_equal(lab_get_bytes(lab, face, 70 * MIB, 100, false, NULL), -ESTALE);
    assert_true(HR_STATE_BY_NAME(lab_word(lab, "big")));
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "big", &answer), 0);
    assert_true(answer.flags & HR_ANSWER_FACE);
    assert_int_not_equal(answer.file_id, face);
    lab_read(lab, answer.file_id, object, 70 * MIB, 100);
    lab_settle(lab);
}

static void test_trouble_is_told_to_readers(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){.timeout_ms = 300}, 100 * MIB, &object);
    object->fault[0] = S3_TRUNCATED; /* passes */
    lab_read(lab, face, object, 30 * MIB, 100);
    object->always = S3_REFUSED;
    assert_int_equal(lab_get_bytes(lab, face, 70 * MIB, 100, false, NULL), -EACCES);
    object->always = S3_BROKEN;
    assert_int_equal(lab_get_bytes(lab, face, 70 * MIB, 100, false, NULL), -EIO);
    assert_non_null(strstr(lab->control->trees[lab->tree].message, "InternalError"));
    object->always = S3_FINE;
    lab_read(lab, face, object, 70 * MIB, 100);
    lab_settle(lab);
}

static void test_wild_asks(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){0}, 100 * MIB, &object);
    struct hr_answer answer;
    assert_int_equal(lab_get_bytes(lab, face + 1000, 0, 1, false, NULL), -ESTALE);
    assert_int_equal(lab_get_bytes(lab, 0, 0, 1, true, NULL), -ESTALE);
    assert_int_equal(lab_get_bytes(lab, face, 100 * MIB, 1, false, NULL), -EINVAL);
    assert_int_equal(lab_get_bytes(lab, face, UINT64_MAX, UINT64_MAX, false, NULL), -EINVAL);
    assert_int_equal(lab_get_bytes(lab, face, 0, 0, false, NULL), -EINVAL);
    assert_int_equal(s3_gets(lab->s3), 0);
    assert_int_equal(lab_get_bytes(lab, face, 100 * MIB - 1, UINT64_MAX, false, &answer), 0);
    assert_int_equal(lab_get_bytes(lab, answer.file_id, 0, 1, false, NULL), -ESTALE); /* no face */
    lab_settle(lab);
}

/* ---- identities ---- */

static const char *other_env(void *owner, const char *name)
{
    if (strcmp(name, "AWS_ACCESS_KEY_ID") == 0 || strcmp(name, "AWS_SECRET_ACCESS_KEY") == 0) {
        return "other";
    }
    return lab_env(owner, name);
}

static void test_each_identity_asks_for_itself(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    struct hr_store *other = NULL;
    char message[256];
    uint64_t face = open_one(lab, &(struct lab_options){0}, 100 * MIB, &object);
    struct hr_store_options options = {.url = "s3://bucket/", .env = other_env, .env_owner = lab};
    assert_int_equal(hr_store_new(lab->stores, &options, message, &other), 0);
    struct hr_tree_settings settings = {.revalidate_s = 3600};
    uint32_t tree, elsewhere;
    assert_int_equal(hr_plan_tree(lab->plan, other, "x/", 2, &settings, &elsewhere), 0);
    assert_int_equal(hr_plan_tree(lab->plan, other, "", 0, &settings, &tree), 0);
    hr_store_unref(other);
    struct hr_context *context = &lab->control->contexts[3];
    context->map_count = 2;
    context->tree[0] = elsewhere; /* the object is not below it */
    context->tree[1] = tree;
    atomic_store(&context->ready, 1);
    s3_hold(lab->s3, true, false);
    lab_ask_bytes(lab, 1, face, 50 * MIB, 100, false, 1);
    struct hr_asker asker = {.fn = lab_answered, .owner = lab, .ticket = 2};
    struct hr_reader reader = {.context = 3, .tree = UINT32_MAX, .pid = 2, .tid = 2};
    struct hr_segment_ask ask = {.face_id = face, .offset = 50 * MIB, .bytes = 100};
    lab->answers[2] = (struct lab_answer){0};
    hr_plan_segment(lab->plan, &reader, &ask, false, &asker);
    assert_int_equal(hr_want_cell(hr_tree_get(lab->plan, tree), face, 50 * MIB)->tree->number, tree);
    assert_int_equal(lab_stats(lab).in_flight, 2);
    s3_hold(lab->s3, false, false);
    askers = 2;
    lab_until(lab, all_told);
    assert_int_equal(lab->answers[1].answer.error, 0);
    assert_int_equal(lab->answers[2].answer.error, 0);
    assert_int_equal(object->gets, 2);
    lab_settle(lab);
    assert_int_equal(cache_stats(lab).segments, 1); /* the bytes are the same */
    /* A job that knows nothing of the bucket: any tree of it will do. */
    reader.context = 900;
    ask.offset = 60 * MIB;
    askers = 2;
    lab->answers[2] = (struct lab_answer){0};
    hr_plan_segment(lab->plan, &reader, &ask, false, &asker);
    lab_until(lab, all_told);
    assert_int_equal(lab->answers[2].answer.error, 0);
    lab_settle(lab);
}

static void test_end_in_the_middle(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object;
    uint64_t face = open_one(lab, &(struct lab_options){0}, 100 * MIB, &object);
    lab_read(lab, face, object, 8 * MIB, 8 * MIB);
    lab_settle(lab);
    s3_hold(lab->s3, true, false);
    lab_ask_bytes(lab, 1, face, 50 * MIB, 20 * MIB, false, 1);
    lab_ask_bytes(lab, 2, face, 50 * MIB, 100, false, 2);
    lab_ask_bytes(lab, 3, face, 0, 1, true, 3);
    lab_cut_off(lab);
    lab_ask_bytes(lab, 4, face, 50 * MIB, 1, false, 4);
    lab_close_cancels(lab, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define LAB_TEST(name) cmocka_unit_test_setup_teardown(name, lab_set_up, lab_tear_down)
        LAB_TEST(test_reading_on_brings_whole_cells_ahead),
        LAB_TEST(test_reading_on_from_the_middle),
        LAB_TEST(test_a_long_read_is_asked_side_by_side),
        LAB_TEST(test_two_cells_are_not_taken_to_pieces),
        LAB_TEST(test_object_larger_than_the_cache_streams),
        LAB_TEST(test_an_answer_can_be_opened),
        LAB_TEST(test_many_random_readers_in_a_small_cache),
        LAB_TEST(test_another_version_is_estale),
        LAB_TEST(test_another_version_is_followed),
        LAB_TEST(test_trouble_is_told_to_readers),
        LAB_TEST(test_wild_asks),
        LAB_TEST(test_each_identity_asks_for_itself),
        LAB_TEST(test_end_in_the_middle),
#undef LAB_TEST
    };
    return cmocka_run_group_tests_name("plan readers", tests, NULL, NULL);
}
