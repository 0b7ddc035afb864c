/* Listing one prefix completely: pages of ListObjectsV2 into an index builder. On the owner's loop.
 *
 * It starts with one lane that follows continuation tokens, and beside it, in a hurry, asks for the folders
 * in the prefix (by a delimiter; nothing waits for that). From the second page on it looks ahead (one-key
 * requests by start-after, ladder.h) and lists many ranges at once (lanes.h). A store that lists in another
 * order than bytewise, ignores start-after or max-keys, or sends crumbs is listed page by page, which is said
 * in the note; when that is found out late, from the beginning again.
 *
 * Complete or an error: a page that repeats, a token that loops, a key outside the prefix, a truncated page
 * without a way to go on end it with -EIO and a message that names the page. Disorder (a store that does not
 * sort bytewise) is accepted as long as continuation tokens carry it; start-after alone carries a single lane
 * only where a token is missing and the pages were in order. */
#ifndef HR_LIST_LISTER_H
#define HR_LIST_LISTER_H

#include <stdbool.h>
#include <stdint.h>

#include "fetch/list/filter.h"
#include "fetch/list/publish.h"
#include "fetch/store/store.h"

struct hr_lister;

struct hr_lister_options {
    struct hr_store *store;
    const char *prefix;
    uint32_t prefix_len;
    const struct hr_filter *filter; /* what of it is kept; NULL: all. The caller's, until done */
    const char *scratch_dir;        /* hr_builder_scratch; NULL: keys stay in memory */
    unsigned lanes;                 /* pages in flight at most; 0 and 1: page by page */
    bool hurry;                     /* somebody waits for it: some dozens of requests for a round trip */
    /* Once, on the loop, unless stopped. error 0: builder holds every key (relative to prefix).
     * The message is one line for people, valid inside; hr_lister_free is allowed inside. */
    void (*done)(void *owner, struct hr_lister *lister, int error, const char *message);
    /* After each page behind which there are more; may be NULL. The lister stays as it is inside. */
    void (*more)(void *owner, struct hr_lister *lister);
    void *owner;
};

struct hr_lister_progress {
    uint64_t pages, keys; /* that came */
    uint64_t probes;      /* one-key requests sent, */
    uint64_t folders;     /* and requests with a delimiter */
    unsigned lanes_max;   /* pages in flight at once, most so far */
};

/* 0; -ENOMEM or what hr_call_start says: nothing was started, done never comes. */
int hr_lister_start(const struct hr_lister_options *options, struct hr_lister **ret);
/* The keys; the lister's own until done, then taken by the caller (hr_builder_free). */
struct hr_index_builder *hr_lister_take(struct hr_lister *lister);
void hr_lister_progress(const struct hr_lister *lister, struct hr_lister_progress *ret);
/* Every key that came lies directly in this directory (relative to the prefix, without its last slash). */
bool hr_lister_all_in(const struct hr_lister *lister, const char *dir, uint32_t dir_len);
/* The credentials are good and listing is not allowed to them. */
bool hr_lister_denied(const struct hr_lister *lister);
/* Why this store is listed page by page (or all of it came at once), for people; "" when it is not, or was
 * not found out. */
const char *hr_lister_note(const struct hr_lister *lister);
/* The next listing of this store would be found out in the same way: ask for it with one lane. */
bool hr_lister_plain(const struct hr_lister *lister);
int64_t hr_lister_began_ns(const struct hr_lister *lister); /* wall clock */
void hr_lister_free(struct hr_lister *lister);              /* stops it if it runs; accepts NULL */

#endif
