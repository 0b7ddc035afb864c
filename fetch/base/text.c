#include "fetch/base/text.h"

#include <errno.h>
#include <string.h>

#include "fetch/base/buf.h"

static const char hex_upper[] = "0123456789ABCDEF";

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

/* Of each byte. */
static const char hex_pairs[] = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
                                "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
                                "404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f"
                                "606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f"
                                "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f"
                                "a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebf"
                                "c0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf"
                                "e0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff";

void hr_hex_encode(const uint8_t *bytes, size_t len, char *ret_hex)
{
    for (size_t i = 0; i < len; i++) {
        memcpy(ret_hex + 2 * i, hex_pairs + 2 * bytes[i], 2);
    }
    ret_hex[2 * len] = '\0';
}

int hr_hex_decode(const char *hex, size_t hex_len, uint8_t *ret_bytes)
{
    if (hex_len % 2 != 0) {
        return -EINVAL;
    }
    for (size_t i = 0; i < hex_len; i++) {
        if (hex_value(hex[i]) < 0) {
            return -EINVAL;
        }
    }
    for (size_t i = 0; i < hex_len / 2; i++) {
        ret_bytes[i] = (uint8_t)(hex_value(hex[2 * i]) << 4 | hex_value(hex[2 * i + 1]));
    }
    return 0;
}

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Length of the decoded bytes, or -EINVAL: only digits, padding only at the end, spare bits zero. */
static int base64_check(const char *text, size_t len, size_t *ret_len)
{
    if (len % 4 != 0) {
        return -EINVAL;
    }
    size_t pad = 0;
    if (len > 0 && text[len - 1] == '=') {
        pad = text[len - 2] == '=' ? 2 : 1;
    }
    for (size_t i = 0; i < len - pad; i++) {
        if (base64_value(text[i]) < 0) {
            return -EINVAL;
        }
    }
    if (pad > 0) {
        int spare = pad == 2 ? 15 : 3;
        if (base64_value(text[len - pad - 1]) & spare) {
            return -EINVAL;
        }
    }
    *ret_len = len / 4 * 3 - pad;
    return 0;
}

int hr_base64_decode(const char *text, size_t len, uint8_t *ret_bytes, size_t *ret_len)
{
    size_t bytes_len = 0;
    int r = base64_check(text, len, &bytes_len);
    if (r < 0) {
        return r;
    }
    if (bytes_len > *ret_len) {
        return -ENOSPC;
    }
    uint32_t bits = 0;
    unsigned have = 0;
    size_t at = 0;
    for (size_t i = 0; i < len && at < bytes_len; i++) {
        bits = bits << 6 | (uint32_t)base64_value(text[i]);
        have += 6;
        if (have >= 8) {
            have -= 8;
            ret_bytes[at++] = (uint8_t)(bits >> have);
        }
    }
    *ret_len = bytes_len;
    return 0;
}

int hr_base64_encode(const uint8_t *bytes, size_t len, struct hr_buf *out)
{
    if (len > SIZE_MAX / 2) {
        return -EFBIG;
    }
    int r = hr_buf_reserve(out, (len + 2) / 3 * 4);
    if (r < 0) {
        return r;
    }
    char *at = out->data + out->len;
    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        uint32_t bits = (uint32_t)bytes[i] << 16;
        bits |= left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0;
        bits |= left > 2 ? bytes[i + 2] : 0;
        *at++ = base64_digits[bits >> 18];
        *at++ = base64_digits[bits >> 12 & 63];
        *at++ = left > 1 ? base64_digits[bits >> 6 & 63] : '=';
        *at++ = left > 2 ? base64_digits[bits & 63] : '=';
    }
    *at = '\0';
    out->len = (size_t)(at - out->data);
    return 0;
}

/* RFC 3986's unreserved characters: letters, digits and four more; 2: a slash, which some callers keep. */
static const uint8_t plain[256] = {
    ['-'] = 1, ['.'] = 1, ['/'] = 2, ['0'] = 1, ['1'] = 1, ['2'] = 1, ['3'] = 1, ['4'] = 1, ['5'] = 1,
    ['6'] = 1, ['7'] = 1, ['8'] = 1, ['9'] = 1, ['A'] = 1, ['B'] = 1, ['C'] = 1, ['D'] = 1, ['E'] = 1,
    ['F'] = 1, ['G'] = 1, ['H'] = 1, ['I'] = 1, ['J'] = 1, ['K'] = 1, ['L'] = 1, ['M'] = 1, ['N'] = 1,
    ['O'] = 1, ['P'] = 1, ['Q'] = 1, ['R'] = 1, ['S'] = 1, ['T'] = 1, ['U'] = 1, ['V'] = 1, ['W'] = 1,
    ['X'] = 1, ['Y'] = 1, ['Z'] = 1, ['_'] = 1, ['a'] = 1, ['b'] = 1, ['c'] = 1, ['d'] = 1, ['e'] = 1,
    ['f'] = 1, ['g'] = 1, ['h'] = 1, ['i'] = 1, ['j'] = 1, ['k'] = 1, ['l'] = 1, ['m'] = 1, ['n'] = 1,
    ['o'] = 1, ['p'] = 1, ['q'] = 1, ['r'] = 1, ['s'] = 1, ['t'] = 1, ['u'] = 1, ['v'] = 1, ['w'] = 1,
    ['x'] = 1, ['y'] = 1, ['z'] = 1, ['~'] = 1,
};

int hr_percent_encode(const char *bytes, size_t len, bool keep_slash, struct hr_buf *out)
{
    const uint8_t kept = keep_slash ? 1 | 2 : 1;
    size_t need = len;
    if (len > SIZE_MAX / 4) {
        return -EFBIG;
    }
    for (size_t i = 0; i < len; i++) {
        need += (plain[(unsigned char)bytes[i]] & kept) ? 0 : 2;
    }
    int r = hr_buf_reserve(out, need);
    if (r < 0) {
        return r;
    }
    char *at = out->data + out->len;
    if (need == len && len > 0) {
        memcpy(at, bytes, len);
        at += len;
    }
    for (size_t i = 0; i < len && need > len; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (plain[c] & kept) {
            *at++ = (char)c;
        } else {
            *at++ = '%';
            *at++ = hex_upper[c >> 4];
            *at++ = hex_upper[c & 15];
        }
    }
    *at = '\0';
    out->len += need;
    return 0;
}

int hr_percent_decode(const char *text, size_t len, bool plus_is_space, struct hr_buf *out)
{
    int r = hr_buf_reserve(out, len);
    if (r < 0) {
        return r;
    }
    char *at = out->data + out->len;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '%') {
            int high = len - i > 2 ? hex_value(text[i + 1]) : -1;
            int low = len - i > 2 ? hex_value(text[i + 2]) : -1;
            if (high < 0 || low < 0) {
                out->data[out->len] = '\0';
                return -EINVAL;
            }
            *at++ = (char)(high << 4 | low);
            i += 2;
        } else {
            *at++ = text[i] == '+' && plus_is_space ? ' ' : text[i];
        }
    }
    *at = '\0';
    out->len = (size_t)(at - out->data);
    return 0;
}
