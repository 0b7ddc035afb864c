/* Encodings of the wire: tables of good and bad input; a failure leaves the output as it was. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <time.h>

#include "fetch/base/buf.h"
#include "fetch/base/text.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static void hex_both_ways(void **state)
{
    (void)state;
    uint8_t bytes[4] = {0x00, 0x7f, 0xa5, 0xff}, back[4] = {1, 2, 3, 4};
    char text[9];
    hr_hex_encode(bytes, 4, text);
    assert_string_equal(text, "007fa5ff");
    assert_int_equal(hr_hex_decode("007FA5ff", 8, back), 0);
    assert_memory_equal(back, bytes, 4);
    const char *const bad[] = {"0", "0g", "00 1", "+1", "0x12"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        uint8_t untouched[4] = {9, 9, 9, 9};
        assert_int_equal(hr_hex_decode(bad[i], strlen(bad[i]), untouched), -EINVAL);
        assert_int_equal(untouched[0], 9);
    }
    assert_int_equal(hr_hex_decode("", 0, back), 0);
}

static void base64_both_ways(void **state)
{
    (void)state;
    static const struct {
        const char *plain, *text;
    } good[] = {{"", ""},
                {"f", "Zg=="},
                {"fo", "Zm8="},
                {"foo", "Zm9v"},
                {"foob", "Zm9vYg=="},
                {"fooba", "Zm9vYmE="},
                {"foobar", "Zm9vYmFy"},
                {"\xff\xfe\xfb", "//77"}};
    for (size_t i = 0; i < COUNT(good); i++) {
        struct hr_buf out = HR_BUF_INIT(64);
        uint8_t bytes[16];
        size_t len = sizeof(bytes);
        assert_int_equal(hr_base64_encode((const uint8_t *)good[i].plain, strlen(good[i].plain), &out), 0);
        assert_string_equal(out.data, good[i].text);
        assert_int_equal(hr_base64_decode(good[i].text, strlen(good[i].text), bytes, &len), 0);
        assert_int_equal(len, strlen(good[i].plain));
        assert_memory_equal(bytes, good[i].plain, len);
        hr_buf_release(&out);
    }
    const char *const bad[] = {
        "Zg=", "Zg", "Z===", "====", "Zh==", "Zm9=", "Zm 9", "Zm9v\n", "Zg==Zg==", "Zm9-", "Zm=v", "=m9v"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        uint8_t bytes[16] = {7};
        size_t len = sizeof(bytes);
        assert_int_equal(hr_base64_decode(bad[i], strlen(bad[i]), bytes, &len), -EINVAL);
        assert_true(len == sizeof(bytes) && bytes[0] == 7);
    }
    uint8_t small[2];
    size_t room = sizeof(small);
    assert_int_equal(hr_base64_decode("Zm9v", 4, small, &room), -ENOSPC);
    assert_int_equal(room, 2);
}

static void percent_encoding(void **state)
{
    (void)state;
    struct hr_buf out = HR_BUF_INIT(4096);
    const char key[] = "a b/c+d~e-f_g.h%\xc3\xa9\x01";
    assert_int_equal(hr_percent_encode(key, sizeof(key) - 1, true, &out), 0);
    assert_string_equal(out.data, "a%20b/c%2Bd~e-f_g.h%25%C3%A9%01");
    hr_buf_reset(&out);
    assert_int_equal(hr_percent_encode(key, sizeof(key) - 1, false, &out), 0);
    assert_string_equal(out.data, "a%20b%2Fc%2Bd~e-f_g.h%25%C3%A9%01");

    char every[256], back[256];
    for (int i = 0; i < 256; i++) {
        every[i] = (char)i;
    }
    hr_buf_reset(&out);
    assert_int_equal(hr_percent_encode(every, sizeof(every), false, &out), 0);
    struct hr_buf plain = HR_BUF_INIT(4096);
    assert_int_equal(hr_percent_decode(out.data, out.len, true, &plain), 0);
    assert_int_equal(plain.len, 256);
    memcpy(back, plain.data, 256);
    assert_memory_equal(back, every, 256);
    hr_buf_release(&plain);
    hr_buf_release(&out);
}

static void percent_decoding(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool plus;
        const char *plain; /* NULL: refused */
    } cases[] = {
        {"a+b%20c", true, "a b c"}, {"a+b%20c", false, "a+b c"}, {"%2b%2B", true, "++"}, {"", true, ""},
        {"%", true, NULL},          {"a%2", true, NULL},         {"%zz", true, NULL},    {"%%41", true, NULL},
        {"ok%4", false, NULL},      {"%-1", false, NULL},        {"% 1", false, NULL},   {"%41", false, "A"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct hr_buf out = HR_BUF_INIT(64);
        assert_int_equal(hr_buf_puts(&out, "<"), 0);
        int r = hr_percent_decode(cases[i].text, strlen(cases[i].text), cases[i].plus, &out);
        assert_int_equal(r, cases[i].plain ? 0 : -EINVAL);
        assert_string_equal(out.data + 1, cases[i].plain ? cases[i].plain : "");
        assert_int_equal(out.len, 1 + (cases[i].plain ? strlen(cases[i].plain) : 0));
        hr_buf_release(&out);
    }
}

#define S 1000000000LL
static void dates(void **state)
{
    (void)state;
    static const struct {
        int (*parse)(const char *, size_t, int64_t *);
        const char *text;
        int64_t ns; /* INT64_MIN: refused */
    } cases[] = {
        {hr_date_iso8601, "1970-01-01T00:00:00Z", 0},
        {hr_date_iso8601, "2026-11-21T10:41:00.000Z", 1795257660 * S},
        {hr_date_iso8601, "2026-11-21T10:41:00Z", 1795257660 * S},
        {hr_date_iso8601, "2026-11-21T12:41:00+02:00", 1795257660 * S},
        {hr_date_iso8601, "2026-11-21T10:41:00.123456789Z", 1795257660 * S + 123456789},
        {hr_date_iso8601, "2000-02-29T23:59:59.5Z", 951868799 * S + 500000000},
        {hr_date_iso8601, "1969-12-31T23:59:59Z", -1 * S},
        {hr_date_iso8601, "2026-02-29T00:00:00Z", INT64_MIN},
        {hr_date_iso8601, "2026-13-01T00:00:00Z", INT64_MIN},
        {hr_date_iso8601, "2026-11-21T24:00:00Z", INT64_MIN},
        {hr_date_iso8601, "2026-11-21T10:41:00", INT64_MIN},
        {hr_date_iso8601, "2026-11-21 10:41:00Z", INT64_MIN},
        {hr_date_iso8601, "2026-11-21T10:41:00.Z", INT64_MIN},
        {hr_date_iso8601, "2026-11-21T10:41:00Zx", INT64_MIN},
        {hr_date_iso8601, "9999-11-21T10:41:00Z", INT64_MIN},
        {hr_date_iso8601, "", INT64_MIN},
        {hr_date_http, "Sat, 21 Nov 2026 10:41:00 GMT", 1795257660 * S},
        {hr_date_http, "Thu, 01 Jan 1970 00:00:00 GMT", 0},
        {hr_date_http, "Sun, 06 Nov 1994 08:49:37 GMT", 784111777 * S},
        {hr_date_http, "Sun, 06 Nov 1994 08:49:37 UTC", INT64_MIN},
        {hr_date_http, "Sun, 6 Nov 1994 08:49:37 GMT", INT64_MIN},
        {hr_date_http, "Sun, 31 Nov 1994 08:49:37 GMT", INT64_MIN},
        {hr_date_http, "Sunday, 06-Nov-94 08:49:37 GMT", INT64_MIN},
        {hr_date_http, "Sun, 06 Nov 1994 08:49:37 GMT ", INT64_MIN},
        {hr_date_http, "Sun, 06 Nov 1994 08:49", INT64_MIN},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        int64_t ns = 4711;
        int r = cases[i].parse(cases[i].text, strlen(cases[i].text), &ns);
        assert_int_equal(r, cases[i].ns == INT64_MIN ? -EINVAL : 0);
        assert_true(ns == (cases[i].ns == INT64_MIN ? 4711 : cases[i].ns));
    }
}

/* Every day of 1900 to 2200 against the C library. */
static void dates_match_libc(void **state)
{
    (void)state;
    for (int64_t day = -25567; day < 84370; day++) {
        time_t seconds = (time_t)(day * 86400 + 3661);
        struct tm utc;
        char iso[64], http[64];
        assert_non_null(gmtime_r(&seconds, &utc));
        (void)strftime(iso, sizeof(iso), "%Y-%m-%dT%H:%M:%SZ", &utc);
        (void)strftime(http, sizeof(http), "%a, %d %b %Y %H:%M:%S GMT", &utc);
        int64_t iso_ns = 0, http_ns = 0;
        assert_int_equal(hr_date_iso8601(iso, strlen(iso), &iso_ns), 0);
        assert_int_equal(hr_date_http(http, strlen(http), &http_ns), 0);
        assert_true(iso_ns == seconds * S && http_ns == iso_ns);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hex_both_ways),
        cmocka_unit_test(base64_both_ways),
        cmocka_unit_test(percent_encoding),
        cmocka_unit_test(percent_decoding),
        cmocka_unit_test(dates),
        cmocka_unit_test(dates_match_libc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
