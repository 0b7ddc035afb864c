#include "config/key.h"

#include <stddef.h>
#include <string.h>

/* Every item is hashed on its own into two lanes and the lanes are added up, so order does not matter. */
struct lanes {
    uint64_t a, b;
};

static bool starts_with(const char *text, const char *start)
{
    while (*start) {
        if (*text++ != *start++) {
            return false;
        }
    }
    return true;
}

bool hr_context_key_covers(const char *assignment)
{
    if (starts_with(assignment, "HEADRACE_")) {
        return !starts_with(assignment, "HEADRACE_CACHE_DIR=") &&
               !starts_with(assignment, "HEADRACE_ALIAS=") && strchr(assignment, '=');
    }
    if (starts_with(assignment, "AWS_")) {
        return !starts_with(assignment, "AWS_SECRET_ACCESS_KEY=") &&
               !starts_with(assignment, "AWS_SESSION_TOKEN=") && strchr(assignment, '=');
    }
    return starts_with(assignment, "HOME=");
}

static uint64_t mixed(uint64_t word)
{
    /* MurmurHash3's 64-bit finaliser: every input bit reaches every output bit. */
    word ^= word >> 33;
    word *= UINT64_C(0xff51afd7ed558ccd);
    word ^= word >> 33;
    word *= UINT64_C(0xc4ceb9fe1a85ec53);
    return word ^ (word >> 33);
}

static void add_item(struct lanes *sum, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    uint64_t a = UINT64_C(0xcbf29ce484222325); /* FNV-1a-64's offset */
    uint64_t b = UINT64_C(0x9e3779b97f4a7c15); /* 2^64 / golden ratio */
    for (size_t i = 0; i < len; i++) {
        a = (a ^ at[i]) * UINT64_C(0x100000001b3);
        b = (b + at[i] + 1) * UINT64_C(0xd6e8feb86659fd93);
        b ^= b >> 32;
    }
    sum->a += mixed(a + len);
    sum->b += mixed(b ^ (a << 1));
}

/* getenv finds the first definition of a name, so a later one says nothing. */
static bool is_first(char *const *envp, char *const *assignment)
{
    size_t name_len = (size_t)(strchr(*assignment, '=') - *assignment) + 1;
    for (; envp < assignment; envp++) {
        if (strncmp(*envp, *assignment, name_len) == 0) {
            return false;
        }
    }
    return true;
}

void hr_context_key(char *const *envp, uint32_t uid, uint8_t ret[HR_CONTEXT_KEY_BYTES])
{
    struct lanes sum = {0, 0};
    uint8_t uid_item[5] = {0, (uint8_t)uid, (uint8_t)(uid >> 8), (uint8_t)(uid >> 16), (uint8_t)(uid >> 24)};
    add_item(&sum, uid_item, sizeof(uid_item));
    for (char *const *assignment = envp; assignment && *assignment; assignment++) {
        if (hr_context_key_covers(*assignment) && is_first(envp, assignment)) {
            add_item(&sum, *assignment, strlen(*assignment));
        }
    }
    memcpy(ret, &sum.a, sizeof(sum.a));
    memcpy(ret + sizeof(sum.a), &sum.b, sizeof(sum.b));
}
