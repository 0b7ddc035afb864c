/* What a keeper does much later: the clock is the test's, so that no case waits. */
#include "tests/unit/auth/keeper.h"

#include <errno.h>
#include <time.h>

#include "fetch/base/clock.h"
#include "fetch/net/loop.h"

static _Atomic int64_t ahead_ms;

int64_t hr_clock_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 + ahead_ms * 1000;
}

int64_t hr_clock_ms(void)
{
    return hr_clock_us() / 1000;
}

int64_t hr_clock_wall_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + ahead_ms * 1000000;
}

uint64_t hr_random_u64(void)
{
    static _Atomic uint64_t state;
    return (state += 0x9e3779b97f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;
}

double hr_random_unit(void)
{
    return 0.5;
}

#define OK(body)                                                                                             \
    {                                                                                                        \
        "200 OK\r\n", body, 0                                                                                \
    }
#define KEYS                                                                                                 \
    "{\"Code\":\"Success\",\"AccessKeyId\":\"ASIAEC2\",\"SecretAccessKey\":\"se+cr/et\",\"Token\":\"tk\","   \
    "\"Expiration\":\"2199-01-01T00:00:00Z\"}"
#define MINUTES_MS 120000
#define LOOKS 2000 /* of 5 ms: far more than an asking on this machine takes */

struct look {
    struct bed *bed;
    struct hr_keeper *keeper;
    struct hr_timer timer;
    unsigned generation, left;
    int failure;
};

static void look_again(void *owner)
{
    struct look *look = owner;
    const char *why;

    if (hr_keeper_generation(look->keeper) != look->generation ||
        hr_keeper_failure(look->keeper, &why) != look->failure || look->left-- == 0 ||
        hr_loop_arm(look->bed->loop, &look->timer, 5) < 0) {
        hr_loop_stop(look->bed->loop);
    }
}

/* Runs until the keeper has something else, or asked in vain, or for so many looks. */
static void run_for(struct bed *bed, struct hr_keeper *keeper, unsigned looks)
{
    struct look look = {
        .bed = bed, .keeper = keeper, .generation = hr_keeper_generation(keeper), .left = looks};

    const char *why;

    look.failure = hr_keeper_failure(keeper, &why);
    look.timer = (struct hr_timer)HR_TIMER_INIT(look_again, &look);
    assert_int_equal(hr_loop_arm(bed->loop, &look.timer, 0), 0);
    assert_int_equal(hr_loop_run(bed->loop), 0);
}

/* A metadata service that was out of reach, or a role that came later: asked again beside the work, while it
 * is in use. */
static void nothing_is_not_for_ever(void **state)
{
    struct bed *bed = *state;
    const struct script_step steps[] = {OK("T"), {"404 Not Found\r\n", "no", 0}, OK("T"), OK("r"), OK(KEYS)};

    play(bed, steps, 5);
    bed->env[0] = (struct variable){"AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:@PORT"};
    struct hr_keeper *keeper = open_keeper(bed, "instance:");
    wait_for(bed, keeper);
    assert_int_equal(bed->script.asked, 2);
    ahead_ms += MINUTES_MS;
    run_for(bed, keeper, 4);
    assert_int_equal(bed->script.asked, 2); /* nobody used it */
    assert_true(hr_keeper_ready(keeper));   /* and nobody waits */
    assert_null(hr_keeper_credentials(keeper)->access_key_id);
    assert_true(hr_keeper_ready(keeper));
    run_for(bed, keeper, LOOKS);
    assert_string_equal(hr_keeper_credentials(keeper)->access_key_id, "ASIAEC2");
    script_stop(&bed->script);
    assert_int_equal(bed->script.asked, 5);
    hr_keeper_unref(keeper);
}

#define AN_HOUR(id)                                                                                          \
    {                                                                                                        \
        "200 OK\r\nDate: Sat, 21 Nov 2009 10:41:00 GMT\r\n",                                                 \
            "{\"AccessKeyId\":\"" id "\",\"SecretAccessKey\":\"se+cr/et\",\"Token\":\"tk\","                 \
            "\"Expiration\":\"2009-11-21T11:41:00Z\"}",                                                      \
            0                                                                                                \
    }

/* Keys that hold outlast a renewal that nobody answers. */
static void keys_are_not_given_up_for_nothing(void **state)
{
    struct bed *bed = *state;
    const struct script_step steps[] = {OK("T"),         OK("r"), AN_HOUR("ASIA1"), {NULL, NULL, 0},
                                        {NULL, NULL, 0}, OK("T"), OK("r"),          AN_HOUR("ASIA2")};
    const char *why;

    play(bed, steps, 8);
    bed->env[0] = (struct variable){"AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:@PORT"};
    struct hr_keeper *keeper = open_keeper(bed, "instance:");
    expect_keys(bed, keeper, "ASIA1", "tk");
    ahead_ms += 50 * 60000;
    run_for(bed, keeper, LOOKS);
    assert_true(hr_keeper_ready(keeper));
    assert_string_equal(hr_keeper_credentials(keeper)->access_key_id, "ASIA1");
    assert_int_equal(hr_keeper_failure(keeper, &why), -EIO);
    assert_int_equal(bed->script.asked, 5);
    ahead_ms += 60000;
    run_for(bed, keeper, LOOKS);
    assert_int_equal(hr_keeper_failure(keeper, &why), 0);
    run_for(bed, keeper, 4);
    assert_string_equal(hr_keeper_credentials(keeper)->access_key_id, "ASIA2");
    script_stop(&bed->script);
    assert_int_equal(bed->script.asked, 8);
    hr_keeper_unref(keeper);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_not_for_ever, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keys_are_not_given_up_for_nothing, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("auth/keeper_clock", tests, NULL, NULL);
}
