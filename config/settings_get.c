/* Reading loaded settings: by type, for a map, for people, as variables. */
#include "config/settings.h"

#include <assert.h>
#include <string.h>

#include "config/settings_impl.h"
#include "config/value.h"

const struct hr_setting_row hr_setting_rows[HR_SETTING_COUNT] = {
#define HR_SETTING(id, row_name, row_type, row_min, row_max, row_default, row_words, row_scope, row_help)    \
    [HR_SETTING_##id] = {.rule = {.name = row_name,                                                          \
                                  .words = row_words,                                                        \
                                  .min = row_min,                                                            \
                                  .max = row_max,                                                            \
                                  .type = HR_VALUE_##row_type,                                               \
                                  .scope = HR_VALUE_##row_scope},                                            \
                         .default_text = row_default,                                                        \
                         .help = row_help},
#include "config/settings.def"
#undef HR_SETTING
};

#define HR_SETTING(id, row_name, ...)                                                                        \
    _Static_assert(sizeof(row_name) - 1 <= HR_SETTING_NAME_MAX, "settings.def: " row_name " is too long");
#include "config/settings.def"
#undef HR_SETTING

const char *hr_settings_warning(const struct hr_settings *settings, unsigned index)
{
    return index < settings->warning_count ? settings->warnings[index] : NULL;
}

/* Both have words. */
static enum hr_value_type words_type(enum hr_setting_id id)
{
    return hr_setting_rows[id].rule.type == HR_VALUE_CHOICE ? HR_VALUE_CHOICE : HR_VALUE_ENUM;
}

/* The value of a setting whose type must be the one that the caller believes. */
static struct hr_value value_of(const struct hr_settings *settings, enum hr_setting_id id,
                                enum hr_value_type type)
{
    assert(hr_setting_rows[id].rule.type == type);
    (void)type;
    return settings->slots[id].value;
}

static struct hr_value map_value_of(const struct hr_settings *settings, const struct hr_map *map,
                                    enum hr_setting_id id, enum hr_value_type type)
{
    assert(hr_setting_rows[id].rule.scope == HR_VALUE_MAP);
    struct hr_value value = value_of(settings, id, type);
    struct hr_span option =
        map ? hr_map_option(map, hr_setting_rows[id].rule.name) : (struct hr_span){NULL, 0};
    if (option.ptr) {
        /* The parser of maps checked it by the same row. */
        (void)hr_value_parse(&hr_setting_rows[id].rule, option.ptr, option.len, &value);
    }
    return value;
}

bool hr_settings_bool(const struct hr_settings *settings, enum hr_setting_id id)
{
    return value_of(settings, id, HR_VALUE_BOOL).number != 0;
}

uint64_t hr_settings_count(const struct hr_settings *settings, enum hr_setting_id id)
{
    return (uint64_t)value_of(settings, id, HR_VALUE_COUNT).number;
}

int64_t hr_settings_seconds(const struct hr_settings *settings, enum hr_setting_id id)
{
    return value_of(settings, id, HR_VALUE_SECONDS).number;
}

uint64_t hr_settings_bytes(const struct hr_settings *settings, enum hr_setting_id id, uint64_t whole_bytes)
{
    assert(hr_setting_rows[id].rule.type == HR_VALUE_BYTES ||
           hr_setting_rows[id].rule.type == HR_VALUE_SPACE);
    const struct hr_value *value = &settings->slots[id].value;
    if (value->percent > 0) {
        return whole_bytes / 100 * value->percent + whole_bytes % 100 * value->percent / 100;
    }
    return (uint64_t)value->number;
}

unsigned hr_settings_enum(const struct hr_settings *settings, enum hr_setting_id id)
{
    return (unsigned)value_of(settings, id, words_type(id)).number;
}

const char *hr_settings_text(const struct hr_settings *settings, enum hr_setting_id id)
{
    return settings->slots[id].text ? settings->slots[id].text : hr_setting_rows[id].default_text;
}

bool hr_settings_map_bool(const struct hr_settings *settings, const struct hr_map *map, enum hr_setting_id id)
{
    return map_value_of(settings, map, id, HR_VALUE_BOOL).number != 0;
}

int64_t hr_settings_map_seconds(const struct hr_settings *settings, const struct hr_map *map,
                                enum hr_setting_id id)
{
    return map_value_of(settings, map, id, HR_VALUE_SECONDS).number;
}

unsigned hr_settings_map_enum(const struct hr_settings *settings, const struct hr_map *map,
                              enum hr_setting_id id)
{
    return (unsigned)map_value_of(settings, map, id, words_type(id)).number;
}

const char *hr_settings_map_text(const struct hr_settings *settings, const struct hr_map *map,
                                 enum hr_setting_id id)
{
    assert(hr_setting_rows[id].rule.scope == HR_VALUE_MAP);
    struct hr_span option =
        map ? hr_map_option(map, hr_setting_rows[id].rule.name) : (struct hr_span){NULL, 0};
    return option.ptr ? option.ptr : hr_settings_text(settings, id);
}

const char *hr_setting_name(enum hr_setting_id id)
{
    return hr_setting_rows[id].rule.name;
}

const char *hr_setting_help(enum hr_setting_id id)
{
    return hr_setting_rows[id].help;
}

const char *hr_setting_default(enum hr_setting_id id)
{
    return hr_setting_rows[id].default_text;
}

bool hr_setting_per_map(enum hr_setting_id id)
{
    return hr_setting_rows[id].rule.scope == HR_VALUE_MAP;
}

const char *hr_settings_origin(const struct hr_settings *settings, enum hr_setting_id id)
{
    return settings->slots[id].origin ? settings->slots[id].origin : "default";
}

bool hr_settings_is_default(const struct hr_settings *settings, enum hr_setting_id id)
{
    return !settings->slots[id].text;
}

int hr_settings_export(const struct hr_settings *settings, hr_settings_export_fn fn, void *owner)
{
    for (int id = 0; id < HR_SETTING_COUNT; id++) {
        char name[HR_SETTING_NAME_MAX + sizeof("HEADRACE_")] = "HEADRACE_";
        if (!settings->slots[id].text) {
            continue;
        }
        char *out = name + strlen(name);
        for (const char *in = hr_setting_rows[id].rule.name; *in; in++) {
            *out++ = (char)(*in >= 'a' && *in <= 'z' ? *in - ('a' - 'A') : *in);
        }
        int result = fn(owner, name, settings->slots[id].text);
        if (result != 0) {
            return result;
        }
    }
    return 0;
}
