/* Between view.c and view_open.c. */
#ifndef HR_VIEW_PARTS_H
#define HR_VIEW_PARTS_H

#include "interpose/context.h"
#include "interpose/view.h"

/* Rounds of "the generation was replaced, look again" or "evicted meanwhile, ask again" before giving up with
 * EIO. */
#define HR_VIEW_TRIES 100

int hr_view_tree(const struct hr_session *session, const struct hr_place *place, uint32_t *ret_tree);

/* One round of hr_view_find, with HR_OP_LOOK or HR_OP_OPEN where there is no index; ret_file_id is set only
 * when the daemon answered an OPEN of a file (then ret->tree is NULL). -EAGAIN: get the session again. */
int hr_view_locate(const struct hr_session *session, const struct hr_place *place, enum hr_op op,
                   struct hr_object *ret, uint64_t *ret_file_id);

#endif
