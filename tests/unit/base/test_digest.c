/* Digests and CRCs against published vectors, and CRCs against a bit-at-a-time reference at every length and
 * split. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/opensslv.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#if OPENSSL_VERSION_NUMBER >= 0x30000000L
#include <openssl/provider.h>
#endif

#include "fetch/base/digest.h"
#include "fetch/base/md5_lanes.h"
#include "fetch/base/text.h"

static void assert_hex(const uint8_t *bytes, size_t len, const char *hex)
{
    char text[2 * HR_SHA256_BYTES + 1];
    hr_hex_encode(bytes, len, text);
    assert_string_equal(text, hex);
}

static const struct {
    enum hr_digest_kind kind;
    size_t len;
    const char *text, *hex;
} vectors[] = {
    {HR_DIGEST_MD5, HR_MD5_BYTES, "", "d41d8cd98f00b204e9800998ecf8427e"},
    {HR_DIGEST_MD5, HR_MD5_BYTES, "abc", "900150983cd24fb0d6963f7d28e17f72"},
    {HR_DIGEST_SHA1, HR_SHA1_BYTES, "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"},
    {HR_DIGEST_SHA256, HR_SHA256_BYTES, "",
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {HR_DIGEST_SHA256, HR_SHA256_BYTES, "abc",
     "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
};

/* In a process of its own, as OpenSSL is asked once: 0 where `there` is what it has of MD5. */
static int look_for_md5(bool null_provider, bool there)
{
    pid_t pid = fork();
    if (pid == 0) {
        uint8_t ret[HR_MD5_BYTES];
        bool good = true;
        (void)null_provider;
#if OPENSSL_VERSION_NUMBER >= 0x30000000L
        good = null_provider ? OSSL_PROVIDER_load(NULL, "null") != NULL
                             : EVP_set_default_properties(NULL, "fips=yes") == 1;
#endif
        good = good && hr_digest_there(HR_DIGEST_MD5) == there &&
               hr_digest(HR_DIGEST_MD5, "abc", 3, ret) == (there ? 0 : -EIO);
        _exit(good ? 0 : 1);
    }
    int status = -1;
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    return status;
}

/* The first case: what this process asks for is asked once, too. */
static void md5_is_there_where_fips_is_wanted(void **state)
{
    (void)state;
    assert_int_equal(look_for_md5(false, true), 0);
#if OPENSSL_VERSION_NUMBER >= 0x30000000L
    assert_int_equal(look_for_md5(true, false), 0);
#endif
}

static void digests_match_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        uint8_t whole[HR_SHA256_BYTES], parts[HR_SHA256_BYTES];
        size_t len = strlen(vectors[i].text);
        assert_int_equal(hr_digest(vectors[i].kind, vectors[i].text, len, whole), 0);
        assert_hex(whole, vectors[i].len, vectors[i].hex);
        struct hr_digest_ctx *ctx;
        assert_int_equal(hr_digest_new(vectors[i].kind, &ctx), 0);
        for (size_t at = 0; at < len; at++) {
            assert_int_equal(hr_digest_update(ctx, vectors[i].text + at, 1), 0);
        }
        assert_int_equal(hr_digest_final(ctx, parts), 0);
        assert_memory_equal(parts, whole, vectors[i].len);
        hr_digest_free(ctx);
    }
    hr_digest_free(NULL);
}

static void hmac_matches_rfc4231(void **state)
{
    (void)state;
    uint8_t mac[HR_SHA256_BYTES], key[131];
    assert_int_equal(hr_hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, mac), 0);
    assert_hex(mac, sizeof(mac), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof(key));
    const char *text = "Test Using Larger Than Block-Size Key - Hash Key First";
    assert_int_equal(hr_hmac_sha256(key, sizeof(key), text, strlen(text), mac), 0);
    assert_hex(mac, sizeof(mac), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

/* One key, many texts, in any order: each as if it were alone. */
static void hmac_keeps_its_key(void **state)
{
    (void)state;
    uint8_t key[131], one[HR_SHA256_BYTES], mac[HR_SHA256_BYTES];
    char text[200];
    memset(key, 0xaa, sizeof(key));
    memset(text, 'x', sizeof(text));
    static const size_t key_lens[] = {0, 1, 32, 63, 64, 65, 131};
    for (size_t k = 0; k < sizeof(key_lens) / sizeof(key_lens[0]); k++) {
        struct hr_hmac *hmac = NULL;
        assert_int_equal(hr_hmac_new(key, key_lens[k], &hmac), 0);
        for (size_t len = 0; len < sizeof(text); len += 13) {
            assert_int_equal(hr_hmac_sign(hmac, text, len, mac), 0);
            assert_int_equal(hr_hmac_sha256(key, key_lens[k], text, len, one), 0);
            assert_memory_equal(mac, one, sizeof(mac));
        }
        for (size_t begun = 0; begun <= sizeof(text); begun += 13) {
            assert_int_equal(hr_hmac_begin(hmac, text, begun), 0);
            assert_int_equal(hr_hmac_sign(hmac, text + begun, sizeof(text) - begun, mac), 0);
            assert_int_equal(hr_hmac_sha256(key, key_lens[k], text, sizeof(text), one), 0);
            assert_memory_equal(mac, one, sizeof(mac));
        }
        hr_hmac_free(hmac);
    }
    hr_hmac_free(NULL);
}

static void crcs_match_check_values(void **state)
{
    (void)state;
    assert_int_equal(hr_crc32(0, "123456789", 9), 0xcbf43926u);
    assert_int_equal(hr_crc32c(0, "123456789", 9), 0xe3069283u);
    assert_true(hr_crc64nvme(0, "123456789", 9) == 0xae8b14860a799888u);
    assert_int_equal(hr_crc32(0, "", 0), 0);
    assert_int_equal(hr_crc32c(0, "", 0), 0);
    assert_true(hr_crc64nvme(0, "", 0) == 0);
}

static uint64_t slow_crc(uint64_t poly, uint64_t ones, const uint8_t *bytes, size_t len)
{
    uint64_t crc = ones;
    for (size_t i = 0; i < len; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc & 1 ? crc >> 1 ^ poly : crc >> 1;
        }
    }
    return crc ^ ones;
}

static void crcs_match_reference_and_splits(void **state)
{
    (void)state;
    static uint8_t bytes[5000];
    uint32_t mixed = 1;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        mixed = mixed * 1664525 + 1013904223;
        bytes[i] = (uint8_t)(mixed >> 24);
    }
    for (size_t len = 0; len < sizeof(bytes); len += len < 600 ? 1 : 211) {
        const uint8_t *from = bytes + len % 5;
        size_t n = len < sizeof(bytes) - 5 ? len : sizeof(bytes) - 5;
        size_t cut = n / 3;
        uint32_t crc32 = (uint32_t)slow_crc(0xedb88320u, 0xffffffffu, from, n);
        uint32_t crc32c = (uint32_t)slow_crc(0x82f63b78u, 0xffffffffu, from, n);
        uint64_t crc64 = slow_crc(0x9a6c9329ac4bc9b5u, UINT64_MAX, from, n);
        assert_int_equal(hr_crc32(0, from, n), crc32);
        assert_int_equal(hr_crc32c(0, from, n), crc32c);
        assert_true(hr_crc64nvme(0, from, n) == crc64);
        assert_int_equal(hr_crc32(hr_crc32(0, from, cut), from + cut, n - cut), crc32);
        assert_int_equal(hr_crc32c(hr_crc32c(0, from, cut), from + cut, n - cut), crc32c);
        assert_true(hr_crc64nvme(hr_crc64nvme(0, from, cut), from + cut, n - cut) == crc64);
    }
}

/* Every width, any number of messages, every place of the padding, lengths that differ: OpenSSL's digests. */
static void md5_side_by_side_is_md5(void **state)
{
    enum { MESSAGES = 37, ROUNDS = 150, LONGEST = 3000 };
    static uint8_t bytes[2 * LONGEST];
    uint32_t mixed = 7;
    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        mixed = mixed * 1664525 + 1013904223;
        bytes[i] = (uint8_t)(mixed >> 24);
    }
    assert_true(hr_vectors_here(HR_VECTORS_NONE));
    assert_false(hr_vectors_here(HR_VECTORS_COUNT));
    assert_true(hr_vectors_here(hr_vectors_widest()));
    for (unsigned width = 0; width < HR_VECTORS_COUNT; width++) {
        for (unsigned round = 0; round < ROUNDS && hr_vectors_here((enum hr_vectors)width); round++) {
            struct hr_md5_message messages[MESSAGES];
            unsigned count = round % (MESSAGES + 1);
            for (unsigned i = 0; i < count; i++) {
                mixed = mixed * 1664525 + 1013904223;
                messages[i].len = i % 3 == 0 ? (mixed >> 8) % LONGEST : round + i;
                messages[i].bytes = messages[i].len > 0 ? bytes + (mixed >> 4) % LONGEST : NULL;
            }
            assert_int_equal(hr_md5_many((enum hr_vectors)width, messages, count), 0);
            for (unsigned i = 0; i < count; i++) {
                uint8_t want[HR_MD5_BYTES];
                assert_int_equal(hr_digest(HR_DIGEST_MD5, messages[i].bytes, messages[i].len, want), 0);
                assert_memory_equal(messages[i].digest, want, sizeof(want));
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(md5_is_there_where_fips_is_wanted),
        cmocka_unit_test(digests_match_vectors),
        cmocka_unit_test(hmac_matches_rfc4231),
        cmocka_unit_test(md5_side_by_side_is_md5),
        cmocka_unit_test(crcs_match_check_values),
        cmocka_unit_test(crcs_match_reference_and_splits),
        cmocka_unit_test(hmac_keeps_its_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
