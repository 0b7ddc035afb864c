/* Known orders of data sets whose files are known by a table alone. */
#include "tests/unit/plan/rows.h"

#define LARGE (4 * FILES) /* files: a cache of which half may be asked for ahead of all that is opened */
#define SEED 100u         /* whose order looks like no base */

static void open_set(struct lab *lab, uint32_t files, uint32_t cached, uint32_t seed)
{
    orders_awaited = 0;
    open_objects(lab, HR_ORDER_MODE_AUTO, cached);
    make_set(&set, 0, FILES / files, files);
    set.seed = seed;
}

/* Another data set has pushed them out. */
static void drop_all(struct lab *lab)
{
    struct hr_plan_tree *tree = hr_tree_get(lab->plan, lab->tree);
    for (uint32_t i = 0; i < FILES; i++) {
        uint64_t id = lab_file_id(lab, key_of(i));
        if (id) {
            hr_cache_drop(lab->cache, id);
            hr_tree_forget(tree, lab_entry_in(lab, lab->tree, key_of(i)), id);
        }
    }
}

static uint32_t count_there(struct lab *lab)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < FILES; i++) {
        if (HR_STATE_KIND(lab_word(lab, key_of(i))) == HR_STATE_RESIDENT) {
            lab_check_entry(lab, key_of(i));
            count++;
        }
    }
    return count;
}

/* An epoch's first batch, and what is asked for by the order that it tells. */
static void begin_epoch(struct lab *lab)
{
    drop_all(lab);
    orders_awaited++;
    (void)read_batches(lab, &set, 1);
    lab_settle(lab);
    struct hr_plan_stats stats = lab_stats(lab);
    assert_int_equal(stats.known_orders, 1);
    assert_int_equal(stats.known_objects, set.samples);
    assert_int_equal(stats.known_seed, SEED + 1);
    assert_int_equal(stats.known_dropped, 0);
}

static void check_rest_of_an_epoch(struct lab *lab, uint32_t files)
{
    open_set(lab, files, LARGE, SEED);
    (void)read_epoch(lab, &set);
    assert_int_equal(lab_stats(lab).known_orders, 0);
    begin_epoch(lab);
    assert_int_equal(lab_stats(lab).known_ahead, FILES - AHEAD * BATCH * files);
    assert_int_equal(count_there(lab), FILES);
    assert_int_equal(s3_gets(lab->s3), 2 * FILES);
}

static void test_rest_of_an_epoch(void **state)
{
    check_rest_of_an_epoch(*state, 1);
}

static void test_all_files_of_a_sample(void **state)
{
    check_rest_of_an_epoch(*state, 2);
}

/* A few batches whose notes were lost: their files are left to those who open them. */
static void test_rows_that_are_not_known(void **state)
{
    struct lab *lab = *state;
    uint32_t unknown = 0;
    open_set(lab, 1, LARGE, SEED);
    draw_order(&set);
    for (uint32_t number = 0; number < FILES / BATCH; number++) {
        lab_announce(lab, set.order, BATCH, number);
        (void)open_batch(lab, &set, number, number % 10 == 3);
        unknown += number % 10 == 3 ? BATCH : 0;
    }
    unsigned gets = s3_gets(lab->s3);
    begin_epoch(lab);
    assert_in_range(lab_stats(lab).lookahead_table, FILES - unknown, FILES - unknown + BATCH);
    assert_in_range(count_there(lab), FILES - unknown, FILES - unknown + BATCH);
    assert_int_equal(s3_gets(lab->s3) - gets, count_there(lab));
}

/* It is about what the next epochs read here, too: a set that is kept costs 96 GETs an epoch of 160. */
static void test_epochs_of_two_nodes(void **state)
{
    struct lab *lab = *state;
    open_set(lab, 1, CACHED, SEED);
    set.replicas = 2;
    for (unsigned epoch = 0; epoch < 3; epoch++) {
        (void)read_epoch(lab, &set);
    }
    unsigned gets = s3_gets(lab->s3);
    orders_awaited = (unsigned)lab_stats(lab).known_orders;
    for (unsigned epoch = 0; epoch < 4; epoch++) {
        orders_awaited++;
        (void)read_epoch(lab, &set);
    }
    struct hr_plan_stats stats = lab_stats(lab);
    assert_in_range(s3_gets(lab->s3) - gets, 0, 4 * 76);
    assert_true(stats.next_right >= 3);
    assert_int_equal(stats.next_wrong, 0);
    assert_int_equal(stats.known_dropped, 0);
    assert_true(stats.victims_next > 0);
    assert_in_range(count_there(lab), 1, CACHED);
}

/* Its rows are others from the third epoch on: the order brings files that nobody opens, until the table is
 * dropped, and is found again over the new one. */
static void test_rows_that_change(void **state)
{
    struct lab *lab = *state;
    open_set(lab, 1, CACHED, SEED);
    (void)read_epoch(lab, &set);
    orders_awaited = 1;
    (void)read_epoch(lab, &set);
    shuffle(drawn, FILES);
    memcpy(set.rows, drawn, sizeof set.rows);
    (void)read_epoch(lab, &set);
    orders_awaited = (unsigned)lab_stats(lab).known_orders + 1;
    assert_in_range(read_epoch(lab, &set), 0, 16);
    assert_int_equal(lab_stats(lab).known_seed, SEED + 3);
    assert_in_range(count_there(lab), 1, CACHED);
}

/* The first opens look like a base, and the order that it has is found. With the base the order goes. */
static void test_order_of_what_is_no_base(void **state)
{
    struct lab *lab = *state;
    open_set(lab, 1, CACHED, 5);
    (void)read_epoch(lab, &set);
    struct hr_plan_stats stats = lab_stats(lab);
    assert_int_equal(stats.lookahead_learned, 1);
    assert_int_equal(stats.lookahead_dropped, 1);
    assert_int_equal(stats.known_dropped, stats.known_orders);
    assert_int_equal(stats.known_now, 0);
}

int main(void)
{
#define LAB_TEST(name) cmocka_unit_test_setup_teardown(name, lab_set_up, lab_tear_down)
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_rest_of_an_epoch),        LAB_TEST(test_all_files_of_a_sample),
        LAB_TEST(test_rows_that_are_not_known), LAB_TEST(test_epochs_of_two_nodes),
        LAB_TEST(test_rows_that_change),        LAB_TEST(test_order_of_what_is_no_base),
    };
    return cmocka_run_group_tests_name("known orders of tables", tests, NULL, NULL);
}
