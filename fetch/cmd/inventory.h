/* manifest.json of S3 Inventory: which data files there are, and their columns. */
#ifndef HR_CMD_INVENTORY_H
#define HR_CMD_INVENTORY_H

#include <jansson.h>
#include <stdbool.h>

#include "fetch/cmd/client.h"

/* Is the file a manifest? (A file that cannot be read is none.) */
bool inventory_is_manifest(const char *path);
/* "files" (absolute paths beside the manifest, their MD5 checked), "columns" and "listed_ns" of the request
 * that imports it (serve/indexes.h) go into `request`. 0 or -errno with one line. */
int inventory_load(const char *path, const char *bucket, json_t *request, char message[HR_MESSAGE_BYTES]);

#endif
