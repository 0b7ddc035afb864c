/* System calls without libc: no errno, no cancellation point, no other preload in between. On aarch64 the
 * kernel has only the *at forms, so those are used everywhere. */
#ifndef HR_SYS_H
#define HR_SYS_H

#include <stdint.h>
#include <sys/syscall.h>

/* Younger than the headers of glibc 2.31; the same on every architecture. */
#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425 /* Linux 5.1 */
#endif
#ifndef SYS_close_range
#define SYS_close_range 436 /* Linux 5.9 */
#endif
#ifndef SYS_openat2
#define SYS_openat2 437 /* Linux 5.6 */
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438 /* Linux 5.6 */
#endif
#ifndef SYS_faccessat2
#define SYS_faccessat2 439 /* Linux 5.8 */
#endif

/* The result or -errno. */
static inline long hr_sys_raw(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#else
#error "headrace runs on x86-64 and aarch64"
#endif
}

#define HR_SYS0(number) hr_sys_raw(number, 0, 0, 0, 0, 0, 0)
#define HR_SYS1(number, a) hr_sys_raw(number, (long)(a), 0, 0, 0, 0, 0)
#define HR_SYS2(number, a, b) hr_sys_raw(number, (long)(a), (long)(b), 0, 0, 0, 0)
#define HR_SYS3(number, a, b, c) hr_sys_raw(number, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define HR_SYS4(number, a, b, c, d) hr_sys_raw(number, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define HR_SYS5(number, a, b, c, d, e)                                                                       \
    hr_sys_raw(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)
#define HR_SYS6(number, a, b, c, d, e, f)                                                                    \
    hr_sys_raw(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

#endif
