/* INI text: no byte beyond the end is read, everything reported is bounded and terminated, an error names a
 * line. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/ini.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct check {
    unsigned last_line, calls, stop_at;
};

static int check_pair(void *owner, const char *section, const char *key, const char *value, unsigned line)
{
    struct check *check = owner;
    size_t key_len = strlen(key), value_len = strlen(value);
    if (line <= check->last_line || key_len == 0 || key_len > HR_INI_NAME_MAX ||
        strlen(section) > HR_INI_NAME_MAX || value_len > HR_INI_LINE_MAX || strchr(value, '\n') ||
        strchr(key, '=') || (value_len > 0 && (value[0] == ' ' || value[value_len - 1] == ' '))) {
        abort();
    }
    check->last_line = line;
    return ++check->calls == check->stop_at ? -ECANCELED : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct check check = {.stop_at = size > 0 ? data[0] : 0};
    struct hr_ini_error error = {0};
    unsigned lines = 1;
    for (size_t i = 0; i < size; i++) {
        lines += data[i] == '\n';
    }
    int result = hr_ini_parse((const char *)data, size, check_pair, &check, &error);
    bool ok = result == 0 ||
              (result == -EBADMSG && error.message && error.line >= 1 && error.line <= lines) ||
              (result == -ECANCELED && !error.message && error.line == check.last_line);
    if (!ok) {
        abort();
    }
    return 0;
}
