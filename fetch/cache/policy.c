#include "fetch/cache/policy.h"

#include <stddef.h>

void hr_policy_init(struct hr_policy *policy)
{
    policy->ends.older = &policy->ends;
    policy->ends.newer = &policy->ends;
}

void hr_policy_admit(struct hr_policy *policy, struct hr_policy_node *node)
{
    node->newer = &policy->ends;
    node->older = policy->ends.older;
    node->older->newer = node;
    policy->ends.older = node;
}

void hr_policy_touch(struct hr_policy *policy, struct hr_policy_node *node)
{
    hr_policy_forget(policy, node);
    hr_policy_admit(policy, node);
}

void hr_policy_forget(struct hr_policy *policy, struct hr_policy_node *node)
{
    (void)policy;
    node->older->newer = node->newer;
    node->newer->older = node->older;
    node->older = NULL;
    node->newer = NULL;
}

struct hr_policy_node *hr_policy_victim(const struct hr_policy *policy)
{
    return policy->ends.newer == &policy->ends ? NULL : policy->ends.newer;
}
