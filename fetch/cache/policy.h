/* Replacement, behind a narrow interface: what to give up when room is needed. Least recently used for now.
 *
 * The node lives in the object. Owned by the loop's thread; no call fails or allocates. */
#ifndef HR_CACHE_POLICY_H
#define HR_CACHE_POLICY_H

struct hr_policy_node {
    struct hr_policy_node *older;
    struct hr_policy_node *newer;
};

struct hr_policy {
    struct hr_policy_node ends; /* ends.newer: the oldest; ends.older: the newest */
};

void hr_policy_init(struct hr_policy *policy);
void hr_policy_admit(struct hr_policy *policy, struct hr_policy_node *node); /* it came in */
void hr_policy_touch(struct hr_policy *policy, struct hr_policy_node *node); /* it was used */
void hr_policy_forget(struct hr_policy *policy,
                      struct hr_policy_node *node); /* it left, whatever the reason */
/* The one to give up next, still admitted; NULL when there is none. */
struct hr_policy_node *hr_policy_victim(const struct hr_policy *policy);

#endif
