/* Judging one page of a listing: what no honest store sends is an error that names the page. */
#ifndef HR_LIST_PAGE_H
#define HR_LIST_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "fetch/list/ladder.h"
#include "fetch/store/store.h"

#define HR_PAGE_MESSAGE_BYTES 448u /* the store's 256 and what is said about the page */

/* What tells one page from another, and one token from another. */
struct hr_page_mark {
    uint64_t first, last, token;
};

/* Watches pages that follow each other for loops of any length (Brent): each is compared with the one before
 * and with one kept from earlier; at page numbers that are powers of two the present one is kept instead. */
struct hr_page_watch {
    uint64_t seed;
    uint64_t pages;
    uint32_t empty_pages;
    struct hr_page_mark before, kept, kept_token;
};

/* Writes "listing, page N: ..." and returns -EIO. */
int hr_page_fault(char message[HR_PAGE_MESSAGE_BYTES], uint64_t page, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A token to go on with. */
bool hr_page_has_token(const struct hr_call *call);
/* More keys come. A store that gives a token but forgets to say "truncated" has more all the same. */
bool hr_page_has_more(const struct hr_call *call);
/* Every key below the prefix that was asked for, none rolled up. *ret_sorted: strictly ascending, and behind
 * `after` (at NULL: nothing is asked of the first). 0 or -EIO with the message. */
int hr_page_judge_keys(const struct hr_call *call, struct hr_key after, uint64_t page, bool *ret_sorted,
                       char message[HR_PAGE_MESSAGE_BYTES]);
/* A page or token that came before: it goes round. 0 or -EIO with the message. */
int hr_page_judge_progress(struct hr_page_watch *watch, const struct hr_call *call, uint64_t page,
                           char message[HR_PAGE_MESSAGE_BYTES]);
/* For people: control bytes replaced, cut. */
const char *hr_page_printable(const struct hr_listed *listed, char out[128]);

#endif
