/* What is fetched for nobody in particular ends with the last job that could use it. */
#include "tests/unit/plan/lab.h"

#include <jansson.h>
#include <signal.h>
#include <sys/wait.h>

#include "fetch/serve/jobs.h"

#define OBJECTS 60u
#define OPENED 16u
#define CONTEXT 1u /* and the next one */

static struct hr_jobs *jobs;
static size_t jobs_wanted;

static char *key_of(unsigned i)
{
    static char key[16];
    snprintf(key, sizeof key, "k%05u", i);
    return key;
}

static bool jobs_are_left(struct lab *lab)
{
    json_t *all = hr_jobs_json(jobs);
    size_t count = json_array_size(json_object_get(all, "jobs"));
    (void)lab;
    json_decref(all);
    return count == jobs_wanted;
}

static bool memory_is_full(struct lab *lab)
{
    return lab_stats(lab).queued == 1;
}

static pid_t begin_job(struct lab *lab, uint32_t context)
{
    pid_t pid = fork();
    if (pid == 0) {
        for (;;) {
            pause();
        }
    }
    assert_true(pid > 0);
    lab->control->contexts[context].map_count = 1;
    lab->control->contexts[context].tree[0] = lab->tree;
    hr_jobs_began(jobs, context, "program", (uint32_t)pid);
    return pid;
}

static void end_job(struct lab *lab, pid_t pid, size_t left)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    jobs_wanted = left;
    lab_until(lab, jobs_are_left);
    assert_true(jobs_are_left(lab));
}

/* Some objects of the sweep are on their way, one is queued. */
static void hold_a_sweep(struct lab *lab)
{
    struct hr_plan_tree *tree = hr_tree_get(lab->plan, lab->tree);
    lab_list(lab);
    tree->sweep_done = true;
    for (unsigned i = 0; i < OPENED; i++) {
        assert_int_equal(lab_open_entry(lab, key_of(i)), 0);
    }
    lab_settle(lab);
    assert_int_equal(s3_gets(lab->s3), OPENED);
    s3_hold(lab->s3, true, false);
    tree->sweep_done = false;
    lab_until(lab, memory_is_full);
    assert_int_equal(lab_stats(lab).queued, 1);
}

static void test_sweep_ends_with_the_last_job(void **state)
{
    struct lab *lab = *state;
    for (unsigned i = 0; i < OBJECTS; i++) {
        s3_add(lab->s3, key_of(i), 256 * KIB);
    }
    lab_open(lab, &(struct lab_options){.prefetch = true, .memory_bytes = 4 * MIB});
    struct hr_jobs_options options = {.loop = lab->loop,
                                      .cache_dir = lab->dir,
                                      .plan = lab->plan,
                                      .control = lab->control,
                                      .stores = lab->stores,
                                      .cache = lab->cache};
    assert_int_equal(hr_jobs_new(&options, &jobs), 0);
    pid_t first = begin_job(lab, CONTEXT), second = begin_job(lab, CONTEXT + 1);
    hold_a_sweep(lab);
    unsigned asked = OPENED + lab_stats(lab).in_flight;
    assert_in_range(asked, OPENED + 1, OBJECTS - 2);
    end_job(lab, first, 1); /* the other one has the tree, too */
    assert_int_equal(lab_stats(lab).queued, 1);
    end_job(lab, second, 0);
    assert_int_equal(lab_stats(lab).queued, 0);
    assert_int_equal(OPENED + lab_stats(lab).in_flight, asked);
    s3_hold(lab->s3, false, false);
    lab_settle(lab); /* what was asked for comes, and nothing else */
    assert_int_equal(s3_gets(lab->s3), asked);
    lab_check_entry(lab, key_of(asked - 1));
    assert_int_equal(HR_STATE_KIND(lab_word(lab, key_of(asked))), HR_STATE_ABSENT);
    /* Somebody waits: it goes on, and leaves out nothing. */
    assert_int_equal(lab_open_entry(lab, key_of(OBJECTS - 1)), 0);
    lab_settle(lab);
    for (unsigned i = 0; i < OBJECTS; i++) {
        lab_check_entry(lab, key_of(i));
    }
    assert_int_equal(s3_gets(lab->s3), OBJECTS);
    hr_jobs_stop(jobs);
    hr_jobs_free(jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sweep_ends_with_the_last_job, lab_set_up, lab_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
