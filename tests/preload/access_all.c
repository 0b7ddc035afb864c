/* access, faccessat, euidaccess, eaccess: there and readable; not executable; on a map never writable. */
#include "tests/preload/probe.h"

static void ask(const char *relative)
{
    char *path = probe_path(relative);
    printf("%s:", relative);
    static const int modes[] = {F_OK, R_OK, X_OK, R_OK | X_OK};
    for (unsigned i = 0; i < 4; i++) {
        int result = access(path, modes[i]);
        printf(" %s", probe_errno(result == 0 ? 0 : errno));
        probe_expect(faccessat(AT_FDCWD, path, modes[i], 0) == result, "%s: faccessat", relative);
        probe_expect(faccessat(AT_FDCWD, path, modes[i], AT_EACCESS) == result, "%s: AT_EACCESS", relative);
        probe_expect(euidaccess(path, modes[i]) == result, "%s: euidaccess", relative);
        probe_expect(eaccess(path, modes[i]) == result, "%s: eaccess", relative);
    }
    printf("\n");
    int writable = access(path, W_OK);
    if (probe_mapped()) {
        probe_expect(writable < 0 && errno == EROFS, "%s: W_OK is %s", relative,
                     probe_errno(writable ? errno : 0));
    } else {
        probe_expect(writable == 0, "%s: W_OK is %s", relative, probe_errno(errno));
    }
    free(path);
}

static void try_access(const char *what, const char *relative, int mode)
{
    char *path = probe_path(relative);
    probe_say(what, access(path, mode) == 0);
    free(path);
}

int main(int argc, char **argv)
{
    char name[PATH_MAX];
    probe_begin(argc, argv);
    probe_walk();
    ask("");
    for (size_t i = 0; i < probe_count; i++) {
        ask(probe_entries[i].path);
    }
    try_access("missing", "no-such-name", F_OK);
    try_access("missing for writing", "no-such-name", W_OK);
    try_access("bad mode", "", 64);
    snprintf(name, sizeof(name), "%s/x", probe_some(DT_REG, 0));
    try_access("below a file", name, F_OK);
    return probe_wrong;
}
