/* A program that is to run under the preload: where it is, and whether that can work. Prints nothing. */
#ifndef HR_CMD_PROGRAM_H
#define HR_CMD_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

#include "interpose/obstacle.h"

struct hr_program {
    char path[PATH_MAX];
    char interpreter[HR_ELF_INTERP_MAX]; /* that its `#!` line names, "" when it has none */
    const char *obstacle;                /* of interpose/obstacle.h; NULL: it can be preloaded */
    bool go; /* made by Go: its file calls do not pass libc, whether it is linked dynamically or not */
};

/* Looks `name` up as execvp does. search: the value of PATH, NULL when unset. 0, -ENOENT (no such program),
 * -ENAMETOOLONG. */
int hr_program_look(const char *name, const char *search, struct hr_program *ret);

#endif
