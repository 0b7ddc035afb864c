/* A settings file with any text: refused with one line, or read; and what was read, handed on as variables,
 * is read the same again. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *variables[HR_SETTING_COUNT + 1];
static unsigned variable_count;

static void must(bool truth)
{
    if (!truth) {
        abort();
    }
}

static int keep(void *owner, const char *variable, const char *value)
{
    (void)owner;
    must(variable_count < HR_SETTING_COUNT);
    must(asprintf(&variables[variable_count++], "%s=%s", variable, value) > 0);
    return 0;
}

static void check_again(const struct hr_settings *settings)
{
    char why[HR_SETTINGS_MESSAGE_BYTES] = "";
    struct hr_settings *again = NULL;
    struct hr_settings_sources sources = {.envp = variables, .no_file = true};
    must(hr_settings_load(&sources, why, &again) == 0);
    for (int id = 0; id < HR_SETTING_COUNT; id++) {
        must(strcmp(hr_settings_text(settings, id), hr_settings_text(again, id)) == 0);
    }
    hr_settings_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[HR_SETTINGS_MESSAGE_BYTES] = "", variable[64];
    struct hr_settings *settings = NULL;
    int fd = memfd_create("settings", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(variable, sizeof variable, "HEADRACE_CONFIG=/proc/self/fd/%d", fd);
    char *envp[] = {variable, NULL};
    struct hr_settings_sources sources = {.envp = envp};
    int error = hr_settings_load(&sources, why, &settings);
    close(fd);
    if (error < 0) {
        must(memchr(why, '\0', sizeof why) != NULL && why[0] != '\0' && !strchr(why, '\n') && !settings);
        return 0;
    }
    variable_count = 0;
    must(hr_settings_export(settings, keep, NULL) == 0);
    check_again(settings);
    hr_settings_free(settings);
    while (variable_count > 0) {
        free(variables[--variable_count]);
        variables[variable_count] = NULL;
    }
    return 0;
}
