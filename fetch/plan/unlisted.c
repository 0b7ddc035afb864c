/* Trees of which no names are known: not listed by setting, or because the store does not allow it, or empty.
 */
#include "fetch/plan/names.h"

#include <errno.h>
#include <stdio.h>

#include "fetch/base/clock.h"

#define HR_UNLISTED_MS 300000 /* after LIST was not allowed: permissions are changed by people */

enum hr_list_mode hr_tree_list_mode(const struct hr_plan_tree *tree)
{
    return tree->list_file || tree->unlisted_until_ms > hr_clock_ms() ? HR_LIST_NONE : tree->settings.list;
}

void hr_tree_list_refused(struct hr_plan_tree *tree, const char *message)
{
    char text[HR_MESSAGE_MAX];
    bool known = hr_tree_list_mode(tree) == HR_LIST_NONE;
    tree->unlisted_until_ms = hr_clock_ms() + HR_UNLISTED_MS;
    snprintf(text, sizeof text,
             "%.190s; so names are asked for one by one (what is refused may be missing), directories cannot "
             "be read (list=FILE names what is there)",
             message);
    if (!known) {
        hr_tree_say(tree, -EACCES, text);
        tree->unlisted_said = true;
    }
}

void hr_tree_say_unlisted(struct hr_plan_tree *tree)
{
    char text[HR_MESSAGE_MAX];
    if (tree->unlisted_said) {
        return;
    }
    tree->unlisted_said = true;
    snprintf(text, sizeof text,
             "s3://%.64s/%.100s: list=none: directories cannot be read (list=FILE names what is there)",
             hr_store_bucket(tree->store), tree->shared->prefix);
    hr_tree_say(tree, -EACCES, text);
}

void hr_tree_say_empty(struct hr_plan_tree *tree, const struct hr_index *index)
{
    char text[HR_MESSAGE_MAX];
    const struct hr_names *names = index->names;
    if (!names || !hr_index_is_empty(index) || tree->empty_said) {
        return;
    }
    tree->empty_said = true;
    snprintf(
        text, sizeof text,
        "s3://%.63s/%.60s at %.60s: no object%s is below it, so the map is empty; check bucket and prefix%s",
        hr_store_bucket(tree->store), tree->shared->prefix, hr_store_endpoint(tree->store),
        names->hidden_count ? " whose key is a path" : "",
        tree->filter      ? ", include and exclude"
        : tree->list_file ? ", and the list"
                          : "");
    hr_tree_say(tree, -ENODATA, text);
}
