#include "fetch/auth/credentials.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void hr_secret_zero(void *bytes, size_t len)
{
    explicit_bzero(bytes, len);
}

void hr_secret_free(char *secret)
{
    if (secret != NULL) {
        hr_secret_zero(secret, strlen(secret));
        free(secret);
    }
}

void hr_credentials_release(struct hr_credentials *credentials)
{
    free(credentials->access_key_id);
    hr_secret_free(credentials->secret);
    hr_secret_free(credentials->session_token);
    *credentials = (struct hr_credentials){0};
}

int hr_credentials_make(const char *access_key_id, const char *secret, const char *session_token,
                        const char *source, struct hr_credentials *ret)
{
    bool with_token = session_token != NULL && session_token[0] != '\0';
    struct hr_credentials made = {
        .access_key_id = strdup(access_key_id),
        .secret = strdup(secret),
        .session_token = with_token ? strdup(session_token) : NULL,
        .source = source,
    };

    if (made.access_key_id == NULL || made.secret == NULL || (with_token && made.session_token == NULL)) {
        hr_credentials_release(&made);
        return -ENOMEM;
    }
    *ret = made;
    return 0;
}

static bool same_text(const char *a, const char *b)
{
    if (a == NULL || b == NULL) {
        return a == b;
    }
    return strcmp(a, b) == 0;
}

bool hr_credentials_equal(const struct hr_credentials *a, const struct hr_credentials *b)
{
    return same_text(a->access_key_id, b->access_key_id) && same_text(a->secret, b->secret) &&
           same_text(a->session_token, b->session_token);
}

static bool is_plain(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; p != NULL && *p != '\0'; p++) {
        if (*p <= ' ' || *p >= 0x7f) {
            return false;
        }
    }
    return true;
}

int hr_credentials_check(const struct hr_credentials *credentials, const char **ret_what)
{
    const char *what = NULL;

    if (!is_plain(credentials->access_key_id)) {
        what = "access key id";
    } else if (!is_plain(credentials->secret)) {
        what = "secret access key";
    } else if (!is_plain(credentials->session_token)) {
        what = "session token";
    }
    if (what != NULL) {
        *ret_what = what;
        return -EINVAL;
    }
    return 0;
}
