/* What the tests of a keeper of credentials share: a home, a scripted server, a loop, and what a keeper is to
 * come to have. */
#ifndef TESTS_AUTH_KEEPER_H
#define TESTS_AUTH_KEEPER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fetch/auth/keeper.h"
#include "tests/unit/store/script_server.h"
#include "tests/unit/store/variables.h"

/* What a case runs in: a home of its own, a scripted server, a loop. "@PORT" in a file or a variable is the
 * server's port. */
struct bed {
    char home[64];
    struct script script;
    struct hr_loop *loop;
    struct hr_http *http;
    struct hr_keepers *keepers;
    struct variable env[8];
    char message[256];
    unsigned woken;
};

static inline void fill(const struct bed *bed, const char *text, char *ret, size_t room)
{
    const char *at = strstr(text, "@PORT");
    const char *home = strstr(text, "@HOME");

    if (at != NULL) {
        (void)snprintf(ret, room, "%.*s%u%s", (int)(at - text), text, bed->script.port, at + 5);
    } else if (home != NULL) {
        (void)snprintf(ret, room, "%.*s%s%s", (int)(home - text), text, bed->home, home + 5);
    } else {
        (void)snprintf(ret, room, "%s", text);
    }
}

static inline const char *from_bed(void *owner, const char *name)
{
    static char values[8][256];
    struct bed *bed = owner;

    for (int i = 0; i < 8 && bed->env[i].name != NULL; i++) {
        if (strcmp(bed->env[i].name, name) == 0) {
            fill(bed, bed->env[i].value, values[i], sizeof(values[i]));
            return values[i];
        }
    }
    return NULL;
}

static inline void write_file(struct bed *bed, const char *name, const char *text)
{
    char path[256], filled[4096];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", bed->home, name);
    fill(bed, text, filled, sizeof(filled));
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(filled, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static inline int set_up(void **state)
{
    struct bed *bed = calloc(1, sizeof(*bed));
    struct hr_http_options options = {.threads = 1, .max_connections = 4, .user_agent = "test"};
    static const char *const folders[] = {".aws", ".aws/sso", ".aws/sso/cache"};
    char path[128];

    (void)snprintf(bed->home, sizeof(bed->home), "/tmp/headrace-keeper-XXXXXX");
    if (mkdtemp(bed->home) == NULL) {
        return -1;
    }
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", bed->home, folders[i]);
        (void)mkdir(path, 0700);
    }
    if (hr_loop_new(&bed->loop) < 0 || hr_http_new(&options, bed->loop, &bed->http) < 0) {
        return -1;
    }
    *state = bed;
    return hr_keepers_new(bed->loop, bed->http, &bed->keepers);
}

static inline int tear_down(void **state)
{
    struct bed *bed = *state;
    char command[128];

    hr_http_free(bed->http);
    hr_keepers_free(bed->keepers);
    hr_loop_free(bed->loop);
    (void)snprintf(command, sizeof(command), "rm -rf %s", bed->home);
    int r = system(command);
    free(bed);
    return r;
}

static inline void play(struct bed *bed, const struct script_step *steps, unsigned count)
{
    memcpy(bed->script.steps, steps, count * sizeof(*steps));
    bed->script.step_count = count;
    assert_int_equal(script_start(&bed->script), 0);
}

static inline struct hr_keeper *open_keeper(struct bed *bed, const char *identity)
{
    struct hr_chain *chain = NULL;
    struct hr_keeper *keeper = NULL;
    char *who;

    if (hr_chain_new(from_bed, bed, bed->message, &chain) < 0) {
        fail_msg("%s", bed->message);
    }
    assert_non_null(hr_chain_way(chain));
    who = hr_chain_identity(chain);
    if (strncmp(who, identity, strlen(identity)) != 0) {
        fail_msg("identity %s, expected %s", who, identity);
    }
    free(who);
    assert_int_equal(hr_keeper_get(bed->keepers, chain, &keeper), 0);
    hr_chain_free(chain);
    return keeper;
}

static inline void on_woken(void *owner)
{
    struct bed *bed = owner;

    bed->woken++;
    hr_loop_stop(bed->loop);
}

static inline void wait_for(struct bed *bed, struct hr_keeper *keeper)
{
    struct hr_keeper_wait wait = {.fn = on_woken, .owner = bed};

    assert_int_equal(hr_keeper_wait(keeper, &wait), 0);
    assert_int_equal(hr_loop_run(bed->loop), 0);
    assert_null(wait.keeper);
}

static inline void expect_keys(struct bed *bed, struct hr_keeper *keeper, const char *id, const char *token)
{
    const char *why = "";

    wait_for(bed, keeper);
    if (hr_keeper_failure(keeper, &why) != 0) {
        fail_msg("%s", why);
    }
    assert_true(hr_keeper_ready(keeper));
    assert_string_equal(hr_keeper_credentials(keeper)->access_key_id, id);
    assert_string_equal(hr_keeper_credentials(keeper)->secret, "se+cr/et");
    if (token != NULL) {
        assert_string_equal(hr_keeper_credentials(keeper)->session_token, token);
    }
}

static inline void expect_failure(struct bed *bed, struct hr_keeper *keeper, int error, const char *says)
{
    const char *why = "";

    wait_for(bed, keeper);
    assert_false(hr_keeper_ready(keeper));
    assert_int_equal(hr_keeper_failure(keeper, &why), error);
    if (strstr(why, says) == NULL) {
        fail_msg("%s: expected %s", why, says);
    }
    assert_null(strchr(why, '\n'));
    assert_null(strstr(why, "se+cr/et"));
    assert_null(strstr(why, "bearer-token"));
}

#define BED_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
