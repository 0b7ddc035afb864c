/* The lister with many lanes against a store of computed keys (tests/scale/shapes.h) that answers in any
 * order and may have a fault: hr_call_* are this file's own. */
#include "tests/unit/list/call.h"
#include "tests/unit/list/tree.h"

#include <errno.h>

#include "fetch/list/lister.h"
#include "tests/scale/shapes.h"

#define OPEN_MAX 512u
#define CALLS_MAX 20000u /* a lister that goes round fails the test instead of hanging it */
#define PREFIX "train/"
#define PAGE 100u

enum fault {
    FAULT_NONE,
    FAULT_NO_START_AFTER, /* answers as if none were given */
    FAULT_NO_MAX_KEYS,
    FAULT_LATE_DISORDER, /* two keys far behind change places */
    FAULT_BUSY,          /* every fifth request had to be sent again */
    FAULT_PROBES_REFUSED,
    FAULT_FOLDERS_REFUSED,
    FAULT_PAGE_FAILS, /* one far behind */
    FAULT_OUTSIDE,    /* a key outside the prefix, far behind */
    FAULT_EMPTY,      /* requests by start-after get no key, and there are more */
    FAULT_NO_TOKEN,
    FAULT_COUNT
};

static struct {
    struct shape_set set;
    enum fault fault;
    struct hr_call *open[OPEN_MAX];
    unsigned open_count, open_max, alive, calls, pages, folders;
} store;

static uint64_t random_state = 88172645463325252ull;

static uint64_t next_random(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

struct hr_call *hr_call_new(enum hr_call_kind kind, struct hr_store *unused, const char *key,
                            uint32_t key_len)
{
    struct hr_call *call = call_make(key, key_len);

    assert_int_equal(kind, HR_CALL_LIST);
    assert_null(unused);
    assert_non_null(call);
    store.alive++;
    return call;
}

void hr_call_free(struct hr_call *call)
{
    if (call != NULL) {
        call_release(call);
        store.alive--;
    }
}

int hr_call_start(struct hr_call *call)
{
    assert_true(store.open_count < OPEN_MAX);
    store.open[store.open_count++] = call;
    store.open_max = store.open_count > store.open_max ? store.open_count : store.open_max;
    return 0;
}

void hr_call_cancel(struct hr_call *call)
{
    call->error = -ECANCELED;
}

static uint64_t where(const struct hr_call *call)
{
    if (call->token != NULL) {
        return strtoull(call->token, NULL, 10);
    }
    if (call->start_after != NULL && store.fault != FAULT_NO_START_AFTER) {
        return shape_seek(&store.set, call->start_after, call->start_after_len);
    }
    return 0;
}

static void answer(struct hr_call *call)
{
    uint64_t at = where(call);
    uint32_t most = call->max_keys == 1 && store.fault != FAULT_NO_MAX_KEYS ? 1 : PAGE;
    bool empty = store.fault == FAULT_EMPTY && call->start_after != NULL;
    bool last = at + most >= store.set.count;
    bool late = at <= 15050 && at + most > 15052;
    char text[SHAPE_KEY_MAX];

    assert_string_equal(call->key, PREFIX);
    store.folders += call->delimiter != NULL;
    store.pages += call->max_keys != 1 && call->delimiter == NULL;
    if (call->delimiter != NULL && store.fault == FAULT_FOLDERS_REFUSED) {
        call->error = -EACCES;
        call->denied = true;
        return;
    }
    call->retries = store.fault == FAULT_BUSY && store.calls % 5 == 0;
    if ((store.fault == FAULT_PROBES_REFUSED && call->max_keys == 1) ||
        (store.fault == FAULT_PAGE_FAILS && late && most > 1)) {
        call->error = -EIO;
        snprintf(call->message, sizeof(call->message), "the store said no");
        return;
    }
    call->listed = calloc(most, sizeof(*call->listed));
    for (; !empty && call->listed_count < most && at + call->listed_count < store.set.count;
         call->listed_count++) {
        uint64_t number = at + call->listed_count;
        if (store.fault == FAULT_LATE_DISORDER && late && (number == 15050 || number == 15051)) {
            number = 15050 + 15051 - number;
        }
        uint32_t len = shape_key(&store.set, number, text);
        if (store.fault == FAULT_OUTSIDE && late && number == 15052) {
            text[0] = 'x';
        }
        call->listed[call->listed_count] = (struct hr_listed){strndup(text, len), len, 1, 2, ""};
    }
    call->truncated = !last || empty;
    if (call->truncated && store.fault != FAULT_NO_TOKEN) {
        snprintf(text, sizeof(text), "%llu", (unsigned long long)(at + call->listed_count));
        call->next_token = strdup(text);
    }
}

static void answer_open(unsigned pick)
{
    struct hr_call *call = store.open[pick];
    store.open[pick] = store.open[--store.open_count];
    assert_true(++store.calls < CALLS_MAX);
    if (call->error != -ECANCELED) {
        answer(call);
    }
    call->done(call);
}

/* Answers `count` of what is asked, any first. */
static void pump(unsigned count)
{
    while (store.open_count > 0 && count-- > 0) {
        answer_open((unsigned)next_random(store.open_count));
    }
}

/* Pages before probes, or probes before pages. */
static void pump_kind(bool probes)
{
    while (store.open_count > 0) {
        unsigned pick = 0;
        for (unsigned i = 0; i < store.open_count; i++) {
            pick = (store.open[i]->max_keys == 1) == probes ? i : pick;
        }
        answer_open(pick);
    }
}

struct outcome {
    unsigned done;
    int error;
    char message[512];
    char note[200];
    bool plain;
    struct hr_index_builder *builder;
    struct hr_lister_progress progress;
};

static void on_done(void *owner, struct hr_lister *lister, int error, const char *message)
{
    struct outcome *outcome = owner;

    outcome->done++;
    outcome->error = error;
    snprintf(outcome->message, sizeof(outcome->message), "%s", message);
    snprintf(outcome->note, sizeof(outcome->note), "%s", hr_lister_note(lister));
    outcome->plain = hr_lister_plain(lister);
    outcome->builder = hr_lister_take(lister);
    hr_lister_progress(lister, &outcome->progress);
    hr_lister_free(lister);
}

static struct hr_lister *start(enum fault fault, unsigned lanes, struct outcome *outcome)
{
    struct hr_lister_options options = {.prefix = PREFIX,
                                        .prefix_len = strlen(PREFIX),
                                        .lanes = lanes,
                                        .hurry = true,
                                        .done = on_done,
                                        .owner = outcome};
    struct hr_lister *lister;

    memset(&store, 0, sizeof(store));
    memset(outcome, 0, sizeof(*outcome));
    store.fault = fault;
    shape_init(&store.set, SHAPE_SEQUENTIAL, 30000);
    assert_int_equal(hr_lister_start(&options, &lister), 0);
    return lister;
}

/* Every name, once. */
static void check_names(struct outcome *outcome)
{
    char *dir = scratch_new();
    char name[32];
    struct hr_index index;

    assert_int_equal(outcome->progress.keys, 30000);
    assert_int_equal(hr_builder_count(outcome->builder), 30000);
    assert_int_equal(hr_builder_publish(outcome->builder, dir, TREE_ID, 1, LISTED_NS, &index), 0);
    assert_int_equal(hr_index_child_count(&index, 0), 30000);
    for (uint32_t i = 0; i < 30000; i++) {
        uint32_t len;
        const char *found = hr_index_name(&index, hr_index_child(&index, 0, i), &len);
        snprintf(name, sizeof(name), "img_%08u.jpg", i);
        assert_int_equal(len, strlen(name));
        assert_memory_equal(found, name, len);
    }
    hr_index_unmap(&index);
    hr_builder_free(outcome->builder);
    scratch_remove(dir);
}

static void test_faults(void **state)
{
    static const struct {
        const char *note, *message;
        bool wide, plain;
    } expected[FAULT_COUNT] = {
        [FAULT_NONE] = {"", NULL, true, false},
        [FAULT_NO_START_AFTER] = {"the store does not honour start-after", NULL, true, true},
        [FAULT_NO_MAX_KEYS] = {"the store does not honour max-keys", NULL, true, true},
        [FAULT_LATE_DISORDER] = {"the store does not list in bytewise order", NULL, true, true},
        [FAULT_BUSY] = {"", NULL, true, false},
        [FAULT_PROBES_REFUSED] = {"the store refuses a request by start-after", NULL, true, false},
        [FAULT_FOLDERS_REFUSED] = {"", NULL, true, false},
        [FAULT_PAGE_FAILS] = {"", "the store said no", true, false},
        [FAULT_OUTSIDE] = {"", "which is not below the prefix asked for", true, false},
        [FAULT_EMPTY] = {"the store sends empty pages", NULL, true, false},
        [FAULT_NO_TOKEN] = {"", NULL, true, false},
    };
    (void)state;
    for (int fault = 0; fault < FAULT_COUNT; fault++) {
        struct outcome outcome;
        (void)start((enum fault)fault, 24, &outcome);
        pump(UINT32_MAX);
        assert_int_equal(outcome.done, 1);
        assert_int_equal(store.alive, 0);
        if (strncmp(outcome.note, expected[fault].note, strlen(expected[fault].note)) != 0 ||
            (expected[fault].note[0] == '\0' && outcome.note[0] != '\0')) {
            fail_msg("fault %d: note '%s'", fault, outcome.note);
        }
        assert_int_equal(outcome.progress.lanes_max > 1, expected[fault].wide);
        assert_int_equal(outcome.plain, expected[fault].plain);
        assert_true(outcome.progress.lanes_max <= 24);
        if (expected[fault].message != NULL) {
            assert_int_equal(outcome.error, -EIO);
            assert_null(outcome.builder);
            assert_ptr_equal(strstr(outcome.message, "listing, page "), outcome.message);
            assert_non_null(strstr(outcome.message, expected[fault].message));
            continue;
        }
        if (outcome.error != 0) {
            fail_msg("fault %d: %d '%s'", fault, outcome.error, outcome.message);
        }
        /* 300 pages; twice where what was listed is dropped. */
        assert_true(store.pages <= (fault == FAULT_LATE_DISORDER ? 700u : 375u));
        check_names(&outcome);
    }
}

/* With one lane no request but pages, one at a time. */
static void test_one_lane(void **state)
{
    struct outcome outcome;

    (void)state;
    (void)start(FAULT_NONE, 1, &outcome);
    pump(UINT32_MAX);
    assert_int_equal(outcome.error, 0);
    assert_int_equal(store.open_max, 1);
    assert_int_equal(store.calls, 300);
    assert_int_equal(outcome.progress.probes, 0);
    check_names(&outcome);
}

static void test_stopped(void **state)
{
    (void)state;
    for (unsigned after = 0; after < 400; after += 7) {
        struct outcome outcome;
        struct hr_lister *lister = start(FAULT_NONE, 48, &outcome);
        pump(after);
        if (outcome.done > 0) {
            hr_builder_free(outcome.builder);
            pump(UINT32_MAX);
            assert_int_equal(store.alive, 0);
            continue;
        }
        unsigned open = store.open_count;
        hr_lister_free(lister);
        assert_int_equal(store.open_count, open);
        pump(UINT32_MAX);
        assert_int_equal(store.alive, 0);
        assert_int_equal(outcome.done, 0);
    }
}

/* A store that is slow with probes gets few of them for a short listing. One that answers them at once gets
 * all, less those that tell nothing any more. */
static void test_probes_begin_slowly(void **state)
{
    static const struct {
        uint64_t keys;
        bool probes;
        unsigned least, most;
    } cases[] = {{200, false, 1, 8}, {300, false, 1, 8}, {200, true, 9, 60}, {300, true, 9, 60}};
    struct outcome outcome;

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        (void)start(FAULT_NONE, 48, &outcome);
        shape_init(&store.set, SHAPE_SEQUENTIAL, cases[i].keys);
        pump_kind(cases[i].probes);
        assert_int_equal(outcome.done, 1);
        assert_int_equal(outcome.error, 0);
        assert_int_equal(outcome.progress.keys, cases[i].keys);
        assert_in_range(outcome.progress.pages, cases[i].keys / PAGE, cases[i].keys / PAGE + 16);
        assert_in_range(outcome.progress.probes, cases[i].least, cases[i].most);
        assert_int_equal(outcome.progress.folders, 1);
        assert_int_equal(hr_builder_count(outcome.builder), cases[i].keys);
        assert_int_equal(store.alive, 0);
        hr_builder_free(outcome.builder);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_one_lane),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_probes_begin_slowly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
