/* What loaders announce, where a sample has more than one file or no base explains them. */
#include "tests/unit/plan/lab.h"

#include "fetch/plan/order_thread.h"
#include "fetch/plan/votes.h"

#define SAMPLES 400u
#define BATCH 8u
#define BATCHES (SAMPLES / BATCH)
#define WORKERS 2u /* lab_announce deals batches out to so many */

static uint32_t order[SAMPLES];
static const char *layout; /* of two files a sample, as printf has it: number, which of them */
static unsigned files;     /* a sample */

/* Until the next call. */
static const char *key_of(uint32_t sample, unsigned which)
{
    static char key[40];
    if (files == 1) {
        snprintf(key, sizeof key, "train/%05u", (sample * 173u + 71u) % SAMPLES); /* in nobody's order */
    } else if (layout[0] == 'b') {
        snprintf(key, sizeof key, "both/%05u.%c", sample, "ab"[which]);
    } else {
        snprintf(key, sizeof key, "%s/%05u", which ? "masks" : "images", sample);
    }
    return key;
}

static void open_objects(struct lab *lab, const char *how, unsigned files_a_sample)
{
    layout = how;
    files = files_a_sample;
    uint32_t at = 12345;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        order[i] = i;
        for (unsigned which = 0; which < files; which++) {
            s3_add(lab->s3, key_of(i, which), 1000);
        }
    }
    for (uint32_t i = SAMPLES - 1; i > 0; i--) { /* a shuffle that nobody searches for */
        at = at * 1103515245u + 12345u;
        uint32_t other = (at >> 8) % (i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    s3_add(lab->s3, "other", 1000);
    lab_open(lab, &(struct lab_options){.prefetch = true});
    lab->plan->options.lookahead = true;
    lab->plan->options.order_search = HR_ORDER_MODE_OFF;
    lab_list(lab);
}

static bool is_there(struct lab *lab, const char *key)
{
    return HR_STATE_KIND(lab_word(lab, key)) == HR_STATE_RESIDENT;
}

/* As a worker does it. True: it was there before. */
static bool open_file(struct lab *lab, const char *key)
{
    bool there = is_there(lab, key);
    if (!there) {
        hr_lookahead_opened(lab->plan, LAB_CONTEXT, lab->tree,
                            hr_tree_get(lab->plan, lab->tree)->index.names->gen,
                            lab_entry_in(lab, lab->tree, key));
        assert_int_equal(lab_open_entry(lab, key), 0);
    }
    lab_note(lab, key);
    return there;
}

/* An epoch whose loader is two batches a worker ahead. How many files were not there when they were opened.
 */
static unsigned read_epoch(struct lab *lab)
{
    unsigned late = 0;
    hr_tree_get(lab->plan, lab->tree)->sweep_done = true; /* look-ahead alone */
    for (uint32_t batch = 0; batch < BATCHES; batch++) {
        for (uint32_t number = batch ? batch + 2 * WORKERS - 1 : 0;
             number < batch + 2 * WORKERS && number < BATCHES; number++) {
            lab_announce(lab, order, BATCH, number);
        }
        lab_settle(lab);
        for (uint32_t i = batch * BATCH; i < (batch + 1) * BATCH; i++) {
            for (unsigned which = 0; which < files; which++) {
                char key[40];
                snprintf(key, sizeof key, "%s", key_of(order[i], which));
                late += !open_file(lab, key);
            }
        }
    }
    return late;
}

/* Both files of each sample are brought for the announcement of it, nothing else is, and none twice. */
static void check_samples(struct lab *lab)
{
    unsigned late = read_epoch(lab);
    struct hr_plan_stats stats = lab_stats(lab);
    assert_in_range(late, 1, 3 * BATCH); /* until both bases are known */
    assert_int_equal(stats.fetched[HR_REASON_LOOKAHEAD], files * SAMPLES - late);
    assert_int_equal(stats.lookahead_learned, files);
    assert_int_equal(stats.lookahead_dropped, 0);
    assert_int_equal(stats.lookahead_waiting, 0);
    assert_int_equal(s3_gets(lab->s3), files * SAMPLES);
}

static void test_images_and_masks(void **state)
{
    struct lab *lab = *state;
    open_objects(lab, "apart", 2);
    check_samples(lab);
}

static void test_files_side_by_side(void **state)
{
    struct lab *lab = *state;
    open_objects(lab, "both", 2);
    check_samples(lab);
}

/* Of a table that nobody knows: chance explains an open now and then, and never enough of them. */
static void test_no_base_explains_them(void **state)
{
    struct lab *lab = *state;
    open_objects(lab, "apart", 1);
    for (unsigned epoch = 0; epoch < 5; epoch++) {
        unsigned late = read_epoch(lab);
        assert_int_equal(late, epoch == 0 ? SAMPLES : 0);
    }
    assert_int_equal(lab_stats(lab).lookahead_learned, 0);
    assert_int_equal(lab_stats(lab).fetched[HR_REASON_LOOKAHEAD], 0);
    assert_int_equal(s3_gets(lab->s3), SAMPLES);
}

/* One sample's further file is not read by this program: what was taken for it is given up. */
static void test_masks_that_are_read_no_more(void **state)
{
    struct lab *lab = *state;
    open_objects(lab, "apart", 2);
    (void)read_epoch(lab);
    assert_int_equal(lab_stats(lab).lookahead_learned, 2);
    uint64_t announced = lab_stats(lab).announced;
    files = 3; /* images alone: key_of is the same */
    for (uint32_t batch = 0; batch < BATCHES; batch++) {
        lab_announce(lab, order, BATCH, batch);
        lab_settle(lab);
        for (uint32_t i = batch * BATCH; i < (batch + 1) * BATCH; i++) {
            lab_note(lab, key_of(order[i], 0));
        }
        hr_plan_drain(lab->plan);
    }
    struct hr_plan_stats stats = lab_stats(lab);
    assert_int_equal(stats.lookahead_dropped, 1);
    assert_in_range(stats.announced - announced, SAMPLES, SAMPLES + 4 * WORKERS * BATCH);
    assert_int_equal(s3_gets(lab->s3), 2 * SAMPLES);
}

static struct hr_guess guess_of(int64_t value)
{
    static const char tree;
    return (struct hr_guess){.tree = &tree, .gen = 1, .stride = 1, .value = value, .with = -1};
}

static void test_votes(void **state)
{
    static struct hr_votes votes;
    struct hr_odds large = {.files = 1000000, .bases = 1000, .suggests = 16};
    struct hr_odds small = {.files = 1000, .bases = 100, .suggests = 16};
    struct hr_guess one = guess_of(5), other = guess_of(6);
    unsigned opens = 0;
    (void)state;
    votes.opens = 1;
    assert_false(hr_vote_for(&votes, &one, &large));
    assert_false(hr_vote_for(&votes, &one, &large)); /* one open, one vote */
    assert_false(hr_vote_for(&votes, &other, &large));
    votes.opens = 2;
    assert_true(hr_vote_for(&votes, &one, &large)); /* two of a million files in a row are no chance */
    hr_votes_clear(&votes);
    do {
        votes.opens++;
        opens++;
    } while (!hr_vote_for(&votes, &one, &small));
    assert_in_range(opens, 3, 6);
    votes.wrong++; /* what was taken back makes the next one wait longer */
    unsigned before = opens;
    hr_votes_clear(&votes);
    opens = 0;
    do {
        votes.opens++;
        opens++;
    } while (!hr_vote_for(&votes, &one, &small));
    assert_true(opens > before);
    hr_votes_clear(&votes);
    for (unsigned i = 0; i < 1000; i++) { /* as rarely as chance brings it */
        votes.opens += 63;
        assert_false(hr_vote_for(&votes, &one, &small));
    }
}

int main(void)
{
#define LAB_TEST(name) cmocka_unit_test_setup_teardown(name, lab_set_up, lab_tear_down)
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_images_and_masks),      LAB_TEST(test_files_side_by_side),
        LAB_TEST(test_no_base_explains_them), LAB_TEST(test_masks_that_are_read_no_more),
        cmocka_unit_test(test_votes),
    };
    return cmocka_run_group_tests_name("samples", tests, NULL, NULL);
}
