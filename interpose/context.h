/* Who we are to the daemon: maps from the environment, cache_dir, shared memory, our context in it.
 * Nothing is contacted before the first mapped path, or the first index batch (peek.h). Async-signal-safe;
 * racing first calls are harmless. */
#ifndef HR_CONTEXT_H
#define HR_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "config/maps.h"
#include "interpose/abi.h"
#include "interpose/view.h"

struct hr_live; /* what this process has mapped of one daemon's life; never freed */

extern struct hr_maps hr_maps; /* parsed in the constructor, then constant */

struct hr_session {
    const struct hr_control *control;
    struct hr_slots *slots;
    uint32_t context;              /* our number in control->contexts */
    const struct hr_context *maps; /* its record */
    struct hr_live *live;
};

/* The session with the living daemon; attaches (starting a daemon when there is none) when needed. 0, -EIO
 * (and a line on stderr; the next 5 s fail at once), -EINTR (waited more than 2 s and a signal handler ran).
 * The copy stays usable when the daemon dies: names that were published can still be read. */
int hr_session_get(struct hr_session *ret);
/* The daemon seems dead (stale heartbeat): looks at the lock; when it is free, attaches anew. 0: a session
 * with a living daemon is there (maybe a new one), -errno otherwise. */
int hr_session_revive(void);
bool hr_session_stale(const struct hr_control *control); /* retired, or heartbeat too old */

/* The session as it is now, without attaching. */
bool hr_session_peek(struct hr_session *ret);
/* With a living daemon: where ours is gone, with its successor once that knows this environment; where this
 * process has used no map, with the one in the cache directory if it does, at the first call and each eighth.
 * A directory that HEADRACE_CACHE_DIR does not name is asked for by hr_attach_find until it is known, at the
 * calls number 8, 64 and 512 (from 0). Starts none, waits for none. False: none of these. */
bool hr_session_follow(struct hr_session *ret);

/* cache_dir, terminated, without trailing slash. Valid for ever. */
const char *hr_session_dir(const struct hr_session *session);
/* Path of a cache file: length or -errno. */
int hr_session_file_path(const struct hr_session *session, uint64_t file_id, char *ret_path, size_t room);
/* Current view of a tree's index: 0, -ENODATA when none is published yet, -EIO when its files are not as they
 * must. */
int hr_session_tree(const struct hr_session *session, uint32_t tree, const struct hr_tree_view **ret);
/* Residents table mapped now; NULL when not attached. Never attaches. */
const struct hr_residents *hr_session_residents(void);

/* In the child of a fork: what another thread of the parent was doing is nobody's now. */
void hr_session_after_fork(void);

/* Prints the tree's last message to stderr unless somebody did already. */
void hr_session_say(const struct hr_session *session, uint32_t tree);

#endif
