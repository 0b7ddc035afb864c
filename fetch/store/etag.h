/* ETags as the rest of the program sees them: without quotes, without the weak mark. Pure functions. */
#ifndef HR_STORE_ETAG_H
#define HR_STORE_ETAG_H

#include <stdbool.h>
#include <stddef.h>

#define HR_ETAG_BYTES 136 /* longest that is kept, with its '\0'; S3's own have 32 to 38 characters */

/* Narrows *text / *len to the bare value: blanks, W/, and quotes off. */
void hr_etag_trim(const char **text, size_t *len);
/* Short enough, and may be put into a header between quotes. */
bool hr_etag_usable(const char *text, size_t len);
/* Bare value into ret; "" for NULL and for one that is not usable: it is as good as none. */
void hr_etag_copy(const char *header, char ret[HR_ETAG_BYTES]);
/* Both bare. */
bool hr_etag_equal(const char *a, const char *b);
/* 32 hex digits: what a whole object's MD5 looks like. */
bool hr_etag_looks_md5(const char *etag);

#endif
