#include "config/settings.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/ini.h"
#include "config/say.h"
#include "config/settings_impl.h"
#include "config/value.h"

#define FILE_MAX (1024 * 1024)          /* bytes of a settings file: far beyond any real one */
#define FILE_PATH_MAX 4096              /* bytes: PATH_MAX */
#define ORIGIN_MAX (FILE_PATH_MAX + 16) /* a path, ':' and a line */

/* One loading: what is filled, and where a message goes. */
struct load {
    struct hr_settings *settings;
    struct hr_say *say;
    const char *file; /* path of the file being read */
};

static void free_settings_p(struct hr_settings **settings)
{
    hr_settings_free(*settings);
}

static void free_text_p(char **text)
{
    free(*text);
}

static void close_fd_p(const int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
    }
}

static int find_row(const char *name, size_t len)
{
    for (int id = 0; id < HR_SETTING_COUNT; id++) {
        if (hr_value_is(name, len, hr_setting_rows[id].rule.name)) {
            return id;
        }
    }
    return -ENOENT;
}

/* Levenshtein's distance to a row's name; names longer than any real one are as far as can be. */
static unsigned distance(const char *name, size_t len, const char *row_name)
{
    size_t row_len = strlen(row_name);
    unsigned before[HR_SETTING_NAME_MAX + 1], now[HR_SETTING_NAME_MAX + 1];
    if (len > HR_SETTING_NAME_MAX || row_len > HR_SETTING_NAME_MAX) {
        return HR_SETTING_NAME_MAX;
    }
    for (size_t j = 0; j <= row_len; j++) {
        before[j] = (unsigned)j;
    }
    for (size_t i = 1; i <= len; i++) {
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= row_len; j++) {
            unsigned least = before[j - 1] + (name[i - 1] != row_name[j - 1]);
            least = before[j] + 1 < least ? before[j] + 1 : least;
            now[j] = now[j - 1] + 1 < least ? now[j - 1] + 1 : least;
        }
        memcpy(before, now, sizeof(now));
    }
    return before[row_len];
}

/* "; did you mean `memory`?" for a slip of up to two letters. */
static void say_nearest(const char *name, size_t len, const char *prefix, struct hr_say *say)
{
    const char *nearest = NULL;
    unsigned least = 3;
    for (int id = 0; id < HR_SETTING_COUNT; id++) {
        unsigned far = distance(name, len, hr_setting_rows[id].rule.name);
        if (far < least) {
            least = far;
            nearest = hr_setting_rows[id].rule.name;
        }
    }
    hr_say_text(say, nearest ? "; did you mean " : "; `headrace config` lists them");
    if (nearest) {
        hr_say_text(say, prefix);
        for (; *nearest; nearest++) {
            bool upper = *prefix && *nearest >= 'a' && *nearest <= 'z';
            char byte = (char)(*nearest - (upper ? 'a' - 'A' : 0));
            hr_say_bytes(say, &byte, 1);
        }
        hr_say_text(say, "?");
    }
}

static int add_warning(struct hr_settings *settings, const char *text)
{
    if (settings->warning_count >= HR_SETTINGS_WARNINGS_MAX) {
        return 0;
    }
    char *line = strdup(text);
    if (!line) {
        return -ENOMEM;
    }
    settings->warnings[settings->warning_count++] = line;
    return 0;
}

/* A later layer replaces an earlier one. */
static int set_value(const struct load *load, int id, const char *text, const char *origin)
{
    struct hr_setting_slot *slot = &load->settings->slots[id];
    struct hr_value value;
    size_t len = strlen(text);
    int error = hr_value_parse(&hr_setting_rows[id].rule, text, len, &value);
    if (error < 0) {
        hr_say_text(load->say, origin);
        hr_say_text(load->say, ": ");
        hr_value_say_wrong(&hr_setting_rows[id].rule, text, len, error, load->say);
        return -EINVAL;
    }
    char *new_text = strdup(text), *new_origin = strdup(origin);
    if (!new_text || !new_origin) {
        free(new_text);
        free(new_origin);
        hr_say_text(load->say, "out of memory");
        return -ENOMEM;
    }
    free(slot->text);
    free(slot->origin);
    *slot = (struct hr_setting_slot){.text = new_text, .origin = new_origin, .value = value};
    return 0;
}

static int unknown_name(const struct load *load, const char *origin, const char *name, size_t len)
{
    hr_say_text(load->say, origin);
    hr_say_text(load->say, ": there is no setting ");
    hr_say_quoted(load->say, name, len);
    say_nearest(name, len, "", load->say);
    return -EINVAL;
}

static int file_pair(void *owner, const char *section, const char *key, const char *value, unsigned line)
{
    const struct load *load = owner;
    char origin[ORIGIN_MAX];
    struct hr_say say;
    hr_say_init(&say, origin, sizeof(origin));
    hr_say_text(&say, load->file);
    hr_say_text(&say, ":");
    hr_say_number(&say, line);
    if (*section) {
        hr_say_text(load->say, origin);
        hr_say_text(load->say, ": settings stand outside of sections; remove the section ");
        hr_say_quoted(load->say, section, strlen(section));
        return -EINVAL;
    }
    int id = find_row(key, strlen(key));
    if (id < 0) {
        return unknown_name(load, origin, key, strlen(key));
    }
    return set_value(load, id, value, origin);
}

/* The whole file; 0 or -errno (-EFBIG above FILE_MAX). */
static int read_whole(const char *path, char **ret_text, size_t *ret_len)
{
    __attribute__((cleanup(close_fd_p))) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    __attribute__((cleanup(free_text_p))) char *text = malloc(FILE_MAX + 1);
    if (!text) {
        return -ENOMEM;
    }
    size_t len = 0;
    for (;;) {
        ssize_t got = read(fd, text + len, FILE_MAX + 1 - len);
        if (got < 0 && errno != EINTR) {
            return -errno;
        }
        if (got == 0) {
            break;
        }
        len += got > 0 ? (size_t)got : 0;
        if (len > FILE_MAX) {
            return -EFBIG;
        }
    }
    *ret_text = text;
    *ret_len = len;
    text = NULL;
    return 0;
}

static void say_unreadable(struct hr_say *say, const char *path, int error)
{
    char room[128];
    const char *reason = strerror_r(-error, room, sizeof(room));
    hr_say_text(say, "settings file ");
    hr_say_quoted(say, path, strlen(path));
    hr_say_text(say, " cannot be read: ");
    hr_say_text(say, reason);
}

/* `named`: by HEADRACE_CONFIG, so it must be there. 1: this was the file; 0: try the next; -errno. */
static int load_file(struct load *load, const char *path, bool named)
{
    __attribute__((cleanup(free_text_p))) char *text = NULL;
    size_t len = 0;
    int error = read_whole(path, &text, &len);
    if (error < 0 && !named) {
        char warning[HR_SETTINGS_MESSAGE_BYTES];
        struct hr_say say;
        if (error == -ENOENT || error == -ENOTDIR) {
            return 0;
        }
        /* A home directory of somebody else is usual in containers: no reason not to start. */
        hr_say_init(&say, warning, sizeof(warning));
        say_unreadable(&say, path, error);
        hr_say_text(&say, "; passed over");
        return add_warning(load->settings, warning);
    }
    if (error < 0) {
        say_unreadable(load->say, path, error);
        hr_say_text(load->say, "; HEADRACE_CONFIG names it");
        return error;
    }
    struct hr_ini_error broken = {0};
    load->file = path;
    error = hr_ini_parse(text, len, file_pair, load, &broken);
    if (error == -EBADMSG && broken.message) {
        hr_say_text(load->say, path);
        hr_say_text(load->say, ":");
        hr_say_number(load->say, broken.line);
        hr_say_text(load->say, ": ");
        hr_say_text(load->say, broken.message);
        return -EINVAL;
    }
    return error < 0 ? error : 1;
}

/* The first definition of a variable, as getenv; NULL when it is not there or empty. */
static const char *variable(char *const *envp, const char *name)
{
    size_t len = strlen(name);
    for (; envp && *envp; envp++) {
        if (strncmp(*envp, name, len) == 0 && (*envp)[len] == '=') {
            return (*envp)[len + 1] ? *envp + len + 1 : NULL;
        }
    }
    return NULL;
}

static int load_files(struct load *load, char *const *envp)
{
    static const struct {
        const char *variable, *below;
    } places[] = {{"XDG_CONFIG_HOME", "/headrace/config"},
                  {"HOME", "/.config/headrace/config"},
                  {NULL, "/etc/headrace.conf"}};
    const char *named = variable(envp, "HEADRACE_CONFIG");
    if (named) {
        int result = load_file(load, named, true);
        return result < 0 ? result : 0;
    }
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        char path[FILE_PATH_MAX];
        const char *start = places[i].variable ? variable(envp, places[i].variable) : "";
        /* The XDG rules: a relative directory is not meant. */
        if (!start || (places[i].variable && start[0] != '/') ||
            strlen(start) + strlen(places[i].below) >= sizeof(path)) {
            continue;
        }
        struct hr_say say;
        hr_say_init(&say, path, sizeof(path));
        hr_say_text(&say, start);
        hr_say_text(&say, places[i].below);
        int result = load_file(load, path, false);
        if (result != 0) {
            return result < 0 ? result : 0;
        }
    }
    return 0;
}

static int warn_unknown(const struct load *load, const char *assignment, const char *name, size_t name_len)
{
    char warning[HR_SETTINGS_MESSAGE_BYTES];
    struct hr_say say;
    hr_say_init(&say, warning, sizeof(warning));
    hr_say_text(&say, "unknown variable ");
    hr_say_quoted(&say, assignment, strcspn(assignment, "="));
    say_nearest(name, name_len, "HEADRACE_", &say);
    return add_warning(load->settings, warning);
}

static int load_environment(const struct load *load, char *const *envp)
{
    static const char prefix[] = "HEADRACE_";
    bool seen[HR_SETTING_COUNT] = {false};
    for (; envp && *envp; envp++) {
        char name[HR_SETTING_NAME_MAX + 1];
        size_t whole_len = strcspn(*envp, "=");
        if (strncmp(*envp, prefix, sizeof(prefix) - 1) != 0 || !(*envp)[whole_len] ||
            hr_value_word("HEADRACE_MAP|HEADRACE_CONFIG|HEADRACE_ALIAS", *envp, whole_len) >= 0) {
            continue;
        }
        size_t len = whole_len - (sizeof(prefix) - 1);
        size_t kept = len < HR_SETTING_NAME_MAX ? len : HR_SETTING_NAME_MAX;
        bool is_upper = true; /* HEADRACE_memory is not ours, but worth a hint */
        for (size_t i = 0; i < kept; i++) {
            char byte = (*envp)[sizeof(prefix) - 1 + i];
            is_upper = is_upper && !(byte >= 'a' && byte <= 'z');
            name[i] = (char)(byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte);
        }
        int id = len == kept && is_upper ? find_row(name, len) : -ENOENT;
        int result = 0;
        if (id < 0) {
            result = warn_unknown(load, *envp, name, len == kept ? len : 0);
        } else if (!seen[id]) {
            char origin[HR_SETTING_NAME_MAX + sizeof(prefix) + 32];
            struct hr_say say;
            seen[id] = true;
            hr_say_init(&say, origin, sizeof(origin));
            hr_say_bytes(&say, *envp, whole_len);
            hr_say_text(&say, " in the environment");
            result = (*envp)[whole_len + 1] ? set_value(load, id, *envp + whole_len + 1, origin) : 0;
        }
        if (result < 0) {
            return result;
        }
    }
    return 0;
}

static int load_sets(const struct load *load, const char *const *sets, size_t set_count)
{
    for (size_t i = 0; i < set_count; i++) {
        size_t len = strcspn(sets[i], "=");
        if (!sets[i][len]) {
            hr_say_text(load->say, "--set ");
            hr_say_quoted(load->say, sets[i], len);
            hr_say_text(load->say, ": there is no '='; write --set name=value");
            return -EINVAL;
        }
        int id = find_row(sets[i], len);
        int error = id < 0 ? unknown_name(load, "--set", sets[i], len)
                           : set_value(load, id, sets[i] + len + 1, "--set");
        if (error < 0) {
            return error;
        }
    }
    return 0;
}

int hr_settings_load(const struct hr_settings_sources *sources, char ret_message[HR_SETTINGS_MESSAGE_BYTES],
                     struct hr_settings **ret)
{
    struct hr_say say;
    hr_say_init(&say, ret_message, HR_SETTINGS_MESSAGE_BYTES);
    __attribute__((cleanup(free_settings_p))) struct hr_settings *settings = calloc(1, sizeof(*settings));
    if (!settings) {
        hr_say_text(&say, "out of memory");
        return -ENOMEM;
    }
    for (int id = 0; id < HR_SETTING_COUNT; id++) {
        const char *text = hr_setting_rows[id].default_text;
        int error = hr_value_parse(&hr_setting_rows[id].rule, text, strlen(text), &settings->slots[id].value);
        assert(error == 0 && "settings.def: a default that its own row does not allow");
        (void)error;
    }
    struct load load = {.settings = settings, .say = &say};
    int error = sources->no_file ? 0 : load_files(&load, sources->envp);
    if (error == 0) {
        error = load_environment(&load, sources->envp);
    }
    if (error == 0) {
        error = load_sets(&load, sources->sets, sources->set_count);
    }
    if (error < 0) {
        return error;
    }
    *ret = settings;
    settings = NULL;
    return 0;
}

void hr_settings_free(struct hr_settings *settings)
{
    if (!settings) {
        return;
    }
    for (int id = 0; id < HR_SETTING_COUNT; id++) {
        free(settings->slots[id].text);
        free(settings->slots[id].origin);
    }
    for (unsigned i = 0; i < settings->warning_count; i++) {
        free(settings->warnings[i]);
    }
    free(settings);
}
