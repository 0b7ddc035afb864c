/* The working directory goes into the tree and out again: chdir, fchdir, getcwd in all forms, relative names.
 */
#include <dlfcn.h>

#include "tests/preload/probe.h"

/* By name: the linker warns of every use. */
static char *(*old_getwd)(char *);

static void where(const char *what)
{
    char here[PATH_MAX], old[PATH_MAX], tight[PATH_MAX];
    bool known = getcwd(here, sizeof(here)) != NULL;
    printf("%s: %s\n", what, known ? here : probe_errno(errno));
    if (!known) {
        return;
    }
    char *own = getcwd(NULL, 0);
    probe_expect(own && strcmp(own, here) == 0, "getcwd(NULL, 0)");
    free(own);
    own = getcwd(NULL, PATH_MAX);
    probe_expect(own && strcmp(own, here) == 0, "getcwd(NULL, PATH_MAX)");
    free(own);
    probe_expect(old_getwd && old_getwd(old) && strcmp(old, here) == 0, "getwd");
    probe_expect(!getcwd(tight, strlen(here)) && errno == ERANGE, "getcwd without room: %s",
                 probe_errno(errno));
    probe_expect(getcwd(tight, strlen(here) + 1) && strcmp(tight, here) == 0, "getcwd with just enough room");
    probe_expect(!getcwd(NULL, 1) && errno == ERANGE, "getcwd(NULL, 1): %s", probe_errno(errno));
    probe_expect(!getcwd(tight, 0) && errno == EINVAL, "getcwd(buffer, 0): %s", probe_errno(errno));
    setenv("PWD", here, 1);
    own = get_current_dir_name();
    probe_expect(own && strcmp(own, here) == 0, "get_current_dir_name");
    free(own);
    setenv("PWD", "/usr", 1);
    own = get_current_dir_name();
    probe_expect(own && strcmp(own, here) == 0, "get_current_dir_name with another PWD");
    free(own);
}

static void look(const char *path)
{
    struct stat st;
    bool found = stat(path, &st) == 0;
    printf("  %s: %s %lld\n", path, found ? "ok" : probe_errno(errno),
           found && S_ISREG(st.st_mode) ? (long long)st.st_size : 0);
    int fd = open(path, O_RDONLY);
    probe_expect((fd >= 0) == found, "%s: open and stat differ", path);
    close(fd);
}

int main(int argc, char **argv)
{
    char name[PATH_MAX];
    probe_begin(argc, argv);
    old_getwd = (char *(*)(char *))dlsym(RTLD_DEFAULT, "getwd");
    probe_walk();
    const char *file = probe_some(DT_REG, 0), *dir = probe_some(DT_DIR, 0);
    int before = open(".", O_RDONLY | O_DIRECTORY);
    int root = open(probe_root, O_RDONLY | O_DIRECTORY);
    probe_say("chdir to the root", chdir(probe_root) == 0);
    where("root");
    look(file);
    look(dir);
    look("no-such-name");
    for (size_t i = 0; i < probe_count; i++) {
        if (probe_entries[i].type == DT_DIR) {
            char *path = probe_path(probe_entries[i].path);
            probe_expect(chdir(path) == 0, "chdir %s: %s", probe_entries[i].path, probe_errno(errno));
            where(probe_entries[i].path);
            free(path);
        }
    }
    probe_say("fchdir to the root", fchdir(root) == 0);
    where("root");
    probe_say("relative chdir", chdir(dir) == 0);
    where("below");
    snprintf(name, sizeof(name), "../%s", file);
    look(name);
    probe_say("chdir ..", chdir("..") == 0);
    where("root again");
    probe_say("chdir to a file", chdir(file) == 0);
    probe_say("chdir to nothing", chdir("no-such-name") == 0);
    where("still the root");
    look("../../../../../../../../../../etc/passwd");
    probe_say("chdir .. out of the tree", chdir("..") == 0);
    where("parent");
    snprintf(name, sizeof(name), "%s/%s", strrchr(probe_root, '/') + 1, file);
    look(name);
    probe_say("chdir to /", chdir("/") == 0);
    where("top");
    probe_say("fchdir back", fchdir(before) == 0);
    where("start");
    probe_say("fchdir to nothing", fchdir(987) == 0);
    return probe_wrong;
}
