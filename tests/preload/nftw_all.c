/* ftw and nftw with every flag: what is reported, with which kind, level and base, and where one stands then.
 */
#include "tests/preload/probe.h"

#include <ftw.h>

#define LINES_MAX 4096

static char *lines[LINES_MAX];
static int count;
static int flags_now;
static int stop_at;

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static const char *below(const char *path)
{
    size_t len = strlen(probe_root);
    return strncmp(path, probe_root, len) == 0 ? path + len : path;
}

static void keep(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (count < LINES_MAX && vasprintf(&lines[count], format, list) >= 0) {
        count++;
    }
    va_end(list);
}

static void tell(const char *what, int result)
{
    qsort(lines, (size_t)count, sizeof(lines[0]), by_text);
    printf("%s: %d%s%s, %d reports\n", what, result, result < 0 ? " " : "",
           result < 0 ? probe_errno(errno) : "", count);
    for (int i = 0; i < count; i++) {
        printf("  %s\n", lines[i]);
        free(lines[i]);
    }
    count = 0;
}

static int visit(const char *path, const struct stat *stat_at, int kind, struct FTW *where)
{
    static const char *const kinds[] = {[FTW_F] = "F",   [FTW_D] = "D",   [FTW_DNR] = "DNR", [FTW_NS] = "NS",
                                        [FTW_SL] = "SL", [FTW_DP] = "DP", [FTW_SLN] = "SLN"};
    struct stat here;
    bool dir = kind == FTW_D || kind == FTW_DP;
    for (int i = 0; dir && i < count; i++) {
        /* Each line begins with its path. */
        size_t len = strlen(below(path));
        bool inside = strncmp(lines[i], below(path), len) == 0 && lines[i][len] == '/';
        probe_expect(!inside || kind == FTW_DP, "%s is reported behind what is in it", path);
    }
    keep("%s %s level %d base %s size %lld", below(path), kinds[kind], where->level, path + where->base,
         dir ? -1LL : (long long)stat_at->st_size);
    if (flags_now & FTW_CHDIR) {
        /* Behind its children a directory is reported from inside. */
        const char *name = kind == FTW_DP ? "." : path + where->base;
        probe_expect(stat(name, &here) == 0 && here.st_ino == stat_at->st_ino, "%s: not there from here",
                     path);
    }
    if (count == stop_at) {
        return 42;
    }
    if (flags_now & FTW_ACTIONRETVAL) {
        if (kind == FTW_D && strcmp(path + where->base, "er") == 0) {
            return FTW_SKIP_SUBTREE;
        }
        if (kind == FTW_D && where->level == 1 && strcmp(path + where->base, "b") == 0) {
            return FTW_SKIP_SUBTREE;
        }
    }
    return 0;
}

static int visit_old(const char *path, const struct stat *stat_at, int kind)
{
    keep("%s %d %lld", below(path), kind, kind == FTW_D ? -1LL : (long long)stat_at->st_size);
    return 0;
}

static void try_nftw(const char *what, const char *relative, int flags)
{
    char *path = probe_path(relative);
    char before[PATH_MAX], after[PATH_MAX];
    probe_expect(getcwd(before, sizeof(before)) != NULL, "getcwd");
    flags_now = flags;
    tell(what, nftw(path, visit, 3, flags));
    probe_expect(getcwd(after, sizeof(after)) && strcmp(before, after) == 0, "%s: left in %s", what, after);
    free(path);
}

int main(int argc, char **argv)
{
    probe_begin(argc, argv);
    try_nftw("plain", "", 0);
    try_nftw("physical", "", FTW_PHYS);
    try_nftw("depth", "", FTW_PHYS | FTW_DEPTH);
    try_nftw("chdir", "", FTW_CHDIR);
    try_nftw("chdir, depth", "a", FTW_CHDIR | FTW_DEPTH | FTW_PHYS);
    try_nftw("mount", "", FTW_MOUNT | FTW_PHYS);
    try_nftw("actions", "", FTW_ACTIONRETVAL | FTW_PHYS);
    try_nftw("slashes", "a/deep//", 0);
    try_nftw("a file", "a/one.txt", 0);
    try_nftw("a file, chdir", "a/one.txt", FTW_CHDIR);
    try_nftw("missing", "no-such", 0);
    try_nftw("below a file", "a/one.txt/x", 0);
    try_nftw("unknown flag", "", 1 << 20);
    stop_at = 5;
    char *path = probe_path("");
    flags_now = 0;
    int result = nftw64(path, (__nftw64_func_t)visit, 1, 0);
    printf("stopped: %d after %d\n", result, count);
    stop_at = 0;
    count = 0;
    tell("ftw", ftw(path, visit_old, 4));
    tell("ftw64", ftw64(path, (__ftw64_func_t)visit_old, 1));
    char *name = strrchr(path, '/') + 1;
    tell("relative", nftw(name, visit, 2, FTW_CHDIR));
    probe_expect(chdir(path) == 0, "chdir");
    tell("from inside", nftw(".", visit, 2, FTW_PHYS));
    tell("up and down", nftw("a/../b", visit, 2, FTW_CHDIR | FTW_PHYS));
    return probe_wrong;
}
