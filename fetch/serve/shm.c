#include "fetch/serve/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"
#include "fetch/base/clock.h"

static int path_of(const char *dir, const char *name, char *ret, size_t room)
{
    int len = snprintf(ret, room, "%s/%s", dir, name);
    return len < 0 || (size_t)len >= room ? -ENAMETOOLONG : 0;
}

int hr_shm_lock(const char *cache_dir, int *ret_lock_fd)
{
    char path[PATH_MAX];
    int error = path_of(cache_dir, "lock", path, sizeof path);
    if (error < 0) {
        return error;
    }
    hr_cleanup_fd int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return -errno;
    }
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    if (fcntl(fd, F_OFD_SETLK, &lock) < 0) {
        return errno == EACCES ? -EAGAIN : -errno;
    }
    *ret_lock_fd = hr_steal_fd(fd);
    return 0;
}

/* Those who wait on an older daemon's control look at `retired` in their next slice; the ring's are woken at
 * once. */
static void retire_old(const char *path)
{
    hr_cleanup_fd int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        st.st_size != (off_t)sizeof(struct hr_control)) {
        return;
    }
    struct hr_control *old = mmap(NULL, sizeof *old, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (old == MAP_FAILED) {
        return;
    }
    if (old->magic == HR_MAGIC_CONTROL) {
        atomic_store_explicit(&old->retired, 1, memory_order_release);
        syscall(SYS_futex, &old->retired, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
    munmap(old, sizeof *old);
}

/* A new file of `bytes` zeros under a private name, mapped. */
static int create(const char *path, size_t bytes, void **ret)
{
    (void)unlink(path);
    hr_cleanup_fd int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return -errno;
    }
    int error = posix_fallocate(fd, 0, (off_t)bytes);
    if (error != 0) {
        (void)unlink(path);
        return -error;
    }
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        return -errno;
    }
    *ret = base;
    return 0;
}

int hr_shm_create(const char *cache_dir, uint64_t boot, int lock_fd, struct hr_shm *ret)
{
    char control_path[PATH_MAX], control_new[PATH_MAX], slots_path[PATH_MAX], slots_new[PATH_MAX];
    if (path_of(cache_dir, "control", control_path, sizeof control_path) < 0 ||
        path_of(cache_dir, "control.new", control_new, sizeof control_new) < 0 ||
        path_of(cache_dir, "slots", slots_path, sizeof slots_path) < 0 ||
        path_of(cache_dir, "slots.new", slots_new, sizeof slots_new) < 0) {
        return -ENAMETOOLONG;
    }
    void *control_base, *slots_base;
    int error = create(slots_new, sizeof(struct hr_slots), &slots_base);
    if (error < 0) {
        return error;
    }
    error = create(control_new, sizeof(struct hr_control), &control_base);
    if (error < 0) {
        munmap(slots_base, sizeof(struct hr_slots));
        (void)unlink(slots_new);
        return error;
    }
    struct hr_slots *slots = slots_base;
    slots->magic = HR_MAGIC_SLOTS;
    slots->abi_version = HR_ABI_VERSION;
    slots->boot = boot;
    atomic_store(&slots->next_ticket, 1);
    struct hr_control *control = control_base;
    control->magic = HR_MAGIC_CONTROL;
    control->abi_version = HR_ABI_VERSION;
    control->uid = (uint32_t)geteuid();
    control->boot = boot;
    control->daemon_pid = (uint32_t)getpid();
    atomic_store(&control->heartbeat_ms, (uint64_t)hr_clock_ms());
    atomic_store(&control->use_clock, 1);
    retire_old(control_path);
    /* Slots first: whoever sees the new control finds slots of the same boot. */
    if (rename(slots_new, slots_path) < 0 || rename(control_new, control_path) < 0) {
        error = -errno;
        munmap(slots_base, sizeof *slots);
        munmap(control_base, sizeof *control);
        return error;
    }
    *ret = (struct hr_shm){.control = control, .slots = slots, .lock_fd = lock_fd};
    struct stat st;
    if (lstat(control_path, &st) == 0) {
        ret->control_dev = (uint64_t)st.st_dev;
        ret->control_ino = (uint64_t)st.st_ino;
    }
    return 0;
}

bool hr_shm_is_named(const char *cache_dir, const struct hr_shm *shm)
{
    char path[PATH_MAX];
    struct stat held, named;
    if (path_of(cache_dir, "lock", path, sizeof path) < 0 || fstat(shm->lock_fd, &held) < 0 ||
        lstat(path, &named) < 0 || held.st_dev != named.st_dev || held.st_ino != named.st_ino) {
        return false;
    }
    return path_of(cache_dir, "control", path, sizeof path) == 0 && lstat(path, &named) == 0 &&
           (uint64_t)named.st_dev == shm->control_dev && (uint64_t)named.st_ino == shm->control_ino;
}

int64_t hr_shm_born_ns(const struct hr_shm *shm)
{
    struct stat st; /* of a file that nobody ever writes */
    return fstat(shm->lock_fd, &st) < 0 ? 0 : (int64_t)st.st_mtim.tv_sec * 1000000000;
}

void hr_shm_retire(struct hr_shm *shm)
{
    atomic_store_explicit(&shm->control->retired, 1, memory_order_release);
    syscall(SYS_futex, &shm->control->retired, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
