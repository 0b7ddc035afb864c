/* A customer-provided key of server-side encryption (SSE-C): read from the user's file, sent with every GET
 * of an object, kept in the daemon's memory alone. */
#ifndef HR_STORE_CUSTOMER_KEY_H
#define HR_STORE_CUSTOMER_KEY_H

#include <stdbool.h>

#include "fetch/net/http.h"

#define HR_CUSTOMER_KEY_BYTES 32 /* AES256, the only algorithm that S3 has */

struct hr_customer_key {
    char key[48]; /* base64 of the key, terminated; "" : none */
    char md5[28]; /* base64 of its MD5 */
};

/* The file holds the key's 32 bytes, or their base64 (blanks around it allowed). 0; -EINVAL, -EIO with one
 * line (never the key). */
int hr_customer_key_read(const char *path, struct hr_customer_key *ret, char ret_message[256]);
bool hr_customer_key_equal(const struct hr_customer_key *a, const struct hr_customer_key *b);
void hr_customer_key_wipe(struct hr_customer_key *key);
/* The three headers. Nothing when there is no key. 0 or -ENOMEM. */
int hr_customer_key_headers(const struct hr_customer_key *key, struct hr_http_request *request);

#endif
