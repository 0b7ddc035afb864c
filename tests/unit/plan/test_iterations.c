/* Which batches are one loader's way through one epoch: announcements of its queues in any order, descriptors
 * that come again, several loaders at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "fetch/plan/iterations.h"

#define PROCESS UINT64_C(4711)
#define QUEUES 16 /* descriptors */

static struct hr_iterations iterations;
static struct stream streams[QUEUES];

static int set_up(void **state)
{
    (void)state;
    memset(&iterations, 0, sizeof iterations);
    for (unsigned i = 0; i < QUEUES; i++) {
        streams[i] = (struct stream){.id = PROCESS << 32 | i, .base = -1};
    }
    return 0;
}

static uint64_t note(unsigned queue, uint32_t number)
{
    const struct hr_iteration *iteration = hr_iteration_note(&iterations, &streams[queue], number);
    hr_iteration_tie(&streams[queue], iteration, number);
    return iteration->id;
}

/* Its batches but the first ones, by turns. */
static void go_on(const unsigned *queues, uint32_t workers, uint32_t end, uint64_t iteration)
{
    for (uint32_t number = 2 * workers; number < end; number++) {
        assert_int_equal(note(queues[number % workers], number), iteration);
    }
}

/* Queues are written to by a thread each: the last worker's two batches may be heard of first. */
static void test_first_announcements_in_any_order(void **state)
{
    const unsigned orders[][4] = {{3, 2, 0, 1}, {1, 0, 3, 2}, {0, 1, 2, 3}, {2, 3, 1, 0}};
    const unsigned queues[] = {0, 1, 2, 3};
    (void)state;
    for (unsigned epoch = 0; epoch < 4; epoch++) {
        for (unsigned i = 0; i < 4; i++) {
            unsigned worker = orders[epoch][i];
            assert_int_equal(note(queues[worker], worker), epoch + 1);
            assert_int_equal(note(queues[worker], worker + 4), epoch + 1);
        }
        go_on(queues, 4, 32, epoch + 1);
    }
}

/* Workers that are not kept have other descriptors in each epoch, some of them new. */
static void test_descriptors_that_come_again(void **state)
{
    const unsigned queues[][4] = {{0, 1, 2, 3}, {3, 0, 5, 1}, {7, 5, 2, 0}};
    (void)state;
    for (unsigned epoch = 0; epoch < 3; epoch++) {
        for (unsigned i = 4; i-- > 0;) {
            assert_int_equal(note(queues[epoch][i], i), epoch + 1);
            assert_int_equal(note(queues[epoch][i], i + 4), epoch + 1);
        }
        go_on(queues[epoch], 4, 32, epoch + 1);
    }
}

/* Fewer batches than workers: what comes next on those queues has higher numbers, and is another one's. */
static void test_epochs_of_a_batch_a_worker(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(note(i, i), 1);
    }
    assert_int_equal(note(0, 2), 2);
    assert_int_equal(note(1, 0), 2);
    assert_int_equal(note(2, 1), 2);
}

/* Of two that keep their workers, mixed as they come. */
static void test_two_side_by_side(void **state)
{
    const unsigned one[] = {0, 1}, other[] = {2, 3};
    (void)state;
    for (uint32_t number = 0; number < 4; number++) {
        assert_int_equal(note(one[number % 2], number), 1);
    }
    for (uint32_t number = 0; number < 4; number++) {
        assert_int_equal(note(other[number % 2], number), 2);
    }
    go_on(one, 2, 20, 1);
    go_on(other, 2, 20, 2);
    for (uint32_t number = 0; number < 4; number++) {
        assert_int_equal(note(one[number % 2], number), 3);
        assert_int_equal(note(other[number % 2], number), 4);
    }
    go_on(other, 2, 20, 4);
    go_on(one, 2, 20, 3);
    assert_int_equal(note(other[0], 0), 5);
    assert_int_equal(note(one[1], 1), 6);
    assert_int_equal(note(other[1], 1), 5);
    assert_int_equal(note(one[0], 0), 6);
}

/* One that has no queue for a number takes none of another's, however late it comes. */
static void test_evaluations_inside_an_epoch(void **state)
{
    const unsigned one[] = {0, 1};
    (void)state;
    for (uint32_t number = 0; number < 10; number++) {
        assert_int_equal(note(one[number % 2], number), 1);
    }
    for (uint64_t times = 0; times < 3; times++) {
        for (uint32_t number = 0; number < 5; number++) {
            assert_int_equal(note(2 + number % 2, number), 2 + times);
        }
        assert_int_equal(note(one[0], 10 + 2 * (uint32_t)times), 1);
        assert_int_equal(note(one[1], 11 + 2 * (uint32_t)times), 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_first_announcements_in_any_order, set_up),
        cmocka_unit_test_setup(test_descriptors_that_come_again, set_up),
        cmocka_unit_test_setup(test_epochs_of_a_batch_a_worker, set_up),
        cmocka_unit_test_setup(test_two_side_by_side, set_up),
        cmocka_unit_test_setup(test_evaluations_inside_an_epoch, set_up),
    };
    return cmocka_run_group_tests_name("iterations of loaders", tests, NULL, NULL);
}
