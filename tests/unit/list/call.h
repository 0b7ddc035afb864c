/* Calls of listings for the fakes of the store: what a test fills in, malloc'd, is freed here. */
#ifndef HR_TEST_LIST_CALL_H
#define HR_TEST_LIST_CALL_H

#include <stdlib.h>
#include <string.h>

#include "fetch/store/store.h"

static inline struct hr_call *call_make(const char *key, uint32_t key_len)
{
    struct hr_call *call = calloc(1, sizeof(*call));
    if (call != NULL) {
        call->key = strndup(key, key_len);
        call->key_len = key_len;
    }
    return call;
}

static inline void call_release(struct hr_call *call)
{
    free(call->key);
    free(call->start_after);
    free(call->token);
    free(call->next_token);
    for (uint32_t i = 0; i < call->listed_count; i++) {
        free((char *)(uintptr_t)call->listed[i].key);
    }
    free(call->listed);
    free(call);
}

#endif
