/* What settings.c fills and settings_get.c reads. Nobody else includes it. */
#ifndef HR_CONFIG_SETTINGS_IMPL_H
#define HR_CONFIG_SETTINGS_IMPL_H

#include "config/settings.h"
#include "config/value.h"

#define HR_SETTINGS_WARNINGS_MAX 16 /* lines; an environment may hold any number of strange variables */
#define HR_SETTING_NAME_MAX 32      /* bytes; checked against settings.def when it is compiled */

struct hr_setting_row {
    struct hr_value_rule rule;
    const char *default_text, *help;
};

extern const struct hr_setting_row hr_setting_rows[HR_SETTING_COUNT];

struct hr_setting_slot {
    char *text, *origin; /* NULL: nobody set it */
    struct hr_value value;
};

struct hr_settings {
    struct hr_setting_slot slots[HR_SETTING_COUNT];
    char *warnings[HR_SETTINGS_WARNINGS_MAX];
    unsigned warning_count;
};

#endif
