/* The lister against a scripted store: hr_call_* are this file's own. */
#include "tests/unit/list/call.h"
#include "tests/unit/list/tree.h"

#include <errno.h>

#include "fetch/list/lister.h"

#define CALLS_MAX 20000 /* a lister that goes round fails the test instead of hanging it */

struct page {
    const char *asked; /* how it must be asked for: "" first, "t:TOKEN", "a:KEY"; NULL: any way */
    const char *keys[6];
    const char *token; /* "*": one never seen before */
    bool truncated;
    bool rolled_up; /* has a common prefix */
    int error;
};

struct script {
    const char *name;
    const char *prefix;
    struct page pages[6]; /* the last are asked == NULL && keys[0] == NULL && !truncated && !error */
    unsigned page_count;
    unsigned loop; /* behind the last page the last `loop` pages come again; 0: none may be asked for */
    int error;
    const char *message; /* part of it */
    const char *tree;    /* when error is 0 */
    unsigned calls_max;  /* 0: page_count exactly */
};

static const struct script *script;
static unsigned calls, alive;
static struct hr_call *pending;
static int start_error;

struct hr_call *hr_call_new(enum hr_call_kind kind, struct hr_store *store, const char *key, uint32_t key_len)
{
    struct hr_call *call = call_make(key, key_len);

    assert_int_equal(kind, HR_CALL_LIST);
    assert_null(store);
    assert_non_null(call);
    alive++;
    return call;
}

void hr_call_free(struct hr_call *call)
{
    if (call != NULL) {
        assert_ptr_not_equal(call, pending);
        call_release(call);
        alive--;
    }
}

int hr_call_start(struct hr_call *call)
{
    assert_null(pending);
    if (start_error != 0) {
        return start_error;
    }
    pending = call;
    return 0;
}

void hr_call_cancel(struct hr_call *call)
{
    assert_ptr_equal(call, pending);
    call->error = -ECANCELED;
}

static void check_asked(const struct hr_call *call, const struct page *page)
{
    char asked[1100] = "";

    assert_string_equal(call->key, script->prefix);
    assert_null(call->delimiter);
    assert_true(call->token == NULL || call->start_after == NULL);
    if (call->token != NULL) {
        snprintf(asked, sizeof(asked), "t:%s", call->token);
    } else if (call->start_after != NULL) {
        assert_int_equal(call->start_after_len, strlen(call->start_after));
        snprintf(asked, sizeof(asked), "a:%s", call->start_after);
    }
    if (page->asked != NULL && strcmp(asked, page->asked) != 0) {
        fail_msg("%s: call %u asks '%s', expected '%s'", script->name, calls, asked, page->asked);
    }
}

static void answer(struct hr_call *call)
{
    char token[32];
    unsigned at = calls;

    if (at >= script->page_count) {
        if (script->loop == 0) {
            fail_msg("%s: a page too many is asked for", script->name);
        }
        at = script->page_count - script->loop + (at - script->page_count) % script->loop;
    }
    const struct page *page = &script->pages[at];
    if (calls < script->page_count) {
        check_asked(call, page);
    }
    call->error = page->error;
    snprintf(call->message, sizeof(call->message), "%s", page->error ? "the store said no" : "");
    while (page->keys[call->listed_count] != NULL) {
        call->listed_count++;
    }
    call->listed = calloc(call->listed_count + 1, sizeof(*call->listed));
    for (uint32_t i = 0; i < call->listed_count; i++) {
        call->listed[i] =
            (struct hr_listed){strdup(page->keys[i]), (uint32_t)strlen(page->keys[i]), 1, 2, ""};
    }
    call->prefix_count = page->rolled_up;
    call->truncated = page->truncated;
    if (page->token != NULL) {
        snprintf(token, sizeof(token), "fresh%u", calls);
        call->next_token = strdup(page->token[0] == '*' ? token : page->token);
    }
    calls++;
}

static void pump(void)
{
    while (pending != NULL) {
        struct hr_call *call = pending;
        pending = NULL;
        assert_true(calls < CALLS_MAX);
        if (call->error != -ECANCELED) {
            answer(call);
        }
        call->done(call);
    }
}

static const struct script scripts[] = {
    {"one page", "p/", {{"", {"p/a", "p/b/c"}, NULL, 0, 0, 0}}, 1, 0, 0, "", "a=1 b/ b/c=1", 0},
    {"nothing", "p/", {{"", {NULL}, NULL, 0, 0, 0}}, 1, 0, 0, "", "", 0},
    {"the whole bucket", "", {{"", {"a", "p/b"}, NULL, 0, 0, 0}}, 1, 0, 0, "", "a=1 p/ p/b=1", 0},
    {"by token",
     "p/",
     {{"", {"p/a"}, "one", 1, 0, 0}, {"t:one", {"p/b"}, "two", 1, 0, 0}, {"t:two", {"p/c"}, NULL, 0, 0, 0}},
     3,
     0,
     0,
     "",
     "a=1 b=1 c=1",
     0},
    {"a token says more, though not truncated",
     "",
     {{"", {"a"}, "one", 0, 0, 0}, {"t:one", {"b"}, NULL, 0, 0, 0}},
     2,
     0,
     0,
     "",
     "a=1 b=1",
     0},
    {"an empty token is none", "", {{"", {"a"}, "", 0, 0, 0}}, 1, 0, 0, "", "a=1", 0},
    {"out of order, by token",
     "",
     {{"", {"a/b", "a-b"}, "one", 1, 0, 0},
      {"t:one", {"Z"}, "two", 1, 0, 0},
      {"t:two", {"A"}, NULL, 0, 0, 0}},
     3,
     0,
     0,
     "",
     "A=1 Z=1 a/ a/b=1 a-b=1",
     0},
    {"empty pages between",
     "",
     {{"", {"a"}, "one", 1, 0, 0},
      {"t:one", {NULL}, "two", 1, 0, 0},
      {"t:two", {NULL}, "three", 1, 0, 0},
      {"t:three", {"b"}, NULL, 0, 0, 0}},
     4,
     0,
     0,
     "",
     "a=1 b=1",
     0},
    {"no token: by the last key",
     "p/",
     {{"", {"p/a", "p/b"}, NULL, 1, 0, 0},
      {"a:p/b", {"p/c"}, "one", 1, 0, 0},
      {"t:one", {"p/d"}, NULL, 1, 0, 0},
      {"a:p/d", {NULL}, NULL, 0, 0, 0}},
     4,
     0,
     0,
     "",
     "a=1 b=1 c=1 d=1",
     0},
    {"no token, out of order in the page",
     "",
     {{"", {"b", "a"}, NULL, 1, 0, 0}},
     1,
     0,
     -EIO,
     "page 1: there are more keys, but the store gives no continuation token and does not list in bytewise "
     "order",
     NULL,
     0},
    {"no token, out of order between pages",
     "",
     {{"", {"a/b"}, "one", 1, 0, 0}, {"t:one", {"a-b"}, NULL, 1, 0, 0}},
     2,
     0,
     -EIO,
     "page 2: there are more",
     NULL,
     0},
    {"no token, no key",
     "",
     {{"", {NULL}, NULL, 1, 0, 0}},
     1,
     0,
     -EIO,
     "page 1: there are more keys, but the store gives no continuation token and no key",
     NULL,
     0},
    {"start-after ignored",
     "",
     {{"", {"a", "b"}, NULL, 1, 0, 0}, {"a:b", {"a", "b"}, NULL, 1, 0, 0}},
     2,
     0,
     -EIO,
     "page 2: keys asked for by start-after",
     NULL,
     0},
    {"start-after, disorder",
     "",
     {{"", {"a", "b"}, NULL, 1, 0, 0}, {"a:b", {"d", "c"}, "x", 1, 0, 0}},
     2,
     0,
     -EIO,
     "page 2: keys asked for by start-after",
     NULL,
     0},
    {"outside the prefix",
     "p/",
     {{"", {"p/a"}, "one", 1, 0, 0}, {NULL, {"p/b", "q/\n"}, NULL, 0, 0, 0}},
     2,
     0,
     -EIO,
     "page 2: the store answers with the key 'q/?', which is not below",
     NULL,
     0},
    {"shorter than the prefix",
     "p/",
     {{"", {"p"}, NULL, 0, 0, 0}},
     1,
     0,
     -EIO,
     "page 1: the store answers with the key 'p'",
     NULL,
     0},
    {"the prefix itself", "p/", {{"", {"p/", "p/a"}, NULL, 0, 0, 0}}, 1, 0, 0, "", "a=1", 0},
    {"rolled up", "", {{"", {"a"}, NULL, 0, 1, 0}}, 1, 0, -EIO, "page 1: the store rolls keys up", NULL, 0},
    {"refused",
     "",
     {{"", {"a"}, "one", 1, 0, 0}, {NULL, {NULL}, NULL, 0, 0, -EACCES}},
     2,
     0,
     -EACCES,
     "page 2: the store said no",
     NULL,
     0},
    {"the same page again",
     "",
     {{"", {"a", "b"}, "*", 1, 0, 0}},
     1,
     1,
     -EIO,
     "page 2: the store sends keys again",
     NULL,
     2},
    {"the same page again later",
     "",
     {{"", {"a"}, "*", 1, 0, 0},
      {NULL, {"b"}, "*", 1, 0, 0},
      {NULL, {"c"}, "*", 1, 0, 0},
      {NULL, {"d"}, "*", 1, 0, 0},
      {NULL, {"e"}, "*", 1, 0, 0}},
     5,
     3,
     -EIO,
     "sends keys again",
     NULL,
     12},
    {"the same token again",
     "",
     {{"", {"a"}, "one", 1, 0, 0}, {"t:one", {"b"}, "one", 1, 0, 0}},
     2,
     0,
     -EIO,
     "page 2: the store sends a continuation token again",
     NULL,
     0},
    {"a loop of tokens over empty pages",
     "",
     {{"", {NULL}, "one", 1, 0, 0}, {NULL, {NULL}, "two", 1, 0, 0}, {NULL, {NULL}, "three", 1, 0, 0}},
     3,
     2,
     -EIO,
     "sends a continuation token again",
     NULL,
     8},
    {"empty pages for ever",
     "",
     {{"", {NULL}, "*", 1, 0, 0}},
     1,
     1,
     -EIO,
     "1000 pages in a row hold no key",
     NULL,
     1001},
};

struct outcome {
    unsigned done;
    int error;
    char message[512];
    struct hr_index_builder *builder;
    uint64_t pages, keys;
    bool free_inside;
};

static void on_done(void *owner, struct hr_lister *lister, int error, const char *message)
{
    struct outcome *outcome = owner;

    outcome->done++;
    outcome->error = error;
    snprintf(outcome->message, sizeof(outcome->message), "%s", message);
    outcome->builder = hr_lister_take(lister);
    struct hr_lister_progress progress;
    hr_lister_progress(lister, &progress);
    outcome->pages = progress.pages;
    outcome->keys = progress.keys;
    if (outcome->free_inside) {
        hr_lister_free(lister);
    }
}

static void check_builder(const struct outcome *outcome, const char *dir)
{
    struct hr_index index;

    assert_non_null(outcome->builder);
    assert_int_equal(outcome->pages, calls);
    assert_int_equal(hr_builder_publish(outcome->builder, dir, TREE_ID, 1, LISTED_NS, &index), 0);
    char *text = tree_text(&index);
    if (strcmp(text, script->tree) != 0) {
        fail_msg("%s: '%s'", script->name, text);
    }
    free(text);
    hr_index_unmap(&index);
    hr_builder_free(outcome->builder);
}

static void run_script(const char *dir, bool free_inside)
{
    struct outcome outcome = {.free_inside = free_inside};
    const struct hr_lister_options options = {.prefix = script->prefix,
                                              .prefix_len = (uint32_t)strlen(script->prefix),
                                              .done = on_done,
                                              .owner = &outcome};
    struct hr_lister *lister;

    calls = 0;
    assert_int_equal(hr_lister_start(&options, &lister), 0);
    assert_true(hr_lister_began_ns(lister) > 0);
    pump();
    assert_int_equal(outcome.done, 1);
    assert_int_equal(alive, 0);
    if (outcome.error != script->error || strstr(outcome.message, script->message) == NULL) {
        fail_msg("%s: error %d, '%s'", script->name, outcome.error, outcome.message);
    }
    if (script->error != 0) {
        assert_null(outcome.builder);
        assert_ptr_equal(strstr(outcome.message, "listing, page "), outcome.message);
    } else {
        check_builder(&outcome, dir);
    }
    if (calls > (script->calls_max ? script->calls_max : script->page_count)) {
        fail_msg("%s: %u calls", script->name, calls);
    }
    if (!free_inside) {
        hr_lister_free(lister);
    }
}

static void test_scripts(void **state)
{
    char *dir = scratch_new();

    (void)state;
    for (size_t i = 0; i < sizeof(scripts) / sizeof(*scripts); i++) {
        script = &scripts[i];
        run_script(dir, false);
        run_script(dir, true);
    }
    scratch_remove(dir);
}

static void test_stopped(void **state)
{
    struct outcome outcome = {.done = 0};
    const struct hr_lister_options options = {
        .prefix = "p/", .prefix_len = 2, .done = on_done, .owner = &outcome};
    struct hr_lister *lister;

    (void)state;
    script = &scripts[3];
    calls = 0;
    assert_int_equal(hr_lister_start(&options, &lister), 0);
    hr_lister_free(lister);
    assert_int_equal(alive, 1);
    pump();
    assert_int_equal(alive, 0);
    assert_int_equal(outcome.done, 0);
    assert_int_equal(calls, 0);
    hr_lister_free(NULL);
}

static void test_start_fails(void **state)
{
    struct outcome outcome = {.done = 0};
    const struct hr_lister_options options = {
        .prefix = "p/", .prefix_len = 2, .done = on_done, .owner = &outcome};
    struct hr_lister *lister;

    (void)state;
    script = &scripts[3];
    calls = 0;
    start_error = -ENOMEM;
    assert_int_equal(hr_lister_start(&options, &lister), -ENOMEM);
    assert_int_equal(alive, 0);
    start_error = 0;
    assert_int_equal(hr_lister_start(&options, &lister), 0);
    start_error = -ENOMEM;
    pump();
    start_error = 0;
    assert_int_equal(outcome.done, 1);
    assert_int_equal(outcome.error, -ENOMEM);
    assert_non_null(strstr(outcome.message, "page 2: cannot ask for it"));
    assert_null(outcome.builder);
    assert_int_equal(alive, 0);
    hr_lister_free(lister);
}

/* A listing in many pages, in order, ends with every key: the watch for loops sees none. */
static void test_many_pages(void **state)
{
    struct outcome outcome = {.done = 0};
    const struct hr_lister_options options = {
        .prefix = "", .prefix_len = 0, .done = on_done, .owner = &outcome};
    struct script one = {.name = "many", .prefix = "", .page_count = 1, .message = "", .tree = ""};
    char key[32];
    struct hr_lister *lister;

    (void)state;
    script = &one;
    calls = 0;
    assert_int_equal(hr_lister_start(&options, &lister), 0);
    for (unsigned i = 0; i < 5000; i++) {
        struct hr_call *call = pending;
        assert_non_null(call);
        pending = NULL;
        calls = 0;
        snprintf(key, sizeof(key), "%u", i);
        one.pages[0] = (struct page){NULL, {key}, i < 4999 ? key : NULL, i < 4999, 0, 0};
        answer(call);
        call->done(call);
    }
    assert_int_equal(outcome.done, 1);
    assert_int_equal(outcome.error, 0);
    assert_int_equal(outcome.pages, 5000);
    assert_int_equal(outcome.keys, 5000);
    assert_int_equal(hr_builder_count(outcome.builder), 5000);
    hr_builder_free(outcome.builder);
    hr_lister_free(lister);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scripts),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_start_fails),
        cmocka_unit_test(test_many_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
