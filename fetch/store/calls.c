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
