/* `headrace warm --to DIR`: objects as plain files, for programs that cannot be preloaded. Each file appears
 * whole, by rename, with the object's time; one that is there with its size and time (to the second) stays.
 */
#ifndef HR_CMD_COPYING_H
#define HR_CMD_COPYING_H

#include "fetch/cmd/progress.h"
#include "fetch/cmd/target.h"
#include "fetch/cmd/named.h"

struct hr_copying {
    struct target target; /* of the map; its job is the caller's */
    const char *dir;
    int dir_fd;
    struct named_index names;
    uint32_t *entries; /* files that are asked for */
    size_t count, room;
    struct hr_progress progress;
    struct hr_progress_figures figures;
    uint64_t there, failed; /* files: equal ones that were there already; those that could not be brought */
};

/* DIR is made when it is absent (its parent is there). The tree is listed. 0, or -errno after a complaint. */
int hr_copying_begin(struct hr_copying *copying, const struct hr_job *job, const struct hr_map *map,
                     uint32_t tree, const char *dir);
/* A path of the tree: a file, or all below a directory. -ENOENT, ... */
int hr_copying_add(struct hr_copying *copying, const char *path);
/* 0, or -errno after a complaint: it cannot go on (no space). What failed otherwise is complained about and
 * counted. */
int hr_copying_run(struct hr_copying *copying);
void hr_copying_end(struct hr_copying *copying);

#endif
