#include "fetch/store/customer_key.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fetch/auth/credentials.h"
#include "fetch/auth/files.h"
#include "fetch/base/buf.h"
#include "fetch/base/cleanup.h"
#include "fetch/base/digest.h"
#include "fetch/base/text.h"

static int say(char message[256], const char *path, const char *what)
{
    (void)snprintf(message, 256, "customer_key_file %.120s: %s", path, what);
    return -EINVAL;
}

static int encode(const uint8_t *bytes, size_t len, char *ret, size_t room)
{
    hr_cleanup(hr_buf_release) struct hr_buf text = HR_BUF_INIT(64);
    int error = hr_base64_encode(bytes, len, &text);

    if (error == 0) {
        (void)snprintf(ret, room, "%s", text.data);
        hr_secret_zero(text.data, text.len);
    }
    return error;
}

/* The 32 bytes as they are, or as base64. */
static bool take(const char *text, size_t len, uint8_t ret_key[HR_CUSTOMER_KEY_BYTES])
{
    uint8_t bytes[HR_CUSTOMER_KEY_BYTES + 4];
    size_t got = sizeof bytes;

    if (len == HR_CUSTOMER_KEY_BYTES) {
        memcpy(ret_key, text, len);
        return true;
    }
    while (len > 0 && isspace((unsigned char)text[len - 1])) {
        len--;
    }
    while (len > 0 && isspace((unsigned char)text[0])) {
        text++;
        len--;
    }
    bool good = hr_base64_decode(text, len, bytes, &got) == 0 && got == HR_CUSTOMER_KEY_BYTES;
    if (good) {
        memcpy(ret_key, bytes, HR_CUSTOMER_KEY_BYTES);
    }
    hr_secret_zero(bytes, sizeof bytes);
    return good;
}

int hr_customer_key_read(const char *path, struct hr_customer_key *ret, char ret_message[256])
{
    uint8_t bytes[HR_CUSTOMER_KEY_BYTES], md5[HR_MD5_BYTES];
    struct hr_customer_key key = {0};
    char *text = NULL;
    size_t len = 0;
    int error = hr_auth_read(path, &text, &len);

    if (error < 0) {
        return say(ret_message, path, strerror(-error));
    }
    if (text == NULL) {
        return say(ret_message, path, "there is no such file");
    }
    bool good = take(text, len, bytes);
    hr_secret_zero(text, len);
    free(text);
    if (!good) {
        return say(ret_message, path, "it must hold a key of 32 bytes, or its base64");
    }
    error = encode(bytes, sizeof bytes, key.key, sizeof key.key);
    if (error == 0) {
        error = hr_digest(HR_DIGEST_MD5, bytes, sizeof bytes, md5);
    }
    if (error == 0) {
        error = encode(md5, sizeof md5, key.md5, sizeof key.md5);
    }
    hr_secret_zero(bytes, sizeof bytes);
    if (error < 0) {
        (void)say(ret_message, path, "its MD5 cannot be computed");
        return error;
    }
    *ret = key;
    hr_customer_key_wipe(&key);
    return 0;
}

bool hr_customer_key_equal(const struct hr_customer_key *a, const struct hr_customer_key *b)
{
    return strcmp(a->key, b->key) == 0;
}

void hr_customer_key_wipe(struct hr_customer_key *key)
{
    hr_secret_zero(key, sizeof *key);
}

int hr_customer_key_headers(const struct hr_customer_key *key, struct hr_http_request *request)
{
    int error = 0;

    if (key->key[0] == '\0') {
        return 0;
    }
    error = hr_http_request_header(request, "x-amz-server-side-encryption-customer-algorithm", "AES256");
    if (error == 0) {
        error = hr_http_request_header(request, "x-amz-server-side-encryption-customer-key", key->key);
    }
    if (error == 0) {
        error = hr_http_request_header(request, "x-amz-server-side-encryption-customer-key-md5", key->md5);
    }
    return error;
}
