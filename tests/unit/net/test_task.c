/* hr_task: work on another thread, its end on the loop; ended from inside, and before the loop heard of it.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include "fetch/net/task.h"

struct job {
    struct hr_task task;
    pthread_t worker;
    char name[16];
    unsigned worked, done;
    bool ends_inside;
};

static void work(void *owner)
{
    struct job *job = owner;
    job->worker = pthread_self();
    (void)pthread_getname_np(job->worker, job->name, sizeof job->name);
    job->worked++;
}

static void done(void *owner)
{
    struct job *job = owner;
    struct hr_loop *loop = job->task.loop;
    assert_int_equal(job->worked, 1);
    job->done++;
    if (job->ends_inside) {
        hr_task_end(&job->task);
        memset(&job->task, 0, sizeof job->task); /* it may go with its owner */
    }
    hr_loop_stop(loop);
}

static void begin(struct job *job, struct hr_loop *loop)
{
    job->task = (struct hr_task){.loop = loop, .name = "test-task", .work = work, .done = done, .owner = job};
    assert_int_equal(hr_task_start(&job->task), 0);
}

static void runs(void **state)
{
    (void)state;
    for (int inside = 0; inside < 2; inside++) {
        struct job job = {.ends_inside = inside};
        struct hr_loop *loop;
        assert_int_equal(hr_loop_new(&loop), 0);
        begin(&job, loop);
        assert_int_equal(hr_loop_run(loop), 0);
        assert_int_equal(job.done, 1);
        assert_false(pthread_equal(job.worker, pthread_self()));
        assert_string_equal(job.name, "test-task");
        if (!inside) {
            hr_task_end(&job.task);
        }
        hr_loop_free(loop);
    }
}

static void stop_loop(void *owner)
{
    hr_loop_stop(owner);
}

static void ended_before_it_was_told(void **state)
{
    (void)state;
    struct job job = {.worked = 0};
    struct hr_loop *loop;
    assert_int_equal(hr_loop_new(&loop), 0);
    begin(&job, loop);
    hr_task_end(&job.task);
    assert_int_equal(job.worked, 1);
    struct hr_timer timer = HR_TIMER_INIT(stop_loop, loop);
    assert_int_equal(hr_loop_arm(loop, &timer, 0), 0);
    assert_int_equal(hr_loop_run(loop), 0);
    assert_int_equal(job.done, 0);
    hr_loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs),
        cmocka_unit_test(ended_before_it_was_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
