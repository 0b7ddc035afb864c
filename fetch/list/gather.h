/* The keys of pages on their way into an index builder: the prefix taken off, the filter asked, and whether
 * all of them lie in one directory. Main loop. */
#ifndef HR_LIST_GATHER_H
#define HR_LIST_GATHER_H

#include <stdbool.h>
#include <stdint.h>

#include "fetch/list/filter.h"
#include "fetch/list/page.h"
#include "fetch/list/publish.h"
#include "fetch/store/store.h"

/* The first three are set by the owner, and its own. */
struct hr_gather {
    uint32_t prefix_len;            /* of every key that comes */
    const struct hr_filter *filter; /* NULL: all keys are kept */
    const char *scratch_dir;        /* hr_builder_scratch; NULL: keys stay in memory */
    struct hr_index_builder *builder;
    uint64_t keys;             /* that came since hr_gather_begin, whatever the filter says of them */
    char home[HR_KEY_MAX + 1]; /* the directory of the first key, with its slash */
    uint32_t home_len;
    bool home_known; /* a key has come, */
    bool spread;     /* and one in another directory */
};

/* Makes a builder, the first one or one after hr_gather_drop: the same keys come again. 0 or -ENOMEM. */
int hr_gather_begin(struct hr_gather *gather);
/* The first `count` keys that a page brought, which all have the prefix. 0; -EIO (a key that no index holds)
 * or what else hr_builder_add says, with a message that names the page. */
int hr_gather_add(struct hr_gather *gather, const struct hr_call *call, uint32_t count, uint64_t page,
                  char message[HR_PAGE_MESSAGE_BYTES]);
/* Every key that came lies directly in this directory (relative to the prefix, without its last slash). False
 * while there is none. */
bool hr_gather_all_in(const struct hr_gather *gather, const char *dir, uint32_t dir_len);
/* Frees the builder, where the owner has not taken it. */
void hr_gather_drop(struct hr_gather *gather);

#endif
