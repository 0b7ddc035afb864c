/* Included last by every .c file of the preloaded object: exported prototypes from the table, the way to a
 * real function, and a ban on what must not run inside somebody else's process. */
#ifndef HR_INNER_H
#define HR_INNER_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#include "interpose/real.h"

#define HR_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define HR_UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define HR_EXPORT __attribute__((visibility("default")))
/* Keeps a big stack frame out of the hook that every unmapped call runs through. */
#define HR_NOINLINE __attribute__((noinline))

/* The real function; resolved on the spot when another library's constructor reaches us before ours ran. NULL
 * when this libc has none. */
#define HR_REAL(name) (HR_LIKELY(hr_real.name) ? hr_real.name : (hr_real_resolve(), hr_real.name))

/* Definitions inherit the export from here. */
#define HR_SYMBOL(family, type, name, params) HR_EXPORT type name params;
#include "interpose/symbols.def"
#undef HR_SYMBOL

/* Our pid as the kernel has it, kept right through fork() but not through vfork() or clone(): different means
 * that memory may be a parent's. Slow paths only (one system call). */
bool hr_pid_is_borrowed(void);

/* A file that must allocate because libc's contract says so (realpath(path, NULL)) defines
 * HR_HEAP_BY_CONTRACT. */
#ifndef HR_HEAP_BY_CONTRACT
#pragma GCC poison malloc calloc realloc free strdup strndup
#else
/* The empty statement keeps the compiler from making a call of calloc of it. */
static inline void *hr_zeroed(size_t bytes)
{
    void *memory = malloc(bytes);
    __asm__("" : "+r"(memory));
    return memory ? memset(memory, 0, bytes) : NULL;
}
#endif
#pragma GCC poison asprintf vasprintf printf fprintf vprintf vfprintf sprintf vsprintf snprintf vsnprintf    \
    puts fputs
#pragma GCC poison perror strerror pthread_mutex_lock pthread_once pthread_create
#pragma GCC poison exit abort setenv putenv unsetenv getenv
/* The hooks of these themselves. */
#ifndef HR_SYSCALL_BY_CONTRACT
#pragma GCC poison syscall
#endif
#ifndef HR_LOADER_BY_CONTRACT
#pragma GCC poison dlsym dlvsym dlopen dlmopen
#endif

#endif
