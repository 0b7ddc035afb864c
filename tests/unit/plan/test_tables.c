/* Data sets that no base explains: which file each index of theirs is is told by what workers open for it. */
#include "tests/unit/plan/rows.h"

static struct set other;

/* All files are one data set. */
static void open_set(struct lab *lab, uint32_t files)
{
    open_objects(lab, HR_ORDER_MODE_OFF, CACHED);
    make_set(&set, 0, FILES / files, files);
}

/* Nothing in the first epoch; from the second on all but what tells which table it is. */
static void check_epochs(struct lab *lab, struct set *read, unsigned epochs, unsigned late_most)
{
    assert_in_range(read_epoch(lab, read), 0.9 * read->samples * read->files, FILES);
    assert_int_equal(lab_stats(lab).announced, 0);
    for (unsigned epoch = 1; epoch < epochs; epoch++) {
        assert_in_range(read_epoch(lab, read), 0, late_most);
    }
}

static void test_rows_of_a_table(void **state)
{
    struct lab *lab = *state;
    open_set(lab, 1);
    check_epochs(lab, &set, 3, 8);
    struct hr_plan_stats stats = lab_stats(lab);
    assert_int_equal(stats.lookahead_learned, 1);
    assert_int_equal(stats.lookahead_dropped, 0);
    /* The last batch of each queue is learned from when the next epoch begins. */
    assert_int_equal(stats.lookahead_table, FILES);
    assert_true(stats.announced >= 2 * (FILES - 8) - 2 * WORKERS * BATCH);
    assert_true(stats.announced_used >= 0.97 * stats.announced);
    assert_true(s3_gets(lab->s3) <= 3 * FILES);
}

/* A loader of its own for each, with the same queues: the usual train and validation after random_split. */
static void test_two_subsets_of_one_folder(void **state)
{
    struct lab *lab = *state;
    unsigned late = 0;
    open_objects(lab, HR_ORDER_MODE_OFF, CACHED);
    make_set(&set, 0, FILES * 4 / 5, 1);
    make_set(&other, FILES * 4 / 5, FILES / 5, 1);
    assert_true(read_epoch(lab, &set) + read_epoch(lab, &other) >= 0.9 * FILES);
    assert_int_equal(lab_stats(lab).announced, 0);
    for (unsigned epoch = 1; epoch < 3; epoch++) {
        late += read_epoch(lab, &set) + read_epoch(lab, &other);
    }
    struct hr_plan_stats stats = lab_stats(lab);
    assert_in_range(late, 0, 2 * 16);
    assert_int_equal(stats.lookahead_learned, 2);
    assert_int_equal(stats.lookahead_dropped, 0);
    assert_int_equal(stats.lookahead_table, FILES);
}

static void test_two_files_a_sample(void **state)
{
    struct lab *lab = *state;
    open_set(lab, 2);
    check_epochs(lab, &set, 3, 8);
    assert_int_equal(lab_stats(lab).lookahead_learned, 1);
    assert_int_equal(lab_stats(lab).lookahead_table, FILES / 2);
}

/* Each epoch a sixth of it: the tables that they begin become one. */
static void test_epochs_left_early(void **state)
{
    struct lab *lab = *state;
    open_set(lab, 1);
    for (unsigned epoch = 0; epoch < 25; epoch++) {
        (void)read_batches(lab, &set, 8);
    }
    assert_in_range(lab_stats(lab).lookahead_table, 0.9 * FILES, FILES);
    assert_int_equal(lab_stats(lab).lookahead_learned, 1);
    uint64_t announced = lab_stats(lab).announced;
    assert_in_range(read_epoch(lab, &set), 0, 0.15 * FILES);
    assert_true(lab_stats(lab).announced - announced >= 0.8 * FILES);
}

/* Every epoch other files: nothing is brought for any but by chance, and the tables stay bounded. */
static void test_no_table_at_all(void **state)
{
    struct lab *lab = *state;
    open_objects(lab, HR_ORDER_MODE_OFF, CACHED);
    for (unsigned epoch = 0; epoch < 8; epoch++) {
        shuffle(drawn, FILES);
        make_set(&set, 0, FILES, 1);
        (void)read_batches(lab, &set, FILES / BATCH / 2);
    }
    struct hr_plan_stats stats = lab_stats(lab);
    assert_in_range(stats.lookahead_learned, 0, 1);
    assert_in_range(stats.fetched[HR_REASON_LOOKAHEAD], 0, 4 * BATCH * AHEAD);
    assert_in_range(stats.lookahead_table, 1, 8 * FILES);
    assert_true(s3_gets(lab->s3) <= 4 * FILES + 4 * BATCH * AHEAD);
}

/* From the third epoch on it has other rows: what was learned goes, and is learned anew. */
static void test_a_table_that_changes(void **state)
{
    struct lab *lab = *state;
    open_set(lab, 1);
    check_epochs(lab, &set, 2, 8);
    shuffle(drawn, FILES);
    make_set(&set, 0, FILES, 1);
    assert_true(read_epoch(lab, &set) >= 0.5 * FILES);
    assert_in_range(read_epoch(lab, &set), 0, 8);
}

/* A note that was lost, and a file that nobody needs another time, leave the other batches alone. */
static void test_notes_that_are_lost(void **state)
{
    struct lab *lab = *state;
    open_set(lab, 1);
    for (uint32_t number = 0; number < FILES / BATCH; number++) {
        lab_announce(lab, set.order, BATCH, number);
        (void)open_batch(lab, &set, number, number % 10 == 3);
    }
    lab_announce(lab, set.order, BATCH, 0);
    lab_announce(lab, set.order, BATCH, 1);
    assert_int_equal(lab_stats(lab).lookahead_table, FILES - FILES / BATCH / 10 * BATCH);
    assert_in_range(read_epoch(lab, &set), 0, FILES / 10 + 8 + BATCH);
    assert_int_equal(lab_stats(lab).lookahead_dropped, 0);
}

/* Announcements that overtake each other, and workers that are quicker than what announces their batch. */
static void test_notes_before_their_batch(void **state)
{
    struct lab *lab = *state;
    open_set(lab, 1);
    for (uint32_t i = 0; i < FILES / BATCH; i++) {
        uint32_t number = i ^ 1;
        if (number % 4 > 1) {
            lab_announce(lab, set.order, BATCH, number);
        }
        (void)open_batch(lab, &set, number, 0);
        if (number % 4 <= 1) {
            lab_announce(lab, set.order, BATCH, number);
        }
    }
    assert_int_equal(lab_stats(lab).lookahead_table, FILES);
    assert_in_range(read_epoch(lab, &set), 0, 8);
    assert_int_equal(lab_stats(lab).lookahead_learned, 1);
}

/* Two batches begin as a sorted walk would have it. */
static void test_chance_is_no_base(void **state)
{
    struct lab *lab = *state;
    open_set(lab, 1);
    for (uint32_t number = 0; number < FILES / BATCH; number++) {
        const uint32_t *indices = batch_of(&set, number);
        lab_announce(lab, set.order, BATCH, number);
        for (uint32_t i = 0; i < BATCH; i++) {
            bool walks = (number == 6 || number == 7) && i < 4;
            uint32_t file = walks ? indices[i] : drawn[indices[i]];
            (void)open_file(lab, file, hr_batch_tag(number, indices, BATCH));
        }
    }
    assert_int_equal(lab_stats(lab).lookahead_learned, 0);
    assert_int_equal(lab_stats(lab).announced, 0);
    assert_in_range(read_epoch(lab, &set), 0, 24); /* with those eight */
    assert_int_equal(lab_stats(lab).lookahead_learned, 1);
}

int main(void)
{
#define LAB_TEST(name) cmocka_unit_test_setup_teardown(name, lab_set_up, lab_tear_down)
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_rows_of_a_table),     LAB_TEST(test_two_subsets_of_one_folder),
        LAB_TEST(test_two_files_a_sample),  LAB_TEST(test_epochs_left_early),
        LAB_TEST(test_no_table_at_all),     LAB_TEST(test_a_table_that_changes),
        LAB_TEST(test_notes_that_are_lost), LAB_TEST(test_notes_before_their_batch),
        LAB_TEST(test_chance_is_no_base),
    };
    return cmocka_run_group_tests_name("tables", tests, NULL, NULL);
}
