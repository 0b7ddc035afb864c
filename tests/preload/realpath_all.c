/* realpath, its fortified twin, canonicalize_file_name, readlink on what is no link. */
#include "tests/preload/probe.h"

extern char *__realpath_chk(const char *path, char *resolved, size_t room);

static void resolve(const char *path)
{
    char fixed[PATH_MAX], checked[PATH_MAX];
    char *own = realpath(path, NULL);
    printf("%s -> %s\n", path, own ? own : probe_errno(errno));
    char *other = realpath(path, fixed);
    probe_expect((own != NULL) == (other != NULL) && (!own || strcmp(own, fixed) == 0),
                 "realpath into a buffer");
    other = __realpath_chk(path, checked, sizeof(checked));
    probe_expect((own != NULL) == (other != NULL) && (!own || strcmp(own, checked) == 0), "__realpath_chk");
    other = canonicalize_file_name(path);
    probe_expect((own != NULL) == (other != NULL) && (!own || strcmp(own, other) == 0),
                 "canonicalize_file_name");
    free(other);
    free(own);
}

int main(int argc, char **argv)
{
    char name[2 * PATH_MAX], link[64];
    probe_begin(argc, argv);
    probe_walk();
    const char *file = probe_some(DT_REG, 0), *dir = probe_some(DT_DIR, 0);
    resolve(probe_root);
    for (size_t i = 0; i < probe_count; i++) {
        char *path = probe_path(probe_entries[i].path);
        resolve(path);
        probe_expect(readlink(path, link, sizeof(link)) < 0 && errno == EINVAL, "%s: readlink: %s",
                     probe_entries[i].path, probe_errno(errno));
        free(path);
    }
    snprintf(name, sizeof(name), "%s//./%s/../%s", probe_root, dir, dir);
    resolve(name);
    snprintf(name, sizeof(name), "%s/%s/", probe_root, file);
    resolve(name);
    snprintf(name, sizeof(name), "%s/%s/x", probe_root, file);
    resolve(name);
    snprintf(name, sizeof(name), "%s/no-such-name", probe_root);
    resolve(name);
    probe_say("readlink of nothing", readlink(name, link, sizeof(link)) >= 0);
    snprintf(name, sizeof(name), "%s/../..", probe_root);
    char *up = realpath(name, NULL);
    probe_expect(up != NULL, "two levels up");
    free(up);
    if (chdir(probe_root) == 0) {
        resolve(file);
        resolve(".");
        resolve(dir);
    }
    return probe_wrong;
}
