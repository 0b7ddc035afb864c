/* The native stack of another process' thread, by ptrace from here: seized, stopped, unwound, let go. Its
 * wait in the kernel is restarted by the kernel. */
#ifndef HR_CMD_STALL_STACK_H
#define HR_CMD_STALL_STACK_H

#include <stdint.h>
#include <sys/types.h>

#define HR_STACK_FRAMES 48     /* ours; the innermost */
#define HR_STACK_WHY_BYTES 160 /* a line for people */

struct hr_frame {
    uint64_t address;
    char name[128];  /* "" when there is no symbol */
    uint64_t offset; /* in the function; else in the file */
    char module[96]; /* file's last part; "" when it is none */
};

/* Number of frames, innermost first; -errno with a clear word in ret_why: nothing could be seen. */
int hr_stack_of(pid_t pid, pid_t tid, struct hr_frame ret[HR_STACK_FRAMES], char ret_why[HR_STACK_WHY_BYTES]);

#endif
