/* Any bytes as a store's answer to a listing: never a crash, never a row outside the arena. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/store/s3_xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_rows(const struct hr_s3_page *page, const struct hr_listed *rows, uint32_t count)
{
    const char *end = page->arena.data + page->arena.len;

    for (uint32_t i = 0; i < count; i++) {
        bool inside = rows[i].key >= page->arena.data && rows[i].key + rows[i].key_len < end;

        if (!inside || rows[i].key_len == 0 || strlen(rows[i].key) != rows[i].key_len ||
            rows[i].etag >= end) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hr_s3_page page = {0};
    struct hr_s3_error error = {0};
    const char *why = NULL;
    int r = hr_s3_parse_list((const char *)data, size, &page, &error, &why);

    if (r == 0) {
        check_rows(&page, page.listed, page.listed_count);
        check_rows(&page, page.prefixes, page.prefix_count);
        hr_s3_page_release(&page);
    } else if (r != -EREMOTEIO && why == NULL) {
        abort();
    }
    hr_s3_parse_error((const char *)data, size, &error);
    return 0;
}
