/* libc's syscall(): what names a mapped path, or a descriptor of a mapped directory or large object, goes to
 * the hook of that call; everything else jumps to the real function with its registers untouched (a variadic
 * function takes its arguments where one with seven fixed ones does, on x86-64 and on aarch64). libuv (statx,
 * close), CPython (getdents64), Rust's std and tempfile come this way. */
#define HR_SYSCALL_BY_CONTRACT
#include <fcntl.h>
#include <stdatomic.h>

#include "interpose/cwd.h"
#include "interpose/door.h"
#include "interpose/face.h"
#include "interpose/path.h"
#include "interpose/sys.h"
#include "interpose/syscall_fd.h"
#include "interpose/inner.h"

/* <linux/openat2.h>, which older headers lack */
struct how {
    uint64_t flags, mode, resolve;
};
#define RESOLVE_BENEATH 8
#define RESOLVE_IN_ROOT 16

#define NUMBERS 512 /* beyond the highest of today; the code below has it too */

/* What a call's arguments are. */
enum shape { OTHER, PATH, PATHS, AT_PATH, AT_PATHS, TARGET, OF_FD, OF_FACE };

typedef long (*syscall_fn)(long number, long a, long b, long c, long d, long e, long f);

long hr_syscall_first(long number, long a, long b, long c, long d, long e, long f);
long hr_syscall_decode(long number, long a, long b, long c, long d, long e, long f);

/* What the code below jumps to: hr_syscall_first until the real one is known. */
extern _Atomic(syscall_fn) hr_syscall_target __attribute__((visibility("hidden")));
_Atomic(syscall_fn) hr_syscall_target = hr_syscall_first;

/* Not OTHER: hr_syscall_decode looks at it. */
extern const uint8_t hr_syscall_shapes[NUMBERS] __attribute__((visibility("hidden")));
const uint8_t hr_syscall_shapes[NUMBERS] = {
#if defined(__x86_64__)
    [SYS_open] = PATH,
    [SYS_creat] = PATH,
    [SYS_stat] = PATH,
    [SYS_lstat] = PATH,
    [SYS_access] = PATH,
    [SYS_readlink] = PATH,
    [SYS_unlink] = PATH,
    [SYS_rmdir] = PATH,
    [SYS_mkdir] = PATH,
    [SYS_chmod] = PATH,
    [SYS_rename] = PATHS,
    [SYS_link] = PATHS,
    [SYS_symlink] = PATHS,
    [SYS_renameat] = AT_PATHS,
    [SYS_dup2] = OF_FD,
#endif
    [SYS_openat] = AT_PATH,
    [SYS_openat2] = AT_PATH,
    [SYS_statx] = AT_PATH,
    [SYS_newfstatat] = AT_PATH,
    [SYS_faccessat] = AT_PATH,
    [SYS_faccessat2] = AT_PATH,
    [SYS_readlinkat] = AT_PATH,
    [SYS_unlinkat] = AT_PATH,
    [SYS_mkdirat] = AT_PATH,
    [SYS_fchmodat] = AT_PATH,
    [SYS_utimensat] = AT_PATH,
    [SYS_renameat2] = AT_PATHS,
    [SYS_linkat] = AT_PATHS,
    [SYS_symlinkat] = TARGET,
    [SYS_truncate] = PATH,
    [SYS_statfs] = PATH,
    [SYS_fstat] = OF_FD,
    [SYS_getdents64] = OF_FD,
    [SYS_lseek] = OF_FD,
    [SYS_read] = OF_FD,
    [SYS_close] = OF_FD,
    [SYS_dup] = OF_FD,
    [SYS_dup3] = OF_FD,
    [SYS_chdir] = OF_FD,
    [SYS_fchdir] = OF_FD,
    [SYS_getcwd] = OF_FD,
    [SYS_readv] = OF_FD,
    [SYS_pread64] = OF_FD,
    [SYS_preadv] = OF_FD,
    [SYS_preadv2] = OF_FD,
    [SYS_write] = OF_FD,
    [SYS_writev] = OF_FD,
    [SYS_pwrite64] = OF_FD,
    [SYS_pwritev] = OF_FD,
    [SYS_pwritev2] = OF_FD,
    [SYS_ftruncate] = OF_FD,
    [SYS_fallocate] = OF_FD,
    [SYS_fcntl] = OF_FD,
    [SYS_ioctl] = OF_FD,
    [SYS_fadvise64] = OF_FD,
    [SYS_readahead] = OF_FD,
    [SYS_mmap] = OF_FACE,
    [SYS_mremap] = OF_FACE,
    [SYS_sendfile] = OF_FACE,
    [SYS_splice] = OF_FACE,
    [SYS_execve] = OF_FACE,
    [SYS_copy_file_range] = OF_FACE,
    [SYS_execveat] = OF_FACE,
    [SYS_io_setup] = OF_FACE,
    [SYS_io_submit] = OF_FACE,
    [SYS_io_uring_setup] = OF_FACE,
    [SYS_close_range] = OF_FACE,
    [SYS_pidfd_getfd] = OF_FACE,
};

#if defined(__x86_64__)
__asm__(".text\n"
        ".p2align 4\n"
        ".globl syscall\n"
        ".type syscall, @function\n"
        "syscall:\n"
        ".cfi_startproc\n"
        "    cmpb $0, hr_active(%rip)\n"
        "    jne 1f\n"
        "0:  jmp *hr_syscall_target(%rip)\n"
        "1:  cmpq $511, %rdi\n"
        "    ja 0b\n"
        "    leaq hr_syscall_shapes(%rip), %rax\n"
        "    cmpb $0, (%rax, %rdi)\n"
        "    je 0b\n"
        "    jmp hr_syscall_decode\n"
        ".cfi_endproc\n"
        ".size syscall, . - syscall\n");
#else
__asm__(".text\n"
        ".p2align 4\n"
        ".globl syscall\n"
        ".type syscall, @function\n"
        "syscall:\n"
        ".cfi_startproc\n"
        "    adrp x16, hr_active\n"
        "    ldrb w16, [x16, :lo12:hr_active]\n"
        "    cbnz w16, 1f\n"
        "0:  adrp x16, hr_syscall_target\n"
        "    ldr x16, [x16, :lo12:hr_syscall_target]\n"
        "    br x16\n"
        "1:  cmp x0, #511\n"
        "    b.hi 0b\n"
        "    adrp x16, hr_syscall_shapes\n"
        "    add x16, x16, :lo12:hr_syscall_shapes\n"
        "    ldrb w16, [x16, x0]\n"
        "    cbz w16, 0b\n"
        "    b hr_syscall_decode\n"
        ".cfi_endproc\n"
        ".size syscall, . - syscall\n");
#endif

static long raw(long number, long a, long b, long c, long d, long e, long f)
{
    return hr_edge(hr_sys_raw(number, a, b, c, d, e, f));
}

long hr_syscall_first(long number, long a, long b, long c, long d, long e, long f)
{
    syscall_fn real = (syscall_fn)(void (*)(void))HR_REAL(syscall);
    if (!real) {
        real = raw;
    }
    atomic_store_explicit(&hr_syscall_target, real, memory_order_release);
    return real(number, a, b, c, d, e, f);
}

/* ---- is it ours? The fast halves of the hooks, so that the rest stays the real call. ---- */

static bool path_is(long dirfd, long path)
{
    const char *text = (const char *)path;
    return hr_alias_follows || hr_path_maybe((int)dirfd, text) ||
           (text && text[0] == '/' && hr_path_above_text(text)) || hr_face_named((int)dirfd, text) >= 0 ||
           hr_door_names_file(text);
}

/* Calls that make a name, whose directory may be a way. */
static bool makes_in_way(long number, int dirfd, const char *path, long flags)
{
    switch (number) {
#if defined(__x86_64__)
    case SYS_open:
#endif
    case SYS_openat:
        return (flags & O_CREAT) && path && hr_way_may_hold(dirfd, path);
    case SYS_openat2:
        return path && hr_way_may_hold(dirfd, path);
#if defined(__x86_64__)
    case SYS_creat:
    case SYS_mkdir:
    case SYS_rename:
    case SYS_renameat:
    case SYS_link:
    case SYS_symlink:
#endif
    case SYS_mkdirat:
    case SYS_renameat2:
    case SYS_linkat:
    case SYS_symlinkat:
        return path && hr_way_may_hold(dirfd, path);
    default:
        return false;
    }
}

/* Calls on paths from the working directory. False: the real call's. */
static bool by_path(long number, long a, long b, long c, long *ret)
{
    const char *path = (const char *)a;
    (void)c; /* aarch64 has no such call with three arguments */
    bool two = hr_syscall_shapes[number] == PATHS;
    if (!path_is(AT_FDCWD, a) && !(two && path_is(AT_FDCWD, b)) &&
        !makes_in_way(number, AT_FDCWD, two ? (const char *)b : path, b)) {
        return false;
    }
    switch (number) {
#if defined(__x86_64__)
    case SYS_open:
        *ret = open(path, (int)b, (mode_t)c);
        break;
    case SYS_creat:
        *ret = creat(path, (mode_t)b);
        break;
    case SYS_stat:
        *ret = stat(path, (struct stat *)b);
        break;
    case SYS_lstat:
        *ret = lstat(path, (struct stat *)b);
        break;
    case SYS_access:
        *ret = access(path, (int)b);
        break;
    case SYS_readlink:
        *ret = readlink(path, (char *)b, (size_t)c);
        break;
    case SYS_unlink:
        *ret = unlink(path);
        break;
    case SYS_rmdir:
        *ret = rmdir(path);
        break;
    case SYS_mkdir:
        *ret = mkdir(path, (mode_t)b);
        break;
    case SYS_chmod:
        *ret = chmod(path, (mode_t)b);
        break;
    case SYS_rename:
        *ret = rename(path, (const char *)b);
        break;
    case SYS_link:
        *ret = link(path, (const char *)b);
        break;
    case SYS_symlink:
        *ret = symlink(path, (const char *)b);
        break;
#endif
    case SYS_truncate:
        *ret = truncate(path, (off_t)b);
        break;
    case SYS_statfs:
        *ret = statfs(path, (struct statfs *)b);
        break;
    default:
        return false;
    }
    return true;
}

/* A name of a descriptor that is ours is not written by: unless the restrictions already keep it from being
 * found. */
static long refuse_named(int dirfd, const char *path, const struct how *how)
{
    struct how look = {.flags = O_PATH | O_CLOEXEC, .resolve = how->resolve};
    long fd = how->resolve ? HR_SYS4(SYS_openat2, dirfd, path, &look, sizeof(look)) : -EROFS;
    if (fd < 0) {
        return fd;
    }
    HR_SYS1(SYS_close, fd);
    return -EROFS;
}

/* openat2 inside a map: without the restrictions that change how a path is read, which are not served there.
 */
static long open_how(int dirfd, const char *path, const struct how *how, size_t size)
{
    const uint64_t restrictions = RESOLVE_BENEATH | RESOLVE_IN_ROOT;
    struct hr_place place;
    long result = -1;
    bool whole = size >= sizeof(*how);
    bool follow = whole && !(how->flags & O_NOFOLLOW);
    bool magic = whole && how->resolve && path && strncmp(path, "/proc/", sizeof("/proc/") - 1) == 0;
    bool ours =
        whole && !magic &&
        (hr_path_find_as(dirfd, path, follow, &place) || (!how->resolve && hr_face_named(dirfd, path) >= 0));
    if (!ours) {
        uint64_t access = whole ? how->flags & (O_ACCMODE | O_TRUNC | O_PATH) : O_PATH;
        if (access && !(access & O_PATH) && follow && hr_door_names_file(path)) {
            return hr_edge(refuse_named(dirfd, path, how));
        }
        int before = errno;
        const char *outside = magic ? path : hr_path_outside(dirfd, path, &place);
        result = hr_edge(HR_SYS4(SYS_openat2, dirfd, outside, how, size));
        if (result < 0 && whole && (how->flags & O_CREAT) && !how->resolve &&
            hr_way_made(dirfd, path, -EISDIR)) {
            result = hr_way_again(before, (int)hr_edge(HR_SYS4(SYS_openat2, dirfd, outside, how, size)));
        }
        ours = whole && result < 0 && hr_door_missed(dirfd, path, follow, &place);
    }
    if (!ours) {
        return result;
    }
    if (how->resolve & restrictions) {
        return hr_edge(-ENOSYS);
    }
    /* The kernel judges it before it looks at any name. */
    result = HR_SYS4(SYS_openat2, AT_FDCWD, "", how, size);
    if (result != -ENOENT && result != -ENOSYS) {
        return hr_edge(result);
    }
    return openat(dirfd, path, (int)how->flags, (mode_t)how->mode);
}

/* Calls on (dirfd, path). */
static bool by_dirfd(long number, long a, long b, long c, long d, long e, long *ret)
{
    int dirfd = (int)a;
    const char *path = (const char *)b;
    /* An empty path, and none at all since Linux 6.11, is about the descriptor itself. */
    bool empty = (!path || !path[0]) && (number == SYS_statx || number == SYS_newfstatat);
    bool two = hr_syscall_shapes[number] == AT_PATHS;
    if (!empty && !path_is(a, b) && !(two && path_is(c, d)) &&
        !makes_in_way(number, two ? (int)c : dirfd, two ? (const char *)d : path, c)) {
        return false;
    }
    switch (number) {
    case SYS_openat:
        *ret = openat(dirfd, path, (int)c, (mode_t)d);
        break;
    case SYS_openat2:
        *ret = open_how(dirfd, path, (const struct how *)c, (size_t)d);
        break;
    case SYS_statx:
        *ret = statx(dirfd, path, (int)c, (unsigned)d, (struct statx *)e);
        break;
    case SYS_newfstatat:
        *ret = fstatat(dirfd, path, (struct stat *)c, (int)d);
        break;
    case SYS_faccessat:
        *ret = faccessat(dirfd, path, (int)c, 0);
        break;
    case SYS_faccessat2:
        *ret = faccessat(dirfd, path, (int)c, (int)d);
        break;
    case SYS_readlinkat:
        *ret = readlinkat(dirfd, path, (char *)c, (size_t)d);
        break;
    case SYS_unlinkat:
        *ret = unlinkat(dirfd, path, (int)c);
        break;
    case SYS_mkdirat:
        *ret = mkdirat(dirfd, path, (mode_t)c);
        break;
    case SYS_fchmodat:
        *ret = fchmodat(dirfd, path, (mode_t)c, 0);
        break;
    case SYS_utimensat:
        *ret = utimensat(dirfd, path, (const struct timespec *)c, (int)d);
        break;
#if defined(__x86_64__)
    case SYS_renameat:
        *ret = renameat(dirfd, path, (int)c, (const char *)d);
        break;
#endif
    case SYS_renameat2:
        *ret = renameat2(dirfd, path, (int)c, (const char *)d, (unsigned)e);
        break;
    case SYS_linkat:
        *ret = linkat(dirfd, path, (int)c, (const char *)d, (int)e);
        break;
    default:
        return false;
    }
    return true;
}

static bool take(long number, const long *args, long *ret)
{
    long a = args[0], b = args[1], c = args[2];
    switch (hr_syscall_shapes[number]) {
    case PATH:
    case PATHS:
        return by_path(number, a, b, c, ret);
    case AT_PATH:
    case AT_PATHS:
        return by_dirfd(number, a, b, c, args[3], args[4], ret);
    case TARGET:
        if (!path_is(b, c) && !makes_in_way(number, (int)b, (const char *)c, 0)) {
            return false;
        }
        *ret = symlinkat((const char *)a, (int)b, (const char *)c);
        return true;
    case OF_FACE:
        return hr_syscall_by_face(number, args, ret);
    default:
        return hr_syscall_by_fd(number, args, ret);
    }
}

long hr_syscall_decode(long number, long a, long b, long c, long d, long e, long f)
{
    const long args[] = {a, b, c, d, e, f};
    long result;
    if (take(number, args, &result)) {
        return result;
    }
    return atomic_load_explicit(&hr_syscall_target, memory_order_acquire)(number, a, b, c, d, e, f);
}
