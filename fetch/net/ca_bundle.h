/* Whom TLS trusts when nobody says: a library that was packed on one distribution looks for the certificates
 * in that distribution's place. Any thread. */
#ifndef HR_NET_CA_BUNDLE_H
#define HR_NET_CA_BUNDLE_H

#include <limits.h>
#include <stdbool.h>

/* The first file that can be read: `compiled` (the library's own, may be NULL), the places of the
 * distributions, lib/ca-certificates.crt beside this program (it comes with the packed folder). False: none;
 * ret untouched. */
bool hr_ca_bundle(const char *compiled, char ret[PATH_MAX]);

#endif
