/* Cleanup attributes: an owned thing is released when its variable leaves scope, unless it is stolen. */
#ifndef HR_BASE_CLEANUP_H
#define HR_BASE_CLEANUP_H

#include <stdlib.h>
#include <unistd.h>

static inline void hr_free_p(void *pointer)
{
    free(*(void **)pointer);
}

static inline void hr_close_p(const int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
    }
}

#define hr_cleanup_free __attribute__((cleanup(hr_free_p)))
#define hr_cleanup_fd __attribute__((cleanup(hr_close_p)))
#define hr_cleanup(fn) __attribute__((cleanup(fn)))

/* Takes the value out of `var`, so that its cleanup finds nothing. */
#define hr_steal_pointer(var)                                                                                \
    ({                                                                                                       \
        __typeof__(var) hr_stolen_ = (var);                                                                  \
        (var) = NULL;                                                                                        \
        hr_stolen_;                                                                                          \
    })
#define hr_steal_fd(var)                                                                                     \
    ({                                                                                                       \
        int hr_stolen_ = (var);                                                                              \
        (var) = -1;                                                                                          \
        hr_stolen_;                                                                                          \
    })

#endif
