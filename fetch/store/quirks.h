/* The table of known stores: quirks.def. Pure functions. */
#ifndef HR_STORE_QUIRKS_H
#define HR_STORE_QUIRKS_H

#include <stdbool.h>

/* A row: what its columns mean stands there. */
struct hr_quirk {
    const char *name;
    const char *host_part;
    const char *server_part;
    bool md5_etags;
    bool checksum_mode;
};

const struct hr_quirk *hr_quirk_unknown(void);
/* Never NULL: the unknown store's row when nothing matches. */
const struct hr_quirk *hr_quirk_by_host(const char *host);
const struct hr_quirk *hr_quirk_by_server(const char *server_header);

#endif
