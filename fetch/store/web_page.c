/* A page that is taken for an object is wrong bytes without an error; an object that is taken for a page is
 * EIO with a line, and can be read once it is listed. So a doubt makes it a page. */
#include "fetch/store/web_page.h"

#include <string.h>
#include <strings.h>

#define HEX "0123456789abcdefABCDEF"
#define MD5_DIGITS 32
#define PARTS_DIGITS_MAX 5 /* "-10000": S3's most parts */

/* Not any x-amz-*: pages that come by way of a CDN have x-amz-cf-id. */
static bool names_a_store(const struct hr_http_request *request)
{
    static const char *const marks[] = {"x-amz-request-id",     "x-amz-id-2",      "x-goog-generation",
                                        "x-guploader-uploadid", "x-ms-request-id", "x-oss-request-id",
                                        "x-cos-request-id",     "x-obs-request-id"};

    for (unsigned i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        if (hr_http_answer(request, marks[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/* "d41d8cd98f00b204e9800998ecf8427e" or "...-12", strong: servers of files make theirs of time and size. */
static bool is_digest(const char *etag)
{
    if (etag == NULL || etag[0] != '"' || strspn(etag + 1, HEX) != MD5_DIGITS) {
        return false;
    }
    const char *rest = etag + 1 + MD5_DIGITS;
    if (*rest == '-') {
        size_t digits = strspn(rest + 1, "0123456789");
        if (digits == 0 || digits > PARTS_DIGITS_MAX) {
            return false;
        }
        rest += 1 + digits;
    }
    return strcmp(rest, "\"") == 0;
}

/* Programs that make pages digest them for an ETag, too, but have no time of a file and no ranges of it. */
static bool looks_stored(const struct hr_http_request *request)
{
    const char *ranges = hr_http_answer(request, "accept-ranges");

    return is_digest(hr_http_answer(request, "etag")) && hr_http_answer(request, "last-modified") != NULL &&
           (hr_http_answer(request, "content-range") != NULL ||
            (ranges != NULL && strcasecmp(ranges, "bytes") == 0));
}

static bool ends_as_page(const char *key, uint32_t key_len)
{
    static const char *const ends[] = {".html", ".htm"};

    for (unsigned i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        size_t len = strlen(ends[i]);
        if (key_len >= len && strncasecmp(key + key_len - len, ends[i], len) == 0) {
            return true;
        }
    }
    return false;
}

bool hr_web_page(const char *key, uint32_t key_len, const struct hr_http_request *request)
{
    const char *type = hr_http_answer(request, "content-type");

    return type != NULL && strncasecmp(type, "text/html", 9) == 0 && !names_a_store(request) &&
           !looks_stored(request) && !(hr_http_answer(request, "etag") != NULL && ends_as_page(key, key_len));
}
