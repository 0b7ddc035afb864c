#include "fetch/auth/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/ini.h"
#include "fetch/auth/credentials.h"
#include "fetch/base/cleanup.h"

/* Ours: thousands of profiles fit, and a mistaken path does not fill the memory. */
#define FILE_MAX_BYTES (1024 * 1024)
#define PATH_BYTES 4096

enum which_file { CREDENTIALS_FILE, CONFIG_FILE };

struct reading {
    enum which_file which;
    const char
        *services; /* second pass over the config file: the services section to read; NULL: the profile */
    char *found_services; /* first pass: the profile's `services` */
    struct hr_profile *profile;
};

static void keys_release(struct hr_profile_keys *keys)
{
    free(keys->access_key_id);
    hr_secret_free(keys->secret);
    hr_secret_free(keys->session_token);
}

void hr_profile_release(struct hr_profile *profile)
{
    free(profile->name);
    keys_release(&profile->shared);
    keys_release(&profile->config);
    free(profile->method);
    free(profile->region);
    free(profile->endpoint_url);
    free(profile->s3_endpoint_url);
    free(profile->addressing_style);
    free(profile->ca_bundle);
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

/* Ways to credentials that are other sources' business; those that go before the profile's own keys are
 * marked. */
static const struct {
    const char *key;
    bool wins;
} methods[] = {
    {"role_arn", true},      {"web_identity_token_file", true}, {"sso_session", true},
    {"sso_start_url", true}, {"credential_process", false},     {"login_session", false},
};

static int take_method(struct hr_profile *profile, const char *key, const char *value)
{
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (strcmp(key, methods[i].key) == 0 && value[0] != '\0' && !profile->method_wins) {
            profile->method_wins = methods[i].wins;
            return keep(&profile->method, key);
        }
    }
    return 0;
}

static int take_profile_value(struct reading *reading, const char *key, const char *value)
{
    struct hr_profile *profile = reading->profile;
    struct hr_profile_keys *keys = reading->which == CREDENTIALS_FILE ? &profile->shared : &profile->config;
    const struct {
        const char *key;
        char **slot;
    } slots[] = {
        {"aws_access_key_id", &keys->access_key_id},
        {"aws_secret_access_key", &keys->secret},
        {"aws_session_token", &keys->session_token},
        {"region", &profile->region},
        {"endpoint_url", &profile->endpoint_url},
        {"s3.endpoint_url", &profile->s3_endpoint_url},
        {"s3.addressing_style", &profile->addressing_style},
        {"ca_bundle", &profile->ca_bundle},
        {"services", &reading->found_services},
    };

    for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
        if (strcmp(key, slots[i].key) == 0) {
            return keep(slots[i].slot, value);
        }
    }
    return take_method(profile, key, value);
}

static int take_line(void *owner, const char *section, const char *key, const char *value, unsigned line)
{
    struct reading *reading = owner;

    (void)line;
    if (reading->services != NULL) {
        bool ours = section_is(section, "services", reading->services) && strcmp(key, "s3.endpoint_url") == 0;
        return ours ? keep(&reading->profile->s3_endpoint_url, value) : 0;
    }
    if (!is_profile_section(reading, section)) {
        return 0;
    }
    reading->profile->found = true;
    return take_profile_value(reading, key, value);
}

/* Path of a file named by `variable`, else HOME/fallback. "" when there is none. */
static int file_path(hr_env_fn env, void *env_owner, const char *variable, const char *fallback,
                     char ret_message[256], char ret_path[PATH_BYTES])
{
    const char *named = env(env_owner, variable);
    const char *home = env(env_owner, "HOME");
    const char *from = env(env_owner, "PWD");
    int len;

    if (named == NULL || named[0] == '\0') {
        bool at_home = home != NULL && home[0] == '/';
        len = snprintf(ret_path, PATH_BYTES, "%s%s%s", at_home ? home : "", at_home ? "/" : "",
                       at_home ? fallback : "");
    } else if (named[0] == '/') {
        len = snprintf(ret_path, PATH_BYTES, "%s", named);
    } else if (named[0] == '~' && named[1] == '/' && home != NULL) {
        len = snprintf(ret_path, PATH_BYTES, "%s/%s", home, named + 2);
    } else if (from != NULL && from[0] == '/') {
        len = snprintf(ret_path, PATH_BYTES, "%s/%s", from, named);
    } else {
        len = PATH_BYTES;
    }
    if (len >= PATH_BYTES) {
        (void)snprintf(ret_message, 256, "%s=%.150s cannot be used: give an absolute path", variable,
                       named ? named : "");
        return -EINVAL;
    }
    return 0;
}

/* The whole file, for the caller to zero and free. Missing: 0 and length 0. */
static int read_file(const char *path, char **ret_text, size_t *ret_len)
{
    hr_cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    size_t len = 0;

    if (fd < 0) {
        return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
    }
    if (fstat(fd, &st) < 0) {
        return -errno;
    }
    if (!S_ISREG(st.st_mode)) {
        return S_ISCHR(st.st_mode) ? 0 : -EINVAL; /* /dev/null is the usual way to say "none" */
    }
    if (st.st_size > FILE_MAX_BYTES) {
        return -EFBIG;
    }
    char *text = malloc((size_t)st.st_size + 1);
    if (text == NULL) {
        return -ENOMEM;
    }
    while (len < (size_t)st.st_size) {
        ssize_t got = read(fd, text + len, (size_t)st.st_size - len);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            int error = -errno;

            hr_secret_zero(text, len);
            free(text);
            return error;
        }
        if (got == 0) {
            break;
        }
        len += (size_t)got;
    }
    text[len] = '\0';
    *ret_text = text;
    *ret_len = len;
    return 0;
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
    int r = path[0] != '\0' ? read_file(path, &text, &len) : 0;

    if (r < 0) {
        (void)snprintf(ret_message, 256, "%.160s: %s", path, strerror(-r));
        return r;
    }
    if (text != NULL) {
        r = parse_file(path, text, len, reading, ret_message);
        if (r == 0 && reading->found_services != NULL && reading->which == CONFIG_FILE) {
            struct reading second = {CONFIG_FILE, reading->found_services, NULL, reading->profile};

            r = parse_file(path, text, len, &second, ret_message);
        }
        hr_secret_zero(text, len);
    }
    free(text);
    free(reading->found_services);
    reading->found_services = NULL;
    return r;
}

int hr_profile_load(hr_env_fn env, void *env_owner, char ret_message[256], struct hr_profile *ret)
{
    static const struct {
        const char *variable, *fallback;
        enum which_file which;
    } files[] = {
        {"AWS_CONFIG_FILE", ".aws/config", CONFIG_FILE},
        {"AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials", CREDENTIALS_FILE},
    };
    const char *asked = env(env_owner, "AWS_PROFILE");
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
        struct reading reading = {files[i].which, NULL, NULL, &profile};
        char path[PATH_BYTES];

        r = file_path(env, env_owner, files[i].variable, files[i].fallback, ret_message, path);
        if (r == 0) {
            r = read_profile_file(path, &reading, ret_message);
        }
        if (r < 0) {
            return r;
        }
    }
    if (!profile.found && strcmp(profile.name, "default") != 0) {
        (void)snprintf(ret_message, 256,
                       "AWS_PROFILE=%.100s: no such profile in ~/.aws/config or ~/.aws/credentials "
                       "(AWS_CONFIG_FILE, AWS_SHARED_CREDENTIALS_FILE)",
                       profile.name);
        return -ENOENT;
    }
    *ret = profile;
    profile = (struct hr_profile){0};
    return 0;
}
