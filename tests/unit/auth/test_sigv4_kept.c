/* One signer over requests of many kinds, seconds and keys says what each request says when everything is
 * worked out anew, text by text as AWS describes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fetch/auth/sigv4.h"
#include "fetch/base/digest.h"
#include "fetch/base/text.h"

#define ROUNDS 4
#define TOKEN_BYTES 1500 /* as long as those of roles are */

static char token[TOKEN_BYTES + 1];

static struct hr_credentials keys[] = {
    {.access_key_id = (char *)"AKIAIOSFODNN7EXAMPLE",
     .secret = (char *)"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"},
    {.access_key_id = (char *)"A", .secret = (char *)"s"},
    {.access_key_id = (char *)"AKIAIOSFODNN7EXAMPLE",
     .secret = (char *)"another/secret+of/the/same/access/key/id"},
};

static const char *const dates[] = {"20130524T000000Z", "20130524T000001Z", "20130524T235959Z",
                                    "20130525T000000Z", "20130524T000000Z"};
static const char *const regions[] = {"us-east-1", "eu-central-2", "garage"};
/* As a key of UTF-8, blanks, '+', '%', '~', "//" and dots is sent. */
static const char *const paths[] = {
    "/bucket/train/n0001/img_0000001.jpg", "/%E1%88%B4/%C3%A4%20b%2Bc%25d~e//f/../g", "", "/", "//bucket//",
    "/bucket/with?query=of&the=url"};
static const char *const queries[] = {
    NULL, "list-type=2&encoding-type=url&delimiter=%2F&max-keys=1000&prefix=a%20b", "versionId=x",
    "b&a=%2B&a-b=1&a=", ""};

/* The headers' names are in order, so that nothing is left to sort here. */
static const struct hr_sigv4_header headers[][6] = {
    {{"host", "localhost:9000"}, {"x-amz-content-sha256", HR_SIGV4_EMPTY_HASH}, {"x-amz-date", "DATE"}},
    {{"host", "b.s3.amazonaws.com"},
     {"if-match", "\"0123456789abcdef0123456789abcdef\""},
     {"range", "bytes=0-1023"},
     {"x-amz-content-sha256", HR_SIGV4_UNSIGNED},
     {"x-amz-date", "DATE"},
     {"x-amz-security-token", token}},
    {{"host", "h"},
     {"x-amz-content-sha256", HR_SIGV4_UNSIGNED},
     {"x-amz-date", "DATE"},
     {"x-amz-server-side-encryption-customer-algorithm", "AES256"},
     {"x-amz-server-side-encryption-customer-key", "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="},
     {"x-amz-server-side-encryption-customer-key-md5", "AAAAAAAAAAAAAAAAAAAAAA=="}},
};

struct part {
    const char *text;
    size_t len;
};

/* By name, then by what follows it. */
static int compare(const void *a, const void *b)
{
    const struct part *left = a, *right = b;
    size_t left_name = strcspn(left->text, "=&"), right_name = strcspn(right->text, "=&");
    size_t least = left_name < right_name ? left_name : right_name;
    int order = strncmp(left->text, right->text, least);
    if (order == 0 && left_name != right_name) {
        order = left_name < right_name ? -1 : 1;
    }
    return order != 0 ? order
                      : strncmp(left->text, right->text, left->len > right->len ? left->len : right->len);
}

static void plain_query(const char *query, struct hr_buf *out)
{
    struct part parts[16];
    size_t count = 0;
    for (const char *at = query; at && *at != '\0';
         at += parts[count - 1].len + (at[parts[count - 1].len] == '&')) {
        parts[count++] = (struct part){at, strcspn(at, "&")};
    }
    qsort(parts, count, sizeof(parts[0]), compare);
    for (size_t i = 0; i < count; i++) {
        bool has_value = memchr(parts[i].text, '=', parts[i].len) != NULL;
        assert_int_equal(hr_buf_printf(out, "%s%.*s%s", i > 0 ? "&" : "", (int)parts[i].len, parts[i].text,
                                       has_value ? "" : "="),
                         0);
    }
}

static void plain_canonical(const struct hr_sigv4_request *request, struct hr_buf *names, struct hr_buf *out)
{
    size_t path_len = strcspn(request->path, "?");
    assert_int_equal(hr_buf_printf(out, "%s\n%.*s\n", request->method, (int)(path_len > 0 ? path_len : 1),
                                   path_len > 0 ? request->path : "/"),
                     0);
    plain_query(request->query, out);
    assert_int_equal(hr_buf_puts(out, "\n"), 0);
    for (unsigned i = 0; i < request->header_count; i++) {
        const struct hr_sigv4_header *header = &request->headers[i];
        assert_int_equal(hr_buf_printf(out, "%s:%s\n", header->name, header->value), 0);
        assert_int_equal(hr_buf_printf(names, "%s%s", i > 0 ? ";" : "", header->name), 0);
    }
    assert_int_equal(hr_buf_printf(out, "\n%s\n%s", names->data, request->payload_hash), 0);
}

static void plain_mac(const uint8_t key[HR_SHA256_BYTES], const char *text, uint8_t ret[HR_SHA256_BYTES])
{
    uint8_t mac[HR_SHA256_BYTES];
    assert_int_equal(hr_hmac_sha256(key, HR_SHA256_BYTES, text, strlen(text), mac), 0);
    memcpy(ret, mac, sizeof(mac));
}

static void plain_authorization(const struct hr_credentials *who, const struct hr_sigv4_request *request,
                                struct hr_buf *out)
{
    struct hr_buf text = HR_BUF_INIT(65536), names = HR_BUF_INIT(65536), secret = HR_BUF_INIT(65536);
    uint8_t key[HR_SHA256_BYTES];
    char hex[2 * HR_SHA256_BYTES + 1], day[9] = "";
    memcpy(day, request->date, 8);
    plain_canonical(request, &names, &text);
    assert_int_equal(hr_digest(HR_DIGEST_SHA256, text.data, text.len, key), 0);
    hr_hex_encode(key, sizeof(key), hex);
    hr_buf_reset(&text);
    assert_int_equal(hr_buf_printf(&text, "AWS4-HMAC-SHA256\n%s\n%s/%s/%s/aws4_request\n%s", request->date,
                                   day, request->region, request->service, hex),
                     0);
    assert_int_equal(hr_buf_printf(&secret, "AWS4%s", who->secret), 0);
    assert_int_equal(hr_hmac_sha256(secret.data, secret.len, day, 8, key), 0);
    plain_mac(key, request->region, key);
    plain_mac(key, request->service, key);
    plain_mac(key, "aws4_request", key);
    plain_mac(key, text.data, key);
    hr_hex_encode(key, sizeof(key), hex);
    assert_int_equal(hr_buf_printf(out,
                                   "AWS4-HMAC-SHA256 Credential=%s/%s/%s/%s/aws4_request, SignedHeaders=%s, "
                                   "Signature=%s",
                                   who->access_key_id, day, request->region, request->service, names.data,
                                   hex),
                     0);
    hr_buf_release(&secret);
    hr_buf_release(&names);
    hr_buf_release(&text);
}

#define PICK(list, draw) list[(draw) % (sizeof(list) / sizeof((list)[0]))]

static void make(uint32_t draw, struct hr_sigv4_request *ret)
{
    const struct hr_sigv4_header *some = PICK(headers, draw);
    *ret = (struct hr_sigv4_request){
        .method = draw % 7 == 0 ? "HEAD" : "GET",
        .path = PICK(paths, draw / 3),
        .query = PICK(queries, draw / 5),
        .payload_hash = HR_SIGV4_EMPTY_HASH,
        .date = PICK(dates, draw / 11),
        .region = PICK(regions, draw / 13),
        .service = draw % 17 == 0 ? "sts" : "s3",
    };
    for (; ret->header_count < 6 && some[ret->header_count].name; ret->header_count++) {
        ret->headers[ret->header_count] = some[ret->header_count];
        if (strcmp(some[ret->header_count].value, "DATE") == 0) {
            ret->headers[ret->header_count].value = ret->date;
        }
    }
}

static void one_signer_says_what_plain_text_says(void **state)
{
    (void)state;
    struct hr_sigv4_signer *signer = NULL;
    memset(token, 'T', TOKEN_BYTES);
    assert_int_equal(hr_sigv4_signer_new(&signer), 0);
    for (uint32_t draw = 0; draw < ROUNDS * 6 * 5 * 3 * 5 * 3; draw++) {
        struct hr_sigv4_request request;
        struct hr_buf kept = HR_BUF_INIT(65536), plain = HR_BUF_INIT(65536);
        const struct hr_credentials *who = &PICK(keys, draw / 19);
        make(draw, &request);
        assert_int_equal(hr_sigv4_sign(signer, who, &request, &kept), 0);
        plain_authorization(who, &request, &plain);
        assert_string_equal(kept.data, plain.data);
        hr_buf_release(&plain);
        hr_buf_release(&kept);
    }
    hr_sigv4_signer_free(signer);
}

/* What a refused request leaves behind does not get into the next one. */
static void a_refused_request_leaves_nothing(void **state)
{
    (void)state;
    struct hr_sigv4_signer *signer = NULL;
    struct hr_sigv4_request good, bad;
    struct hr_buf many = HR_BUF_INIT(65536), kept = HR_BUF_INIT(65536), plain = HR_BUF_INIT(65536);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(hr_buf_printf(&many, "&a%d", i), 0);
    }
    make(0, &good);
    bad = good;
    bad.query = many.data;
    assert_int_equal(hr_sigv4_signer_new(&signer), 0);
    assert_int_equal(hr_sigv4_sign(signer, &keys[0], &bad, &kept), -22);
    assert_int_equal(kept.len, 0);
    assert_int_equal(hr_sigv4_sign(signer, &keys[0], &good, &kept), 0);
    plain_authorization(&keys[0], &good, &plain);
    assert_string_equal(kept.data, plain.data);
    hr_buf_release(&plain);
    hr_buf_release(&kept);
    hr_buf_release(&many);
    hr_sigv4_signer_free(signer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_signer_says_what_plain_text_says),
        cmocka_unit_test(a_refused_request_leaves_nothing),
    };
    return cmocka_run_group_tests_name("auth/sigv4_kept", tests, NULL, NULL);
}
