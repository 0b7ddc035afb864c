/* Encodings of the wire: hex, base64, percent, dates. Pure functions, any thread. */
#ifndef HR_BASE_TEXT_H
#define HR_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hr_buf;

void hr_hex_encode(const uint8_t *bytes, size_t len, char *ret_hex /* 2*len+1 */);
/* Exactly 2*len hex digits of either case; 0 or -EINVAL. */
int hr_hex_decode(const char *hex, size_t hex_len, uint8_t *ret_bytes);
/* Strict base64 (RFC 4648, padded). *ret_len on input is the room; 0, -EINVAL, -ENOSPC. */
int hr_base64_decode(const char *text, size_t len, uint8_t *ret_bytes, size_t *ret_len);
int hr_base64_encode(const uint8_t *bytes, size_t len, struct hr_buf *out);

/* SigV4's encoding: every byte except A-Za-z0-9-._~ (and '/' when keep_slash) as %XX, upper case. */
int hr_percent_encode(const char *bytes, size_t len, bool keep_slash, struct hr_buf *out);
/* %XX -> byte; '+' -> space when plus_is_space (S3's encoding-type=url). 0 or -EINVAL on a broken escape. */
int hr_percent_decode(const char *text, size_t len, bool plus_is_space, struct hr_buf *out);

/* "2026-11-21T10:41:00Z", also with a fraction of a second and with "+02:00" for Z -> ns since the epoch; 0
 * or -EINVAL. Years 1678 to 2261, what ns in 64 bits can hold. */
int hr_date_iso8601(const char *text, size_t len, int64_t *ret_ns);
/* "Sat, 21 Nov 2026 10:41:00 GMT" (RFC 7231) -> ns since the epoch. */
int hr_date_http(const char *text, size_t len, int64_t *ret_ns);

#endif
