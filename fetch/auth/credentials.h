/* One set of credentials. Plain data owned by whoever holds the struct; released by zeroing what is secret
 * first. */
#ifndef HR_AUTH_CREDENTIALS_H
#define HR_AUTH_CREDENTIALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hr_credentials {
    char *access_key_id; /* NULL: anonymous, requests are not signed */
    char *secret;
    char *session_token; /* NULL: long-lived keys */
    int64_t expires_ms;  /* wall clock, 0: not known or never */
    const char *source;  /* static: name of the source they came from */
};

/* Zeroes len bytes in a way the compiler keeps. */
void hr_secret_zero(void *bytes, size_t len);
/* Zeroes and frees a secret string; accepts NULL. */
void hr_secret_free(char *secret);

void hr_credentials_release(struct hr_credentials *credentials); /* the struct is empty and usable again */
/* 0 or -ENOMEM (ret untouched). The copy is the caller's. Empty token = none. */
int hr_credentials_make(const char *access_key_id, const char *secret, const char *session_token,
                        const char *source, struct hr_credentials *ret);
/* Whether they can be put into a header: no blanks or control bytes (a line end is easily left behind in a
 * secret store). 0 or -EINVAL, with which one in *ret_what (static). */
int hr_credentials_check(const struct hr_credentials *credentials, const char **ret_what);
bool hr_credentials_equal(const struct hr_credentials *a, const struct hr_credentials *b);

#endif
