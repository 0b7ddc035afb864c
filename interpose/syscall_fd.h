/* syscall() on descriptors: the half of wrap_syscall.c that knows no paths. args: the six of the call. False:
 * the real call's; true: *ret is the result, errno set as syscall() does. */
#ifndef HR_SYSCALL_FD_H
#define HR_SYSCALL_FD_H

#include <stdbool.h>

/* Calls whose first argument is the descriptor, and those about the working directory. */
bool hr_syscall_by_fd(long number, const long *args, long *ret);
/* Calls that reach a large object by another way. */
bool hr_syscall_by_face(long number, const long *args, long *ret);

#endif
