/* Who waits: each wait is noted once, however often it is asked for, and ends once, whatever ends it. */
#include "tests/unit/plan/lab.h"

#include "fetch/serve/waits.h"

#define THREADS 5000 /* more than are noted */

static struct hr_waits *waits;
static struct hr_wait_ended last;
static unsigned ended;

static void on_ended(void *owner, const struct hr_wait_ended *wait)
{
    assert_ptr_equal(owner, &ended);
    last = *wait;
    ended++;
}

static void begin(struct lab *lab, const struct lab_options *options)
{
    s3_add(lab->s3, "a", 1000);
    s3_add(lab->s3, "b", 1000);
    s3_add(lab->s3, "large", 20 * MIB);
    lab_open(lab, options);
    ended = 0;
    assert_int_equal(hr_waits_new(lab->plan, on_ended, &ended, &waits), 0);
}

/* As the daemon does it: what still waits is answered when the plan goes. */
static void end(struct lab *lab)
{
    s3_hold(lab->s3, false, false);
    lab_close(lab);
    hr_waits_free(waits);
}

static struct hr_slot slot_of(struct lab *lab, uint32_t tid, const char *path)
{
    return (struct hr_slot){.op = HR_OP_FETCH,
                            .tree = lab->tree,
                            .gen = hr_tree_get(lab->plan, lab->tree)->index.names->gen,
                            .entry = lab_entry_in(lab, lab->tree, path),
                            .pid = 7,
                            .tid = tid,
                            .context = 3};
}

static void fetch(struct lab *lab, uint32_t tid, const char *path)
{
    struct hr_slot slot = slot_of(lab, tid, path);
    hr_waits_begin(waits, &slot);
    bool on_its_way = hr_plan_fetch(lab->plan, slot.tree, slot.gen, slot.entry);
    hr_waits_begun(waits, &slot, on_its_way);
}

static void ask_name(struct lab *lab, uint32_t tid, uint32_t ticket, enum hr_op op, const char *path)
{
    struct hr_slot slot = {.op = op, .tree = lab->tree, .ticket = ticket, .pid = 7, .tid = tid, .context = 3};
    slot.path_len = (uint32_t)strlen(path);
    memcpy(slot.path, path, slot.path_len);
    hr_waits_begin(waits, &slot);
    struct hr_asker asker = hr_waits_asker(waits, lab->plan, ticket);
    hr_plan_ask(lab->plan, op, lab->tree, path, slot.path_len, &asker);
    hr_waits_begun(waits, &slot, true);
}

static uint64_t count_of(enum hr_wait_reason reason)
{
    struct hr_wait_sum sums[HR_WAIT_REASONS];
    hr_waits_sum(waits, sums);
    return sums[reason].count;
}

static size_t open_waits(void)
{
    json_t *list = hr_waits_json(waits);
    size_t count = json_array_size(list);
    json_decref(list);
    return count;
}

static unsigned wanted;

static bool have_ended(struct lab *lab)
{
    (void)lab;
    return ended >= wanted;
}

static void wait_ended(struct lab *lab, unsigned count)
{
    wanted = count;
    lab_until(lab, have_ended);
    assert_int_equal(ended, count);
}

static void test_asked_again_is_one_wait(void **state)
{
    struct lab *lab = *state;
    begin(lab, &(struct lab_options){0});
    lab_list(lab);
    s3_hold(lab->s3, true, false);
    for (unsigned i = 0; i < 3; i++) {
        fetch(lab, 1, "a");
    }
    fetch(lab, 2, "a"); /* another thread, the same object */
    assert_int_equal(open_waits(), 2);
    assert_int_equal(ended, 0);
    s3_hold(lab->s3, false, false);
    wait_ended(lab, 2);
    assert_int_equal(count_of(HR_WAIT_DEMAND), 2);
    assert_int_equal(last.context, 3);
    assert_int_equal(last.pid, 7);
    assert_int_equal(open_waits(), 0);
    fetch(lab, 1, "a"); /* it is there */
    assert_int_equal(open_waits(), 0);
    assert_int_equal(ended, 2);
    end(lab);
}

static void test_a_thread_waits_for_one_thing(void **state)
{
    struct lab *lab = *state;
    begin(lab, &(struct lab_options){0});
    lab_list(lab);
    s3_hold(lab->s3, true, false);
    fetch(lab, 1, "a");
    fetch(lab, 1, "b");
    assert_int_equal(open_waits(), 1);
    assert_int_equal(ended, 1);
    s3_hold(lab->s3, false, false);
    wait_ended(lab, 2);
    end(lab);
}

static void test_names_listings_and_what_they_count_as(void **state)
{
    struct lab *lab = *state;
    begin(lab, &(struct lab_options){0});
    ask_name(lab, 1, 10, HR_OP_LOOK, "a");
    wait_ended(lab, 1);
    assert_int_equal(count_of(HR_WAIT_NAME), 1);
    assert_int_equal(atomic_load(&lab->control->answers[10].word), 10); /* and the client has its answer */
    ask_name(lab, 1, 11, HR_OP_LOOK, "a");                              /* remembered: answered at once */
    assert_int_equal(ended, 1);
    ask_name(lab, 1, 12, HR_OP_OPEN, "a");
    wait_ended(lab, 2);
    assert_int_equal(count_of(HR_WAIT_DEMAND), 1);
    ask_name(lab, 1, 13, HR_OP_LIST, "");
    wait_ended(lab, 3);
    assert_int_equal(count_of(HR_WAIT_LISTING), 1);
    end(lab);
}

static void test_late_is_what_was_on_its_way(void **state)
{
    struct lab *lab = *state;
    begin(lab, &(struct lab_options){0});
    lab_list(lab);
    s3_hold(lab->s3, true, false);
    struct hr_plan_tree *tree = hr_tree_get(lab->plan, lab->tree);
    char etag[136];
    assert_true(hr_index_etag(&tree->index, lab_entry_in(lab, lab->tree, "b"), etag, sizeof etag) > 0);
    assert_non_null(hr_want_add(tree, "b", 1, HR_REASON_LOOKAHEAD, 1000, 0, etag));
    hr_plan_pump(lab->plan);
    fetch(lab, 1, "b");
    fetch(lab, 2, "a");
    s3_hold(lab->s3, false, false);
    wait_ended(lab, 2);
    assert_int_equal(count_of(HR_WAIT_LATE), 1);
    assert_int_equal(count_of(HR_WAIT_DEMAND), 1);
    end(lab);
}

static void test_more_threads_than_are_noted(void **state)
{
    struct lab *lab = *state;
    begin(lab, &(struct lab_options){0});
    lab_list(lab);
    s3_hold(lab->s3, true, false);
    for (uint32_t tid = 1; tid <= THREADS; tid++) {
        fetch(lab, tid, tid % 2 ? "a" : "b");
    }
    assert_int_equal(open_waits(), 4096);
    s3_hold(lab->s3, false, false);
    wait_ended(lab, 4096);
    assert_int_equal(open_waits(), 0);
    end(lab);
}

static void test_waits_that_the_end_of_the_plan_ends(void **state)
{
    struct lab *lab = *state;
    begin(lab, &(struct lab_options){0});
    lab_list(lab);
    s3_hold(lab->s3, true, false);
    fetch(lab, 1, "a");
    ask_name(lab, 2, 10, HR_OP_OPEN, "b");
    assert_int_equal(open_waits(), 2);
    end(lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_asked_again_is_one_wait, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_a_thread_waits_for_one_thing, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_names_listings_and_what_they_count_as, lab_set_up,
                                        lab_tear_down),
        cmocka_unit_test_setup_teardown(test_late_is_what_was_on_its_way, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_more_threads_than_are_noted, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_waits_that_the_end_of_the_plan_ends, lab_set_up, lab_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
