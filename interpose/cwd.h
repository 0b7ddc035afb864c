/* The working directory as the program sees it, followed through chdir and fchdir. Read once in the
 * constructor when there are maps. */
#ifndef HR_CWD_H
#define HR_CWD_H

#include <stdbool.h>
#include <stddef.h>

/* Reads the kernel's working directory; one inside cache_dir/dirs is translated to its mapped path. */
void hr_cwd_init(void);
/* After a successful chdir/fchdir of the real one: reads it again. In a vfork child too (it is a separate
 * kernel state, so the child uses the kernel's answer and leaves the parent's copy alone). */
void hr_cwd_changed(void);
/* Copies the current one (terminated) to out; length or -errno. */
int hr_cwd_get(char *out, size_t room);
/* True when relative paths may lead into a map: the working directory is above, at or inside one. The fast
 * check. */
bool hr_cwd_matters(void);

/* Does a relative path possibly lead into a map from here? No system call. */
bool hr_cwd_leads(const char *path);
/* Is the working directory inside a map, or a way (then the kernel stands in a stand-in directory)? */
bool hr_cwd_inside(void);
/* As hr_cwd_get, but asks the kernel and leaves the remembered one alone: for a vfork child that changed its
 * own. *ret_inside: as hr_cwd_inside. */
int hr_cwd_read(char *out, size_t room, bool *ret_inside);

#endif
