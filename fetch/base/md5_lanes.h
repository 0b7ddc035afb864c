/* MD5 of several messages side by side, one a lane of the processor's vectors: each takes as long as alone or
 * longer, all of them hardly longer than one. Pure, any thread. */
#ifndef HR_BASE_MD5_LANES_H
#define HR_BASE_MD5_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fetch/base/digest.h"

#define HR_MD5_LANES_MAX 16

/* Every width gives the same digests. SINGLE is one after the other by OpenSSL. */
enum hr_md5_width { HR_MD5_SINGLE, HR_MD5_AVX2, HR_MD5_AVX512, HR_MD5_WIDTH_COUNT };

bool hr_md5_width_here(enum hr_md5_width width); /* does this processor have it? */
enum hr_md5_width hr_md5_widest(void);

struct hr_md5_message {
    const void *bytes;
    size_t len;
    uint8_t digest[HR_MD5_BYTES]; /* the result */
};

/* 0, or -EIO (OpenSSL refused: see hr_digest). Few messages go one after the other at any width. */
int hr_md5_many(enum hr_md5_width width, struct hr_md5_message *messages, unsigned count);

#endif
