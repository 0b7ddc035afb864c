#include "fetch/cmd/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fetch/base/cleanup.h"

#define HR_SEARCH_DEFAULT "/bin:/usr/bin" /* what libc takes when PATH is unset */
#define HR_NOTE_WITHIN_BYTES 65536        /* Go's linker puts its build id note right behind the headers */

static bool is_runnable(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static int find(const char *name, const char *search, char path[PATH_MAX])
{
    if (strchr(name, '/')) {
        int len = snprintf(path, PATH_MAX, "%s", name);
        return len >= PATH_MAX ? -ENAMETOOLONG : access(path, F_OK) < 0 ? -ENOENT : 0;
    }
    for (const char *at = search ? search : HR_SEARCH_DEFAULT; *name;) {
        size_t len = strcspn(at, ":"); /* an empty element is the working directory */
        int wrote = snprintf(path, PATH_MAX, "%.*s%s%s", (int)len, at, len > 0 ? "/" : "./", name);
        if (wrote > 0 && wrote < PATH_MAX && is_runnable(path)) {
            return 0;
        }
        if (!at[len]) {
            break;
        }
        at += len + 1;
    }
    return -ENOENT;
}

/* The note that Go's linker leaves in every ELF file: type 4, owner "Go". */
static bool is_go(const char *path)
{
    static const char note[] = {4, 0, 0, 0, 'G', 'o', 0, 0};
    static char head[HR_NOTE_WITHIN_BYTES];
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode)) { /* opening anything else may wait */
        return false;
    }
    hr_cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : pread(fd, head, sizeof head, 0);
    return got > 4 && memcmp(head, "\177ELF", 4) == 0 && memmem(head, (size_t)got, note, sizeof note);
}

int hr_program_look(const char *name, const char *search, struct hr_program *ret)
{
    struct hr_program program = {.obstacle = NULL};
    int error = find(name, search, program.path);
    if (error < 0) {
        return error;
    }
    program.obstacle = hr_obstacle(AT_FDCWD, program.path, program.interpreter);
    program.go = is_go(program.interpreter[0] ? program.interpreter : program.path);
    *ret = program;
    return 0;
}
