/* Extended attributes: others' are missing as on a file system without them; a map's objects have two of
 * their own, directories none; nothing can be set. */
#include <sys/xattr.h>

#include "tests/preload/probe.h"

#define KEY "user.headrace.key"
#define ETAG "user.headrace.etag"

/* A file system without any and one without this one are the same to a reader. */
static const char *none(ssize_t result)
{
    return result == 0 || (result < 0 && (errno == ENODATA || errno == ENOTSUP)) ? "none"
                                                                                 : probe_errno(errno);
}

static void refused(const char *what, const char *path, int result)
{
    probe_expect(result < 0 && errno == EROFS, "%s: %s", path, what);
}

static void changing(const char *path)
{
    refused("setxattr", path, setxattr(path, KEY, "x", 1, 0));
    refused("lsetxattr", path, lsetxattr(path, "user.probe", "x", 1, 0));
    refused("removexattr", path, removexattr(path, KEY));
    refused("lremovexattr", path, lremovexattr(path, "user.probe"));
}

/* The prefix of the map's URL, from the environment. */
static void key_of(const char *relative, char *out, size_t room)
{
    const char *at = strstr(getenv("HEADRACE_MAP"), "=s3://");
    const char *prefix = at ? strchr(at + 6, '/') : NULL;
    if (!prefix) {
        abort();
    }
    snprintf(out, room, "%.*s/%s", (int)strcspn(prefix + 1, "/ ,;"), prefix + 1, relative);
}

/* Sizes as getxattr(2) has them: 0 asks, one byte less is ERANGE, more is left as it was. */
static void sizes(const char *path, const char *want)
{
    char value[2000];
    size_t len = strlen(want);
    memset(value, '#', sizeof(value));
    probe_expect(getxattr(path, KEY, NULL, 0) == (ssize_t)len, "%s: length of the key", path);
    probe_expect(getxattr(path, KEY, value, len - 1) < 0 && errno == ERANGE && value[0] == '#', "%s: ERANGE",
                 path);
    probe_expect(getxattr(path, KEY, value, len) == (ssize_t)len && memcmp(value, want, len) == 0 &&
                     value[len] == '#',
                 "%s: the key", path);
    probe_expect(lgetxattr(path, KEY, value, sizeof(value)) == (ssize_t)len, "%s: lgetxattr", path);
    probe_expect(getxattr(path, "", value, 8) < 0 && errno == ERANGE, "%s: an empty name", path);
}

static void file_names(const char *path, const char *relative)
{
    static const char names[] = KEY "\0" ETAG;
    char list[200], want[2000];
    key_of(relative, want, sizeof(want));
    sizes(path, want);
    probe_expect(getxattr(path, ETAG, list, sizeof(list)) >= 32, "%s: the ETag", path);
    probe_expect(listxattr(path, NULL, 0) == sizeof(names), "%s: length of the list", path);
    probe_expect(listxattr(path, list, sizeof(names) - 1) < 0 && errno == ERANGE, "%s: list, ERANGE", path);
    probe_expect(listxattr(path, list, sizeof(list)) == sizeof(names) &&
                     memcmp(list, names, sizeof(names)) == 0,
                 "%s: the list", path);
    probe_expect(llistxattr(path, list, sizeof(list)) == sizeof(names), "%s: llistxattr", path);
}

/* What the path says, and again by a copy of the descriptor. */
static void by_descriptor(const char *path, bool directory)
{
    char value[2000], named[2000];
    int fd = open(path, O_RDONLY | (directory ? O_DIRECTORY : 0));
    probe_expect(fd >= 0, "%s: open: %s", path, probe_errno(errno));
    ssize_t got = flistxattr(fd, value, sizeof(value)), want = listxattr(path, named, sizeof(named));
    probe_expect(got == want && (got == 0) == directory && memcmp(value, named, (size_t)got) == 0,
                 "%s: flistxattr", path);
    int copy = dup(fd);
    for (const char *name = KEY; name; name = strcmp(name, KEY) == 0 ? ETAG : NULL) {
        got = fgetxattr(copy, name, value, sizeof(value));
        want = getxattr(path, name, named, sizeof(named));
        probe_expect(got == want && (got < 0 ? directory && errno == ENODATA
                                             : !directory && memcmp(value, named, (size_t)got) == 0),
                     "%s: fgetxattr %s: %s", path, name, probe_errno(errno));
    }
    close(copy);
    probe_expect(fgetxattr(fd, "user.probe", value, sizeof(value)) < 0 && errno == ENODATA, "%s: fgetxattr",
                 path);
    refused("fsetxattr", path, fsetxattr(fd, "user.probe", "x", 1, 0));
    refused("fremovexattr", path, fremovexattr(fd, "user.probe"));
    close(fd);
}

static void ask(const char *relative, bool directory)
{
    char *path = probe_path(relative);
    char value[64];
    printf("%s: %s", relative, none(getxattr(path, "user.probe", value, sizeof(value))));
    printf(" %s", none(lgetxattr(path, "system.posix_acl_access", value, sizeof(value))));
    printf(" %s", none(getxattr(path, "security.capability", NULL, 0)));
    printf("\n");
    if (probe_mapped()) {
        if (directory) {
            probe_expect(listxattr(path, NULL, 0) == 0, "%s: listxattr", relative);
            probe_expect(getxattr(path, KEY, NULL, 0) < 0 && errno == ENODATA, "%s: a directory's key",
                         relative);
        } else {
            file_names(path, relative);
        }
        changing(path);
        by_descriptor(path, directory);
    }
    free(path);
}

int main(int argc, char **argv)
{
    char value[64], name[PATH_MAX];
    probe_begin(argc, argv);
    probe_walk();
    ask("", true);
    for (size_t i = 0; i < probe_count; i++) {
        ask(probe_entries[i].path, probe_entries[i].type == DT_DIR);
    }
    char *path = probe_path("no-such-name");
    probe_say("missing", getxattr(path, "user.probe", value, sizeof(value)) >= 0);
    probe_say("list of missing", listxattr(path, value, sizeof(value)) >= 0);
    probe_say("set on missing", setxattr(path, "user.probe", "x", 1, 0) >= 0);
    free(path);
    snprintf(name, sizeof(name), "%s/%s/x", probe_root, probe_some(DT_REG, 0));
    probe_say("below a file", getxattr(name, "user.probe", value, sizeof(value)) >= 0);
    probe_say("no descriptor", fgetxattr(-1, "user.probe", value, sizeof(value)) >= 0);
    return probe_wrong;
}
