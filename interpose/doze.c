#include "interpose/doze.h"

#include <signal.h>
#include <time.h>

#include "interpose/sys.h"
#include "interpose/inner.h"

#define BIT(number) (UINT64_C(1) << ((number)-1))
/* A fault of our own must not become a kill without its handler. */
#define FAULTS (BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGFPE) | BIT(SIGILL) | BIT(SIGTRAP) | BIT(SIGSYS))

static void block(struct hr_doze *doze)
{
    uint64_t all = ~FAULTS;
    if (!doze->blocked) {
        doze->blocked = HR_SYS4(SYS_rt_sigprocmask, SIG_BLOCK, &all, &doze->mask, sizeof(all)) == 0;
    }
}

bool hr_doze(struct hr_doze *doze, unsigned ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    block(doze);
    long result = doze->blocked ? HR_SYS5(SYS_ppoll, 0, 0, &time, &doze->mask, sizeof(doze->mask)) : -ENOSYS;
    if (result == 0 || result == -EINTR) {
        return result < 0;
    }
    /* A sandbox without ppoll. */
    hr_doze_end(doze);
    return HR_SYS2(SYS_nanosleep, &time, 0) == -EINTR;
}

void hr_doze_end(struct hr_doze *doze)
{
    if (doze->blocked) {
        doze->blocked = false;
        HR_SYS4(SYS_rt_sigprocmask, SIG_SETMASK, &doze->mask, 0, sizeof(doze->mask));
    }
}
