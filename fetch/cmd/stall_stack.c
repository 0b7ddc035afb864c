#include "fetch/cmd/stall_stack.h"

#include <errno.h>
#include <libunwind-ptrace.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define YAMA_NOBODY 3   /* kernel.yama.ptrace_scope: no attaching, and no way back (kernel's Yama.rst) */
#define HR_STOP_MS 2000 /* a thread in the kernel's uninterruptible sleep stops later than anybody waits */

/* ---- what the process has mapped ---- */

struct module {
    uint64_t first, end, offset;
    char name[96];
};

struct modules {
    struct module *list;
    size_t count;
    bool ours; /* the preloaded object is among them */
};

static int load_modules(pid_t pid, struct modules *ret)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file) {
        return -errno;
    }
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, file) > 0) {
        unsigned long long first, end, offset;
        char mode[8];
        int at = 0;
        if (sscanf(line, "%llx-%llx %7s %llx %*s %*s %n", &first, &end, mode, &offset, &at) < 4 || !at ||
            line[at] != '/') {
            continue;
        }
        line[strcspn(line, "\n")] = '\0';
        const char *base = strrchr(line + at, '/') + 1;
        ret->ours |= strcmp(base, "libheadrace.so") == 0;
        struct module *grown = reallocarray(ret->list, ret->count + 1, sizeof *grown);
        if (!grown) {
            break;
        }
        ret->list = grown;
        struct module *module = &ret->list[ret->count++];
        *module = (struct module){.first = first, .end = end, .offset = offset};
        snprintf(module->name, sizeof module->name, "%s", base);
    }
    free(line);
    int error = ferror(file) ? -EIO : 0;
    fclose(file);
    return error;
}

static const struct module *module_at(const struct modules *modules, uint64_t address)
{
    for (size_t i = 0; i < modules->count; i++) {
        if (address >= modules->list[i].first && address < modules->list[i].end) {
            return &modules->list[i];
        }
    }
    return NULL;
}

/* ---- why not ---- */

/* A number behind a name in a /proc file; -1: there is none. */
static long number_in(const char *path, const char *name)
{
    FILE *file = fopen(path, "re");
    char line[256];
    long value = -1;
    size_t len = strlen(name);
    while (file && value < 0 && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, len) == 0) {
            value = strtol(line + len, NULL, 10);
        }
    }
    if (file) {
        fclose(file);
    }
    return value;
}

static void explain(pid_t tid, int error, char why[HR_STACK_WHY_BYTES])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", (int)tid);
    long tracer = number_in(path, "TracerPid:");
    long scope = number_in("/proc/sys/kernel/yama/ptrace_scope", "");
    long seccomp = number_in("/proc/self/status", "Seccomp:");
    if (error == -ESRCH) {
        snprintf(why, HR_STACK_WHY_BYTES, "it has ended");
    } else if (error == -EPERM && tracer > 0) {
        snprintf(why, HR_STACK_WHY_BYTES, "refused: process %ld traces it already", tracer);
    } else if (seccomp == 2) {
        snprintf(why, HR_STACK_WHY_BYTES, "refused: a seccomp profile forbids ptrace (%s)", strerror(-error));
    } else if (error == -EPERM && scope == YAMA_NOBODY) {
        snprintf(why, HR_STACK_WHY_BYTES,
                 "refused: kernel.yama.ptrace_scope is %ld: nobody may, until a reboot", scope);
    } else if (error == -EPERM && geteuid() == 0) {
        snprintf(why, HR_STACK_WHY_BYTES, "refused: this root has no CAP_SYS_PTRACE (containers: --cap-add)");
    } else if (error == -EPERM && scope > 0) {
        snprintf(why, HR_STACK_WHY_BYTES, "refused: kernel.yama.ptrace_scope is %ld: be root, or set it to 0",
                 scope);
    } else if (error == -EPERM) {
        snprintf(why, HR_STACK_WHY_BYTES, "refused: another user's, or not dumpable: be root");
    } else {
        snprintf(why, HR_STACK_WHY_BYTES, "refused: ptrace says %s", strerror(-error));
    }
}

/* ---- the stack ---- */

static void let_go(pid_t tid, int signal_number)
{
    (void)ptrace(PTRACE_DETACH, tid, NULL, (void *)(intptr_t)signal_number);
}

/* Stopped by us. *ret_signal: one that it was about to get, which it gets when it is let go. */
static int stop_thread(pid_t tid, int *ret_signal)
{
    if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0) {
        return -errno;
    }
    if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0) {
        return -errno; /* it has ended */
    }
    for (int waited_ms = 0; waited_ms < HR_STOP_MS; waited_ms++) {
        int status;
        pid_t got = waitpid(tid, &status, __WALL | WNOHANG);
        if (got < 0) {
            return -errno;
        }
        if (got == tid && !WIFSTOPPED(status)) {
            return -ESRCH;
        }
        if (got == tid) {
            *ret_signal = status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
            return 0;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return -EBUSY; /* the kernel lets it go when we end */
}

static int walk(pid_t tid, const struct modules *modules, struct hr_frame ret[HR_STACK_FRAMES])
{
    int count = 0;
    unw_addr_space_t space = unw_create_addr_space(&_UPT_accessors, 0);
    void *upt = space ? _UPT_create(tid) : NULL;
    unw_cursor_t cursor;
    if (upt && unw_init_remote(&cursor, space, upt) == 0) {
        do {
            struct hr_frame *frame = &ret[count];
            unw_word_t address = 0, offset = 0;
            *frame = (struct hr_frame){0};
            if (unw_get_reg(&cursor, UNW_REG_IP, &address) < 0 || address == 0) {
                break;
            }
            frame->address = address;
            const struct module *module = module_at(modules, address);
            if (module) {
                snprintf(frame->module, sizeof frame->module, "%s", module->name);
                frame->offset = address - module->first + module->offset;
            }
            if (unw_get_proc_name(&cursor, frame->name, sizeof frame->name, &offset) == 0) {
                frame->offset = offset;
            } else {
                frame->name[0] = '\0';
            }
            count++;
        } while (count < HR_STACK_FRAMES && unw_step(&cursor) > 0);
    }
    if (upt) {
        _UPT_destroy(upt);
    }
    if (space) {
        unw_destroy_addr_space(space);
    }
    return count;
}

int hr_stack_of(pid_t pid, pid_t tid, struct hr_frame ret[HR_STACK_FRAMES], char ret_why[HR_STACK_WHY_BYTES])
{
    struct modules modules = {0};
    int signal_number = 0;
    int error = load_modules(pid, &modules);
    if (error == -EACCES) {
        error = -EPERM;
    }
    if (error == -ENOENT || (error == 0 && !modules.ours)) {
        snprintf(ret_why, HR_STACK_WHY_BYTES, "not found here: it has ended, or is in another PID namespace");
        free(modules.list);
        return -ESRCH;
    }
    bool stopped = false;
    if (error == 0) {
        error = stop_thread(tid, &signal_number);
        stopped = error == 0;
    }
    int count = 0;
    if (stopped) {
        count = walk(tid, &modules, ret);
        let_go(tid, signal_number);
    }
    free(modules.list);
    if (error < 0) {
        explain(tid, error, ret_why);
        return error;
    }
    if (count == 0) {
        snprintf(ret_why, HR_STACK_WHY_BYTES, "cannot be unwound");
        return -ENODATA;
    }
    return count;
}
