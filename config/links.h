/* Symlinks that lead into a map from outside. What they name is not there for the kernel, so they are
 * resolved by text and readlink. For the preloaded object and for `run`: never allocates; async-signal-safe
 * as far as the caller's readlink is. */
#ifndef HR_CONFIG_LINKS_H
#define HR_CONFIG_LINKS_H

#include <stdbool.h>
#include <stddef.h>

#include "config/maps.h"

#define HR_LINK_PATH_MAX 4096        /* PATH_MAX */
#define HR_LINKS_MAX 32              /* symlinks that one job hands to its programs */
#define HR_LINKS_TEXT_MAX (16 << 10) /* bytes of their names, decoded, terminators included */
#define HR_LINKS_VARIABLE "HEADRACE_ALIAS"

/* readlink: length without a terminator, or -errno. */
typedef long (*hr_readlink_fn)(const char *path, char *out, size_t room);
/* Of a name in a map that ".." follows: 0, or -ENOENT or -ENOTDIR of what is no directory. */
typedef int (*hr_enters_fn)(const char *path);

/* Walks rest (absolute, or relative to `at`) component by component from `at`, a canonical absolute path of
 * HR_LINK_PATH_MAX bytes that is grown in place. follow: a symlink at the very end is followed, too. The
 * length of `at`, which is then a path of a map or of a directory above one; -ENOENT: it leads to neither;
 * -ELOOP, -ENAMETOOLONG. enters may be NULL: every name in a map is taken for a directory; what it says is
 * the answer, and `at` then the name. */
int hr_links_walk(const struct hr_maps *maps, char *at, size_t at_len, const char *rest, bool follow,
                  hr_readlink_fn read_link, hr_enters_fn enters);

/* The same of a canonical absolute path whose first `link_len` bytes name a symlink: nothing is asked about
 * what lies before it, unless the symlink climbs. */
int hr_links_walk_from(const struct hr_maps *maps, char *path, size_t path_len, size_t link_len, bool follow,
                       hr_readlink_fn read_link, hr_enters_fn enters);

/* One name out of the variable's text ("LINK;LINK", percent-encoded; *text moves on) into out: its length, 0
 * at the end, or -EINVAL for one that is not absolute, canonical and of HR_LINK_PATH_MAX bytes at most. */
int hr_links_next(const char **text, char *out, size_t room);

#endif
