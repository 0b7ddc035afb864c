/* The call as a struct: made, freed, and put into words. */
#include "fetch/store/run.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/base/clock.h"
#include "fetch/base/zeroed.h"

#define TROUBLE_AGAIN_MS 30000

struct hr_call *hr_call_new(enum hr_call_kind kind, struct hr_store *store, const char *key, uint32_t key_len)
{
    struct hr_call *call = hr_zeroed(sizeof(*call));

    if (call == NULL) {
        return NULL;
    }
    call->kind = kind;
    call->store = store;
    call->key = malloc((size_t)key_len + 1);
    if (call->key == NULL) {
        free(call);
        return NULL;
    }
    memcpy(call->key, key, key_len);
    call->key[key_len] = '\0';
    call->key_len = key_len;
    call->expected_bytes = UINT64_MAX;
    return call;
}

void hr_call_free(struct hr_call *call)
{
    if (call == NULL) {
        return;
    }
    free(call->key);
    free(call->start_after);
    free(call->token);
    free(call->if_match);
    hr_buf_release(&call->body);
    free(call->listed);
    free(call->prefixes);
    free(call->next_token);
    hr_buf_release(&call->arena);
    free(call);
}

/* Names are outside bytes and messages are one line: what would break it is shown as '?'. Long ones lose the
 * middle. */
static void printable_key(const struct hr_call *call, char ret[72])
{
    uint32_t shown = call->key_len < 64 ? call->key_len : 64;
    size_t used = 0;

    for (uint32_t i = 0; i < shown; i++) {
        uint32_t at = call->key_len <= 64 || i < 32 ? i : call->key_len - 64 + i;

        if (call->key_len > 64 && i == 32) {
            memcpy(ret + used, "...", 3);
            used += 3;
        }
        unsigned char c = (unsigned char)call->key[at];
        ret[used++] = (char)(c < ' ' || c == 0x7f ? '?' : c);
    }
    ret[used] = '\0';
}

static void put(char *line, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Appends what fits. */
static void put(char *line, size_t size, const char *format, ...)
{
    size_t used = strlen(line);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(line + used, size - used, format, args);
    va_end(args);
}

void hr_call_describe(struct hr_call *call, const struct hr_store *store, const struct hr_judged *judged,
                      int error, unsigned sent)
{
    bool nobody = strcmp(store->identity, "anonymous") == 0 ||
                  (sent > 0 && hr_store_credentials(store)->access_key_id == NULL);
    bool unsigned_call = error == -EACCES && nobody;
    const char *hint = unsigned_call ? "no credentials were found" : judged->verdict.hint;
    size_t size = sizeof(call->message);
    static const char *const verb[] = {
        [HR_CALL_LIST] = "LIST", [HR_CALL_GET] = "GET", [HR_CALL_HEAD] = "HEAD"};
    char key[72];

    printable_key(call, key);
    call->message[0] = '\0';
    put(call->message, size, "%s s3://%.64s/%s at %.64s", verb[call->kind], store->bucket, key,
        store->endpoint_text);
    if (error == -ECANCELED) {
        put(call->message, size, ": canceled");
        return;
    }
    if (error == -EACCES) {
        put(call->message, size, " as %.40s", store->identity);
    }
    if (sent > 1) {
        put(call->message, size, " after %u requests", sent);
    }
    put(call->message, size, ": %s", judged->text);
    if (hint != NULL && hint[0] != '\0') {
        put(call->message, size, "; %s", hint);
    }
}

void hr_stores_on_trouble(struct hr_stores *stores,
                          void (*fn)(void *owner, const struct hr_store *store, const char *message,
                                     int64_t left_ms),
                          void *owner)
{
    stores->trouble = fn;
    stores->trouble_owner = owner;
}

void hr_run_tell(const struct hr_call_run *run)
{
    struct hr_store *store = run->store;
    struct hr_stores *stores = store->stores;
    struct hr_call *call = run->call;
    int64_t now_ms = hr_clock_ms();
    int64_t left_ms = run->deadline_ms - now_ms;

    if (stores->trouble == NULL || (int64_t)stores->timeout_ms - left_ms < HR_TROUBLE_AFTER_MS ||
        now_ms < store->trouble_ms) {
        return;
    }
    store->trouble_ms = now_ms + TROUBLE_AGAIN_MS;
    hr_call_describe(call, store, &run->judged, run->judged.verdict.error, run->sent);
    stores->trouble(stores->trouble_owner, store, call->message, left_ms);
    call->message[0] = '\0';
}
