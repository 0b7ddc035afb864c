/* The open of a large object that nobody listed: answered by the headers of its first range, whose body is
 * joined by who reads, asked for again when it breaks, and never mixed with another version. */
#include "tests/unit/plan/lab.h"

#define SIZE (20 * MIB + 5)

/* Opened while no byte of a body has come. The face. */
static uint64_t open_by_headers(struct lab *lab, const char *path)
{
    struct hr_answer answer;
    s3_hold_bodies(lab->s3, true);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, path, &answer), 0);
    assert_int_equal(answer.flags, HR_ANSWER_FACE);
    assert_int_equal(answer.kind, HR_KIND_FILE);
    assert_int_equal(answer.size, SIZE);
    assert_int_not_equal(answer.mtime_ns, 0);
    assert_int_equal(lab_stats(lab).in_flight, 1);
    return answer.file_id;
}

/* "big", so opened, whose first body the store sends as `fault` says. */
static struct s3_object *open_big(struct lab *lab, enum s3_fault fault, uint64_t *ret_face)
{
    struct s3_object *object = s3_add(lab->s3, "big", SIZE);
    object->fault[0] = fault;
    lab_open(lab, &(struct lab_options){0});
    *ret_face = open_by_headers(lab, "big");
    return object;
}

static void read_first(struct lab *lab, uint64_t face, uint32_t ticket)
{
    lab_ask_bytes(lab, 1, face, 4 * MIB, 100, false, ticket); /* not where reading on begins */
}

static int wait_answer(struct lab *lab, uint32_t ticket)
{
    lab_awaited = ticket;
    lab_until(lab, lab_is_answered);
    return lab->answers[ticket].answer.error;
}

static void check_first(struct lab *lab, uint32_t ticket, const struct s3_object *object)
{
    const struct hr_answer *answer = &lab->answers[ticket].answer;
    assert_int_equal(wait_answer(lab, ticket), 0);
    assert_int_equal(answer->offset, 0);
    assert_int_equal(answer->size, 8 * MIB);
    lab_check_bytes(lab, answer->file_id, object, 0, 8 * MIB);
}

/* ...when it is read after its body came. */
static void check_read(struct lab *lab, uint64_t face, uint32_t ticket, const struct s3_object *object)
{
    read_first(lab, face, ticket);
    check_first(lab, ticket, object);
    lab_settle(lab);
}

static void test_open_waits_for_headers_only(void **state)
{
    struct lab *lab = *state;
    uint64_t face;
    struct s3_object *object = open_big(lab, S3_FINE, &face);
    read_first(lab, face, 5);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "big", NULL), 0); /* known by now */
    lab_run_ms(lab, 40);
    assert_int_equal(lab->answers[5].times, 0);
    s3_hold_bodies(lab->s3, false);
    check_first(lab, 5, object);
    lab_settle(lab);
    assert_int_equal(s3_gets(lab->s3), 1);
    assert_int_equal(lab_stats(lab).failed, 0);
}

/* Nobody reads: what came is there for who does later. */
static void test_body_is_kept(void **state)
{
    struct lab *lab = *state;
    uint64_t face;
    struct s3_object *object = open_big(lab, S3_FINE, &face);
    s3_hold_bodies(lab->s3, false);
    lab_settle(lab);
    check_read(lab, face, 5, object);
    assert_int_equal(s3_gets(lab->s3), 1);
    assert_int_equal(lab_stats(lab).segment_hits, 1);
}

static void test_broken_body_is_asked_again(void **state)
{
    struct lab *lab = *state;
    uint64_t face;
    struct s3_object *object = open_big(lab, S3_TRUNCATED, &face);
    read_first(lab, face, 5);
    s3_hold_bodies(lab->s3, false);
    check_first(lab, 5, object);
    lab_settle(lab);
    assert_int_equal(s3_gets(lab->s3), 2);
    assert_int_equal(object->matched, 1);
}

/* Its readers are told; who reads after that asks anew. */
static void test_body_that_fails_is_its_readers_loss(void **state)
{
    struct lab *lab = *state;
    uint64_t face;
    struct s3_object *object = open_big(lab, S3_TRUNCATED, &face);
    object->fault[1] = S3_REFUSED;
    read_first(lab, face, 5);
    s3_hold_bodies(lab->s3, false);
    assert_int_equal(wait_answer(lab, 5), -EACCES);
    lab_settle(lab);
    read_first(lab, face, 6);
    assert_int_equal(wait_answer(lab, 6), 0);
    const struct hr_answer *answer = &lab->answers[6].answer;
    lab_check_bytes(lab, answer->file_id, object, answer->offset, answer->size);
    lab_settle(lab);
    assert_int_equal(s3_gets(lab->s3), 3);
    assert_int_equal(object->matched, 1); /* the refused one is not counted */
}

static void test_another_version_is_stale(void **state)
{
    struct lab *lab = *state;
    uint64_t face;
    struct s3_object *object = open_big(lab, S3_TRUNCATED, &face);
    read_first(lab, face, 5);
    pthread_mutex_lock(&lab->s3->lock);
    object->version += 100;
    snprintf(object->etag, sizeof object->etag, "%032x-%u", object->version, 3u);
    pthread_mutex_unlock(&lab->s3->lock);
    s3_hold_bodies(lab->s3, false);
    assert_int_equal(wait_answer(lab, 5), -ESTALE);
    assert_int_equal(object->served, 0); /* refused by its If-Match */
    lab_settle(lab);
}

/* Other trees know neither its name nor its size, but the face is there, and its bytes are there or come. */
static void test_body_is_not_taken_twice(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object = s3_add(lab->s3, "d/e/big", SIZE);
    struct hr_cache_stats stats;
    lab_open(lab, &(struct lab_options){0});
    uint32_t deep = lab_tree(lab, &(struct lab_options){0}, "d/");
    uint32_t deeper = lab_tree(lab, &(struct lab_options){0}, "d/e/");
    uint64_t face = open_by_headers(lab, "d/e/big");
    lab_ask_in(lab, deep, HR_OP_OPEN, "e/big", 7);
    assert_int_equal(wait_answer(lab, 7), 0);
    assert_int_equal(lab->answers[7].answer.file_id, face);
    assert_int_equal(s3_gets(lab->s3), 2);
    s3_hold_bodies(lab->s3, false);
    lab_settle(lab);
    lab_ask_in(lab, deeper, HR_OP_OPEN, "big", 8);
    assert_int_equal(wait_answer(lab, 8), 0);
    assert_int_equal(lab->answers[8].answer.file_id, face);
    lab_settle(lab);
    assert_int_equal(s3_gets(lab->s3), 3);
    hr_cache_stats(lab->cache, &stats);
    assert_int_equal(stats.faces, 1);
    assert_int_equal(stats.bytes, 8 * MIB);
    assert_int_equal(lab_stats(lab).failed, 0);
    check_read(lab, face, 5, object);
}

/* The daemon ends while the body is on its way. */
static void test_end_with_a_body_on_its_way(void **state)
{
    struct lab *lab = *state;
    uint64_t face;
    (void)open_big(lab, S3_FINE, &face);
    read_first(lab, face, 1);
    lab_cut_off(lab);
    lab_close_cancels(lab, 1);
    s3_hold_bodies(lab->s3, false);
}

/* A small object needs no more than before. */
static void test_small_object_is_one_request(void **state)
{
    struct lab *lab = *state;
    struct hr_answer answer;
    s3_add(lab->s3, "even", 8 * MIB); /* as long as the range, and no longer */
    s3_add(lab->s3, "small", 300 * KIB);
    lab_open(lab, &(struct lab_options){0});
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "small", &answer), 0);
    assert_int_equal(answer.flags, 0);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "even", &answer), 0);
    assert_int_equal(answer.flags, 0);
    assert_int_equal(s3_gets(lab->s3), 2);
    lab_settle(lab);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, lab_set_up, lab_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_open_waits_for_headers_only), TEST(test_body_is_kept),
        TEST(test_broken_body_is_asked_again),  TEST(test_body_that_fails_is_its_readers_loss),
        TEST(test_another_version_is_stale),    TEST(test_body_is_not_taken_twice),
        TEST(test_end_with_a_body_on_its_way),  TEST(test_small_object_is_one_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
