/* SigV4 against what AWS publishes: the S3 examples of "Signature Calculations for the Authorization Header",
 * and cases of the generic signing test suite. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fetch/auth/sigv4.h"
#include "fetch/base/text.h"

#define EMPTY HR_SIGV4_EMPTY_HASH

static struct hr_credentials s3_doc = {.access_key_id = (char *)"AKIAIOSFODNN7EXAMPLE",
                                       .secret = (char *)"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
static struct hr_credentials suite = {.access_key_id = (char *)"AKIDEXAMPLE",
                                      .secret = (char *)"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"};

#define S3_HOST                                                                                              \
    {                                                                                                        \
        "host", "examplebucket.s3.amazonaws.com"                                                             \
    }
#define S3_DATE                                                                                              \
    {                                                                                                        \
        "x-amz-date", "20130524T000000Z"                                                                     \
    }
#define S3_HASH                                                                                              \
    {                                                                                                        \
        "x-amz-content-sha256", EMPTY                                                                        \
    }
#define SUITE_HOST                                                                                           \
    {                                                                                                        \
        "host", "example.amazonaws.com"                                                                      \
    }
#define SUITE_DATE                                                                                           \
    {                                                                                                        \
        "x-amz-date", "20150830T123600Z"                                                                     \
    }
#define S3(p, q, n, ...)                                                                                     \
    {                                                                                                        \
        "GET", p, q, {__VA_ARGS__}, n, EMPTY, "20130524T000000Z", "us-east-1", "s3"                          \
    }
#define SUITE(m, p, q, n, ...)                                                                               \
    {                                                                                                        \
        m, p, q, {__VA_ARGS__}, n, EMPTY, "20150830T123600Z", "us-east-1", "service"                         \
    }
#define UNRESERVED "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

static const struct {
    const char *name;
    struct hr_credentials *who;
    struct hr_sigv4_request request;
    const char *signature;
} vectors[] = {
    {"s3 get object with range", &s3_doc,
     S3("/test.txt", "", 4, {"range", "bytes=0-9"}, S3_DATE, S3_HASH, S3_HOST),
     "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
    {"s3 get bucket lifecycle", &s3_doc, S3("/", "lifecycle", 3, S3_HOST, S3_DATE, S3_HASH),
     "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
    {"s3 list objects", &s3_doc, S3("", "prefix=J&max-keys=2", 3, S3_HOST, S3_DATE, S3_HASH),
     "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
    {"get-vanilla", &suite, SUITE("GET", "/", NULL, 2, SUITE_HOST, SUITE_DATE),
     "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
    {"post-vanilla", &suite, SUITE("POST", "/", NULL, 2, SUITE_HOST, SUITE_DATE),
     "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
    {"get-vanilla-query-order-key-case", &suite,
     SUITE("GET", "/", "Param2=value2&Param1=value1", 2, SUITE_DATE, SUITE_HOST),
     "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
    {"get-vanilla-query-order-encoded", &suite,
     SUITE("GET", "/", "Param-3=Value3&Param=Value2&%E1%88%B4=Value1", 2, SUITE_DATE, SUITE_HOST),
     "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac"},
    {"get-vanilla-empty-query-key", &suite, SUITE("GET", "/", "Param1=value1", 2, SUITE_HOST, SUITE_DATE),
     "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"},
    {"get-vanilla-query-unreserved", &suite,
     SUITE("GET", "/", UNRESERVED "=" UNRESERVED, 2, SUITE_HOST, SUITE_DATE),
     "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
    {"get-vanilla-utf8-query", &suite, SUITE("GET", "/", "%E1%88%B4=bar", 2, SUITE_HOST, SUITE_DATE),
     "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
    {"get-unreserved", &suite, SUITE("GET", "/" UNRESERVED, "", 2, SUITE_HOST, SUITE_DATE),
     "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
    {"get-utf8", &suite, SUITE("GET", "/%E1%88%B4", "", 2, SUITE_HOST, SUITE_DATE),
     "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
    {"get-space", &suite, SUITE("GET", "/example%20space/", "", 2, SUITE_HOST, SUITE_DATE),
     "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741"},
    {"get-slashes-unnormalized", &suite, SUITE("GET", "//example//", "", 2, SUITE_HOST, SUITE_DATE),
     "87cca117541a147f6df867677d98a7d80dff226d2bfca9e4ffa899665623c7e5"},
    {"get-relative-relative-unnormalized", &suite,
     SUITE("GET", "/example1/example2/../..", "", 2, SUITE_HOST, SUITE_DATE),
     "dc33e0856fd4baca4d7aa2146c38958283844764f38c74252a333df5e613003b"},
    {"get-header-value-trim", &suite,
     SUITE("GET", "/", "", 4, {"my-header2", " \"a   b   c\""}, {"my-header1", " value1"}, SUITE_HOST,
           SUITE_DATE),
     "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
    {"get-vanilla-with-session-token", &suite,
     SUITE("GET", "/", "", 3,
           {"x-amz-security-token", "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"},
           SUITE_HOST, SUITE_DATE),
     "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8"},
};

static void vectors_match(void **state)
{
    (void)state;
    struct hr_sigv4_signer *signer = NULL;
    assert_int_equal(hr_sigv4_signer_new(&signer), 0);
    /* Twice over with one signer: the cached key must not outlive its secret, day or service. */
    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
            struct hr_buf out = HR_BUF_INIT(65536);
            assert_int_equal(hr_sigv4_sign(signer, vectors[i].who, &vectors[i].request, &out), 0);
            const char *at = strstr(out.data, "Signature=");
            assert_non_null(at);
            if (strcmp(at + 10, vectors[i].signature) != 0) {
                fail_msg("%s: %s", vectors[i].name, out.data);
            }
            hr_buf_release(&out);
        }
    }
    hr_sigv4_signer_free(signer);
}

static void header_is_whole(void **state)
{
    (void)state;
    struct hr_sigv4_signer *signer = NULL;
    struct hr_buf out = HR_BUF_INIT(65536);
    assert_int_equal(hr_sigv4_signer_new(&signer), 0);
    assert_int_equal(hr_sigv4_sign(signer, &s3_doc, &vectors[0].request, &out), 0);
    assert_string_equal(
        out.data, "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
                  "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
                  "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
    hr_buf_release(&out);
    hr_sigv4_signer_free(signer);
}

static void canonical_text(void **state)
{
    (void)state;
    struct hr_buf out = HR_BUF_INIT(65536);
    assert_int_equal(hr_sigv4_canonical(&vectors[1].request, &out), 0);
    assert_string_equal(out.data, "GET\n/\nlifecycle=\n"
                                  "host:examplebucket.s3.amazonaws.com\n"
                                  "x-amz-content-sha256:" EMPTY "\n"
                                  "x-amz-date:20130524T000000Z\n"
                                  "\nhost;x-amz-content-sha256;x-amz-date\n" EMPTY);
    hr_buf_release(&out);
}

/* "a-b" sorts before "a" + "=": names are compared without their '='. */
static void query_names_sort_before_values(void **state)
{
    (void)state;
    struct hr_sigv4_request request = SUITE("GET", "/", "a-b=1&a=2&a=1&&b&a.c=", 1, SUITE_HOST);
    struct hr_buf out = HR_BUF_INIT(65536);
    assert_int_equal(hr_sigv4_canonical(&request, &out), 0);
    assert_non_null(strstr(out.data, "\na=1&a=2&a-b=1&a.c=&b=\n"));
    hr_buf_release(&out);
}

static void secret_of_another_key_counts(void **state)
{
    (void)state;
    struct hr_sigv4_signer *signer = NULL;
    struct hr_credentials other = suite;
    struct hr_buf first = HR_BUF_INIT(65536), second = HR_BUF_INIT(65536);
    other.secret = (char *)"another";
    assert_int_equal(hr_sigv4_signer_new(&signer), 0);
    assert_int_equal(hr_sigv4_sign(signer, &suite, &vectors[3].request, &first), 0);
    assert_int_equal(hr_sigv4_sign(signer, &other, &vectors[3].request, &second), 0);
    assert_string_not_equal(first.data, second.data);
    hr_buf_release(&first);
    hr_buf_release(&second);
    hr_sigv4_signer_free(signer);
}

static void bad_input_is_refused(void **state)
{
    (void)state;
    struct hr_sigv4_signer *signer = NULL;
    struct hr_credentials nobody = {0};
    struct hr_sigv4_request no_headers = SUITE("GET", "/", "", 0, SUITE_HOST);
    struct hr_sigv4_request bad_date = SUITE("GET", "/", "", 1, SUITE_HOST);
    struct hr_sigv4_request long_region = SUITE("GET", "/", "", 1, SUITE_HOST);
    struct hr_buf out = HR_BUF_INIT(65536);
    char region[100];
    memset(region, 'r', sizeof(region) - 1);
    region[sizeof(region) - 1] = '\0';
    bad_date.date = "2015";
    long_region.region = region;
    assert_int_equal(hr_sigv4_signer_new(&signer), 0);
    assert_int_equal(hr_sigv4_sign(signer, &nobody, &vectors[3].request, &out), -22);
    assert_int_equal(hr_sigv4_sign(signer, &suite, &no_headers, &out), -22);
    assert_int_equal(hr_sigv4_sign(signer, &suite, &bad_date, &out), -22);
    assert_int_equal(hr_sigv4_sign(signer, &suite, &long_region, &out), -22);
    assert_int_equal(out.len, 0);
    hr_buf_release(&out);
    hr_sigv4_signer_free(signer);
}

static void dates(void **state)
{
    (void)state;
    char text[HR_SIGV4_DATE_BYTES];
    hr_sigv4_date(1369353600, text);
    assert_string_equal(text, "20130524T000000Z");
    hr_sigv4_date(1440938160, text);
    assert_string_equal(text, "20150830T123600Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_match),
        cmocka_unit_test(header_is_whole),
        cmocka_unit_test(canonical_text),
        cmocka_unit_test(query_names_sort_before_values),
        cmocka_unit_test(secret_of_another_key_counts),
        cmocka_unit_test(bad_input_is_refused),
        cmocka_unit_test(dates),
    };
    return cmocka_run_group_tests_name("auth/sigv4", tests, NULL, NULL);
}
