/* Symlinks that lead into maps, with any text: the walk ends, stays inside its room, and what it finds is a
 * canonical path of a map or above one. Input: parts that end in NUL: HEADRACE_ALIAS, the path asked for,
 * then a symlink and its text each. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/links.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PARTS_MAX 34

static struct hr_maps maps;
static const char *part[PARTS_MAX];
static unsigned part_count;

static void must(bool truth)
{
    if (!truth) {
        abort();
    }
}

static long read_link(const char *path, char *out, size_t room)
{
    for (unsigned i = 2; i + 1 < part_count; i += 2) {
        if (strcmp(path, part[i]) == 0) {
            size_t len = strlen(part[i + 1]);
            len = len < room ? len : room;
            memcpy(out, part[i + 1], len);
            return len ? (long)len : -EINVAL;
        }
    }
    return strlen(path) % 2 ? -EINVAL : -ENOENT;
}

/* Directories, files and nothing, by the name's length, so that all three answers occur. */
static int enters(const char *path)
{
    static const int answers[] = {0, 0, 0, -ENOENT, -ENOTDIR};
    return answers[strlen(path) % 5];
}

static void check_found(const char *path, int len)
{
    must(len > 0 && len < HR_LINK_PATH_MAX && strlen(path) == (size_t)len && path[0] == '/');
    must(len == 1 || path[len - 1] != '/');
    for (const char *at = path; at; at = strchr(at + 1, '/')) {
        size_t part_len = strcspn(at + 1, "/");
        must(part_len > 0 || len == 1);
        must(!(part_len == 1 && at[1] == '.') && !(part_len == 2 && at[1] == '.' && at[2] == '.'));
    }
}

static void walk(const char *path, bool follow, hr_enters_fn asked)
{
    char at[HR_LINK_PATH_MAX] = "/data/x";
    int len = hr_links_walk(&maps, at, strlen(at), path, follow, read_link, asked);
    if (len >= 0) {
        check_found(at, len);
    } else {
        must(len == -ENOENT || len == -ELOOP || len == -ENAMETOOLONG || (asked && len == -ENOTDIR));
    }
}

/* What the variable gives is what hr_links_walk_from may be asked about. */
static void walk_names(const char *text, bool follow)
{
    char name[HR_LINK_PATH_MAX];
    int len;
    while ((len = hr_links_next(&text, name, sizeof name)) != 0) {
        if (len < 0) {
            must(len == -EINVAL);
            continue;
        }
        must(strlen(name) == (size_t)len && name[0] == '/');
        size_t more = strlen(name);
        if (more + 3 < sizeof name) {
            strcpy(name + more, "/x");
            int found = hr_links_walk_from(&maps, name, more + 2, more, follow, read_link, enters);
            if (found >= 0) {
                check_found(name, found);
            }
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hr_maps_error error;
    if (!maps.count) {
        must(hr_maps_parse("/data=s3://b/p;/mnt/deep/m=s3://b/q;/l/data=s3://c", &maps, &error) == 0);
    }
    char *text = malloc(size + 1);
    must(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    part_count = 0;
    for (char *at = text; at <= text + size && part_count < PARTS_MAX; at += strlen(at) + 1) {
        part[part_count++] = at;
    }
    for (int follow = 0; follow < 2; follow++) {
        walk_names(part[0], follow);
        if (part_count > 1) {
            walk(part[1], follow, NULL);
            walk(part[1], follow, enters);
        }
    }
    free(text);
    return 0;
}
