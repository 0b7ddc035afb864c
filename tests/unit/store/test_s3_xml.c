/* Listings and error documents: what stores really send, and what nobody should. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fetch/store/s3_xml.h"

#define HEAD "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
#define LIST(inner)                                                                                          \
    HEAD "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" inner "</ListBucketResult>"
#define ROW(key, size, etag)                                                                                 \
    "<Contents><Key>" key "</Key><LastModified>2026-11-21T10:41:00.500Z</LastModified><ETag>" etag           \
    "</ETag><Size>" size "</Size><Owner><ID>x</ID><Key>not this</Key></Owner>"                               \
    "<StorageClass>STANDARD</StorageClass></Contents>"

static int parse(const char *xml, struct hr_s3_page *page, struct hr_s3_error *error, const char **why)
{
    *error = (struct hr_s3_error){0};
    *why = NULL;
    return hr_s3_parse_list(xml, strlen(xml), page, error, why);
}

static void a_whole_page(void **state)
{
    (void)state;
    struct hr_s3_page page = {0};
    struct hr_s3_error error;
    const char *why;
    const char *xml =
        LIST("<Name>b</Name><Prefix></Prefix><EncodingType>url</EncodingType>"
             "<IsTruncated>true</IsTruncated><NextContinuationToken>a+b/c=%20</NextContinuationToken>" ROW(
                 "a%20b+c%2Bd", "5", "&#34;e1&#34;") ROW("%C3%BC", "9007199254740993", "\"e2\"")
                 ROW("%01%26", "0", "e3")
                     ROW("plain", "1", "") "<CommonPrefixes><Prefix>dir%2Fx/</Prefix></CommonPrefixes>");
    assert_int_equal(parse(xml, &page, &error, &why), 0);
    assert_int_equal(page.listed_count, 4);
    assert_string_equal(page.listed[0].key, "a b c+d");
    assert_int_equal(page.listed[0].key_len, 7);
    assert_int_equal(page.listed[0].size, 5);
    assert_true(page.listed[0].mtime_ns == 1795257660500000000LL);
    assert_string_equal(page.listed[0].etag, "e1");
    assert_string_equal(page.listed[1].key, "\xc3\xbc");
    assert_true(page.listed[1].size == 9007199254740993ULL);
    assert_string_equal(page.listed[1].etag, "e2");
    assert_string_equal(page.listed[2].key, "\x01&");
    assert_string_equal(page.listed[2].etag, "e3");
    assert_string_equal(page.listed[3].etag, "");
    assert_int_equal(page.prefix_count, 1);
    assert_string_equal(page.prefixes[0].key, "dir/x/");
    assert_true(page.truncated);
    assert_string_equal(page.next_token, "a+b/c=%20");
    hr_s3_page_release(&page);
}

/* Without EncodingType the text is the key, also when it looks encoded. */
static void raw_keys_stay_raw(void **state)
{
    (void)state;
    struct hr_s3_page page = {0};
    struct hr_s3_error error;
    const char *why;
    assert_int_equal(parse(LIST(ROW("a%20b+c&amp;&lt;d&gt;", "1", "e")), &page, &error, &why), 0);
    assert_string_equal(page.listed[0].key, "a%20b+c&<d>");
    assert_false(page.truncated);
    assert_null(page.next_token);
    hr_s3_page_release(&page);
}

/* EncodingType may stand behind the keys. */
static void encoding_may_come_late(void **state)
{
    (void)state;
    struct hr_s3_page page = {0};
    struct hr_s3_error error;
    const char *why;
    assert_int_equal(
        parse(LIST(ROW("a%2Fb", "1", "e") "<EncodingType>url</EncodingType>"), &page, &error, &why), 0);
    assert_string_equal(page.listed[0].key, "a/b");
    hr_s3_page_release(&page);
}

static void namespace_prefix_and_empty_page(void **state)
{
    (void)state;
    struct hr_s3_page page = {0};
    struct hr_s3_error error;
    const char *why;
    assert_int_equal(
        parse("<s3:ListBucketResult xmlns:s3=\"u\"><s3:Contents><s3:Key>k</s3:Key><s3:Size>3</s3:Size>"
              "</s3:Contents></s3:ListBucketResult>",
              &page, &error, &why),
        0);
    assert_int_equal(page.listed_count, 1);
    assert_string_equal(page.listed[0].key, "k");
    assert_int_equal(page.listed[0].mtime_ns, 0);
    hr_s3_page_release(&page);
    assert_int_equal(parse(LIST(""), &page, &error, &why), 0);
    assert_int_equal(page.listed_count, 0);
    hr_s3_page_release(&page);
}

static const struct {
    const char *name, *xml;
} broken[] = {
    {"empty", ""},
    {"text", "hello"},
    {"cut", HEAD "<ListBucketResult><Contents><Key>a</Key><Size>1</Size></Contents>"},
    {"cut in a tag", HEAD "<ListBucketResult><Conte"},
    {"two roots", LIST("") "<x/>"},
    {"other root", "<html><body/></html>"},
    {"doctype", "<!DOCTYPE x [<!ENTITY a \"b\">]>" LIST(ROW("&a;", "1", "e"))},
    {"plain doctype", "<!DOCTYPE ListBucketResult><ListBucketResult/>"},
    {"unknown entity", LIST(ROW("&nbsp;", "1", "e"))},
    {"control byte", LIST(ROW("a\x01", "1", "e"))},
    {"bad utf-8", LIST(ROW("a\xff", "1", "e"))},
    {"no key", LIST("<Contents><Size>1</Size></Contents>")},
    {"empty key", LIST(ROW("", "1", "e"))},
    {"no size", LIST("<Contents><Key>a</Key></Contents>")},
    {"negative size", LIST(ROW("a", "-1", "e"))},
    {"size with text", LIST(ROW("a", "1x", "e"))},
    {"huge size", LIST(ROW("a", "99999999999999999999", "e"))},
    {"broken escape", LIST("<EncodingType>url</EncodingType>" ROW("a%2", "1", "e"))},
    {"zero byte", LIST("<EncodingType>url</EncodingType>" ROW("a%00b", "1", "e"))},
    {"too deep",
     LIST("<a><a><a><a><a><a><a><a><a><a><a><a><a/></a></a></a></a></a></a></a></a></a></a></a></a>")},
};

static void broken_pages_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        struct hr_s3_page page = {.listed_count = 77};
        struct hr_s3_error error;
        const char *why;
        int r = parse(broken[i].xml, &page, &error, &why);
        if (r != -EPROTO || why == NULL || page.listed_count != 77) {
            fail_msg("%s: %d", broken[i].name, r);
        }
    }
}

static void long_elements_are_refused(void **state)
{
    (void)state;
    size_t len = 20000;
    char *xml = malloc(len + 400);
    struct hr_s3_page page;
    struct hr_s3_error error;
    const char *why;
    assert_non_null(xml);
    int at = sprintf(xml, "<ListBucketResult><Contents><Size>1</Size><Key>");
    memset(xml + at, 'k', len);
    (void)sprintf(xml + at + len, "</Key></Contents></ListBucketResult>");
    assert_int_equal(parse(xml, &page, &error, &why), -EPROTO);
    free(xml);
}

static void many_rows(void **state)
{
    (void)state;
    struct hr_buf xml = HR_BUF_INIT(64 << 20);
    struct hr_s3_page page = {0};
    struct hr_s3_error error;
    const char *why;
    assert_int_equal(hr_buf_puts(&xml, "<ListBucketResult>"), 0);
    for (int i = 0; i < 20000; i++) {
        assert_int_equal(hr_buf_printf(&xml, "<Contents><Key>k%d</Key><Size>%d</Size></Contents>", i, i), 0);
    }
    assert_int_equal(hr_buf_puts(&xml, "</ListBucketResult>"), 0);
    assert_int_equal(parse(xml.data, &page, &error, &why), 0);
    assert_int_equal(page.listed_count, 20000);
    assert_string_equal(page.listed[0].key, "k0");
    assert_string_equal(page.listed[19999].key, "k19999");
    assert_int_equal(page.listed[19999].size, 19999);
    hr_s3_page_release(&page);
    hr_buf_release(&xml);
}

static void error_documents(void **state)
{
    (void)state;
    struct hr_s3_page page = {0};
    struct hr_s3_error error;
    const char *why;
    const char *xml =
        HEAD "<Error><Code>AuthorizationHeaderMalformed</Code><Message>line\none</Message>"
             "<Region>eu-west-1</Region><RequestId>R/1</RequestId><Deep><Code>no</Code></Deep></Error>";
    assert_int_equal(parse(xml, &page, &error, &why), -EREMOTEIO);
    assert_string_equal(error.code, "AuthorizationHeaderMalformed");
    hr_s3_parse_error(xml, strlen(xml), &error);
    assert_string_equal(error.code, "AuthorizationHeaderMalformed");
    assert_string_equal(error.message, "line one");
    assert_string_equal(error.region, "eu-west-1");
    assert_string_equal(error.request_id, "R1");
    hr_s3_parse_error("<html>404</html>", 16, &error);
    assert_string_equal(error.code, "");
    hr_s3_parse_error("<Error><Code>Cut</Code>", 23, &error);
    assert_string_equal(error.code, "");
    hr_s3_parse_error(LIST(""), strlen(LIST("")), &error);
    assert_string_equal(error.code, "");
    hr_s3_parse_error(NULL, 0, &error);
    assert_string_equal(error.code, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_page),
        cmocka_unit_test(raw_keys_stay_raw),
        cmocka_unit_test(encoding_may_come_late),
        cmocka_unit_test(namespace_prefix_and_empty_page),
        cmocka_unit_test(broken_pages_are_refused),
        cmocka_unit_test(long_elements_are_refused),
        cmocka_unit_test(many_rows),
        cmocka_unit_test(error_documents),
    };
    return cmocka_run_group_tests_name("store/s3_xml", tests, NULL, NULL);
}
