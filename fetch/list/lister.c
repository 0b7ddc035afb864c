#include "fetch/list/lister.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/base/cleanup.h"
#include "fetch/base/clock.h"

/* Pages in a row without a key before we give up. Real stores send a few behind large deletions. */
#define EMPTY_PAGES_MAX 1000u
#define MESSAGE_BYTES 448u /* the store's 256 and what we say about the page */

/* What tells one page from another, and one token from another. */
struct mark {
    uint64_t first;
    uint64_t last;
    uint64_t token;
};

struct hr_lister {
    struct hr_lister_options options;
    char *prefix;
    struct hr_index_builder *builder;
    struct hr_call *call; /* in flight */
    char *last_key;       /* malloc; of the page before, when it was in bytewise order; else NULL */
    uint32_t last_key_len;
    bool by_key; /* the page in flight was asked for by start_after = last_key */
    uint64_t pages;
    uint64_t keys;
    uint32_t empty_pages;
    int64_t began_ns;
    uint64_t seed;
    /* Loops of any length (Brent): each page is compared with one kept from before; at page numbers that are
     * powers of two the present one is kept instead. */
    struct mark page_before;
    struct mark kept_page;
    struct mark kept_token;
};

static void page_done(struct hr_call *call);

static void call_free_p(struct hr_call **call)
{
    hr_call_free(*call);
}

/* ---- ending
 * ------------------------------------------------------------------------------------------------- */

static int fault(char message[MESSAGE_BYTES], const struct hr_lister *lister, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* -EIO, and the message: the page's number in front. */
static int fault(char message[MESSAGE_BYTES], const struct hr_lister *lister, const char *format, ...)
{
    int len = snprintf(message, MESSAGE_BYTES, "listing, page %" PRIu64 ": ", lister->pages + 1);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(message + len, MESSAGE_BYTES - (size_t)len, format, args);
    va_end(args);
    return -EIO;
}

/* The owner may free the lister inside. */
static void finish(struct hr_lister *lister, int error, const char *message)
{
    if (error != 0) {
        hr_builder_free(hr_steal_pointer(lister->builder));
    }
    lister->options.done(lister->options.owner, lister, error, message);
}

/* ---- judging a page
 * ----------------------------------------------------------------------------------------- */

static int compare_keys(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    if (order != 0) {
        return order;
    }
    return a_len < b_len ? -1 : a_len > b_len;
}

static uint64_t digest_of(const struct hr_lister *lister, const char *text, size_t len)
{
    return hr_index_hash_seeded(lister->seed, text, len) | 1;
}

static bool mark_equal(const struct mark *a, const struct mark *b)
{
    return a->first == b->first && a->last == b->last && a->token == b->token;
}

static bool power_of_two(uint64_t n)
{
    return (n & (n - 1)) == 0;
}

/* The same first and last key as an earlier page, or the same token: it goes round. */
static int judge_progress(struct hr_lister *lister, const struct hr_call *call, char message[MESSAGE_BYTES])
{
    const struct hr_listed *first = &call->listed[0];
    const struct hr_listed *last = call->listed_count > 0 ? &call->listed[call->listed_count - 1] : first;
    struct mark page = {0};
    struct mark token = {0};

    if (call->listed_count > 0) {
        page.first = digest_of(lister, first->key, first->key_len);
        page.last = digest_of(lister, last->key, last->key_len);
        if (mark_equal(&page, &lister->kept_page) || mark_equal(&page, &lister->page_before)) {
            return fault(message, lister, "the store sends keys again that it has sent before");
        }
    }
    if (call->next_token != NULL) {
        token.token = digest_of(lister, call->next_token, strlen(call->next_token));
        if (mark_equal(&token, &lister->kept_token) ||
            (call->token != NULL && strcmp(call->token, call->next_token) == 0)) {
            return fault(message, lister,
                         "the store sends a continuation token again that it has sent before");
        }
    }
    lister->page_before = page;
    if (power_of_two(lister->pages + 1)) {
        lister->kept_page = page;
        lister->kept_token = token;
    }
    lister->empty_pages = call->listed_count > 0 ? 0 : lister->empty_pages + 1;
    return lister->empty_pages > EMPTY_PAGES_MAX
               ? fault(message, lister, "%u pages in a row hold no key, and the store says there are more",
                       EMPTY_PAGES_MAX)
               : 0;
}

static bool inside(const struct hr_lister *lister, const struct hr_listed *listed)
{
    return listed->key_len >= lister->options.prefix_len &&
           memcmp(listed->key, lister->prefix, lister->options.prefix_len) == 0;
}

/* For people: control bytes replaced, cut. */
static const char *printable(const struct hr_listed *listed, char out[128])
{
    size_t len = listed->key_len < 127 ? listed->key_len : 127;
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)listed->key[i];
        out[i] = byte < ' ' || byte == 0x7f ? '?' : (char)byte;
    }
    out[len] = '\0';
    return out;
}

/* Every key inside the prefix; *ret_sorted: bytewise ascending, and behind the page before when that was too.
 */
static int judge_keys(const struct hr_lister *lister, const struct hr_call *call, bool *ret_sorted,
                      char message[MESSAGE_BYTES])
{
    const char *before = lister->last_key;
    uint32_t before_len = lister->last_key_len;
    char key[128];
    bool sorted = true;

    for (uint32_t i = 0; i < call->listed_count; i++) {
        const struct hr_listed *listed = &call->listed[i];
        if (!inside(lister, listed)) {
            return fault(message, lister,
                         "the store answers with the key '%s', which is not below the prefix asked for",
                         printable(listed, key));
        }
        sorted =
            sorted && (before == NULL || compare_keys(before, before_len, listed->key, listed->key_len) < 0);
        before = listed->key;
        before_len = listed->key_len;
    }
    if (call->prefix_count > 0) {
        return fault(message, lister,
                     "the store rolls keys up into common prefixes though no delimiter was asked for");
    }
    if (lister->by_key && !sorted) {
        return fault(message, lister,
                     "keys asked for by start-after come out of order or again, and the store gave no token");
    }
    *ret_sorted = sorted;
    return 0;
}

/* ---- taking a page
 * ------------------------------------------------------------------------------------------ */

static int take_keys(struct hr_lister *lister, const struct hr_call *call, char message[MESSAGE_BYTES])
{
    char key[128];

    for (uint32_t i = 0; i < call->listed_count; i++) {
        const struct hr_listed *listed = &call->listed[i];
        int rc = hr_builder_add(lister->builder, listed->key + lister->options.prefix_len,
                                listed->key_len - lister->options.prefix_len, listed->size, listed->mtime_ns,
                                listed->etag);
        if (rc == -EINVAL) {
            return fault(message, lister, "the key '%s' holds a zero byte, or its size is beyond 2^63",
                         printable(listed, key));
        }
        if (rc < 0) {
            (void)fault(message, lister, "%s after %" PRIu64 " keys", strerror(-rc), lister->keys);
            return rc;
        }
    }
    lister->keys += call->listed_count;
    return 0;
}

static int remember_last(struct hr_lister *lister, const struct hr_call *call, bool sorted)
{
    if (call->listed_count == 0) {
        return 0;
    }
    free(hr_steal_pointer(lister->last_key));
    if (!sorted) {
        return 0;
    }
    const struct hr_listed *last = &call->listed[call->listed_count - 1];
    lister->last_key = malloc((size_t)last->key_len + 1);
    if (lister->last_key == NULL) {
        return -ENOMEM;
    }
    memcpy(lister->last_key, last->key, last->key_len);
    lister->last_key[last->key_len] = '\0';
    lister->last_key_len = last->key_len;
    return 0;
}

/* ---- asking for a page
 * -------------------------------------------------------------------------------------- */

/* token NULL: the first page, or by last_key. */
static int ask(struct hr_lister *lister, const char *token)
{
    hr_cleanup(call_free_p) struct hr_call *call =
        hr_call_new(HR_CALL_LIST, lister->options.store, lister->prefix, lister->options.prefix_len);
    if (call == NULL) {
        return -ENOMEM;
    }
    lister->by_key = token == NULL && lister->pages > 0;
    if (token != NULL) {
        call->token = strdup(token);
    } else if (lister->by_key) {
        call->start_after = malloc((size_t)lister->last_key_len + 1);
        call->start_after_len = lister->last_key_len;
    }
    if ((token != NULL && call->token == NULL) || (lister->by_key && call->start_after == NULL)) {
        return -ENOMEM;
    }
    if (lister->by_key) {
        memcpy(call->start_after, lister->last_key, (size_t)lister->last_key_len + 1);
    }
    call->done = page_done;
    call->owner = lister;
    int rc = hr_call_start(call);
    if (rc == 0) {
        lister->call = hr_steal_pointer(call);
    }
    return rc;
}

/* Judges and takes a page. 0: the next one is asked for, or *ret_complete. */
static int turn_page(struct hr_lister *lister, const struct hr_call *call, bool *ret_complete,
                     char message[MESSAGE_BYTES])
{
    bool sorted = false;

    if (call->error != 0) {
        (void)fault(message, lister, "%s", call->message);
        return call->error;
    }
    int rc = judge_keys(lister, call, &sorted, message);
    if (rc == 0) {
        rc = judge_progress(lister, call, message);
    }
    if (rc == 0) {
        rc = take_keys(lister, call, message);
    }
    if (rc < 0) {
        return rc;
    }
    /* A store that gives a token but forgets to say "truncated" has more all the same. */
    bool has_token = call->next_token != NULL && call->next_token[0] != '\0';
    *ret_complete = !call->truncated && !has_token;
    if (!*ret_complete && !has_token && (call->listed_count == 0 || !sorted)) {
        return fault(message, lister, "there are more keys, but the store gives no continuation token and %s",
                     call->listed_count == 0 ? "no key to go on from" : "does not list in bytewise order");
    }
    rc = remember_last(lister, call, sorted);
    if (rc == 0) {
        lister->pages++;
        rc = *ret_complete ? 0 : ask(lister, has_token ? call->next_token : NULL);
    }
    if (rc < 0) {
        (void)fault(message, lister, "cannot ask for it: %s", strerror(-rc));
    }
    return rc;
}

static void page_done(struct hr_call *call)
{
    struct hr_lister *lister = call->owner;
    char message[MESSAGE_BYTES] = "";
    bool complete = false;
    int rc = 0;

    if (lister != NULL) {
        lister->call = NULL;
        rc = turn_page(lister, call, &complete, message);
    }
    hr_call_free(call);
    if (lister != NULL && (rc < 0 || complete)) {
        finish(lister, rc, message);
    }
}

/* ---- the door
 * ----------------------------------------------------------------------------------------------- */

int hr_lister_start(const struct hr_lister_options *options, struct hr_lister **ret)
{
    struct hr_lister *lister = calloc(1, sizeof(*lister));
    if (lister == NULL) {
        return -ENOMEM;
    }
    lister->options = *options;
    lister->began_ns = hr_clock_wall_ns();
    lister->seed = hr_random_u64();
    lister->prefix = malloc((size_t)options->prefix_len + 1);
    int rc = lister->prefix == NULL ? -ENOMEM : hr_builder_new(&lister->builder);
    if (rc == 0) {
        memcpy(lister->prefix, options->prefix, options->prefix_len);
        lister->prefix[options->prefix_len] = '\0';
        rc = ask(lister, NULL);
    }
    if (rc < 0) {
        hr_lister_free(lister);
        return rc;
    }
    *ret = lister;
    return 0;
}

struct hr_index_builder *hr_lister_take(struct hr_lister *lister)
{
    return hr_steal_pointer(lister->builder);
}

void hr_lister_progress(const struct hr_lister *lister, uint64_t *ret_pages, uint64_t *ret_keys)
{
    *ret_pages = lister->pages;
    *ret_keys = lister->keys;
}

int64_t hr_lister_began_ns(const struct hr_lister *lister)
{
    return lister->began_ns;
}

void hr_lister_free(struct hr_lister *lister)
{
    if (lister == NULL) {
        return;
    }
    if (lister->call != NULL) {
        lister->call->owner = NULL;
        hr_call_cancel(lister->call);
    }
    hr_builder_free(lister->builder);
    free(lister->prefix);
    free(lister->last_key);
    free(lister);
}
