/* Who answered with a page: an object store, of an object that is one, or something that says 200 to any name
 * (a login page before the network, a proxy's notice, a store's console). Pure. */
#ifndef HR_STORE_WEB_PAGE_H
#define HR_STORE_WEB_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "fetch/net/http.h"

/* True: text/html without a sign of an object store, so no object. For a 2xx answer of which nothing else
 * (a listing's size or ETag) proves that it is the object. */
bool hr_web_page(const char *key, uint32_t key_len, const struct hr_http_request *request);

#endif
