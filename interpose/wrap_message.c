/* Descriptors that come in a message (SCM_RIGHTS): one of a face or of a stand-in directory is marked as
 * such. */
#include <sys/socket.h>

#include "interpose/standin.h"
#include "interpose/sys.h"
#include "interpose/inner.h"

static HR_NOINLINE void mark_rights(struct msghdr *message)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof(fd), sizeof(fd));
            long flags = HR_SYS2(SYS_fcntl, fd, F_GETFL);
            hr_standin_mark_arrived(fd, flags < 0 ? 0 : (int)flags);
        }
    }
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    ssize_t result = HR_REAL(recvmsg)(fd, message, flags);
    if (HR_UNLIKELY(hr_active) && result >= 0 && message->msg_controllen > 0) {
        mark_rights(message);
    }
    return result;
}

int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout)
{
    int result = HR_REAL(recvmmsg)(fd, messages, count, flags, timeout);
    for (int i = 0; HR_UNLIKELY(hr_active) && i < result; i++) {
        if (messages[i].msg_hdr.msg_controllen > 0) {
            mark_rights(&messages[i].msg_hdr);
        }
    }
    return result;
}
