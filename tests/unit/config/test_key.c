#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/key.h"

struct key {
    uint8_t bytes[HR_CONTEXT_KEY_BYTES];
};

static struct key key_of(char *const *envp, uint32_t uid)
{
    struct key key;
    hr_context_key(envp, uid, key.bytes);
    return key;
}

#define ENV(...) ((char **)(const char *[]){__VA_ARGS__, NULL})
#define KEY(...) key_of(ENV(__VA_ARGS__), 1000)

static bool same(struct key a, struct key b)
{
    return memcmp(a.bytes, b.bytes, sizeof(a.bytes)) == 0;
}

static void what_does_not_count(void **state)
{
    struct key base = KEY("HOME=/h", "HEADRACE_MAP=/d=s3://b", "AWS_ACCESS_KEY_ID=AK");
    (void)state;
    assert_true(same(base, KEY("AWS_ACCESS_KEY_ID=AK", "HEADRACE_MAP=/d=s3://b", "HOME=/h")));
    assert_true(
        same(base, KEY("X=1", "HOME=/h", "PATH=/bin", "HEADRACE_MAP=/d=s3://b", "AWS_ACCESS_KEY_ID=AK", "")));
    assert_true(same(
        base, KEY("HOME=/h", "HEADRACE_MAP=/d=s3://b", "AWS_ACCESS_KEY_ID=AK", "HEADRACE_CACHE_DIR=/c")));
    assert_true(same(
        base, KEY("HOME=/h", "HEADRACE_MAP=/d=s3://b", "AWS_ACCESS_KEY_ID=AK", "HEADRACE_ALIAS=/h/data")));
    assert_true(same(base, KEY("HOME=/h", "HEADRACE_MAP=/d=s3://b", "AWS_ACCESS_KEY_ID=AK",
                               "AWS_SECRET_ACCESS_KEY=s", "AWS_SESSION_TOKEN=t")));
    assert_true(same(base, KEY("HOME=/h", "HEADRACE_MAP=/d=s3://b", "AWS_ACCESS_KEY_ID=AK",
                               "HEADRACE_MAP=later", "HOME=/later")));
    assert_true(same(base, KEY("HOME=/h", "HEADRACE_MAP=/d=s3://b", "AWS_ACCESS_KEY_ID=AK", "HOMER=/x",
                               "AWSX=1", "HEADRACE=1", "AWS_NOVALUE", "headrace_map=1")));
}

static void what_counts(void **state)
{
    const struct key keys[] = {
        KEY("HOME=/h", "HEADRACE_MAP=/d=s3://b", "AWS_ACCESS_KEY_ID=AK"),
        key_of(ENV("HOME=/h", "HEADRACE_MAP=/d=s3://b", "AWS_ACCESS_KEY_ID=AK"), 1001),
        key_of(ENV("HOME=/h", "HEADRACE_MAP=/d=s3://b", "AWS_ACCESS_KEY_ID=AK"), 1000 + (1u << 24)),
        KEY("HOME=/H", "HEADRACE_MAP=/d=s3://b", "AWS_ACCESS_KEY_ID=AK"),
        KEY("HOME=", "HEADRACE_MAP=/d=s3://b", "AWS_ACCESS_KEY_ID=AK"),
        KEY("HEADRACE_MAP=/d=s3://b", "AWS_ACCESS_KEY_ID=AK"),
        KEY("HOME=/h", "HEADRACE_MAP=/d=s3://c", "AWS_ACCESS_KEY_ID=AK"),
        KEY("HOME=/h", "HEADRACE_MAP=/d=s3://b", "AWS_ACCESS_KEY_ID=AL"),
        KEY("HOME=/h", "HEADRACE_MAP=/d=s3://b", "AWS_ACCESS_KEY_ID="),
        KEY("HOME=/h", "HEADRACE_MAP=/d=s3://b"),
        KEY("HOME=/h", "HEADRACE_MAP=AK", "AWS_ACCESS_KEY_ID=/d=s3://b"),
        KEY("HOME=/h", "HEADRACE_MAP=/d=s3://b", "AWS_ACCESS_KEY_ID=AK", "HEADRACE_CACHE_DIRX=/c"),
        KEY("HOME=/h", "HEADRACE_MAP=/d=s3://b", "AWS_ACCESS_KEY_ID=AK", "AWS_SESSION_TOKEN_=t"),
        KEY("HOME=/h", "HEADRACE_MAP=/d=s3://b", "AWS_ACCESS_KEY_ID=AK", "AWS_PROFILE=p"),
        KEY("HOME=/h", "HEADRACE_MAP=/d=s3://b", "AWS_ACCESS_KEY_ID=AK", "HEADRACE_PREFETCH=off"),
        key_of(NULL, 1000),
        key_of(NULL, 0),
    };
    const size_t count = sizeof(keys) / sizeof(keys[0]);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_false(same(keys[i], keys[j]));
        }
    }
    char *empty[] = {NULL};
    assert_true(same(key_of(NULL, 1000), key_of(empty, 1000)));
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/* Both halves must tell 20,000 near-equal environments apart (by chance they would not, once in 10^11). */
static void halves_do_not_collide(void **state)
{
    enum { COUNT = 20000 };
    static uint64_t halves[2][COUNT];
    (void)state;
    for (unsigned i = 0; i < COUNT; i++) {
        char map[64], profile[64];
        (void)snprintf(map, sizeof(map), "HEADRACE_MAP=/data=s3://b/%u", i / 100);
        (void)snprintf(profile, sizeof(profile), "AWS_PROFILE=%u", i % 100);
        struct key key = KEY(map, profile);
        memcpy(&halves[0][i], key.bytes, 8);
        memcpy(&halves[1][i], key.bytes + 8, 8);
    }
    for (unsigned half = 0; half < 2; half++) {
        qsort(halves[half], COUNT, sizeof(halves[half][0]), by_number);
        for (unsigned i = 1; i < COUNT; i++) {
            assert_true(halves[half][i] != halves[half][i - 1]);
        }
    }
}

static void covers(void **state)
{
    (void)state;
    assert_true(hr_context_key_covers("HOME=/h"));
    assert_true(hr_context_key_covers("HEADRACE_X="));
    assert_true(hr_context_key_covers("AWS_REGION=r"));
    assert_false(hr_context_key_covers("AWS_SECRET_ACCESS_KEY=x"));
    assert_false(hr_context_key_covers("AWS_SESSION_TOKEN=x"));
    assert_false(hr_context_key_covers("HEADRACE_CACHE_DIR=x"));
    assert_false(hr_context_key_covers("HOME"));
    assert_false(hr_context_key_covers(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_count),
        cmocka_unit_test(what_counts),
        cmocka_unit_test(halves_do_not_collide),
        cmocka_unit_test(covers),
    };
    return cmocka_run_group_tests_name("config/key", tests, NULL, NULL);
}
