/* The daemon's own place in cache_dir: the lock that makes it unique, control and slots. Main thread, at
 * start. */
#ifndef HR_SERVE_SHM_H
#define HR_SERVE_SHM_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/abi.h"

struct hr_shm {
    struct hr_control *control;
    struct hr_slots *slots;
    int lock_fd;                       /* held as long as the process lives */
    uint64_t control_dev, control_ino; /* of the file that has the name `control` as long as we serve */
};

/* 0; -EAGAIN: another daemon holds the lock. */
int hr_shm_lock(const char *cache_dir, int *ret_lock_fd);
/* New files under the fixed names; those of an earlier daemon are marked retired and their waiters woken. 0
 * or -errno. */
int hr_shm_create(const char *cache_dir, uint64_t boot, int lock_fd, struct hr_shm *ret);
/* Are lock and control still what their names in cache_dir lead to? false: the directory, or they, were
 * removed, and another daemon may serve there already. */
bool hr_shm_is_named(const char *cache_dir, const struct hr_shm *shm);
/* When cache_dir got its first daemon, wall clock; 0: the file system does not tell. */
int64_t hr_shm_born_ns(const struct hr_shm *shm);
/* Marks them retired, so that nobody waits for this daemon any more. */
void hr_shm_retire(struct hr_shm *shm);

#endif
