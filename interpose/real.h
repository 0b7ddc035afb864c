/* The real functions behind ours, and raw system calls. Resolved once in the constructor by walking the
 * loaded objects behind this one (no dlsym: its symbol version moved in glibc 2.34, and it may allocate). */
#ifndef HR_REAL_H
#define HR_REAL_H

#include <stdbool.h>
#include <aio.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <nl_types.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>
#include <wordexp.h>

/* hr_real.open(...) etc. A pointer is NULL when libc has no such symbol (a newer one's wrapper then uses the
 * raw system call), or before the constructor ran. */
struct hr_real {
#define HR_SYMBOL(family, type, name, params) type(*name) params;
#include "interpose/symbols.def"
#undef HR_SYMBOL
};
extern struct hr_real hr_real __attribute__((visibility("hidden")));

/* False until the constructor has run: every hook then uses the raw call and treats every path as unmapped.
 */
extern bool hr_ready;
/* True when there is at least one map: the only thing a hook of an uninvolved process looks at. */
extern bool hr_active __attribute__((visibility("hidden")));

/* Fills hr_real. Idempotent, allocates nothing; any thread, also before the constructor. */
void hr_real_resolve(void);
/* By name: what this object exports, or the first definition in any other object (before glibc 2.34 dlopen is
 * in libdl, which may lie behind libc). NULL: there is none. Allocates nothing. */
void *hr_real_own(const char *name);
void *hr_real_elsewhere(const char *name);
/* The file that holds this object, as the loader names it ("" for the main program); valid for ever. */
const char *hr_real_own_path(void);

/* Raw system call: the result or -errno; errno untouched. */
long hr_sys(long number, long a, long b, long c, long d, long e, long f);

/* At the interposed edge: negative errno -> errno and -1. */
long hr_edge(long result);

#endif
