/* syscall() on descriptors: the half of wrap_syscall.c that knows no paths. args: the six of the call. False:
 * the real call's; true: *ret is the result, errno set as syscall() does. */
#ifndef HR_SYSCALL_FD_H
#define HR_SYSCALL_FD_H

#include <stdbool.h>
#include <sys/syscall.h>

#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425 /* Linux 5.1 */
#endif
#ifndef SYS_close_range
#define SYS_close_range 436 /* Linux 5.9 */
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438 /* Linux 5.6 */
#endif

/* Calls whose first argument is the descriptor, and those about the working directory. */
bool hr_syscall_by_fd(long number, const long *args, long *ret);
/* Calls that reach a large object by another way. */
bool hr_syscall_by_face(long number, const long *args, long *ret);

#endif
