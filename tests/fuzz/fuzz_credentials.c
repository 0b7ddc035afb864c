/* Any bytes as what STS, a metadata service, a helper program or a kept login gives: never a crash, never
 * keys without an id or a secret, words for people in one line. The first byte says which. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/auth/documents.h"
#include "fetch/auth/process.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_plain(const char *text, size_t room)
{
    if (strnlen(text, room) == room) {
        abort();
    }
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
        if (*p < ' ' || *p >= 0x7f) {
            abort();
        }
    }
}

static void check(int r, struct hr_credentials *found, const struct hr_refusal *refusal)
{
    if (r == 0 && (found->access_key_id == NULL || found->access_key_id[0] == '\0' || found->secret == NULL ||
                   found->secret[0] == '\0')) {
        abort();
    }
    if (r != 0 && (r != -EPROTO && r != -EREMOTEIO)) {
        abort();
    }
    if (r != 0 && (found->access_key_id != NULL || found->secret != NULL || found->session_token != NULL)) {
        abort();
    }
    check_plain(refusal->code, sizeof(refusal->code));
    check_plain(refusal->text, sizeof(refusal->text));
    hr_credentials_release(found);
}

static void check_words(const char *line)
{
    char **words = NULL;
    int r = hr_words(line, &words);
    size_t sum = 0;

    if (r != 0 && r != -EINVAL) {
        abort();
    }
    for (size_t i = 0; r == 0 && words[i] != NULL; i++) {
        sum += strlen(words[i]);
    }
    if (sum > strlen(line)) {
        abort();
    }
    free(words);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hr_credentials found = {0};
    struct hr_refusal refusal = {0};
    char *token = NULL;

    if (size == 0) {
        return 0;
    }
    /* As long as the text is and terminated, as buffers of answers are. */
    char *text = malloc(size);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (data[0] % 6) {
    case 0:
        check(hr_document_sts(text, size - 1, &found, &refusal), &found, &refusal);
        break;
    case 1:
    case 2:
    case 3:
        check(hr_document_json((enum hr_document_kind)(data[0] % 6 - 1), text, size - 1, &found, &refusal),
              &found, &refusal);
        break;
    case 4:
        if (hr_document_sso_token(text, size - 1, 0, &token) == 0 && (token == NULL || token[0] == '\0')) {
            abort();
        }
        hr_secret_free(token);
        break;
    default:
        check_words(text);
    }
    free(text);
    return 0;
}
