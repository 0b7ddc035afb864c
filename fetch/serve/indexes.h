/* Operations on trees' names, beside "list" (socket.h), each answered at once (paths and prefixes
 * percent-encoded):
 *
 * - "names": tree, want (true: list unless there are names) -> how far they are: listing, importing,
 * list_ends, import_ends and how the last of each ended (list_error, list_message, ...), keys, pages, probes,
 * lanes, left_out; and what is published: index (PATH, "" for nothing), gen, objects, bytes, unknown,
 * listed_ns; endpoint (host and port), bucket, prefix, filter
 * - "refresh": tree -> ends: lists again; the new names are there when list_ends has reached that
 * - "import": tree, files, and columns (fileSchema of an inventory, "" to tell from the first row), listed_ns
 *   (0: by the files), other_endpoint -> ends: they are there when import_ends has reached that. One file may
 * be what "export" of another node wrote: its bucket, prefix, filter and endpoint must be the tree's */
#ifndef HR_SERVE_INDEXES_H
#define HR_SERVE_INDEXES_H

#include <jansson.h>

#include "fetch/plan/plan.h"

#define HR_INDEX_FORMAT 1      /* "headrace_index" of the first line of an exported file */
#define HR_INDEX_LINE_MAX 8192 /* bytes of that line: prefix and filter encoded, and room for more */

json_t *hr_indexes_names(struct hr_plan *plan, const json_t *request);
json_t *hr_indexes_refresh(struct hr_plan *plan, const json_t *request);
json_t *hr_indexes_import(struct hr_plan *plan, const json_t *request);

#endif
