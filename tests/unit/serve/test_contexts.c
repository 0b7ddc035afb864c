/* Contexts: two jobs never meet unless they ask the same store as the same identity, and a daemon's tables
 * are not overrun. */
#include "tests/unit/plan/lab.h"

#include "config/maps.h"
#include "fetch/serve/contexts.h"
#include "fetch/store/internal.h"

struct rig {
    struct lab *lab;
    struct hr_settings *settings;
    struct hr_contexts *contexts;
    char message[512];
};

static int set_up(void **state)
{
    struct rig *rig = calloc(1, sizeof *rig);
    struct hr_settings_sources sources = {.no_file = true};
    char why[HR_SETTINGS_MESSAGE_BYTES];
    void *lab = NULL;
    assert_int_equal(lab_set_up(&lab), 0);
    rig->lab = lab;
    lab_open(rig->lab, &(struct lab_options){0});
    assert_int_equal(hr_settings_load(&sources, why, &rig->settings), 0);
    assert_int_equal(
        hr_contexts_new(rig->lab->control, rig->lab->plan, rig->lab->stores, rig->settings, &rig->contexts),
        0);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    void *lab = rig->lab;
    hr_contexts_free(rig->contexts);
    hr_settings_free(rig->settings);
    free(rig);
    return lab_tear_down(&lab);
}

/* What a job's environment would be, with these beside its home. */
struct job {
    char key_char;
    const char *map, *id, *secret, *token, *extra;
};

static int attach(struct rig *rig, const struct job *job, uint32_t *ret_context)
{
    char text[8][1024];
    char *envp[9] = {0};
    unsigned count = 0;
    uint8_t key[16];
    const char *const values[][2] = {{"HEADRACE_MAP", job->map},
                                     {"AWS_ACCESS_KEY_ID", job->id},
                                     {"AWS_SECRET_ACCESS_KEY", job->secret},
                                     {"AWS_SESSION_TOKEN", job->token},
                                     {"HOME", rig->lab->dir},
                                     {"AWS_EC2_METADATA_DISABLED", "true"}};
    for (unsigned i = 0; i < sizeof values / sizeof *values; i++) {
        if (values[i][1]) {
            snprintf(text[count], sizeof text[count], "%s=%s", values[i][0], values[i][1]);
            envp[count] = text[count];
            count++;
        }
    }
    if (job->extra) {
        snprintf(text[count], sizeof text[count], "%s", job->extra);
        envp[count] = text[count];
        count++;
    }
    snprintf(text[count], sizeof text[count], "AWS_ENDPOINT_URL=http://127.0.0.1:%u", rig->lab->s3->port);
    envp[count] = text[count];
    memset(key, job->key_char, sizeof key);
    rig->message[0] = '\0';
    return hr_contexts_attach(rig->contexts, key, envp, rig->message, ret_context);
}

static const struct hr_context *context_of(struct rig *rig, uint32_t number)
{
    return &rig->lab->control->contexts[number];
}

static struct hr_store *store_of(struct rig *rig, uint32_t context, unsigned map)
{
    return hr_plan_tree_store(rig->lab->plan, context_of(rig, context)->tree[map]);
}

static const struct hr_credentials *credentials_of(struct rig *rig, uint32_t context)
{
    return hr_chain_credentials(store_of(rig, context, 0)->chain);
}

static void test_two_secrets_on_two_buckets(void **state)
{
    struct rig *rig = *state;
    uint32_t one = 99, two = 99;
    assert_int_equal(attach(rig, &(struct job){'1', "/data=s3://one/", "AK1", "secret1", NULL, NULL}, &one),
                     0);
    assert_int_equal(attach(rig, &(struct job){'2', "/data=s3://two/", "AK2", "secret2", NULL, NULL}, &two),
                     0);
    assert_int_not_equal(one, two);
    assert_int_equal(context_of(rig, one)->map_count, 1);
    assert_int_not_equal(context_of(rig, one)->tree[0], context_of(rig, two)->tree[0]);
    assert_string_equal(hr_store_bucket(store_of(rig, one, 0)), "one");
    assert_string_equal(hr_store_bucket(store_of(rig, two, 0)), "two");
    assert_string_equal(credentials_of(rig, one)->secret, "secret1");
    assert_string_equal(credentials_of(rig, two)->secret, "secret2");
    assert_int_equal(atomic_load(&rig->lab->control->context_count), 2);
    const struct hr_tree *trees = rig->lab->control->trees;
    assert_int_not_equal(trees[context_of(rig, one)->tree[0]].dev, trees[context_of(rig, two)->tree[0]].dev);
}

static void test_jobs_on_one_bucket_share_by_identity(void **state)
{
    struct rig *rig = *state;
    uint32_t first, same, other;
    assert_int_equal(attach(rig, &(struct job){'1', "/data=s3://b/p/", "AK1", "s1", NULL, NULL}, &first), 0);
    assert_int_equal(attach(rig, &(struct job){'2', "/mnt=s3://b/p/", "AK1", "s1", NULL, NULL}, &same), 0);
    assert_int_equal(attach(rig, &(struct job){'3', "/data=s3://b/p/", "AK2", "s2", NULL, NULL}, &other), 0);
    assert_int_equal(context_of(rig, first)->tree[0], context_of(rig, same)->tree[0]);
    assert_int_not_equal(context_of(rig, first)->tree[0], context_of(rig, other)->tree[0]);
    /* One bucket is one device, whoever looks. */
    const struct hr_tree *trees = rig->lab->control->trees;
    assert_int_equal(trees[context_of(rig, first)->tree[0]].dev, trees[context_of(rig, other)->tree[0]].dev);
}

static void test_known_key_brings_a_fresher_token(void **state)
{
    struct rig *rig = *state;
    uint32_t first, again;
    assert_int_equal(attach(rig, &(struct job){'1', "/d=s3://b/", "AK1", "s1", "token1", NULL}, &first), 0);
    struct hr_store *store = store_of(rig, first, 0);
    hr_tree_get(rig->lab->plan, context_of(rig, first)->tree[0])->denied_until_ms = INT64_MAX;
    assert_int_equal(attach(rig, &(struct job){'1', "/d=s3://b/", "AK1", "s2", "token2", NULL}, &again), 0);
    assert_int_equal(first, again);
    assert_ptr_equal(store, store_of(rig, again, 0));
    assert_string_equal(credentials_of(rig, again)->session_token, "token2");
    assert_string_equal(credentials_of(rig, again)->secret, "s2");
    assert_int_equal(hr_tree_get(rig->lab->plan, context_of(rig, first)->tree[0])->denied_until_ms, 0);
    assert_int_equal(atomic_load(&rig->lab->control->context_count), 1);
}

static void test_what_cannot_be_attached(void **state)
{
    struct rig *rig = *state;
    static const struct {
        struct job job;
        int error;
        const char *says;
    } cases[] = {
        {{'1', "/d=s3://b/?prefetch=on", "AK", "s", NULL, "HEADRACE_CONNECTIONS=many"},
         -EINVAL,
         "connections"},
        {{'2', "/d=s3://b/", "AK", "s", NULL, "AWS_PROFILE=nobody"}, -ENOENT, "nobody"},
        {{'3', "/d=s3://b/", "AK", "s", NULL, "AWS_REGION=no region"}, -EINVAL, "region"},
        {{'4', "/d=s3://b/", "AK", "s", NULL, "AWS_ENDPOINT_URL_S3=ftp://x"}, -EINVAL, "ftp"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t context = 77;
        assert_int_equal(attach(rig, &cases[i].job, &context), cases[i].error);
        assert_non_null(strstr(rig->message, cases[i].says));
        assert_null(strchr(rig->message, '\n'));
        assert_int_equal(context, 77);
    }
    assert_int_equal(atomic_load(&rig->lab->control->context_count), 0);
}

/* The n-th map is the same for both sides: malformed ones are dropped by both. */
static void test_malformed_maps_are_left_out(void **state)
{
    struct rig *rig = *state;
    uint32_t context;
    assert_int_equal(
        attach(rig, &(struct job){'1', "/a=s3://a/;nonsense;/b=s3://b/", "AK", "s", NULL, NULL}, &context),
        0);
    assert_int_equal(context_of(rig, context)->map_count, 2);
    assert_string_equal(hr_store_bucket(store_of(rig, context, 1)), "b");
    assert_int_equal(attach(rig, &(struct job){'2', NULL, "AK", "s", NULL, NULL}, &context), 0);
    assert_int_equal(context_of(rig, context)->map_count, 0);
}

static void test_full_tables(void **state)
{
    struct rig *rig = *state;
    char maps[32 * 32], prefix[32 * 32];
    uint32_t context, known;
    assert_int_equal(attach(rig, &(struct job){'k', "/d=s3://known/", "AK", "s", NULL, NULL}, &known), 0);
    unsigned used = 2; /* the lab's own, and that */
    for (unsigned job = 0; used < HR_TREES_MAX; job++) {
        size_t len = 0;
        for (unsigned i = 0; i < 31 && used < HR_TREES_MAX; i++, used++) {
            len += (size_t)snprintf(maps + len, sizeof maps - len, "/m%u=s3://b/%u/;", i, job * 31 + i);
        }
        snprintf(prefix, sizeof prefix, "%c", (char)(job + 1));
        struct job one = {prefix[0], maps, "AK", "s", NULL, NULL};
        assert_int_equal(attach(rig, &one, &context), 0);
    }
    assert_int_equal(atomic_load(&rig->lab->control->tree_count), HR_TREES_MAX);
    uint32_t count = atomic_load(&rig->lab->control->context_count);
    assert_int_equal(attach(rig, &(struct job){'n', "/d=s3://new/", "AK", "s", NULL, NULL}, &context),
                     -ENOSPC);
    assert_non_null(strstr(rig->message, "headrace stop"));
    assert_int_equal(atomic_load(&rig->lab->control->context_count), count);
    assert_int_equal(attach(rig, &(struct job){'k', "/d=s3://known/", "AK", "s", NULL, NULL}, &context), 0);
    assert_int_equal(context, known);
    atomic_store(&rig->lab->control->context_count, HR_CONTEXTS_MAX);
    assert_int_equal(attach(rig, &(struct job){'o', "/d=s3://known/", "AK", "s", NULL, NULL}, &context),
                     -ENOSPC);
    assert_non_null(strstr(rig->message, "jobs"));
    assert_int_equal(attach(rig, &(struct job){'k', "/d=s3://known/", "AK", "s", NULL, NULL}, &context), 0);
}

static void test_settings_of_another_job_are_told(void **state)
{
    struct rig *rig = *state;
    char warning[512];
    char *same[] = {(char *)(uintptr_t) "HEADRACE_PREFETCH=off", NULL};
    char *other[] = {(char *)(uintptr_t) "HEADRACE_CONNECTIONS=7", NULL};
    hr_contexts_compare(rig->contexts, same, warning);
    assert_string_equal(warning, "");
    hr_contexts_compare(rig->contexts, other, warning);
    assert_non_null(strstr(warning, "connections=512 (not 7)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        RIG_TEST(test_two_secrets_on_two_buckets),       RIG_TEST(test_jobs_on_one_bucket_share_by_identity),
        RIG_TEST(test_known_key_brings_a_fresher_token), RIG_TEST(test_what_cannot_be_attached),
        RIG_TEST(test_malformed_maps_are_left_out),      RIG_TEST(test_full_tables),
        RIG_TEST(test_settings_of_another_job_are_told),
#undef RIG_TEST
    };
    return cmocka_run_group_tests_name("contexts", tests, NULL, NULL);
}
