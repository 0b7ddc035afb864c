#include "fetch/list/gather.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "fetch/base/cleanup.h"

int hr_gather_begin(struct hr_gather *gather)
{
    int rc = hr_builder_new(&gather->builder);
    gather->keys = 0;
    return rc == 0 && gather->scratch_dir != NULL ? hr_builder_scratch(gather->builder, gather->scratch_dir)
                                                  : rc;
}

static void note_home(struct hr_gather *gather, const char *path, uint32_t path_len)
{
    if (gather->spread) {
        return;
    }
    if (!gather->home_known) {
        const char *slash = memrchr(path, '/', path_len);
        uint32_t len = slash != NULL ? (uint32_t)(slash - path) + 1 : 0;
        gather->home_known = true;
        gather->spread = len > HR_KEY_MAX;
        gather->home_len = gather->spread ? 0 : len;
        memcpy(gather->home, path, gather->home_len);
        return;
    }
    gather->spread = path_len < gather->home_len || memcmp(path, gather->home, gather->home_len) != 0 ||
                     memchr(path + gather->home_len, '/', path_len - gather->home_len) != NULL;
}

int hr_gather_add(struct hr_gather *gather, const struct hr_call *call, uint32_t count, uint64_t page,
                  char message[HR_PAGE_MESSAGE_BYTES])
{
    char key[128];

    for (uint32_t i = 0; i < count; i++) {
        const struct hr_listed *listed = &call->listed[i];
        const char *path = listed->key + gather->prefix_len;
        uint32_t path_len = listed->key_len - gather->prefix_len;
        note_home(gather, path, path_len);
        if (!hr_filter_admits(gather->filter, path, path_len)) {
            continue;
        }
        int rc =
            hr_builder_add(gather->builder, path, path_len, listed->size, listed->mtime_ns, listed->etag);
        if (rc == -EINVAL) {
            return hr_page_fault(message, page, "the key '%s' holds a zero byte, or its size is beyond 2^63",
                                 hr_page_printable(listed, key));
        }
        if (rc < 0) {
            (void)hr_page_fault(message, page, "%s after %" PRIu64 " keys", strerror(-rc), gather->keys);
            return rc;
        }
    }
    gather->keys += count;
    return 0;
}

bool hr_gather_all_in(const struct hr_gather *gather, const char *dir, uint32_t dir_len)
{
    uint32_t len = dir_len > 0 ? dir_len + 1 : 0;
    return gather->home_known && !gather->spread && gather->home_len == len &&
           memcmp(gather->home, dir, dir_len) == 0;
}

void hr_gather_drop(struct hr_gather *gather)
{
    hr_builder_free(hr_steal_pointer(gather->builder));
}
