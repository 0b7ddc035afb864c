/* What an answer's headers tell to prove a body by: the MD5 in its ETag, a checksum of the object. Pure. */
#ifndef HR_STORE_PROOFS_H
#define HR_STORE_PROOFS_H

#include <stdbool.h>

#include "fetch/store/quirks.h"
#include "fetch/store/store.h"

/* Sets the call's md5_is_etag (its etag is set), crc_kind, and crc or sha256. whole: the answer is all of the
 * object. */
void hr_proofs_take(struct hr_call *call, const struct hr_http_request *request, const struct hr_quirk *quirk,
                    bool whole);

#endif
