/* The settings of config/settings.def in their layers: default < file < environment < --set (< option of a
 * map).
 *
 * Loaded once into an immutable struct: then any thread may read. Never in the preloaded object (it
 * allocates). */
#ifndef HR_CONFIG_SETTINGS_H
#define HR_CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/maps.h"

enum hr_setting_id {
#define HR_SETTING(id, ...) HR_SETTING_##id,
#include "config/settings.def"
#undef HR_SETTING
    HR_SETTING_COUNT
};

/* What hr_settings_enum gives: the order of the choices in settings.def. log_level has base/log.h's order. */
enum hr_setting_list {
    HR_SETTING_LIST_AUTO,
    HR_SETTING_LIST_ALL,
    HR_SETTING_LIST_DIRS,
    HR_SETTING_LIST_NONE,
    HR_SETTING_LIST_FILE = 255 /* an absolute path (value.h) */
};
enum hr_setting_mode { HR_SETTING_MODE_RO };
enum hr_setting_symlinks { HR_SETTING_SYMLINKS_RUN, HR_SETTING_SYMLINKS_FOLLOW, HR_SETTING_SYMLINKS_OFF };
enum hr_setting_changed { HR_SETTING_CHANGED_ERROR, HR_SETTING_CHANGED_FOLLOW };

/* Words that hr_settings_seconds can give for `revalidate`. */
#define HR_SECONDS_FOREVER INT64_MAX /* never again */
#define HR_SECONDS_START INT64_C(-1) /* at each start of the daemon, not by age */

#define HR_SETTINGS_MESSAGE_BYTES 512 /* one line with a value and a path in it; longer ones are cut */

struct hr_settings;

struct hr_settings_sources {
    char *const *envp; /* "NAME=VALUE", NULL-terminated: HOME, XDG_CONFIG_HOME and HEADRACE_* are read; may be
                          NULL. A variable set to "" counts as not set. */
    const char *const *sets; /* "name=value" of each --set, the later one wins */
    size_t set_count;
    bool no_file; /* read no file (tests, and a daemon that was handed everything) */
};

/* 0; -EINVAL (a value of the wrong form or out of bounds, an unknown name in the file or in --set, a broken
 * file), -errno of reading the file that HEADRACE_CONFIG names, -ENOMEM. ret_message gets one line: the
 * setting, where it came from, its value, what is allowed. */
int hr_settings_load(const struct hr_settings_sources *sources, char ret_message[HR_SETTINGS_MESSAGE_BYTES],
                     struct hr_settings **ret);
void hr_settings_free(struct hr_settings *settings); /* accepts NULL */

/* Lines for the caller to show once: unknown HEADRACE_ variables, a file that could not be read and was
 * passed over. NULL from `index` on that is too high. At most 16 lines. */
const char *hr_settings_warning(const struct hr_settings *settings, unsigned index);

/* By type; asking for another type than settings.def says is a programming error (assert). */
bool hr_settings_bool(const struct hr_settings *settings, enum hr_setting_id id);
uint64_t hr_settings_count(const struct hr_settings *settings,
                           enum hr_setting_id id); /* 0: auto, where allowed */
int64_t hr_settings_seconds(const struct hr_settings *settings, enum hr_setting_id id);
/* whole_bytes: what a `%` is of (statvfs of the cache's file system); not used for plain sizes. */
uint64_t hr_settings_bytes(const struct hr_settings *settings, enum hr_setting_id id, uint64_t whole_bytes);
unsigned hr_settings_enum(const struct hr_settings *settings, enum hr_setting_id id);
/* The value as written, whatever its type; "" is `auto` or `not set`, never NULL. Lives as long as settings.
 */
const char *hr_settings_text(const struct hr_settings *settings, enum hr_setting_id id);

/* The same for one map: its option, else the setting. map NULL: the setting. Only for ids with the map scope.
 * The text lives as long as both. */
bool hr_settings_map_bool(const struct hr_settings *settings, const struct hr_map *map,
                          enum hr_setting_id id);
int64_t hr_settings_map_seconds(const struct hr_settings *settings, const struct hr_map *map,
                                enum hr_setting_id id);
unsigned hr_settings_map_enum(const struct hr_settings *settings, const struct hr_map *map,
                              enum hr_setting_id id);
const char *hr_settings_map_text(const struct hr_settings *settings, const struct hr_map *map,
                                 enum hr_setting_id id);

/* For `headrace config` and messages. Static strings, except the origin, which lives as long as settings:
 * "default", "FILE:LINE", "HEADRACE_NAME in the environment", "--set". */
const char *hr_setting_name(enum hr_setting_id id);
const char *hr_setting_help(enum hr_setting_id id);
const char *hr_setting_default(enum hr_setting_id id);
bool hr_setting_per_map(enum hr_setting_id id);
const char *hr_settings_origin(const struct hr_settings *settings, enum hr_setting_id id);
bool hr_settings_is_default(const struct hr_settings *settings, enum hr_setting_id id); /* nobody set it */

/* Every setting that somebody set, whichever the layer, as the environment variable that would set it:
 * fn(owner, "HEADRACE_MEMORY", "64M"). So `run` exports what it resolved. 0, or what fn returned to stop. */
typedef int (*hr_settings_export_fn)(void *owner, const char *variable, const char *value);
int hr_settings_export(const struct hr_settings *settings, hr_settings_export_fn fn, void *owner);

#endif
