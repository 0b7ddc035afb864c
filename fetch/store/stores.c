/* The family of stores: what they share, and how it ends. */
#include "fetch/store/internal.h"

#include <errno.h>
#include <stdlib.h>

int hr_stores_new(const struct hr_stores_options *options, struct hr_stores **ret)
{
    struct hr_stores *stores = calloc(1, sizeof(*stores));

    if (stores == NULL) {
        return -ENOMEM;
    }
    stores->refs = 1;
    stores->loop = options->loop;
    stores->http = options->http;
    stores->timeout_ms = options->timeout_ms;
    *ret = stores;
    return 0;
}

void hr_stores_unref(struct hr_stores *stores)
{
    if (--stores->refs == 0) {
        free(stores);
    }
}

void hr_stores_free(struct hr_stores *stores)
{
    if (stores == NULL) {
        return;
    }
    stores->http = NULL;
    hr_calls_abort(stores);
    hr_stores_unref(stores);
}

void hr_stores_stats(const struct hr_stores *stores, struct hr_store_stats *ret)
{
    *ret = stores->stats;
}
