/* Refusals, damage, changes: what a program is told is what happened, and nobody waits for ever. */
#include "fetch/plan/adopting.h"
#include "tests/unit/plan/lab.h"

static void open_listed(struct lab *lab)
{
    lab_open(lab, &(struct lab_options){0});
    lab_list(lab);
}

static const char *message_of(struct lab *lab)
{
    return lab->control->trees[lab->tree].message;
}

static void test_errors_are_told_as_they_are(void **state)
{
    struct lab *lab = *state;
    static const struct {
        const char *key;
        enum s3_fault fault;
        int error;
        const char *says;
    } cases[] = {
        {"a-missing", S3_MISSING, -ENOENT, "404"}, {"b-refused", S3_REFUSED, -EACCES, "AccessDenied"},
        {"c-busy", S3_BUSY, -EIO, "SlowDown"},     {"d-broken", S3_BROKEN, -EIO, "InternalError"},
        {"e-truncated", S3_TRUNCATED, -EIO, "d-"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        s3_add(lab->s3, cases[i].key, 3000)->always = cases[i].fault;
    }
    lab_open(lab, &(struct lab_options){.timeout_ms = 300});
    lab_list(lab);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(lab_open_entry(lab, cases[i].key), cases[i].error);
        uint32_t word = lab_word(lab, cases[i].key);
        assert_int_equal(HR_STATE_KIND(word), HR_STATE_FAILED);
        if (i < 4) { /* the last one has the error of those before it, which was just told */
            assert_non_null(strstr(message_of(lab), i == 3 ? "SlowDown" : cases[i].says));
        }
        lab_settle(lab);
    }
    assert_true(s3_find(lab->s3, "c-busy")->gets > 1);
    assert_true(s3_find(lab->s3, "e-truncated")->gets > 1);
    assert_int_equal(s3_find(lab->s3, "a-missing")->gets, 1);
    assert_int_equal(s3_find(lab->s3, "b-refused")->gets, 1);
    assert_int_equal(lab_stats(lab).failed, 5);
    /* What has failed is asked for again by the next open. */
    s3_find(lab->s3, "d-broken")->always = S3_FINE;
    assert_int_equal(lab_open_entry(lab, "d-broken"), 0);
    lab_check_entry(lab, "d-broken");
}

static void test_trouble_that_passes_is_not_told(void **state)
{
    struct lab *lab = *state;
    struct s3_object *busy = s3_add(lab->s3, "busy", 3000);
    struct s3_object *cut = s3_add(lab->s3, "cut", 3000);
    struct s3_object *damaged = s3_add(lab->s3, "damaged", 3000);
    busy->fault[0] = S3_BUSY;
    busy->fault[1] = S3_BROKEN;
    cut->fault[0] = S3_TRUNCATED;
    damaged->fault[0] = S3_DAMAGED;
    damaged->fault[1] = S3_DAMAGED;
    open_listed(lab);
    assert_int_equal(lab_open_entry(lab, "busy"), 0);
    assert_int_equal(lab_open_entry(lab, "cut"), 0);
    assert_int_equal(lab_open_entry(lab, "damaged"), 0);
    lab_check_entry(lab, "busy");
    lab_check_entry(lab, "cut");
    lab_check_entry(lab, "damaged");
    assert_int_equal(busy->gets, 3);
    assert_int_equal(cut->gets, 2);
    assert_int_equal(damaged->gets, 3);
    lab_settle(lab);
    assert_int_equal(lab_stats(lab).md5_off, 0);
    assert_int_equal(lab_stats(lab).failed, 0);
}

static void test_damage_that_stays_is_an_error(void **state)
{
    struct lab *lab = *state;
    struct s3_object *damaged = s3_add(lab->s3, "damaged", 3000);
    damaged->always = S3_DAMAGED;
    open_listed(lab);
    assert_int_equal(lab_open_entry(lab, "damaged"), -EIO);
    assert_non_null(strstr(message_of(lab), "checksum"));
    assert_int_equal(damaged->gets, 3);
    lab_settle(lab);
    assert_int_equal(lab_stats(lab).md5_off, 0);
}

/* A bucket whose ETags look like MD5s and are none: one object pays for it. */
static void test_equal_bytes_turn_md5_off(void **state)
{
    struct lab *lab = *state;
    struct s3_object *first = s3_add(lab->s3, "a", 3000);
    struct s3_object *second = s3_add(lab->s3, "b", 3000);
    strcpy(first->etag, "0123456789abcdef0123456789abcdef");
    strcpy(second->etag, "1123456789ABCDEF0123456789ABCDEF");
    strcpy(first->listed_etag, first->etag);
    strcpy(second->listed_etag, second->etag);
    open_listed(lab);
    assert_int_equal(lab_open_entry(lab, "a"), 0);
    lab_check_entry(lab, "a");
    assert_int_equal(first->gets, 3);
    assert_int_equal(lab_open_entry(lab, "b"), 0);
    lab_check_entry(lab, "b");
    assert_int_equal(second->gets, 1);
    lab_settle(lab);
    assert_int_equal(lab_stats(lab).md5_off, 1);
}

static void add_checksum(struct s3_object *object, bool right)
{
    char bytes[3000];
    uint8_t sum[HR_SHA256_BYTES];
    struct hr_buf text = HR_BUF_INIT(64);
    s3_body(object->version, 0, sizeof bytes, bytes);
    assert_int_equal(hr_digest(HR_DIGEST_SHA256, bytes, sizeof bytes, sum), 0);
    sum[0] ^= !right;
    assert_int_equal(hr_base64_encode(sum, sizeof sum, &text), 0);
    snprintf(object->checksum, sizeof object->checksum, "x-amz-checksum-sha256: %s\r\n", text.data);
    hr_buf_release(&text);
}

/* With a checksum beside the ETag it is the checksum that decides whether the ETag lied. */
static void test_checksum_decides_about_the_etag(void **state)
{
    struct lab *lab = *state;
    struct s3_object *lying_etag = s3_add(lab->s3, "a", 3000);
    struct s3_object *wrong_sum = s3_add(lab->s3, "b", 3000);
    add_checksum(lying_etag, true);
    add_checksum(wrong_sum, false);
    strcpy(lying_etag->etag, "0123456789abcdef0123456789abcdef");
    strcpy(lying_etag->listed_etag, lying_etag->etag);
    open_listed(lab);
    assert_int_equal(lab_open_entry(lab, "b"), -EIO);
    assert_int_equal(wrong_sum->gets, 3);
    assert_int_equal(lab_stats(lab).md5_off, 0);
    assert_int_equal(lab_open_entry(lab, "a"), 0);
    assert_int_equal(lying_etag->gets, 3);
    assert_int_equal(lab_stats(lab).md5_off, 1);
    lab_settle(lab);
}

static void test_store_that_refuses_everything_is_left_alone(void **state)
{
    struct lab *lab = *state;
    char key[8];
    for (int i = 0; i < 6; i++) {
        snprintf(key, sizeof key, "k%d", i);
        s3_add(lab->s3, key, 100)->always = S3_REFUSED;
    }
    open_listed(lab);
    for (int i = 0; i < 6; i++) {
        snprintf(key, sizeof key, "k%d", i);
        assert_int_equal(lab_open_entry(lab, key), -EACCES);
        assert_int_equal(lab_open_entry(lab, key), -EACCES); /* the word changes each time somebody asks */
    }
    assert_int_equal(lab->s3->gets, 3);
    assert_int_equal(lab->control->trees[lab->tree].message_seq, 2); /* said once */
    assert_non_null(strstr(message_of(lab), "no credentials were found"));
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "k5", NULL), -EACCES);
    /* A job that starts anew brings credentials that may be better. */
    for (int i = 0; i < 6; i++) {
        snprintf(key, sizeof key, "k%d", i);
        s3_find(lab->s3, key)->always = S3_FINE;
    }
    (void)lab_tree(lab, &(struct lab_options){0}, "");
    assert_int_equal(lab_open_entry(lab, "k0"), 0);
    lab_settle(lab);
}

/* Some objects refused among others that are not: each is asked for. */
static void test_single_refusals_deny_nothing_else(void **state)
{
    struct lab *lab = *state;
    char key[8];
    s3_add(lab->s3, "a", 100);
    for (int i = 0; i < 5; i++) {
        snprintf(key, sizeof key, "k%d", i);
        s3_add(lab->s3, key, 100)->always = S3_REFUSED;
    }
    s3_add(lab->s3, "z", 100);
    open_listed(lab);
    assert_int_equal(lab_open_entry(lab, "a"), 0);
    for (int i = 0; i < 5; i++) {
        snprintf(key, sizeof key, "k%d", i);
        assert_int_equal(lab_open_entry(lab, key), -EACCES);
    }
    assert_int_equal(lab_open_entry(lab, "z"), 0);
    lab_settle(lab);
}

static void test_refused_listings_are_not_repeated(void **state)
{
    struct lab *lab = *state;
    char key[8];
    s3_add(lab->s3, "k1", 100);
    lab->s3->list_fault = S3_REFUSED;
    lab_open(lab, &(struct lab_options){0});
    for (int i = 0; i < 80; i++) {
        snprintf(key, sizeof key, "n%d", i);
        assert_int_equal(lab_get(lab, HR_OP_LOOK, key, NULL), -ENOENT); /* by HEAD */
    }
    assert_int_equal(lab_get(lab, HR_OP_LIST, "", NULL), -EACCES);
    assert_int_equal(lab->s3->lists, 1);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "k1", NULL), 0); /* GETs may be allowed all the same */
    lab_settle(lab);
}

/* The listing that many names bring is refused: the GETs go on, it is not asked for at each of them. */
static void test_refused_listing_of_many_names(void **state)
{
    struct lab *lab = *state;
    char key[16];
    for (int i = 0; i < 80; i++) {
        snprintf(key, sizeof key, "k%02d", i);
        s3_add(lab->s3, key, 100);
    }
    lab->s3->list_fault = S3_REFUSED;
    lab_open(lab, &(struct lab_options){0});
    for (int i = 0; i < 80; i++) {
        snprintf(key, sizeof key, "k%02d", i);
        assert_int_equal(lab_get(lab, HR_OP_OPEN, key, NULL), 0);
    }
    lab_settle(lab);
    assert_int_equal(s3_lists(lab->s3), 1);
    assert_int_equal(s3_gets(lab->s3), 80);
}

static bool two_lists(struct lab *lab)
{
    return s3_lists(lab->s3) >= 2;
}

static void test_failed_listing_is_told_to_all_who_wait(void **state)
{
    struct lab *lab = *state;
    s3_add(lab->s3, "x", 100);
    lab->s3->list_fault = S3_BUSY;
    lab_open(lab, &(struct lab_options){.timeout_ms = 300});
    lab_ask(lab, HR_OP_LIST, "", 1);
    lab_ask(lab, HR_OP_LIST, "", 2);
    assert_int_equal(lab_get(lab, HR_OP_LIST, "", NULL), -EIO);
    assert_int_equal(lab->answers[1].answer.error, -EIO);
    assert_int_equal(lab->answers[2].answer.error, -EIO);
    lab_until(lab, two_lists);
    unsigned lists = s3_lists(lab->s3);
    assert_int_equal(lab_get(lab, HR_OP_LIST, "", NULL), -EIO); /* remembered for a moment */
    assert_int_equal(s3_lists(lab->s3), lists);
    lab->s3->list_fault = S3_FINE;
    hr_tree_get(lab->plan, lab->tree)->list_error_until_ms = 0;
    assert_int_equal(lab_get(lab, HR_OP_LIST, "", NULL), 0);
}

static void change(struct s3_object *object, uint32_t version)
{
    object->version = version;
    s3_md5_hex(version, object->size, object->etag);
    memcpy(object->listed_etag, object->etag, sizeof object->etag);
}

static void test_changed_object_is_estale(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object = s3_add(lab->s3, "x", 100);
    struct s3_object *grown = s3_add(lab->s3, "y", 100);
    struct s3_object *midway = s3_add(lab->s3, "z", 20 * MIB);
    midway->listed_etag[0] = '\0'; /* nor a face */
    open_listed(lab);
    change(object, 77);
    grown->size = 200;
    change(grown, 78);
    midway->changes_at = 8 * MIB;
    assert_int_equal(lab_open_entry(lab, "x"), -ESTALE);
    assert_non_null(strstr(message_of(lab), "changed=follow"));
    assert_int_equal(lab_open_entry(lab, "y"), -ESTALE);
    assert_int_equal(lab_open_entry(lab, "z"), -ESTALE);
    lab_settle(lab);
    assert_int_equal(lab_stats(lab).changed, 3);
}

static uint32_t first_gen;

static bool relisted(struct lab *lab)
{
    return atomic_load(&lab->control->trees[lab->tree].gen) != first_gen;
}

static bool asked_by_name(struct lab *lab)
{
    return HR_STATE_BY_NAME(lab_word(lab, "x"));
}

/* Its entry is doubted, the others and the listing stay. */
static void test_changed_object_is_followed(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object = s3_add(lab->s3, "x", 100);
    struct hr_answer answer;
    s3_add(lab->s3, "y", 100);
    lab_open(lab, &(struct lab_options){.follow = true});
    lab_list(lab);
    first_gen = atomic_load(&lab->control->trees[lab->tree].gen);
    unsigned lists = s3_lists(lab->s3);
    object->size = 150;
    change(object, 77);
    lab_ask(lab, HR_OP_OPEN, "x", 1);
    lab_fetch(lab, "x");
    lab_until(lab, asked_by_name);
    assert_int_equal(lab->answers[1].answer.error, -EAGAIN);
    assert_int_equal(lab_open_entry(lab, "x"), -EAGAIN); /* whoever waits on the word asks by path */
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "x", &answer), 0);
    assert_int_equal(answer.size, 150);
    lab_check_file(lab, answer.file_id, object);
    assert_int_equal(lab_get(lab, HR_OP_LOOK, "x", &answer), 0);
    assert_int_equal(answer.size, 150);
    lab_settle(lab);
    /* And again. */
    change(object, 78);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "x", &answer), 0); /* is there */
    hr_cache_drop(lab->cache, answer.file_id);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "x", &answer), 0);
    lab_check_file(lab, answer.file_id, object);
    assert_int_equal(lab_open_entry(lab, "y"), 0);
    assert_int_equal(s3_lists(lab->s3), lists);
    assert_int_equal(atomic_load(&lab->control->trees[lab->tree].gen), first_gen);
    assert_int_equal(lab_stats(lab).changed, 2);
    lab_settle(lab);
}

/* A listing knows it again. */
static void test_followed_object_is_listed(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object = s3_add(lab->s3, "x", 100);
    struct hr_answer answer;
    uint64_t ends;
    lab_open(lab, &(struct lab_options){.follow = true});
    lab_list(lab);
    first_gen = atomic_load(&lab->control->trees[lab->tree].gen);
    change(object, 77);
    lab_fetch(lab, "x");
    lab_until(lab, asked_by_name);
    memcpy(object->listed_etag, object->etag, sizeof object->etag);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "x", &answer), 0);
    assert_int_equal(hr_plan_names_again(lab->plan, lab->tree, &ends), 0);
    lab_until(lab, relisted);
    assert_false(asked_by_name(lab));
    assert_int_equal(lab_open_entry(lab, "x"), 0);
    lab_check_entry(lab, "x");
    lab_settle(lab);
}

static void test_unlisted_object_that_changed(void **state)
{
    struct lab *lab = *state;
    for (int follow = 0; follow < 2; follow++) {
        struct s3_object *object = follow ? s3_find(lab->s3, "x") : s3_add(lab->s3, "x", 100);
        struct hr_answer answer;
        lab_open(lab, &(struct lab_options){.follow = follow});
        assert_int_equal(lab_get(lab, HR_OP_LOOK, "x", &answer), 0);
        object->size += 50;
        change(object, 77 + (uint32_t)follow);
        assert_int_equal(lab_get(lab, HR_OP_OPEN, "x", &answer), follow ? 0 : -ESTALE);
        if (follow) {
            assert_int_equal(answer.size, object->size);
            lab_check_file(lab, answer.file_id, object);
        }
        lab_settle(lab);
        lab_close(lab);
    }
}

/* Two listings of one bucket that differ: each entry gets its own version or its own error. */
static void test_other_versions_of_other_trees(void **state)
{
    struct lab *lab = *state;
    struct lab_options options = {0};
    struct s3_object *object = s3_add(lab->s3, "d/x", 100);
    lab_open(lab, &options);
    lab_list(lab);
    change(object, 77);
    uint32_t deep = lab_tree(lab, &options, "d/");
    lab_ask_in(lab, deep, HR_OP_LIST, "", 1);
    lab_awaited = 1;
    lab_until(lab, lab_is_answered);
    s3_hold(lab->s3, true, false);
    lab_fetch(lab, "d/x");
    lab_fetch_in(lab, deep, "x"); /* joins the want for the old version */
    lab_ask_in(lab, deep, HR_OP_OPEN, "x", 2);
    assert_int_equal(lab->answers[2].answer.error, -EAGAIN);
    s3_hold(lab->s3, false, false);
    assert_int_equal(lab_open_entry(lab, "d/x"), -ESTALE);
    assert_int_equal(HR_STATE_KIND(lab_word_in(lab, deep, "x")), HR_STATE_ABSENT);
    lab_ask_in(lab, deep, HR_OP_OPEN, "x", 2);
    lab_awaited = 2;
    lab_until(lab, lab_is_answered);
    assert_int_equal(lab->answers[2].answer.error, 0);
    assert_int_equal(HR_STATE_KIND(lab_word_in(lab, deep, "x")), HR_STATE_RESIDENT);
    assert_int_equal(HR_STATE_KIND(lab_word(lab, "d/x")), HR_STATE_FAILED);
    lab_settle(lab);
}

/* The end with everything under way: answered or left to the next daemon, never an error of a program. */
static void test_end_in_the_middle(void **state)
{
    struct lab *lab = *state;
    s3_add(lab->s3, "x", 100);
    s3_add(lab->s3, "y", 30 * MIB)->listed_etag[0] = '\0';
    lab_open(lab, &(struct lab_options){0});
    lab_list(lab);
    uint32_t deep = lab_tree(lab, &(struct lab_options){0}, "d/");
    s3_hold(lab->s3, true, true);
    lab_fetch(lab, "x");
    lab_ask(lab, HR_OP_OPEN, "y", 1);
    lab_ask_in(lab, deep, HR_OP_LIST, "", 2);
    lab_ask_in(lab, deep, HR_OP_LOOK, "n", 3);
    lab_ask_in(lab, deep, HR_OP_OPEN, "m", 4);
    struct hr_asker ring = hr_plan_ring_asker(lab->plan, 5);
    hr_plan_ask(lab->plan, HR_OP_OPEN, deep, "m", 1, &ring);
    lab_cut_off(lab);
    assert_int_equal(HR_STATE_KIND(lab_word(lab, "x")), HR_STATE_ABSENT);
    assert_int_equal(HR_STATE_KIND(lab_word(lab, "y")), HR_STATE_ABSENT);
    assert_int_equal(atomic_load(&lab->control->answers[5].word), 0);
    lab_close_cancels(lab, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define LAB_TEST(name) cmocka_unit_test_setup_teardown(name, lab_set_up, lab_tear_down)
        LAB_TEST(test_errors_are_told_as_they_are),
        LAB_TEST(test_trouble_that_passes_is_not_told),
        LAB_TEST(test_damage_that_stays_is_an_error),
        LAB_TEST(test_equal_bytes_turn_md5_off),
        LAB_TEST(test_checksum_decides_about_the_etag),
        LAB_TEST(test_store_that_refuses_everything_is_left_alone),
        LAB_TEST(test_single_refusals_deny_nothing_else),
        LAB_TEST(test_refused_listings_are_not_repeated),
        LAB_TEST(test_refused_listing_of_many_names),
        LAB_TEST(test_failed_listing_is_told_to_all_who_wait),
        LAB_TEST(test_changed_object_is_estale),
        LAB_TEST(test_changed_object_is_followed),
        LAB_TEST(test_followed_object_is_listed),
        LAB_TEST(test_unlisted_object_that_changed),
        LAB_TEST(test_other_versions_of_other_trees),
        LAB_TEST(test_end_in_the_middle),
#undef LAB_TEST
    };
    return cmocka_run_group_tests_name("plan trouble", tests, NULL, NULL);
}
