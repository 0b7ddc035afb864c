/* hr_http over TLS: certificates are verified by name and by authority; an own authority is the request's,
 * and does not stick to the handle that the next request uses. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <signal.h>

#include "harness.h"

static char bundle_path[] = "/tmp/hr-ca-XXXXXX";
static SSL_CTX *server_tls;

static EVP_PKEY *make_key(void)
{
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, NULL);
    assert_int_equal(EVP_PKEY_keygen_init(ctx), 1);
    assert_int_equal(EVP_PKEY_CTX_set_ec_paramgen_curve_nid(ctx, NID_X9_62_prime256v1), 1);
    assert_int_equal(EVP_PKEY_keygen(ctx, &key), 1);
    EVP_PKEY_CTX_free(ctx);
    return key;
}

/* Self-signed, for one.test, many.test and 127.0.0.1. */
static X509 *make_certificate(EVP_PKEY *key)
{
    X509 *cert = X509_new();
    assert_int_equal(X509_set_version(cert, 2), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(cert), 1), 1);
    (void)X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    (void)X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_NAME *name = X509_get_subject_name(cert);
    (void)X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1, 0);
    assert_int_equal(X509_set_issuer_name(cert, name), 1);
    assert_int_equal(X509_set_pubkey(cert, key), 1);
    static const struct {
        int nid;
        const char *value;
    } extensions[] = {{NID_basic_constraints, "critical,CA:TRUE"},
                      {NID_subject_alt_name, "DNS:one.test,DNS:many.test,IP:127.0.0.1"}};
    for (size_t i = 0; i < 2; i++) {
        X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, extensions[i].nid, extensions[i].value);
        assert_non_null(extension);
        assert_int_equal(X509_add_ext(cert, extension, -1), 1);
        X509_EXTENSION_free(extension);
    }
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    return cert;
}

static int make_tls(void **state)
{
    (void)state;
    EVP_PKEY *key = make_key();
    X509 *cert = make_certificate(key);
    server_tls = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_use_certificate(server_tls, cert), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(server_tls, key), 1);
    FILE *bundle = fdopen(mkstemp(bundle_path), "w");
    assert_non_null(bundle);
    assert_int_equal(PEM_write_X509(bundle, cert), 1);
    assert_int_equal(fclose(bundle), 0);
    X509_free(cert);
    EVP_PKEY_free(key);
    return 0;
}

static int drop_tls(void **state)
{
    (void)state;
    SSL_CTX_free(server_tls);
    return unlink(bundle_path);
}

static void certificates_are_verified(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        bool bundle;
        int error;
    } cases[] = {
        {"https://127.0.0.1:PORT/ok/100000", false, -EPROTO},
        {"https://127.0.0.1:PORT/ok/100000", true, 0},
        {"https://one.test:PORT/ok/100000", true, 0},
        {"https://one.test:PORT/ok/100000", false, -EPROTO},
        {"https://half.test:PORT/ok/100", true, -EPROTO}, /* the certificate has not this name */
        {"https://many.test:PORT/ok/100000", true, 0},
        {"https://many.test:PORT/ok/1", false, -EPROTO},
    };
    struct bed bed;
    bed_open(&bed, server_tls, 1, 8);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            struct hr_http_request *request = bed_request(&bed, cases[i].url);
            request->ca_bundle = cases[i].bundle ? strdup(bundle_path) : NULL;
            bed_submit(&bed, request);
            bed_run(&bed);
            if (request->error != cases[i].error) {
                fail_msg("case %zu: %d (%s)", i, request->error, request->error_text);
            }
            hr_http_request_free(request);
        }
    }
    bed_close(&bed);
}

static void unreadable_bundle_is_an_error(void **state)
{
    (void)state;
    struct bed bed;
    bed_open(&bed, server_tls, 1, 8);
    struct hr_http_request *request = bed_request(&bed, "https://127.0.0.1:PORT/ok/1");
    request->ca_bundle = strdup("/nonexistent/ca.pem");
    bed_submit(&bed, request);
    bed_run(&bed);
    assert_int_equal(request->error, -EPROTO);
    hr_http_request_free(request);
    bed_close(&bed);
}

static void many_over_tls(void **state)
{
    (void)state;
    enum { COUNT = 60 };
    struct bed bed;
    bed_open(&bed, server_tls, 2, COUNT);
    struct hr_http_request *requests[COUNT];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++) {
            requests[i] = bed_request(&bed, "https://many.test:PORT/ok/50000");
            requests[i]->ca_bundle = strdup(bundle_path);
            bed_submit(&bed, requests[i]);
        }
        bed_run(&bed);
        for (int i = 0; i < COUNT; i++) {
            assert_body(requests[i], 50000);
            hr_http_request_free(requests[i]);
        }
    }
    struct hr_http_stats stats;
    hr_http_stats(bed.http, &stats);
    assert_true(stats.connects <= 2 * COUNT); /* kept connections survive the change of handles */
    bed_close(&bed);
}

static void truncation_and_resets_over_tls(void **state)
{
    (void)state;
    const char *const urls[] = {"https://127.0.0.1:PORT/truncated", "https://127.0.0.1:PORT/truncated-chunk",
                                "https://127.0.0.1:PORT/reset", "https://127.0.0.1:PORT/nothing"};
    struct bed bed;
    bed_open(&bed, server_tls, 1, 8);
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct hr_http_request *request = bed_request(&bed, urls[i]);
        request->ca_bundle = strdup(bundle_path);
        bed_submit(&bed, request);
        bed_run(&bed);
        if (request->error != -ECONNRESET) {
            fail_msg("%s: %d (%s)", urls[i], request->error, request->error_text);
        }
        hr_http_request_free(request);
    }
    const char *const fine[] = {"https://127.0.0.1:PORT/then-close", "https://127.0.0.1:PORT/once",
                                "https://127.0.0.1:PORT/once-reset"};
    for (int i = 0; i < 15; i++) {
        struct hr_http_request *request = bed_request(&bed, fine[i % 3]);
        request->ca_bundle = strdup(bundle_path);
        bed_submit(&bed, request);
        bed_run(&bed);
        if (request->error != 0) {
            fail_msg("%s: %s", fine[i % 3], request->error_text);
        }
        hr_http_request_free(request);
    }
    bed_close(&bed);
}

int main(void)
{
    /* The server of this test writes through OpenSSL, which cannot suppress SIGPIPE by itself; the client's
     * network threads have it blocked in any case (test_http.c runs with the default). */
    (void)signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(certificates_are_verified),
        cmocka_unit_test(unreadable_bundle_is_an_error),
        cmocka_unit_test(many_over_tls),
        cmocka_unit_test(truncation_and_resets_over_tls),
    };
    return cmocka_run_group_tests(tests, make_tls, drop_tls);
}
