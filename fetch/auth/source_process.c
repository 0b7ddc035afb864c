/* credential_process of a profile: a program that prints a JSON document. */
#include "fetch/auth/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "fetch/auth/ask.h"
#include "fetch/auth/documents.h"
#include "fetch/auth/process.h"
#include "fetch/base/cleanup.h"
#include "fetch/base/digest.h"
#include "fetch/base/text.h"

#define LIMIT_MS 60000 /* ours: helpers that ask a person in a browser are of no use to a daemon */
#define ID_BYTES 8     /* of the command's digest: tells commands apart, shows no argument of theirs */

static int add_variable(const struct hr_source_input *input, const char *name, struct hr_way *way)
{
    const char *value = input->env(input->env_owner, name);
    int at = 0;

    while (at < HR_WAY_VARIABLES_MAX - 1 && way->variables[at] != NULL) {
        at++;
    }
    if (value == NULL || at == HR_WAY_VARIABLES_MAX - 1) {
        return 0;
    }
    return asprintf(&way->variables[at], "%s=%s", name, value) < 0 ? -ENOMEM : 0;
}

static int load(const struct hr_source_input *input, char ret_message[256], struct hr_way *ret)
{
    /* What a helper finds its own settings by. */
    static const char *const names[] = {"HOME",
                                        "AWS_PROFILE",
                                        "AWS_DEFAULT_PROFILE",
                                        "AWS_CONFIG_FILE",
                                        "AWS_SHARED_CREDENTIALS_FILE",
                                        "AWS_REGION",
                                        "AWS_DEFAULT_REGION",
                                        "AWS_CA_BUNDLE",
                                        "AWS_ENDPOINT_URL_STS",
                                        "AWS_ENDPOINT_URL_SSO"};
    const char *command = input->profile->credential_process;
    hr_cleanup_free char **words = NULL;
    uint8_t digest[HR_SHA256_BYTES];
    char id[2 * ID_BYTES + 1];
    int r;

    if (command == NULL) {
        return -ENOENT;
    }
    r = hr_words(command, &words);
    if (r == -EINVAL) {
        (void)snprintf(ret_message, 256, "credential_process of profile %.60s: a quote is not closed",
                       input->profile->name);
    }
    r = r < 0 ? r : hr_digest(HR_DIGEST_SHA256, command, strlen(command), digest);
    r = r < 0 ? r : hr_way_set(ret, HR_WAY_COMMAND, command);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && r == 0; i++) {
        r = add_variable(input, names[i], ret);
    }
    if (r < 0) {
        return r;
    }
    hr_hex_encode(digest, ID_BYTES, id);
    return hr_way_print(ret, HR_WAY_IDENTITY, "process:%s:%s", input->profile->name, id);
}

static void on_end(void *owner, const struct hr_process_result *result)
{
    struct hr_ask *ask = owner;
    struct hr_credentials found = {0};
    struct hr_refusal refusal;

    if (result->error == -ETIMEDOUT) {
        hr_ask_fail(ask, -EIO, "credential_process did not end within %d s", LIMIT_MS / 1000);
    } else if (result->error != 0) {
        hr_ask_fail(ask, -EIO, "credential_process wrote more than 64 KiB");
    } else if (!WIFEXITED(result->status)) {
        hr_ask_fail(ask, -EACCES, "credential_process was ended by signal %d", WTERMSIG(result->status));
    } else if (WEXITSTATUS(result->status) != 0) {
        hr_ask_fail(ask, -EACCES, "credential_process ended with status %d: run it by hand to see why",
                    WEXITSTATUS(result->status));
    } else if (hr_document_json(HR_DOCUMENT_PROCESS, result->text, result->text_len, &found, &refusal) < 0) {
        hr_ask_fail(ask, -EIO, "credential_process did not print a JSON document of Version 1 with keys");
    } else {
        hr_ask_give(ask, &found);
    }
}

static void ask_for(struct hr_ask *ask)
{
    hr_cleanup_free char **words = NULL;
    int r = hr_words(ask->way->text[HR_WAY_COMMAND], &words);

    if (r == 0) {
        r = hr_process_start(ask->loop, words, ask->way->variables, LIMIT_MS, on_end, ask, &ask->process);
    }
    if (r < 0) {
        hr_ask_fail(ask, r == -ENOMEM ? r : -EACCES, "credential_process cannot be started: %s",
                    strerror(-r));
    }
}

const struct hr_source hr_source_process = {"credential_process", load, ask_for};
