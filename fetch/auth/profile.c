#include "fetch/auth/profile.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/ini.h"
#include "fetch/auth/credentials.h"
#include "fetch/auth/files.h"
#include "fetch/base/cleanup.h"

enum which_file { CREDENTIALS_FILE, CONFIG_FILE };

struct reading {
    enum which_file which;
    bool second; /* pass over the config file: the sections that the profile names; else the profile */
    struct hr_profile *profile;
};

static void keys_release(struct hr_profile_keys *keys)
{
    free(keys->access_key_id);
    hr_secret_free(keys->secret);
    hr_secret_free(keys->session_token);
}

/* Where a key of the profile's section goes. */
static const struct {
    const char *key;
    size_t offset;
} texts[] = {
#define TEXT(key, field)                                                                                     \
    {                                                                                                        \
        key, offsetof(struct hr_profile, field)                                                              \
    }
    TEXT("region", region),
    TEXT("endpoint_url", endpoint_url),
    TEXT("s3.endpoint_url", s3_endpoint_url),
    TEXT("sts.endpoint_url", sts_endpoint_url),
    TEXT("s3.addressing_style", addressing_style),
    TEXT("ca_bundle", ca_bundle),
    TEXT("services", services),
    TEXT("role_arn", role_arn),
    TEXT("source_profile", source_profile),
    TEXT("credential_source", credential_source),
    TEXT("external_id", external_id),
    TEXT("mfa_serial", mfa_serial),
    TEXT("role_session_name", role_session_name),
    TEXT("duration_seconds", duration_seconds),
    TEXT("web_identity_token_file", web_identity_token_file),
    TEXT("credential_process", credential_process),
    TEXT("login_session", login_session),
    TEXT("sso_session", sso_session),
    TEXT("sso_start_url", sso_start_url),
    TEXT("sso_region", sso_region),
    TEXT("sso_account_id", sso_account_id),
    TEXT("sso_role_name", sso_role_name),
#undef TEXT
};
#define TEXT_COUNT (sizeof(texts) / sizeof(texts[0]))

static char **text_of(struct hr_profile *profile, size_t at)
{
    return (char **)(void *)((char *)profile + texts[at].offset);
}

void hr_profile_release(struct hr_profile *profile)
{
    keys_release(&profile->shared);
    keys_release(&profile->config);
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        free(*text_of(profile, i));
    }
    free(profile->name);
    *profile = (struct hr_profile){0};
}

/* The last one written counts; an empty value is no value. */
static int keep(char **slot, const char *value)
{
    char *copy = NULL;

    if (value[0] != '\0') {
        copy = strdup(value);
        if (copy == NULL) {
            return -ENOMEM;
        }
    }
    hr_secret_free(*slot);
    *slot = copy;
    return 0;
}

/* `profile NAME`, `services NAME`: NAME may stand in quotes. */
static bool section_is(const char *section, const char *kind, const char *name)
{
    size_t kind_len = strlen(kind), len = strlen(name);

    if (strncmp(section, kind, kind_len) != 0 || (section[kind_len] != ' ' && section[kind_len] != '\t')) {
        return false;
    }
    section += kind_len + strspn(section + kind_len, " \t");
    if (*section == '"' || *section == '\'') {
        return strncmp(section + 1, name, len) == 0 && section[len + 1] == *section &&
               section[len + 2] == '\0';
    }
    return strcmp(section, name) == 0;
}

static bool is_profile_section(const struct reading *reading, const char *section)
{
    const char *name = reading->profile->name;

    if (reading->which == CREDENTIALS_FILE) {
        return strcmp(section, name) == 0;
    }
    return section_is(section, "profile", name) ||
           (strcmp(name, "default") == 0 && strcmp(section, name) == 0);
}

static int take_profile_value(struct reading *reading, const char *key, const char *value)
{
    struct hr_profile *profile = reading->profile;
    struct hr_profile_keys *keys = reading->which == CREDENTIALS_FILE ? &profile->shared : &profile->config;

    if (strcmp(key, "aws_access_key_id") == 0) {
        return keep(&keys->access_key_id, value);
    }
    if (strcmp(key, "aws_secret_access_key") == 0) {
        return keep(&keys->secret, value);
    }
    if (strcmp(key, "aws_session_token") == 0) {
        return keep(&keys->session_token, value);
    }
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        if (strcmp(key, texts[i].key) == 0) {
            return keep(text_of(profile, i), value);
        }
    }
    return 0;
}

/* What the sections add that the profile names: endpoints of `services`, the addresses of `sso_session`. */
static int take_named_value(struct hr_profile *profile, const char *section, const char *key,
                            const char *value)
{
    if (profile->services != NULL && section_is(section, "services", profile->services)) {
        if (strcmp(key, "s3.endpoint_url") == 0) {
            return keep(&profile->s3_endpoint_url, value);
        }
        return strcmp(key, "sts.endpoint_url") == 0 ? keep(&profile->sts_endpoint_url, value) : 0;
    }
    if (profile->sso_session != NULL && section_is(section, "sso-session", profile->sso_session)) {
        if (strcmp(key, "sso_start_url") == 0) {
            return keep(&profile->sso_start_url, value);
        }
        return strcmp(key, "sso_region") == 0 ? keep(&profile->sso_region, value) : 0;
    }
    return 0;
}

static int take_line(void *owner, const char *section, const char *key, const char *value, unsigned line)
{
    struct reading *reading = owner;

    (void)line;
    if (reading->second) {
        return take_named_value(reading->profile, section, key, value);
    }
    if (!is_profile_section(reading, section)) {
        return 0;
    }
    reading->profile->found = true;
    return take_profile_value(reading, key, value);
}

static int parse_file(const char *path, const char *text, size_t len, struct reading *reading,
                      char ret_message[256])
{
    struct hr_ini_error broken = {0};
    int r = hr_ini_parse(text, len, take_line, reading, &broken);

    if (r == -EBADMSG) {
        (void)snprintf(ret_message, 256, "%.160s line %u: %s", path, broken.line,
                       broken.message != NULL ? broken.message : "cannot be read");
        return -EINVAL;
    }
    if (r < 0) {
        (void)snprintf(ret_message, 256, "%.160s: %s", path, strerror(-r));
    }
    return r;
}

static int read_profile_file(const char *path, struct reading *reading, char ret_message[256])
{
    char *text = NULL;
    size_t len = 0;
    int r = path[0] != '\0' ? hr_auth_read(path, &text, &len) : 0;

    if (r < 0) {
        (void)snprintf(ret_message, 256, "%.160s: %s", path, strerror(-r));
        return r;
    }
    if (text != NULL) {
        r = parse_file(path, text, len, reading, ret_message);
        if (r == 0 && reading->which == CONFIG_FILE) {
            struct reading second = {CONFIG_FILE, true, reading->profile};

            r = parse_file(path, text, len, &second, ret_message);
        }
        hr_secret_zero(text, len);
    }
    free(text);
    return r;
}

int hr_profile_load(hr_env_fn env, void *env_owner, const char *name, char ret_message[256],
                    struct hr_profile *ret)
{
    static const struct {
        const char *variable, *fallback;
        enum which_file which;
    } files[] = {
        {"AWS_CONFIG_FILE", ".aws/config", CONFIG_FILE},
        {"AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials", CREDENTIALS_FILE},
    };
    const char *asked = name != NULL ? name : env(env_owner, "AWS_PROFILE");
    hr_cleanup(hr_profile_release) struct hr_profile profile = {0};
    int r;

    if (asked == NULL || asked[0] == '\0') {
        asked = env(env_owner, "AWS_DEFAULT_PROFILE");
    }
    profile.name = strdup(asked != NULL && asked[0] != '\0' ? asked : "default");
    if (profile.name == NULL) {
        (void)snprintf(ret_message, 256, "out of memory");
        return -ENOMEM;
    }
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct reading reading = {files[i].which, false, &profile};
        char path[HR_AUTH_PATH_BYTES];

        r = hr_auth_path(env, env_owner, files[i].variable, files[i].fallback, ret_message, path);
        if (r == 0) {
            r = read_profile_file(path, &reading, ret_message);
        }
        if (r < 0) {
            return r;
        }
    }
    if (!profile.found && (name != NULL || strcmp(profile.name, "default") != 0)) {
        (void)snprintf(ret_message, 256,
                       "%s%.100s: no such profile in ~/.aws/config or ~/.aws/credentials "
                       "(AWS_CONFIG_FILE, AWS_SHARED_CREDENTIALS_FILE)",
                       name != NULL ? "source_profile " : "AWS_PROFILE=", profile.name);
        return -ENOENT;
    }
    *ret = profile;
    profile = (struct hr_profile){0};
    return 0;
}
