#include "fetch/store/quirks.h"

#include <stddef.h>
#include <string.h>

static const struct hr_quirk quirks[] = {
#define HR_QUIRK(name, host, server, md5, mode) {name, host, server, md5, mode},
#include "fetch/store/quirks.def"
#undef HR_QUIRK
};
#define QUIRK_COUNT (sizeof(quirks) / sizeof(quirks[0]))

const struct hr_quirk *hr_quirk_unknown(void)
{
    return &quirks[QUIRK_COUNT - 1];
}

const struct hr_quirk *hr_quirk_by_host(const char *host)
{
    for (size_t i = 0; i < QUIRK_COUNT; i++) {
        if (quirks[i].host_part[0] != '\0' && strstr(host, quirks[i].host_part) != NULL) {
            return &quirks[i];
        }
    }
    return hr_quirk_unknown();
}

const struct hr_quirk *hr_quirk_by_server(const char *server_header)
{
    for (size_t i = 0; i < QUIRK_COUNT; i++) {
        if (quirks[i].server_part[0] != '\0' && strstr(server_header, quirks[i].server_part) != NULL) {
            return &quirks[i];
        }
    }
    return hr_quirk_unknown();
}
