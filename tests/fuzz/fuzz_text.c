/* The wire's encodings fed with anything: no crash, and what decodes comes back the same when encoded again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/base/buf.h"
#include "fetch/base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int truth)
{
    if (!truth) {
        abort();
    }
}

static void fuzz_percent(const char *text, size_t len, int plus)
{
    struct hr_buf plain = HR_BUF_INIT(1 << 16), again = HR_BUF_INIT(1 << 18), back = HR_BUF_INIT(1 << 18);
    if (hr_percent_decode(text, len, plus, &plain) == 0) {
        must(plain.len <= len);
        must(hr_percent_encode(plain.data, plain.len, true, &again) == 0);
        must(hr_percent_decode(again.data, again.len, plus, &back) == 0);
        must(back.len == plain.len && memcmp(back.data, plain.data, back.len) == 0);
    } else {
        must(plain.len == 0);
    }
    hr_buf_release(&plain);
    hr_buf_release(&again);
    hr_buf_release(&back);
}

static void fuzz_base64(const char *text, size_t len)
{
    size_t room = len, bytes_len = room;
    uint8_t *bytes = malloc(room + 1);
    must(bytes != NULL);
    struct hr_buf back = HR_BUF_INIT(1 << 18);
    if (hr_base64_decode(text, len, bytes, &bytes_len) == 0) {
        must(hr_base64_encode(bytes, bytes_len, &back) == 0);
        must(back.len == len && memcmp(back.data, text, len) == 0);
    } else {
        must(bytes_len == room);
    }
    hr_buf_release(&back);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 4096) {
        return 0;
    }
    size_t len = size - 1;
    /* Exactly as long as the text, so that a read past its end is seen. */
    char *text = malloc(len ? len : 1);
    must(text != NULL);
    memcpy(text, data + 1, len);
    int64_t ns;
    uint8_t *hex = malloc(len / 2 + 1);
    must(hex != NULL);
    switch (data[0] % 5) {
    case 0:
        fuzz_percent(text, len, data[0] & 128);
        break;
    case 1:
        fuzz_base64(text, len);
        break;
    case 2:
        (void)hr_date_iso8601(text, len, &ns);
        break;
    case 3:
        (void)hr_date_http(text, len, &ns);
        break;
    default:
        (void)hr_hex_decode(text, len, hex);
        break;
    }
    free(hex);
    free(text);
    return 0;
}
