/* HEADRACE_MAP: whatever the text, every map that is accepted keeps what maps.h promises, strict and lenient
 * agree, and an accepted map written out again parses to the same. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/maps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition) {
        abort();
    }
}

static void check_path(const struct hr_map *map)
{
    const char *path = map->path;
    require(map->path_len > 1 && map->path_len <= HR_MAP_PATH_MAX && strlen(path) == map->path_len);
    require(path[0] == '/' && path[map->path_len - 1] != '/');
    require(!strstr(path, "//"));
    for (const char *part = path; part; part = strchr(part + 1, '/')) {
        size_t len = strcspn(part + 1, "/");
        require(!(len == 1 && part[1] == '.') && !(len == 2 && part[1] == '.' && part[2] == '.'));
    }
}

static void check_map(const struct hr_maps *maps, const struct hr_map *map)
{
    static struct hr_maps again;
    static char text[3 * HR_MAP_PATH_MAX + HR_MAP_URL_MAX + 8];
    size_t at = 0;
    check_path(map);
    require(map->bucket_len > 0 && strlen(map->bucket) == map->bucket_len && !strchr(map->bucket, '/'));
    require(strlen(map->prefix) == map->prefix_len && map->prefix_len <= HR_MAP_PREFIX_MAX);
    require(map->prefix_len == 0 || map->prefix[map->prefix_len - 1] == '/');
    require(strlen(map->url) == map->url_len && map->url_len <= HR_MAP_URL_MAX);
    require(hr_maps_find(maps, map->path, map->path_len) == map);
    for (unsigned i = 0; i < map->option_count; i++) {
        const struct hr_map_option *option = &map->options[i];
        struct hr_span value = hr_map_option(map, map->option_text + option->name_at);
        require(value.ptr == map->option_text + option->value_at && strlen(value.ptr) == value.len);
        require(option->value_at + value.len < HR_MAP_OPTION_TEXT_MAX);
    }

    for (size_t i = 0; i < map->path_len; i++) {
        at += (size_t)sprintf(text + at, map->path[i] == '/' ? "/" : "%%%02x", (uint8_t)map->path[i]);
    }
    (void)sprintf(text + at, "=%s", map->url);
    require(hr_maps_parse(text, &again, NULL) == 0 && again.count == 1);
    require(strcmp(again.map[0].path, map->path) == 0 && strcmp(again.map[0].url, map->url) == 0);
    require(strcmp(again.map[0].prefix, map->prefix) == 0 && hr_map_hash(&again.map[0]) == hr_map_hash(map));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct hr_maps strict, lenient;
    struct hr_maps_error error, first;
    char *text = malloc(size + 1);
    require(text != NULL);
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';

    unsigned dropped = hr_maps_parse_lenient(text, &lenient, &first);
    int result = hr_maps_parse(text, &strict, &error);
    require((result == 0) == (dropped == 0));
    if (result == 0) {
        require(strict.count == lenient.count);
    } else {
        size_t len = strnlen(error.message, sizeof(error.message));
        require(strict.count == 0 && len > 0 && len < sizeof(error.message) && !strchr(error.message, '\n'));
        require((size_t)error.offset + error.len <= strlen(text) && error.map >= 1 && error.map == first.map);
    }
    require(lenient.count <= HR_MAPS_MAX);
    for (unsigned i = 0; i < lenient.count; i++) {
        check_map(&lenient, &lenient.map[i]);
        require(i == 0 ||
                lenient.map[lenient.by_length[i - 1]].path_len >= lenient.map[lenient.by_length[i]].path_len);
    }
    free(text);
    return 0;
}
