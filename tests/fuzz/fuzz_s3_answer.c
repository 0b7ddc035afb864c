/* Any bytes as the header values that decide what a call does next: Content-Range, Location, ETag (one a
 * line). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/store/endpoint.h"
#include "fetch/store/etag.h"
#include "fetch/store/judge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_redirect(const char *location)
{
    struct hr_buf out = HR_BUF_INIT(16384);

    if (hr_redirect_resolve("https://store.example:9000/s3/bkt/k?x=1", location, &out) == 0) {
        struct hr_url_parts parts;
        const char *why = NULL;

        /* What is followed must be a URL that can be signed, and never without TLS. */
        if (hr_url_split(out.data, &parts, &why) < 0 || !parts.endpoint.https) {
            abort();
        }
    }
    hr_buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct hr_content_range range;
    struct hr_endpoint endpoint;
    const char *why = NULL;
    char etag[HR_ETAG_BYTES];

    if (text == NULL) {
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (hr_content_range_parse(line, &range) == 0 && range.first != UINT64_MAX &&
            range.last < range.first) {
            abort();
        }
        check_redirect(line);
        if (hr_endpoint_parse(line, &endpoint, &why) < 0 && why == NULL) {
            abort();
        }
        hr_etag_copy(line, etag);
        if (etag[0] != '\0' && !hr_etag_usable(etag, strlen(etag))) {
            abort();
        }
    }
    free(text);
    return 0;
}
