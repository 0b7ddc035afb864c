/* File actions of posix_spawn that name a mapped path. libc carries them out in the child by raw system
 * calls, so they are rewritten for the call: the parent opens what is ours, waits for it there, and the child
 * opens that descriptor by its /proc name. Done when the process is started, not when the action is added:
 * the object opened is the one of that moment, an eviction in between cannot take it away, and no descriptor
 * is kept by an action that is never used. Errors are what the child's own open would have said. errno
 * untouched. */
#ifndef HR_SPAWN_ACTIONS_H
#define HR_SPAWN_ACTIONS_H

#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>

struct hr_spawn_actions {
    const posix_spawn_file_actions_t *use; /* what posix_spawn is to be given: the caller's, or ours */
    bool cwd_is_mapped;                    /* an action leads the child into a map */
    posix_spawn_file_actions_t own;
    void *pages; /* our copy, the paths in it and the descriptors behind them; NULL: nothing is ours */
    size_t bytes;
};

/* 0, or the negative errno with which posix_spawn fails (nothing to finish then). actions may be NULL.
 * hooked: the child can read faces (child.h); else it gets plain files, and a face of ours that an action
 * hands on becomes one here. */
int hr_spawn_actions_begin(const posix_spawn_file_actions_t *actions, bool hooked,
                           struct hr_spawn_actions *ret);
/* After the real call. */
void hr_spawn_actions_end(struct hr_spawn_actions *actions);

#endif
