/* Which of the checksums that come with an answer are an object's, and may be held against its bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <openssl/opensslv.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#if OPENSSL_VERSION_NUMBER >= 0x30000000L
#include <openssl/provider.h>
#endif

#include <cmocka.h>

#include "fetch/store/proofs.h"
#include "tests/unit/store/calls.h"

#define MD5 "5d41402abc4b2a76b9719d911017c592"

static void checksums_and_md5(void **state)
{
    (void)state;
    static const struct {
        const char *headers;
        uint64_t first, bytes;
        uint32_t kind;
        uint64_t crc;
        bool md5;
    } rows[] = {
        {"200 OK\r\nETag: \"" MD5 "\"\r\n", 0, 0, HR_CRC_NONE, 0, true},
        {"200 OK\r\nETag: \"" MD5 "-2\"\r\n", 0, 0, HR_CRC_NONE, 0, false},
        {"200 OK\r\nETag: \"" MD5 "\"\r\nx-amz-server-side-encryption: AES256\r\n", 0, 0, HR_CRC_NONE, 0,
         true},
        {"200 OK\r\nETag: \"" MD5 "\"\r\nx-amz-server-side-encryption: aws:kms\r\n", 0, 0, HR_CRC_NONE, 0,
         false},
        {"200 OK\r\nETag: \"" MD5 "\"\r\nx-amz-server-side-encryption: aws:kms:dsse\r\n", 0, 0, HR_CRC_NONE,
         0, false},
        {"200 OK\r\nETag: \"" MD5 "\"\r\nx-amz-server-side-encryption-customer-algorithm: AES256\r\n", 0, 0,
         HR_CRC_NONE, 0, false},
        {"200 OK\r\nx-amz-checksum-crc32c: mnG7TA==\r\n", 0, 0, HR_CRC_CRC32C, 0x9a71bb4c, false},
        {"200 OK\r\nx-amz-checksum-crc32: NhCmhg==\r\nx-amz-checksum-type: FULL_OBJECT\r\n", 0, 0,
         HR_CRC_CRC32, 0x3610a686, false},
        {"200 OK\r\nx-amz-checksum-crc32: NhCmhg==-2\r\n", 0, 0, HR_CRC_NONE, 0, false},
        {"200 OK\r\nx-amz-checksum-crc32: NhCmhg==\r\nx-amz-checksum-type: COMPOSITE\r\n", 0, 0, HR_CRC_NONE,
         0, false},
        {"200 OK\r\nx-amz-checksum-crc32: NhCm\r\n", 0, 0, HR_CRC_NONE, 0, false},
        {"200 OK\r\nx-amz-checksum-crc64nvme: AQIDBAUGBwg=\r\n", 0, 0, HR_CRC_CRC64NVME, 0x0102030405060708,
         false},
        {"200 OK\r\nx-amz-checksum-sha256: LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=\r\n", 0, 0,
         HR_CRC_SHA256, 0, false},
        {"200 OK\r\nx-amz-checksum-sha1: qvTGHdzF6KLavt4PO0gs2a6pQ00=\r\n", 0, 0, HR_CRC_SHA1, 0, false},
        {"206 X\r\nContent-Range: bytes 2-6/9\r\nx-amz-checksum-crc32: NhCmhg==\r\n", 2, 5, HR_CRC_NONE, 0,
         false},
        {"206 X\r\nContent-Range: bytes 0-4/5\r\nx-amz-checksum-crc32: NhCmhg==\r\n", 0, 5, HR_CRC_CRC32,
         0x3610a686, false},
        {"206 X\r\nContent-Range: bytes 2-6/9\r\nx-amz-checksum-crc32: NhCmhg==\r\nx-amz-checksum-type: "
         "FULL_OBJECT\r\n",
         2, 5, HR_CRC_CRC32, 0x3610a686, false},
    };
    static struct script script;
    open_stores(5000);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct script_step step = {rows[i].headers, "hello", 0};
        play(&script, &step, 1, false);
        struct hr_store *store = open_store(keys_env, script.port);
        struct hr_call *call = hr_call_new(HR_CALL_GET, store, "k", 1);
        call->range_first = rows[i].first;
        call->range_bytes = rows[i].bytes;
        run_call(call);
        script_stop(&script);
        if (call->error != 0 || call->crc_kind != rows[i].kind || call->md5_is_etag != rows[i].md5 ||
            (rows[i].crc != 0 && call->crc != rows[i].crc)) {
            fail_msg("%s: %s kind %u crc %llx md5 %d", rows[i].headers, call->message, call->crc_kind,
                     (unsigned long long)call->crc, call->md5_is_etag);
        }
        if (rows[i].kind == HR_CRC_SHA256) {
            assert_int_equal(call->sha256[0], 0x2c);
            assert_int_equal(call->sha256[31], 0x24);
        }
        if (rows[i].kind == HR_CRC_SHA1) {
            assert_int_equal(call->sha256[0], 0xaa);
            assert_int_equal(call->sha256[19], 0x4d);
        }
        assert_non_null(strstr(script.log[0], "x-amz-checksum-mode: ENABLED"));
        assert_non_null(strstr(script.log[0], ";x-amz-checksum-mode;"));
        hr_call_free(call);
        hr_store_unref(store);
    }
    close_stores();
}

#if OPENSSL_VERSION_NUMBER >= 0x30000000L
/* Without MD5 nothing is proven by it: in a process of its own, as OpenSSL is asked once. */
static void no_md5_no_proof_by_it(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        struct hr_http_request request = {.status = 200};
        struct hr_call call = {.etag = MD5, .md5_is_etag = true};
        bool good = OSSL_PROVIDER_load(NULL, "null") != NULL;
        hr_proofs_take(&call, &request, hr_quirk_unknown(), true);
        _exit(good && !call.md5_is_etag ? 0 : 1);
    }
    int status = -1;
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    assert_int_equal(status, 0);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#if OPENSSL_VERSION_NUMBER >= 0x30000000L
        cmocka_unit_test(no_md5_no_proof_by_it),
#endif
        cmocka_unit_test(checksums_and_md5),
    };
    return cmocka_run_group_tests_name("store/call_checksums", tests, NULL, NULL);
}
