/* What all JSON documents of the socket share: names of any bytes, and their memory, zeroed when it is freed,
 * because credentials pass through them; and whether there was enough of it, because a document that is cut
 * short looks like one that says less. Main loop. */
#ifndef HR_SERVE_DOCUMENTS_H
#define HR_SERVE_DOCUMENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* For the whole process, before the first document. */
void hr_documents_init(void);
/* Whether memory was refused to a document since the last call. */
bool hr_documents_short(void);
/* A name of any bytes, percent-encoded. NULL: no memory, or longer than a name may be. */
json_t *hr_documents_name(const char *bytes, size_t len);

#endif
