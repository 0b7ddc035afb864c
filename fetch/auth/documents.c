#include "fetch/auth/documents.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "fetch/auth/credentials.h"
#include "fetch/base/text.h"

static const char *text_at(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

/* Bytes from outside that end in a line for people. */
static void print_plain(char *ret, size_t room, const char *text)
{
    (void)snprintf(ret, room, "%s", text != NULL ? text : "");
    for (unsigned char *p = (unsigned char *)ret; *p != '\0'; p++) {
        *p = *p < ' ' || *p >= 0x7f ? '?' : *p;
    }
}

static int read_expiry(const json_t *value, int64_t *ret_ms)
{
    const char *text = json_string_value(value);
    int64_t ns;

    if (json_is_integer(value)) {
        *ret_ms = json_integer_value(value);
        return *ret_ms > 0 ? 0 : -EPROTO;
    }
    if (value == NULL || json_is_null(value)) {
        *ret_ms = 0;
        return 0;
    }
    if (text == NULL || hr_date_iso8601(text, strlen(text), &ns) < 0) {
        return -EPROTO;
    }
    *ret_ms = ns / 1000000;
    return 0;
}

static bool is_refusal(const json_t *root, struct hr_refusal *ret)
{
    const char *code = text_at(root, "Code");
    const char *text = text_at(root, "Message");

    code = code != NULL ? code : text_at(root, "code");
    code = code != NULL ? code : text_at(root, "__type");
    code = code != NULL ? code : text_at(root, "error");
    text = text != NULL ? text : text_at(root, "message");
    if ((code == NULL || strcmp(code, "Success") == 0) && text == NULL) {
        return false;
    }
    print_plain(ret->code, sizeof(ret->code), code);
    print_plain(ret->text, sizeof(ret->text), text);
    return true;
}

static int take_credentials(enum hr_document_kind kind, const json_t *root, struct hr_credentials *ret)
{
    static const struct {
        const char *id, *secret, *token, *expiry;
        bool must_end; /* session keys always have a token and an end here */
    } names[] = {
        [HR_DOCUMENT_SERVICE] = {"AccessKeyId", "SecretAccessKey", "Token", "Expiration", true},
        [HR_DOCUMENT_PROCESS] = {"AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration", false},
        [HR_DOCUMENT_SSO] = {"accessKeyId", "secretAccessKey", "sessionToken", "expiration", true},
    };
    const char *id = text_at(root, names[kind].id);
    const char *secret = text_at(root, names[kind].secret);
    const char *token = text_at(root, names[kind].token);
    int64_t expires_ms = 0;
    int r;

    if (id == NULL || id[0] == '\0' || secret == NULL || secret[0] == '\0' ||
        (names[kind].must_end && token == NULL) ||
        read_expiry(json_object_get(root, names[kind].expiry), &expires_ms) < 0) {
        return -EPROTO;
    }
    r = hr_credentials_make(id, secret, token, "", ret);
    if (r == 0) {
        ret->expires_ms = expires_ms;
    }
    return r;
}

int hr_document_json(enum hr_document_kind kind, const char *text, size_t len, struct hr_credentials *ret,
                     struct hr_refusal *ret_refusal)
{
    json_t *root = json_loadb(text, len, 0, NULL);
    const json_t *keys = root;
    int r;

    *ret_refusal = (struct hr_refusal){0};
    if (kind == HR_DOCUMENT_SSO && json_object_get(root, "roleCredentials") != NULL) {
        keys = json_object_get(root, "roleCredentials");
    }
    if (kind == HR_DOCUMENT_PROCESS && json_integer_value(json_object_get(root, "Version")) != 1) {
        r = -EPROTO;
    } else {
        r = take_credentials(kind, keys, ret);
    }
    if (r == -EPROTO && kind != HR_DOCUMENT_PROCESS && is_refusal(root, ret_refusal)) {
        r = -EREMOTEIO;
    }
    json_decref(root);
    return r;
}

/* RFC 3339; older tools write "UTC" for Z. */
static int read_login_end(const char *text, int64_t *ret_ms)
{
    char plain[40];
    size_t len = strlen(text);
    int64_t ns;

    if (len > 3 && len < sizeof(plain) && strcmp(text + len - 3, "UTC") == 0) {
        (void)snprintf(plain, sizeof(plain), "%.*sZ", (int)len - 3, text);
        text = plain;
    }
    if (hr_date_iso8601(text, strlen(text), &ns) < 0) {
        return -EPROTO;
    }
    *ret_ms = ns / 1000000;
    return 0;
}

int hr_document_sso_token(const char *text, size_t len, int64_t now_ms, char **ret_token)
{
    json_t *root = json_loadb(text, len, 0, NULL);
    const char *token = text_at(root, "accessToken");
    const char *ends = text_at(root, "expiresAt");
    int64_t ends_ms = 0;
    int r = 0;

    if (token == NULL || token[0] == '\0' || ends == NULL || read_login_end(ends, &ends_ms) < 0) {
        r = -EPROTO;
    } else if (ends_ms <= now_ms) {
        r = -ESTALE;
    } else {
        char *copy = strdup(token);

        r = copy != NULL ? 0 : -ENOMEM;
        if (r == 0) {
            *ret_token = copy;
        }
    }
    json_decref(root);
    return r;
}
