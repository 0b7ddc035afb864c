#include "fetch/list/page.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "interpose/index.h"

/* Pages in a row without a key before we give up. Real stores send a few behind large deletions. */
#define EMPTY_PAGES_MAX 1000u

int hr_page_fault(char message[HR_PAGE_MESSAGE_BYTES], uint64_t page, const char *format, ...)
{
    int len = snprintf(message, HR_PAGE_MESSAGE_BYTES, "listing, page %" PRIu64 ": ", page);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(message + len, HR_PAGE_MESSAGE_BYTES - (size_t)len, format, args);
    va_end(args);
    return -EIO;
}

const char *hr_page_printable(const struct hr_listed *listed, char out[128])
{
    size_t len = listed->key_len < 127 ? listed->key_len : 127;
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)listed->key[i];
        out[i] = byte < ' ' || byte == 0x7f ? '?' : (char)byte;
    }
    out[len] = '\0';
    return out;
}

bool hr_page_has_token(const struct hr_call *call)
{
    return call->next_token != NULL && call->next_token[0] != '\0';
}

bool hr_page_has_more(const struct hr_call *call)
{
    return call->truncated || hr_page_has_token(call);
}

int hr_page_judge_keys(const struct hr_call *call, struct hr_key after, uint64_t page, bool *ret_sorted,
                       char message[HR_PAGE_MESSAGE_BYTES])
{
    char text[128];
    bool sorted = true;

    for (uint32_t i = 0; i < call->listed_count; i++) {
        const struct hr_listed *listed = &call->listed[i];
        struct hr_key key = {listed->key, listed->key_len};
        if (key.len < call->key_len || memcmp(key.at, call->key, call->key_len) != 0) {
            return hr_page_fault(
                message, page, "the store answers with the key '%s', which is not below the prefix asked for",
                hr_page_printable(listed, text));
        }
        sorted = sorted && (after.at == NULL || hr_key_compare(after, key) < 0);
        after = key;
    }
    if (call->prefix_count > 0) {
        return hr_page_fault(
            message, page, "the store rolls keys up into common prefixes though no delimiter was asked for");
    }
    *ret_sorted = sorted;
    return 0;
}

static uint64_t digest_of(const struct hr_page_watch *watch, const char *text, size_t len)
{
    return hr_index_hash_seeded(watch->seed, text, len) | 1;
}

static bool mark_equal(const struct hr_page_mark *a, const struct hr_page_mark *b)
{
    return a->first == b->first && a->last == b->last && a->token == b->token;
}

static bool power_of_two(uint64_t n)
{
    return (n & (n - 1)) == 0;
}

int hr_page_judge_progress(struct hr_page_watch *watch, const struct hr_call *call, uint64_t page,
                           char message[HR_PAGE_MESSAGE_BYTES])
{
    struct hr_page_mark mark = {0};
    struct hr_page_mark token = {0};

    if (call->listed_count > 0) {
        const struct hr_listed *first = &call->listed[0];
        const struct hr_listed *last = &call->listed[call->listed_count - 1];
        mark.first = digest_of(watch, first->key, first->key_len);
        mark.last = digest_of(watch, last->key, last->key_len);
        if (mark_equal(&mark, &watch->kept) || mark_equal(&mark, &watch->before)) {
            return hr_page_fault(message, page, "the store sends keys again that it has sent before");
        }
    }
    if (call->next_token != NULL) {
        token.token = digest_of(watch, call->next_token, strlen(call->next_token));
        if (mark_equal(&token, &watch->kept_token) ||
            (call->token != NULL && strcmp(call->token, call->next_token) == 0)) {
            return hr_page_fault(message, page,
                                 "the store sends a continuation token again that it has sent before");
        }
    }
    watch->before = mark;
    if (power_of_two(++watch->pages)) {
        watch->kept = mark;
        watch->kept_token = token;
    }
    watch->empty_pages = call->listed_count > 0 ? 0 : watch->empty_pages + 1;
    return watch->empty_pages > EMPTY_PAGES_MAX
               ? hr_page_fault(message, page,
                               "%u pages in a row hold no key, and the store says there are more",
                               EMPTY_PAGES_MAX)
               : 0;
}
