/* Path matching against a slow, obvious one: bytes are "base NUL path". */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/path.h"
#include "tests/fuzz/scratch.h"

static struct hr_maps maps;

/* Component by component onto a stack of offsets. */
static size_t canonical_slowly(const char *text, char *out)
{
    size_t len = 0;
    for (const char *at = text; *at;) {
        size_t part = strcspn(at, "/");
        if (part == 2 && memcmp(at, "..", 2) == 0) {
            while (len > 0 && out[--len] != '/') {
            }
        } else if (part > 0 && !(part == 1 && *at == '.')) {
            out[len++] = '/';
            memcpy(out + len, at, part);
            len += part;
        }
        at += part + (at[part] == '/');
    }
    if (len == 0) {
        out[len++] = '/';
    }
    out[len] = '\0';
    return len;
}

static const struct hr_map *owner_slowly(const char *path)
{
    const struct hr_map *best = NULL;
    for (unsigned i = 0; i < maps.count; i++) {
        const struct hr_map *map = &maps.map[i];
        if (strncmp(path, map->path, map->path_len) == 0 &&
            (path[map->path_len] == '/' || path[map->path_len] == '\0') &&
            (!best || map->path_len > best->path_len)) {
            best = map;
        }
    }
    return best;
}

static void check_canonical(const char *path, size_t len)
{
    unsigned map = 0;
    uint32_t root = 0;
    const struct hr_map *owner = owner_slowly(path);
    MUST(path[0] == '/' && strlen(path) == len);
    MUST(len == 1 || path[len - 1] != '/');
    MUST(len == 1 || !hr_path_is_odd(path));
    MUST(hr_path_under(path, &map, &root) == (owner != NULL));
    MUST(!owner || (&maps.map[map] == owner && root == owner->path_len));
    struct hr_plain plain;
    MUST(hr_path_plain(path, &plain) == (owner ? HR_PATH_OURS : HR_PATH_ELSEWHERE) || len == 1);
    MUST(!owner || (&maps.map[plain.map] == owner && plain.len == len && !plain.must_be_dir));
    MUST(hr_path_above(path, len) == hr_path_above_text(path));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!maps.count) {
        MUST(hr_maps_parse("/d=s3://a/;/d/a=s3://b/;/d/a/dd=s3://c/;/a/d=s3://d/;/%2e.x=s3://e/", &maps,
                           NULL) == 0);
        hr_path_init(&maps);
    }
    if (size > 3000) {
        return 0;
    }
    char *text = malloc(size + 1);
    char *slow = malloc(2 * size + 8);
    char *joined = malloc(2 * size + 8);
    MUST(text && slow && joined);
    memcpy(text, data, size);
    text[size] = '\0';
    const char *raw_base = text;
    size_t base_text = strlen(raw_base);
    const char *path = base_text < size ? text + base_text + 1 : "";

    char base[4096];
    size_t base_len = canonical_slowly(raw_base, base);
    check_canonical(base, base_len);

    sprintf(joined, "%s/%s", path[0] == '/' ? "" : base, path);
    size_t want = canonical_slowly(joined, slow);
    size_t room = want + 1 + (size ? data[0] % 3 : 0);
    /* Exactly as much room as the result and its longest step need, or less. */
    size_t need = base_len > want ? base_len + 1 : room;
    char *out = malloc(need);
    bool dir;
    MUST(out);
    int got = hr_path_join(base, base_len, path, out, need, &dir);
    if (got >= 0) {
        MUST((size_t)got == want && strcmp(out, slow) == 0);
        check_canonical(out, want);
    } else {
        /* A detour through a longer name ("long-name/..") needs more. */
        char big[16384];
        MUST(got == -ENAMETOOLONG);
        got = hr_path_join(base, base_len, path, big, sizeof(big), &dir);
        MUST((size_t)got == want && strcmp(big, slow) == 0);
    }
    /* The fast answers never deny what the canonical form finds. */
    bool ours = owner_slowly(slow) != NULL;
    bool near = owner_slowly(base) || hr_path_above(base, base_len);
    bool first = path[0] == '/' ? hr_path_first[(unsigned char)path[1]] : near;
    MUST(!ours || first || hr_path_climbs(path));
    (void)hr_path_above_text(path[0] ? path : "/");
    if (path[0]) {
        (void)hr_path_above_then(base, base_len, path);
    }
    free(out);
    free(joined);
    free(slow);
    free(text);
    return 0;
}
