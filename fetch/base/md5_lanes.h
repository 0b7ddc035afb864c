/* MD5 of several messages side by side, one a lane of the processor's vectors: each takes as long as alone or
 * longer, all of them hardly longer than one. Pure, any thread. */
#ifndef HR_BASE_MD5_LANES_H
#define HR_BASE_MD5_LANES_H

#include <stddef.h>
#include <stdint.h>

#include "fetch/base/digest.h"
#include "fetch/base/vectors.h"

#define HR_MD5_LANES_MAX 16

struct hr_md5_message {
    const void *bytes;
    size_t len;
    uint8_t digest[HR_MD5_BYTES]; /* the result */
};

/* Every width gives the same digests. 0, or -EIO (OpenSSL refused: see hr_digest). Without vectors, and few
 * messages with any, go one after the other by OpenSSL. */
int hr_md5_many(enum hr_vectors width, struct hr_md5_message *messages, unsigned count);

#endif
