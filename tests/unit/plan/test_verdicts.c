/* What workers opened speaks for or against what their batches are believed to stand for. */
#include "tests/unit/plan/lab.h"

#include "fetch/plan/order_thread.h"

#define SAMPLES 240u
#define FILE_BYTES 4096u
#define CACHED 64u /* files */
#define BATCH 16u
#define BATCHES (SAMPLES / BATCH)
#define WORKERS 2u /* lab_announce deals batches out to so many */
#define AHEAD (2 * WORKERS)

static uint32_t at;
static uint32_t order[SAMPLES]; /* of the epoch */
static uint32_t rows[SAMPLES];  /* of a data set in an order of its own: file of each index */
static unsigned files;          /* a sample; each kind has a folder of its own */

/* How a data set opens what its samples consist of. */
struct way {
    bool walks;     /* in the order of a sorted walk */
    unsigned fit;   /* else the first opens of each worker's first batch are such: chance */
    unsigned keeps; /* so many of four samples are in its own memory */
    bool loses;     /* every seventh note comes to nothing */
    bool tells_no_tag;
};

static void shuffle(uint32_t *values)
{
    for (uint32_t i = 0; i < SAMPLES; i++) {
        values[i] = i;
    }
    for (uint32_t i = SAMPLES - 1; i > 0; i--) { /* by a generator that nobody searches for */
        at = at * 1103515245u + 12345u;
        uint32_t with = (at >> 8) % (i + 1), kept = values[i];
        values[i] = values[with];
        values[with] = kept;
    }
}

/* Until the next call. */
static const char *key_of(uint32_t sample, unsigned which)
{
    static char key[24];
    snprintf(key, sizeof key, "kind%u/k%05u", which, sample);
    return key;
}

static void open_objects(struct lab *lab, unsigned files_a_sample)
{
    at = 4;
    files = files_a_sample;
    for (uint32_t i = 0; i < SAMPLES * files; i++) {
        s3_add(lab->s3, key_of(i / files, i % files), FILE_BYTES);
    }
    shuffle(rows);
    lab_open(lab,
             &(struct lab_options){.prefetch = true, .cache_bytes = (uint64_t)CACHED * files * FILE_BYTES});
    lab->plan->options.lookahead = true;
    lab->plan->options.order_search = HR_ORDER_MODE_OFF;
    lab_list(lab);
    hr_tree_get(lab->plan, lab->tree)->sweep_done = true; /* look-ahead alone */
}

/* As a worker does it. */
static void open_file(struct lab *lab, const char *key, uint32_t tag, bool noted)
{
    if (HR_STATE_KIND(lab_word(lab, key)) != HR_STATE_RESIDENT) {
        hr_lookahead_opened(lab->plan, LAB_CONTEXT, lab->tree,
                            hr_tree_get(lab->plan, lab->tree)->index.names->gen,
                            lab_entry_in(lab, lab->tree, key));
        assert_int_equal(lab_open_entry(lab, key), 0);
    }
    if (noted) {
        lab_note_for(lab, key, tag);
    }
    hr_plan_drain(lab->plan);
    hr_plan_pump(lab->plan);
    lab_settle(lab);
}

static void open_batch(struct lab *lab, const struct way *way, uint32_t number)
{
    static unsigned notes;
    const uint32_t *indices = order + (size_t)number * BATCH;
    for (uint32_t i = 0; i < BATCH; i++) {
        bool kept = (indices[i] & 3) < way->keeps, walks = way->walks || (number < WORKERS && i < way->fit);
        uint32_t sample = walks ? indices[i] : rows[indices[i]];
        for (unsigned which = 0; !kept && which < files; which++) {
            open_file(lab, key_of(sample, which),
                      way->tells_no_tag ? 0 : hr_batch_tag(number, indices, BATCH),
                      !way->loses || ++notes % 7 != 0);
        }
    }
}

/* So many batches of an epoch in a new order, whose loader is two batches a worker ahead. */
static void read_batches(struct lab *lab, const struct way *way, uint32_t batches)
{
    shuffle(order);
    for (uint32_t batch = 0; batch < batches; batch++) {
        for (uint32_t number = batch ? batch + AHEAD - 1 : 0; number < batch + AHEAD && number < BATCHES;
             number++) {
            lab_announce(lab, order, BATCH, number);
        }
        lab_settle(lab);
        open_batch(lab, way, batch);
    }
}

static unsigned marked(struct lab *lab, unsigned marks)
{
    const struct hr_plan_tree *tree = hr_tree_get(lab->plan, lab->tree);
    unsigned count = 0;
    for (uint32_t entry = 0; entry < tree->index.names->entry_count; entry++) {
        count += (tree->marks[entry] & marks) != 0;
    }
    return count;
}

/* Neither announced nor kept for it. */
static void check_nothing_pinned(struct lab *lab)
{
    assert_int_equal(marked(lab, HR_ENTRY_ANNOUNCED | HR_ENTRY_SWEPT), 0);
    assert_int_equal(lab_stats(lab).lookahead_waiting, 0);
}

/* Rows whose first opens are as a sorted walk would have them. It goes with the first batches. */
static void test_a_base_by_chance(void **state)
{
    struct lab *lab = *state;
    const struct way rows_by_chance = {.fit = 2}, by_rows = {0};
    open_objects(lab, 1);
    hr_tree_get(lab->plan, lab->tree)->announced_used = 1000; /* by others: misses alone tell nothing */
    read_batches(lab, &rows_by_chance, AHEAD + WORKERS);
    struct hr_plan_stats stats = lab_stats(lab);
    assert_int_equal(stats.lookahead_learned, 1);
    assert_int_equal(stats.lookahead_dropped, 1);
    assert_in_range(stats.announced, BATCH, (AHEAD + 2 * WORKERS) * BATCH);
    check_nothing_pinned(lab);
    uint64_t brought = stats.fetched[HR_REASON_LOOKAHEAD];
    read_batches(lab, &by_rows, BATCHES);
    stats = lab_stats(lab);
    assert_int_equal(stats.lookahead_dropped, 1);
    assert_in_range(stats.fetched[HR_REASON_LOOKAHEAD] - brought, 0, 5 * BATCH); /* of rows that are known */
    read_batches(lab, &by_rows, BATCHES);
    assert_true(lab_stats(lab).announced - stats.announced >= 0.9 * SAMPLES);
}

/* A queue of a set that a sorted walk has made is later one of a set of rows: the base stays, for others. */
static void test_queues_go_round(void **state)
{
    struct lab *lab = *state;
    const struct way walk = {.walks = true}, by_rows = {0};
    open_objects(lab, 1);
    read_batches(lab, &walk, BATCHES);
    struct hr_plan_stats before = lab_stats(lab), after;
    assert_true(before.announced >= 0.9 * SAMPLES);
    read_batches(lab, &by_rows, BATCHES / 2);
    after = lab_stats(lab);
    assert_in_range(after.announced - before.announced, 1, 2 * AHEAD * BATCH);
    assert_int_equal(after.lookahead_dropped, 0);
    read_batches(lab, &walk, BATCHES);
    assert_true(lab_stats(lab).announced - after.announced >= 0.9 * SAMPLES);
    assert_int_equal(lab_stats(lab).lookahead_dropped, 0);
}

/* Beside a loader that is understood one without shuffling begins: the batches of its workers are each
 * other's by a shift, and the one that begins first tells of what its neighbour would be. */
static void test_batches_of_neighbours(void **state)
{
    struct lab *lab = *state;
    const struct way walk = {.walks = true};
    open_objects(lab, 1);
    read_batches(lab, &walk, AHEAD);
    assert_int_equal(lab_stats(lab).lookahead_learned, 1);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        order[i] = i;
    }
    for (uint32_t number = 0; number < AHEAD; number++) {
        struct hr_announcement part = {.context = LAB_CONTEXT,
                                       .stream = LAB_LOADER << 32 | (20 + number % WORKERS),
                                       .batch = number,
                                       .parts = 1,
                                       .indices = order + (size_t)number * BATCH,
                                       .count = BATCH};
        hr_plan_announce(lab->plan, &part);
    }
    for (uint32_t i = BATCH; i < 2 * BATCH; i++) {
        hr_lookahead_opened(lab->plan, LAB_CONTEXT, lab->tree,
                            hr_tree_get(lab->plan, lab->tree)->index.names->gen,
                            lab_entry_in(lab, lab->tree, key_of(i, 0)));
    }
    assert_int_equal(lab_stats(lab).lookahead_learned, 1);
    lab_settle(lab);
}

/* Data sets that do not open one file for each index in each epoch, and yet are what they seem. */
static void check_no_alarm(struct lab *lab, unsigned files_a_sample, const struct way *way)
{
    const struct way first = {.walks = true};
    open_objects(lab, files_a_sample);
    read_batches(lab, &first, WORKERS);
    for (unsigned epoch = 0; epoch < 3; epoch++) {
        uint64_t announced = lab_stats(lab).announced;
        read_batches(lab, way, BATCHES);
        assert_true(lab_stats(lab).announced - announced >= 0.8 * SAMPLES);
    }
    assert_int_equal(lab_stats(lab).lookahead_dropped, 0);
}

static void test_samples_of_four_files(void **state)
{
    check_no_alarm(*state, 4, &(struct way){.walks = true});
}

static void test_samples_that_are_kept(void **state)
{
    check_no_alarm(*state, 1, &(struct way){.walks = true, .keeps = 3});
}

static void test_two_files_of_some_samples(void **state)
{
    check_no_alarm(*state, 2, &(struct way){.walks = true, .keeps = 2});
}

static void test_all_samples_are_kept(void **state)
{
    check_no_alarm(*state, 1, &(struct way){.walks = true, .keeps = 4});
}

static void test_lost_notes(void **state)
{
    check_no_alarm(*state, 2, &(struct way){.walks = true, .loses = true});
}

/* Opens of which nobody knows the batch: too many that were not announced, and nothing stays behind. */
static void test_opens_without_their_batch(void **state)
{
    struct lab *lab = *state;
    const struct way walk = {.walks = true}, untold = {.tells_no_tag = true};
    open_objects(lab, 1);
    read_batches(lab, &walk, 1);
    assert_int_equal(lab_stats(lab).lookahead_learned, 1);
    for (uint32_t batch = 1; lab_stats(lab).lookahead_dropped == 0; batch++) {
        assert_in_range(batch, 1, BATCHES - 1);
        open_batch(lab, &untold, batch);
    }
    check_nothing_pinned(lab);
}

int main(void)
{
#define LAB_TEST(name) cmocka_unit_test_setup_teardown(name, lab_set_up, lab_tear_down)
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_a_base_by_chance),          LAB_TEST(test_queues_go_round),
        LAB_TEST(test_batches_of_neighbours),     LAB_TEST(test_samples_of_four_files),
        LAB_TEST(test_samples_that_are_kept),     LAB_TEST(test_two_files_of_some_samples),
        LAB_TEST(test_all_samples_are_kept),      LAB_TEST(test_lost_notes),
        LAB_TEST(test_opens_without_their_batch),
    };
    return cmocka_run_group_tests_name("verdicts", tests, NULL, NULL);
}
