/* Opens that come before the announcement of their batch: a worker may open its first files while its loader,
 * put aside just after its write, has not told of them. The latest opens are kept, and who learns from opens
 * asks here for those that may be of the batch that has come. Main loop. */
#ifndef HR_PLAN_EARLY_H
#define HR_PLAN_EARLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HR_EARLY_KEPT 512u     /* notes of a batch of each of a few dozen workers, and what they asked for */
#define HR_EARLY_ASKED_MAX 16u /* of one job that count: of as many workers */
#define HR_EARLY_NOTED UINT32_MAX /* no job's number: a client noted it, which does not tell whose it is */

struct hr_early_open {
    uint32_t context; /* that asked, or HR_EARLY_NOTED */
    uint32_t tree, gen, entry;
    uint32_t tag;  /* hr_batch_tag; 0: it does not tell for which batch */
    uint64_t vote; /* its number among those of its job that voted (bases.c); 0: nobody has looked at it */
    bool done;     /* it has told all that it can */
    int64_t ms;    /* when it was kept; set by hr_early_keep */
};

struct hr_early {
    struct hr_early_open opens[HR_EARLY_KEPT]; /* ring */
    uint32_t count;                            /* ever */
};

/* In the place of the oldest. What is returned, here and below, is good until the next is kept. */
struct hr_early_open *hr_early_keep(struct hr_early *early, const struct hr_early_open *open);
/* Those that the job asked for lately and that are not done, the oldest first: it was a switch or two. */
unsigned hr_early_asked(struct hr_early *early, uint32_t context,
                        struct hr_early_open *ret[HR_EARLY_ASKED_MAX]);
/* The oldest that was noted for the batch of that tag and is not done; NULL: none is left. */
struct hr_early_open *hr_early_noted(struct hr_early *early, uint32_t tag);

#endif
