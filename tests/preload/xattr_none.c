/* Extended attributes by path: none, said in a way that ls -l and shutil.copy2 take. */
#include <sys/xattr.h>

#include "tests/preload/probe.h"

/* A file system without any and one without this one are the same to a reader. */
static const char *none(ssize_t result)
{
    return result == 0 || (result < 0 && (errno == ENODATA || errno == ENOTSUP)) ? "none"
                                                                                 : probe_errno(errno);
}

static void ask(const char *relative)
{
    char *path = probe_path(relative);
    char value[64];
    printf("%s: %s", relative, none(getxattr(path, "user.probe", value, sizeof(value))));
    printf(" %s", none(lgetxattr(path, "system.posix_acl_access", value, sizeof(value))));
    printf(" %s", none(getxattr(path, "security.capability", NULL, 0)));
    printf("\n");
    if (probe_mapped()) {
        probe_expect(listxattr(path, value, sizeof(value)) < 0 && errno == ENOTSUP, "%s: listxattr",
                     relative);
        probe_expect(llistxattr(path, NULL, 0) < 0 && errno == ENOTSUP, "%s: llistxattr", relative);
        probe_expect(setxattr(path, "user.probe", "x", 1, 0) < 0 && errno == EROFS, "%s: setxattr", relative);
        probe_expect(lsetxattr(path, "user.probe", "x", 1, 0) < 0 && errno == EROFS, "%s: lsetxattr",
                     relative);
        probe_expect(removexattr(path, "user.probe") < 0 && errno == EROFS, "%s: removexattr", relative);
        probe_expect(lremovexattr(path, "user.probe") < 0 && errno == EROFS, "%s: lremovexattr", relative);
    }
    free(path);
}

int main(int argc, char **argv)
{
    char value[64], name[PATH_MAX];
    probe_begin(argc, argv);
    probe_walk();
    ask("");
    for (size_t i = 0; i < probe_count; i++) {
        ask(probe_entries[i].path);
    }
    char *path = probe_path("no-such-name");
    probe_say("missing", getxattr(path, "user.probe", value, sizeof(value)) >= 0);
    probe_say("list of missing", listxattr(path, value, sizeof(value)) >= 0);
    probe_say("set on missing", setxattr(path, "user.probe", "x", 1, 0) >= 0);
    free(path);
    snprintf(name, sizeof(name), "%s/%s/x", probe_root, probe_some(DT_REG, 0));
    probe_say("below a file", getxattr(name, "user.probe", value, sizeof(value)) >= 0);
    return probe_wrong;
}
