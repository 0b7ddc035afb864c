#include "fetch/store/calls.h"

#include <stdio.h>
#include <string.h>

#include "fetch/base/clock.h"
#include "fetch/store/run.h"

static void describe(const struct hr_call_run *run, struct hr_call_doing *ret)
{
    int64_t now_ms = hr_clock_ms();

    *ret = (struct hr_call_doing){
        .requests = run->sent,
        .range_first = run->call->range_first,
        .range_bytes = run->call->range_bytes,
    };
    (void)snprintf(ret->error, sizeof(ret->error), "%s", run->judged.text);
    if (run->request != NULL) {
        ret->state = hr_http_answering(run->request) ? HR_CALL_COMING : HR_CALL_ASKED;
        ret->sent_ms = now_ms - run->sent_us / 1000;
        hr_http_asked(run->request, ret->address, sizeof(ret->address));
    } else if (run->timer.heap_index >= 0) {
        ret->state = HR_CALL_RETRYING;
        ret->next_ms = run->timer.due_ms > now_ms ? run->timer.due_ms - now_ms : 0;
    } else {
        ret->state = HR_CALL_KEYS;
    }
}

static const struct hr_call_run *oldest(const struct hr_store *store)
{
    const struct hr_call_run *found = NULL;

    for (const struct hr_call_run *run = store->stores->running; run != NULL; run = run->next) {
        if (run->store == store && (found == NULL || run->deadline_ms < found->deadline_ms)) {
            found = run;
        }
    }
    return found;
}

/* What a call that has not failed yet waits for. */
static void describe_silence(const struct hr_call_doing *doing, char *ret, size_t size)
{
    if (doing->state == HR_CALL_KEYS) {
        (void)snprintf(ret, size, "its credentials are being fetched");
    } else {
        (void)snprintf(ret, size, "%s, asked %lld s ago",
                       doing->state == HR_CALL_COMING ? "the answer is on its way" : "no answer",
                       (long long)(doing->sent_ms / 1000));
    }
}

bool hr_calls_trouble(const struct hr_store *store, char ret_text[256], int64_t *ret_left_ms)
{
    const struct hr_call_run *run = oldest(store);
    struct hr_call_doing doing;
    struct hr_judged judged;

    if (run == NULL) {
        return false;
    }
    int64_t left_ms = run->deadline_ms - hr_clock_ms();
    int64_t lasts_ms = (int64_t)store->stores->timeout_ms - left_ms;
    judged = run->judged;
    if (judged.text[0] == '\0' && lasts_ms < HR_TROUBLE_AFTER_MS) {
        return false;
    }
    if (judged.text[0] == '\0') {
        describe(run, &doing);
        describe_silence(&doing, judged.text, sizeof(judged.text));
    }
    hr_call_describe(run->call, store, &judged, judged.verdict.error, run->sent);
    memcpy(ret_text, run->call->message, sizeof(run->call->message));
    run->call->message[0] = '\0';
    *ret_left_ms = left_ms > 0 ? left_ms : 0;
    return true;
}

bool hr_calls_doing(const struct hr_store *store, enum hr_call_kind kind, const char *key, uint32_t key_len,
                    unsigned n, struct hr_call_doing *ret)
{
    for (const struct hr_call_run *run = store->stores->running; run != NULL; run = run->next) {
        const struct hr_call *call = run->call;

        if (run->store == store && call->kind == kind && call->key_len == key_len &&
            memcmp(call->key, key, key_len) == 0 && n-- == 0) {
            describe(run, ret);
            return true;
        }
    }
    return false;
}
