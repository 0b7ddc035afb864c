/* What an argument of a command names: a tree of the daemon and a path in it. */
#ifndef HR_CMD_TARGET_H
#define HR_CMD_TARGET_H

#include "fetch/cmd/client.h"

#define HR_TARGET_TRIES 20 /* a listing that a change set off replaces names meanwhile: ask again */

struct target {
    struct hr_job job;
    uint32_t tree;
    const struct hr_map *map;
    char path[PATH_MAX]; /* relative to the tree's root */
};

/* A mapped path (textually, as in a map), or a URL: of the whole bucket when `whole`, else of what is below
 * it alone. Attaches. Release it in any case. 0 or -errno with one line in message. */
int target_load(struct target *target, const char *arg, bool whole, char message[HR_MESSAGE_BYTES]);
void target_release(struct target *target);

/* A path made absolute and clean: single slashes, no "." and ".." parts. 0 or -ENAMETOOLONG, ... */
int target_absolute(const char *arg, char ret_path[PATH_MAX]);

/* Why arg, a path that is `absolute`, is nobody's: one line. */
void target_not_mapped(const struct hr_maps *maps, const char *arg, const char *absolute,
                       char message[HR_MESSAGE_BYTES]);

/* One question about a path of the target's tree; asks again while the daemon says -EAGAIN. */
int target_ask(const struct target *target, const char *op, const char *path, json_t **ret,
               char message[HR_MESSAGE_BYTES]);

#endif
