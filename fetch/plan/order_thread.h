/* Searches for orders beside the main loop. Likely candidates on one thread of usual priority (a tenth of a
 * second at most); what is drawn late, Python's and numpy's shuffles on one of idle priority, when a core is
 * idle; all 2^32 on several, where the setting and the machine allow it. The main loop's, but for what the
 * threads do with their copies. */
#ifndef HR_PLAN_ORDER_THREAD_H
#define HR_PLAN_ORDER_THREAD_H

#include "fetch/plan/order_search.h"
#include "fetch/plan/predict.h"

enum hr_order_mode { HR_ORDER_MODE_AUTO, HR_ORDER_MODE_FULL, HR_ORDER_MODE_OFF }; /* as settings.def has it */

#define HR_ORDER_JOBS_MAX 8 /* those of idle priority may take long */

struct hr_order_searcher;

struct hr_order_result {
    uint64_t id;
    bool found;
    struct hr_order order;
    unsigned set;          /* of the ask, */
    double candidates;     /* and of how many orders it is the one that fits */
    uint32_t *permutation; /* of hr_order_make, the caller's to free; NULL: not found, or no memory */
    uint64_t tried;
};

/* No thread is started before the first ask. idle: on idle cores less likely candidates are looked at, too.
 */
int hr_order_searcher_new(enum hr_order_mode mode, bool idle, struct hr_order_searcher **ret);
void hr_order_searcher_free(
    struct hr_order_searcher *searcher); /* accepts NULL; slices under way end at once */
/* Readable when a result is there. */
int hr_order_searcher_fd(const struct hr_order_searcher *searcher);
/* Copies the ask; ask->all, ->steps and ->given_up are decided here. 0; -EBUSY; -EOPNOTSUPP (mode off);
 * -errno of starting a thread.
 */
int hr_order_searcher_ask(struct hr_order_searcher *searcher, uint64_t id, const struct hr_order_ask *ask);
/* The permutations of orders that are known and of one size, one behind the other: in the result, as if
 * found. Errors as above. */
int hr_order_searcher_make(struct hr_order_searcher *searcher, uint64_t id, const struct hr_orders *orders);
void hr_order_searcher_cancel(struct hr_order_searcher *searcher,
                              uint64_t id); /* no result will come of it */
bool hr_order_searcher_take(struct hr_order_searcher *searcher, struct hr_order_result *ret);

/* order_room.c */
/* Cores that we may run on and nobody uses. */
unsigned hr_order_idle_cores(void);
/* Does a cgroup of ours, or one above it, limit processor time? cgroup_file: /proc/self/cgroup; root: where
 * the hierarchies are mounted. */
bool hr_order_has_quota(const char *cgroup_file, const char *root);

#endif
