/* Does a body have the digests that its store promised? Any thread; one verifier has one owner. */
#ifndef HR_CACHE_VERIFY_H
#define HR_CACHE_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fetch/base/digest.h"

struct hr_verify;

bool hr_verify_wanted(const struct hr_verify *verify);
/* The whole body in memory. 0, -EBADMSG, or -EIO/-ENOMEM (the digest could not be made). ret_md5_hex (33
 * bytes) gets what came when verify->md5, also on -EBADMSG. */
int hr_verify_bytes(const struct hr_verify *verify, const void *bytes, size_t len, char *ret_md5_hex);
/* The same of the first `size` bytes of a file; a shorter file is -EIO. */
int hr_verify_file(const struct hr_verify *verify, int fd, uint64_t size, char *ret_md5_hex);
/* Is that the body's MD5? ret_md5_hex as above. */
bool hr_verify_md5(const struct hr_verify *verify, const uint8_t digest[HR_MD5_BYTES], char *ret_md5_hex);

#endif
