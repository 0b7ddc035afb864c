/* A daemon of another version of headrace: its shared files mean something else, and its jobs still use it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"
#include "fetch/cmd/client.h"
#include "interpose/abi.h"

#define HR_LOOKS 5          /* a daemon that starts replaces what an ended one left behind: look again */
#define HR_LOOK_STEP_MS 100 /* between them */

static bool lock_is_held(const char *cache_dir)
{
    char path[PATH_MAX + 8];
    snprintf(path, sizeof path, "%s/lock", cache_dir);
    hr_cleanup_fd int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    return fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* The version that a living daemon's control file has; ours when there is none. */
static uint32_t living_version(const char *cache_dir)
{
    char path[PATH_MAX + 16];
    struct {
        uint64_t magic;
        uint32_t abi_version;
    } head;
    _Static_assert(offsetof(struct hr_control, abi_version) == 8, "the head of every version's control file");
    snprintf(path, sizeof path, "%s/control", cache_dir);
    hr_cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head ||
        head.magic != HR_MAGIC_CONTROL || head.abi_version == HR_ABI_VERSION || !lock_is_held(cache_dir)) {
        return HR_ABI_VERSION;
    }
    return head.abi_version;
}

int hr_client_check_version(const char *cache_dir, char message[HR_MESSAGE_BYTES])
{
    uint32_t version = HR_ABI_VERSION;
    for (int i = 0; i < HR_LOOKS; i++) {
        version = living_version(cache_dir);
        if (version == HR_ABI_VERSION) {
            return 0;
        }
        usleep(HR_LOOK_STEP_MS * 1000);
    }
    snprintf(
        message, HR_MESSAGE_BYTES,
        "%.400s is served by another version of headrace (its files have version %u, ours %u): `headrace "
        "stop` once its jobs have ended, or another cache_dir",
        cache_dir, version, HR_ABI_VERSION);
    return -EPROTO;
}
