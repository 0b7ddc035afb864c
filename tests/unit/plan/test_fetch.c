/* From asking to the file in the cache: one object, one request, whatever its size and whoever asks. */
#include "tests/unit/plan/lab.h"

#define ASKERS 100

static unsigned expected_answers;

static bool all_answered(struct lab *lab)
{
    unsigned count = 0;
    for (unsigned i = 1; i < LAB_ANSWERS; i++) {
        count += lab->answers[i].times > 0;
    }
    return count == expected_answers;
}

static void test_hundred_openers_make_one_get(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object = s3_add(lab->s3, "a/x", 5000);
    lab_open(lab, &(struct lab_options){0});
    s3_hold(lab->s3, true, false);
    for (uint32_t i = 1; i <= ASKERS; i++) {
        lab_ask(lab, HR_OP_OPEN, "a/x", i);
    }
    assert_int_equal(lab_stats(lab).in_flight, 1);
    s3_hold(lab->s3, false, false);
    expected_answers = ASKERS;
    lab_until(lab, all_answered);
    for (uint32_t i = 1; i <= ASKERS; i++) {
        assert_int_equal(lab->answers[i].times, 1);
        assert_int_equal(lab->answers[i].answer.error, 0);
        assert_int_equal(lab->answers[i].answer.kind, HR_KIND_FILE);
        assert_int_equal(lab->answers[i].answer.size, 5000);
    }
    lab_check_file(lab, lab->answers[1].answer.file_id, object);
    lab_settle(lab);
    assert_int_equal(lab->s3->gets, 1);
    assert_int_equal(lab->s3->lists, 0);
    /* Known now: no further request. */
    struct hr_answer again;
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "a/x", &again), 0);
    assert_int_equal(again.file_id, lab->answers[1].answer.file_id);
    assert_int_equal(lab->s3->gets, 1);
}

static void test_listed_object_is_one_get(void **state)
{
    struct lab *lab = *state;
    s3_add(lab->s3, "a/x", 70000);
    s3_add(lab->s3, "a/y", 0);
    lab_open(lab, &(struct lab_options){0});
    lab_list(lab);
    assert_int_equal(s3_gets(lab->s3), 0); /* a listing alone fetches nothing */
    for (int i = 0; i < ASKERS; i++) {
        lab_fetch(lab, "a/x");
    }
    assert_int_equal(lab_open_entry(lab, "a/x"), 0);
    lab_check_entry(lab, "a/x");
    assert_int_equal(lab_open_entry(lab, "a/y"), 0);
    lab_check_entry(lab, "a/y");
    assert_int_equal(s3_find(lab->s3, "a/x")->gets, 1);
    assert_int_equal(s3_find(lab->s3, "a/x")->ranges, 0);
    assert_int_equal(s3_find(lab->s3, "a/y")->gets, 1);
    lab_settle(lab);
}

static void test_two_trees_of_one_identity_share_the_get(void **state)
{
    struct lab *lab = *state;
    struct lab_options options = {0};
    s3_add(lab->s3, "a/x", 1000);
    lab_open(lab, &options);
    uint32_t deep = lab_tree(lab, &options, "a/");
    assert_int_not_equal(deep, lab->tree);
    s3_hold(lab->s3, true, false);
    lab_ask(lab, HR_OP_OPEN, "a/x", 1);
    lab_ask_in(lab, deep, HR_OP_OPEN, "x", 2);
    s3_hold(lab->s3, false, false);
    expected_answers = 2;
    lab_until(lab, all_answered);
    assert_int_equal(lab->answers[2].answer.file_id, lab->answers[1].answer.file_id);
    lab_ask_in(lab, deep, HR_OP_OPEN, "x", 2);
    lab_until(lab, all_answered);
    assert_int_equal(lab->s3->gets, 1);
    lab_settle(lab);
}

/* Without an ETag nothing but the whole of it is one version: ranges into one file. */
static void test_large_object_in_ranges(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object = s3_add(lab->s3, "big", 20 * MIB + 5);
    object->listed_etag[0] = '\0';
    lab_open(lab, &(struct lab_options){0});
    lab_list(lab);
    assert_int_equal(lab_open_entry(lab, "big"), 0);
    lab_check_entry(lab, "big");
    assert_int_equal(object->gets, 3);
    assert_int_equal(object->ranges, 3);
    lab_settle(lab);
}

static void test_large_object_nobody_listed(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object = s3_add(lab->s3, "big", 20 * MIB + 5);
    struct hr_answer answer;
    object->etag[0] = '\0';
    lab_open(lab, &(struct lab_options){0});
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "big", &answer), 0);
    assert_int_equal(answer.flags, 0);
    lab_check_file(lab, answer.file_id, object);
    assert_int_equal(answer.size, object->size);
    assert_int_equal(object->gets, 3);
    lab_settle(lab);
}

static void test_empty_object_nobody_listed(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object = s3_add(lab->s3, "empty", 0);
    struct hr_answer answer;
    lab_open(lab, &(struct lab_options){0});
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "empty", &answer), 0);
    assert_int_equal(answer.size, 0);
    lab_check_file(lab, answer.file_id, object);
    assert_int_equal(object->gets, 2); /* a range of nothing is refused, then the whole of it */
    lab_settle(lab);
}

static void test_store_without_etags(void **state)
{
    struct lab *lab = *state;
    struct s3_object *small = s3_add(lab->s3, "a", 300);
    struct s3_object *big = s3_add(lab->s3, "b", 9 * MIB);
    small->etag[0] = small->listed_etag[0] = big->etag[0] = big->listed_etag[0] = '\0';
    lab_open(lab, &(struct lab_options){0});
    lab_list(lab);
    assert_int_equal(lab_open_entry(lab, "a"), 0);
    assert_int_equal(lab_open_entry(lab, "b"), 0);
    lab_check_entry(lab, "a");
    lab_check_entry(lab, "b");
    lab_settle(lab);
}

static void test_open_of_directories_and_nothing(void **state)
{
    struct lab *lab = *state;
    struct hr_answer answer;
    s3_add(lab->s3, "d/x", 10);
    lab_open(lab, &(struct lab_options){0});
    for (int listed = 0; listed < 2; listed++) {
        assert_int_equal(lab_get(lab, HR_OP_OPEN, "d", &answer), 0);
        assert_int_equal(answer.kind, HR_KIND_DIR);
        assert_int_equal(lab_get(lab, HR_OP_OPEN, "", &answer), 0);
        assert_int_equal(answer.kind, HR_KIND_DIR);
        assert_int_equal(lab_get(lab, HR_OP_OPEN, "e", &answer), -ENOENT);
        assert_int_equal(lab_get(lab, HR_OP_LOOK, "e", &answer), -ENOENT);
        assert_int_equal(lab_get(lab, HR_OP_OPEN, "../d", &answer), -ENOENT);
        assert_int_equal(lab_get(lab, HR_OP_LOOK, "d//x", &answer), -ENOENT);
        assert_int_equal(lab_get(lab, HR_OP_LOOK, "d", &answer), 0);
        assert_int_equal(answer.kind, HR_KIND_DIR);
        assert_int_equal(lab_get(lab, HR_OP_LOOK, "d/x", &answer), 0);
        assert_int_equal(answer.kind, HR_KIND_FILE);
        assert_int_equal(answer.size, 10);
        if (!listed) {
            lab_list(lab);
        }
    }
    lab_settle(lab);
}

/* Opens alone, too, are names asked for one by one: at the 64th the listing is cheaper. */
static void test_many_names_bring_the_listing(void **state)
{
    struct lab *lab = *state;
    char key[16];
    for (int i = 0; i < 70; i++) {
        snprintf(key, sizeof key, "k%03d", i);
        s3_add(lab->s3, key, 100);
    }
    lab_open(lab, &(struct lab_options){0});
    for (int i = 0; i < 63; i++) {
        snprintf(key, sizeof key, "k%03d", i);
        assert_int_equal(lab_get(lab, HR_OP_OPEN, key, NULL), 0);
    }
    assert_int_equal(s3_lists(lab->s3), 0);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "k063", NULL), 0);
    lab_list(lab);
    assert_int_equal(lab->s3->lists, 1);
    assert_int_equal(HR_STATE_KIND(lab_word(lab, "k005")), HR_STATE_RESIDENT); /* what is cached is known */
    assert_int_equal(lab->s3->gets, 64);
    lab_settle(lab);
}

static bool file_appeared(struct lab *lab)
{
    return HR_STATE_KIND(lab_word(lab, "x")) == HR_STATE_RESIDENT && lab_word(lab, "x") != lab_seen;
}

static void test_file_removed_under_us_is_fetched_again(void **state)
{
    struct lab *lab = *state;
    char path[128];
    s3_add(lab->s3, "x", 4000);
    lab_open(lab, &(struct lab_options){0});
    lab_list(lab);
    assert_int_equal(lab_open_entry(lab, "x"), 0);
    lab_settle(lab);
    uint64_t file_id = lab_file_id(lab, "x");
    lab_seen = lab_word(lab, "x");
    lab_fetch(lab, "x"); /* it is there: nothing changes */
    assert_int_equal(lab_word(lab, "x"), lab_seen);
    snprintf(path, sizeof path, "%s/objects/%02x/%016llx", lab->dir, (unsigned)(file_id & 0xff),
             (unsigned long long)file_id);
    assert_int_equal(unlink(path), 0);
    lab_fetch(lab, "x");
    lab_until(lab, file_appeared);
    lab_check_entry(lab, "x");
    assert_int_equal(lab->s3->gets, 2);
    assert_int_equal(unlink(path), -1);
    /* The command's way: it holds no word and is answered when the file is there. */
    snprintf(path, sizeof path, "%s/objects/%02x/%016llx", lab->dir, (unsigned)(lab_file_id(lab, "x") & 0xff),
             (unsigned long long)lab_file_id(lab, "x"));
    assert_int_equal(unlink(path), 0);
    struct hr_answer answer;
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "x", &answer), 0);
    lab_check_file(lab, answer.file_id, s3_find(lab->s3, "x"));
    lab_settle(lab);
}

/* A word that promises a file which neither the disk nor the cache knows. */
static void test_promise_that_nobody_knows_of(void **state)
{
    struct lab *lab = *state;
    s3_add(lab->s3, "x", 4000)->always = S3_MISSING;
    lab_open(lab, &(struct lab_options){0});
    lab_list(lab);
    struct hr_plan_tree *tree = hr_tree_get(lab->plan, lab->tree);
    struct hr_state *entry = &tree->states->states[lab_entry_in(lab, lab->tree, "x")];
    atomic_store(&entry->file_id, 0x123456);
    atomic_store(&entry->word, HR_STATE_NEXT(0, HR_STATE_RESIDENT, 0));
    struct hr_answer answer;
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "x", &answer), -ENOENT);
    assert_int_equal(HR_STATE_KIND(lab_word(lab, "x")), HR_STATE_FAILED);
    lab_settle(lab);
}

static void test_stale_and_wild_fetches_do_nothing(void **state)
{
    struct lab *lab = *state;
    s3_add(lab->s3, "d/x", 10);
    lab_open(lab, &(struct lab_options){0});
    hr_plan_fetch(lab->plan, lab->tree, 1, 1); /* no index yet */
    lab_list(lab);
    struct hr_plan_tree *tree = hr_tree_get(lab->plan, lab->tree);
    uint32_t gen = tree->index.names->gen;
    hr_plan_fetch(lab->plan, lab->tree, gen + 1, 2);
    hr_plan_fetch(lab->plan, lab->tree, gen - 1, 2);
    hr_plan_fetch(lab->plan, lab->tree, gen, UINT32_MAX);
    hr_plan_fetch(lab->plan, lab->tree, gen, (uint32_t)tree->index.names->entry_count);
    hr_plan_fetch(lab->plan, lab->tree, gen, 0); /* the root */
    hr_plan_fetch(lab->plan, 77, gen, 2);
    hr_plan_fetch(lab->plan, UINT32_MAX, gen, 2);
    lab_run_ms(lab, 50);
    assert_int_equal(s3_gets(lab->s3), 0);
    lab_settle(lab);
}

/* A second life on the same directory: index and objects are there, no request is made. */
static void test_second_life_asks_nothing(void **state)
{
    struct lab *lab = *state;
    s3_add(lab->s3, "a/x", 70000);
    lab_open(lab, &(struct lab_options){0});
    lab_list(lab);
    assert_int_equal(lab_open_entry(lab, "a/x"), 0);
    lab_close(lab);
    lab_open(lab, &(struct lab_options){0});
    lab_list(lab);
    assert_int_equal(lab_open_entry(lab, "a/x"), 0);
    lab_check_entry(lab, "a/x");
    assert_int_equal(lab->s3->gets, 1);
    assert_int_equal(lab->s3->lists, 1);
}

static void on_version(void *owner, struct hr_put *put, int error, const struct hr_cached *cached)
{
    struct lab *lab = owner;
    (void)put;
    assert_int_equal(error, 0);
    lab->answers[1].times++;
    lab->answers[1].answer.file_id = cached->file_id;
}

static bool is_put(struct lab *lab)
{
    return lab->answers[1].times > 0;
}

static uint64_t put_version(struct lab *lab, const char *key, const char *etag)
{
    const struct hr_put_options options = {
        .source = hr_tree_get(lab->plan, lab->tree)->source,
        .key = key,
        .key_len = (uint32_t)strlen(key),
        .etag = etag,
        .mtime_ns = 1795255200000000000, /* as s3.h's */
        .done = on_version,
        .owner = lab,
    };
    struct hr_put *put = NULL;
    lab->answers[1].times = 0;
    assert_int_equal(hr_put_begin(lab->cache, &options, &put), 0);
    hr_put_finish(put, NULL);
    lab_until(lab, is_put);
    return lab->answers[1].answer.file_id;
}

/* A listing without ETags takes a version by size and time: of several that fit, the one that came last. */
static void test_last_of_versions_that_look_alike(void **state)
{
    enum { KEYS = 16 };
    struct lab *lab = *state;
    uint64_t newest[KEYS];
    char key[16];
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "k%02d", i);
        s3_add(lab->s3, key, 0)->listed_etag[0] = '\0';
    }
    lab_open(lab, &(struct lab_options){0});
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "k%02d", i);
        put_version(lab, key, "one");
        newest[i] = put_version(lab, key, "two");
    }
    lab_list(lab);
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "k%02d", i);
        assert_int_equal(HR_STATE_KIND(lab_word(lab, key)), HR_STATE_RESIDENT);
        assert_true(lab_file_id(lab, key) == newest[i]);
    }
    lab_settle(lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_hundred_openers_make_one_get, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_listed_object_is_one_get, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_two_trees_of_one_identity_share_the_get, lab_set_up,
                                        lab_tear_down),
        cmocka_unit_test_setup_teardown(test_large_object_in_ranges, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_large_object_nobody_listed, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_empty_object_nobody_listed, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_store_without_etags, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_open_of_directories_and_nothing, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_many_names_bring_the_listing, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_file_removed_under_us_is_fetched_again, lab_set_up,
                                        lab_tear_down),
        cmocka_unit_test_setup_teardown(test_promise_that_nobody_knows_of, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_stale_and_wild_fetches_do_nothing, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_second_life_asks_nothing, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_last_of_versions_that_look_alike, lab_set_up, lab_tear_down),
    };
    return cmocka_run_group_tests_name("plan fetch", tests, NULL, NULL);
}
