#include "fetch/cmd/aliases.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/links.h"
#include "fetch/base/buf.h"
#include "fetch/base/text.h"

#define ENTRIES_MAX 4096  /* of the working directory that are looked at: a start must not take long */
#define ARGUMENTS_MAX 256 /* the same of the arguments */
#define ENCODED_MAX (3 * HR_LINKS_TEXT_MAX)

struct found {
    const struct hr_job *job;
    struct hr_buf text;
    unsigned count;
    size_t bytes; /* of names, decoded, with a terminator each */
    char cwd[PATH_MAX];
};

static long read_link(const char *path, char *out, size_t room)
{
    ssize_t len = readlink(path, out, room);
    return len < 0 ? -errno : len;
}

/* Does a map that wants it lie below this directory, which is not there? */
static bool leads_above(const struct found *found, const char *dir, size_t len)
{
    for (unsigned i = 0; i < found->job->maps->count && access(dir, F_OK) < 0; i++) {
        const struct hr_map *map = &found->job->maps->map[i];
        if (map->path_len > len && memcmp(map->path, dir, len) == 0 && map->path[len] == '/' &&
            hr_settings_map_enum(found->job->settings, map, HR_SETTING_SYMLINKS) != HR_SETTING_SYMLINKS_OFF) {
            return true;
        }
    }
    return false;
}

/* Does the path (absolute; a symlink) lead into a map that wants it, or to what is there only for one? */
static bool leads(const struct found *found, const char *path)
{
    char at[HR_LINK_PATH_MAX] = "/";
    int len = hr_links_walk(found->job->maps, at, 1, path, true, read_link, NULL);
    const struct hr_map *map = len > 0 ? hr_maps_find(found->job->maps, at, (size_t)len) : NULL;
    return map ? hr_settings_map_enum(found->job->settings, map, HR_SETTING_SYMLINKS) !=
                     HR_SETTING_SYMLINKS_OFF
               : len > 0 && leads_above(found, at, (size_t)len);
}

static bool is_known(const struct found *found, const struct hr_buf *encoded)
{
    const char *at = found->text.len > 0 ? found->text.data : "";
    while (*at) {
        size_t len = strcspn(at, ";");
        if (len == encoded->len && memcmp(at, encoded->data, len) == 0) {
            return true;
        }
        at += len + (at[len] == ';');
    }
    return false;
}

/* path: canonical. */
static int add(struct found *found, const char *path)
{
    struct hr_buf encoded = HR_BUF_INIT(ENCODED_MAX);
    int error = hr_percent_encode(path, strlen(path), true, &encoded);
    if (error >= 0 && found->count < HR_LINKS_MAX && found->bytes + strlen(path) + 1 <= HR_LINKS_TEXT_MAX &&
        !hr_maps_find(found->job->maps, path, strlen(path)) && !is_known(found, &encoded)) {
        error = found->count > 0 ? hr_buf_puts(&found->text, ";") : 0;
        error = error < 0 ? error : hr_buf_puts(&found->text, encoded.data);
        found->count++;
        found->bytes += strlen(path) + 1;
    }
    hr_buf_release(&encoded);
    return error < 0 ? error : 0;
}

/* A symlink is known by the name that was given, and by that of its directory without symlinks. */
static int add_both(struct found *found, const char *path)
{
    char parent[PATH_MAX], real[PATH_MAX], whole[PATH_MAX];
    const char *name = strrchr(path, '/') + 1;
    (void)snprintf(parent, sizeof parent, "%.*s", name == path + 1 ? 1 : (int)(name - 1 - path), path);
    int error = strstr(path, "/../") ? 0 : add(found, path);
    if (error == 0 && realpath(parent, real) &&
        (size_t)snprintf(whole, sizeof whole, "%s/%s", strcmp(real, "/") == 0 ? "" : real, name) <
            sizeof whole) {
        error = add(found, whole);
    }
    return error;
}

static int look_at_directory(struct found *found)
{
    DIR *dir = opendir(found->cwd);
    const struct dirent *entry;
    int error = 0;
    for (unsigned i = 0; dir && error == 0 && i < ENTRIES_MAX && (entry = readdir(dir)); i++) {
        char path[PATH_MAX], text[2];
        if ((entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN) &&
            (size_t)snprintf(path, sizeof path, "%s/%s", strcmp(found->cwd, "/") == 0 ? "" : found->cwd,
                             entry->d_name) < sizeof path &&
            readlink(path, text, sizeof text) > 0 && leads(found, path)) {
            error = add(found, path);
        }
    }
    if (dir) {
        closedir(dir);
    }
    return error;
}

/* Without empty and "." parts. False: too long. */
static bool tidy(const struct found *found, const char *text, char out[PATH_MAX])
{
    size_t len = text[0] == '/' || strcmp(found->cwd, "/") == 0 ? 0 : strlen(found->cwd);
    memcpy(out, found->cwd, len);
    while (*text) {
        size_t part = strcspn(text, "/");
        if (part > 0 && !(part == 1 && text[0] == '.')) {
            if (len + part + 2 > PATH_MAX) {
                return false;
            }
            out[len++] = '/';
            memcpy(out + len, text, part);
            len += part;
        }
        text += part + (text[part] == '/');
    }
    out[len] = '\0';
    return len > 0;
}

/* Every prefix of the path that is there; the first symlink into a map is enough. */
static int look_at_path(struct found *found, const char *text)
{
    char path[PATH_MAX], link[2];
    if (!*text || !tidy(found, text, path)) {
        return 0;
    }
    for (char *end = path; end;) {
        end = strchr(end + 1, '/');
        if (end) {
            *end = '\0';
        }
        ssize_t got = readlink(path, link, sizeof link);
        if (got < 0 && errno != EINVAL) {
            return 0;
        }
        if (got > 0 && leads(found, path)) {
            return add_both(found, path);
        }
        if (end) {
            *end = '/';
        }
    }
    return 0;
}

int hr_aliases_export(struct hr_job *job, char *const *command)
{
    struct found found = {.job = job, .text = HR_BUF_INIT(ENCODED_MAX)};
    int error = 0;
    if (getcwd(found.cwd, sizeof found.cwd) && found.cwd[0] == '/') {
        for (unsigned i = 0; error == 0 && command[i] && i < ARGUMENTS_MAX; i++) {
            const char *value = strchr(command[i], '=');
            error = look_at_path(&found, command[i]);
            if (error == 0 && value) {
                error = look_at_path(&found, value + 1);
            }
        }
        if (error == 0) {
            error = look_at_directory(&found);
        }
    }
    if (error == 0 && (found.count > 0 || hr_job_getenv(job, HR_LINKS_VARIABLE))) {
        error = hr_job_setenv(job, HR_LINKS_VARIABLE, found.count > 0 ? found.text.data : "");
    }
    hr_buf_release(&found.text);
    return error;
}
