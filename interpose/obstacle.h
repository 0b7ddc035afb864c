/* Whether a program can be preloaded at all, by what its file is. One set of rules for the preloaded object
 * (children) and for the command (`run`, `doctor`). Works on the caller's stack alone, raw system calls,
 * errno untouched: safe in a vfork child and in a signal handler. Any thread. */
#ifndef HR_OBSTACLE_H
#define HR_OBSTACLE_H

#include "interpose/elf.h"

/* Static strings: compare the pointer. */
extern const char hr_obstacle_static[];  /* ignores LD_PRELOAD; what it starts may be preloaded again */
extern const char hr_obstacle_foreign[]; /* another class, byte order or machine */
extern const char hr_obstacle_libc[];    /* its loader would refuse the object */
extern const char hr_obstacle_setuid[];  /* the loader drops a preload with a path */

/* Looks at the program at (dirfd, path), or at dirfd itself when path is ""; follows `#!` lines. One of the
 * above, or NULL: it can be preloaded, or there is no telling. ret_file (may be NULL): the interpreter that
 * the last `#!` line named, "" when there is none. */
const char *hr_obstacle(int dirfd, const char *path, char ret_file[HR_ELF_INTERP_MAX]);

#endif
