/* Credentials that a program prints: what is made of its words, its end and its lack of one. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "fetch/auth/process.h"
#include "tests/unit/auth/keeper.h"

static void process_prints_a_document(void **state)
{
    struct bed *bed = *state;
    struct stat st;
    char path[128];

    write_file(bed, "helper",
               "#!/bin/sh\necho \"$#:$1:$2:$HOME:$AWS_PROFILE:$LD_PRELOAD\" > \"$HOME/seen\"\n"
               "echo '{\"Version\": 1, \"AccessKeyId\": \"AKPROC\", \"SecretAccessKey\": \"se+cr/et\"}'\n"
               "sleep 3 &\n"); /* what it leaves behind holds the pipe, and is not waited for */
    (void)snprintf(path, sizeof(path), "%s/helper", bed->home);
    assert_int_equal(chmod(path, 0700), 0);
    write_file(bed, ".aws/config", "[profile p]\ncredential_process = @HOME/helper 'a b' $HOME\n");
    bed->env[0] = (struct variable){"HOME", "@HOME"};
    bed->env[1] = (struct variable){"AWS_PROFILE", "p"};
    struct hr_keeper *keeper = open_keeper(bed, "process:p:");
    expect_keys(bed, keeper, "AKPROC", NULL);
    assert_null(hr_keeper_credentials(keeper)->session_token);
    hr_keeper_unref(keeper);
    char seen[256] = "", expected[256];
    (void)snprintf(path, sizeof(path), "%s/seen", bed->home);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(seen, sizeof(seen), file));
    (void)fclose(file);
    (void)snprintf(expected, sizeof(expected), "2:a b:$HOME:%s:p:\n", bed->home); /* no shell looked at it */
    assert_string_equal(seen, expected);
    assert_int_equal(stat(path, &st), 0);
}

static void process_that_fails(void **state)
{
    struct bed *bed = *state;
    static const struct {
        const char *config;
        int error;
        const char *says;
    } rows[] = {
        {"[default]\ncredential_process = false se+cr/et\n", -EACCES, "ended with status 1: run it by hand"},
        {"[default]\ncredential_process = /nonexistent/helper\n", -EACCES, "cannot be started: No such file"},
        {"[default]\ncredential_process = echo '{\"Version\":2}'\n", -EIO, "Version 1"},
        {"[default]\ncredential_process = echo se+cr/et\n", -EIO, "did not print a JSON document"},
        {"[default]\ncredential_process = head -c 70000 /dev/zero\n", -EIO, "more than 64 KiB"},
        {"[default]\ncredential_process = sh -c 'kill -9 $$'\n", -EACCES, "signal 9"},
    };

    bed->env[0] = (struct variable){"HOME", "@HOME"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        write_file(bed, ".aws/config", rows[i].config);
        struct hr_keeper *keeper = open_keeper(bed, "process:default:");
        expect_failure(bed, keeper, rows[i].error, rows[i].says);
        hr_keeper_unref(keeper);
    }
}

struct outcome {
    int error;
    unsigned calls;
    struct hr_loop *loop;
};

static void on_process_end(void *owner, const struct hr_process_result *result)
{
    struct outcome *outcome = owner;

    outcome->error = result->error;
    outcome->calls++;
    hr_loop_stop(outcome->loop);
}

static void process_that_does_not_end(void **state)
{
    struct bed *bed = *state;
    struct hr_process *process = NULL;
    struct outcome outcome = {.loop = bed->loop};
    const char *const words[] = {"sleep", "1000", NULL};
    char *none[] = {NULL};

    assert_int_equal(hr_process_start(bed->loop, (char *const *)(uintptr_t)words, none, 50, on_process_end,
                                      &outcome, &process),
                     0);
    assert_int_equal(hr_loop_run(bed->loop), 0);
    assert_int_equal(outcome.error, -ETIMEDOUT);
    assert_int_equal(outcome.calls, 1);
    hr_process_free(process);
    /* Given up while it runs: ended, and no word of it. */
    assert_int_equal(hr_process_start(bed->loop, (char *const *)(uintptr_t)words, none, 60000, on_process_end,
                                      &outcome, &process),
                     0);
    hr_process_free(process);
    assert_int_equal(outcome.calls, 1);
}

static void command_lines_are_split(void **state)
{
    static const struct {
        const char *line;
        const char *words[4]; /* none: refused */
    } rows[] = {
        {"a", {"a"}},
        {"  a\tb\n c ", {"a", "b", "c"}},
        {"a 'b c' \"d 'e\"", {"a", "b c", "d 'e"}},
        {"a\\ b \"\\\"\\\\\\n\"", {"a b", "\"\\\\n"}},
        {"x'y'\"z\" ''", {"xyz", ""}},
        {"'a\\b' $HOME", {"a\\b", "$HOME"}},
        {"", {NULL}},
        {"  ", {NULL}},
        {"a 'b", {NULL}},
        {"a \"b", {NULL}},
        {"a \\", {NULL}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char **words = NULL;
        int r = hr_words(rows[i].line, &words);
        size_t count = 0;

        assert_int_equal(r, rows[i].words[0] != NULL ? 0 : -EINVAL);
        for (; r == 0 && words[count] != NULL; count++) {
            assert_non_null(rows[i].words[count]);
            assert_string_equal(words[count], rows[i].words[count]);
        }
        assert_null(rows[i].words[count]);
        free(words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BED_TEST(process_prints_a_document),
        BED_TEST(process_that_fails),
        BED_TEST(process_that_does_not_end),
        cmocka_unit_test(command_lines_are_split),
    };
    return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}
