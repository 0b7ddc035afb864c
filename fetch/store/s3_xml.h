/* The two documents S3 answers us with: ListBucketResult and Error. Pure functions over bytes nobody vouches
 * for: a DOCTYPE is refused, depth and text sizes are bounded, and nothing is taken from a document that is
 * not whole. */
#ifndef HR_STORE_S3_XML_H
#define HR_STORE_S3_XML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fetch/store/store.h"

struct hr_s3_error {
    char code[64]; /* "" when the document is not an Error document; letters, digits, '.', '-', '_' only */
    char message[120];      /* for people: control bytes replaced, cut */
    char region[64];        /* "" when not given */
    char request_id[64];    /* like code */
    char storage_class[32]; /* like code; of an archived object */
};

struct hr_s3_page {
    struct hr_listed *listed; /* malloc; strings live in arena */
    uint32_t listed_count;
    struct hr_listed *prefixes;
    uint32_t prefix_count;
    char *next_token; /* malloc, NULL: not given */
    bool truncated;
    struct hr_buf arena;
};

/* 0: ret filled, for hr_s3_page_release. -EREMOTEIO: it is an Error document, ret_error filled. -EPROTO:
 * broken, or not a listing; *ret_why (static) says what. -ENOMEM. ret is untouched on failure. */
int hr_s3_parse_list(const char *xml, size_t len, struct hr_s3_page *ret, struct hr_s3_error *ret_error,
                     const char **ret_why);
void hr_s3_page_release(struct hr_s3_page *page);

/* Takes what can be taken; a body that is no Error document gives empty strings. */
void hr_s3_parse_error(const char *xml, size_t len, struct hr_s3_error *ret);

#endif
