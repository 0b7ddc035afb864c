/* fts with its options, instructions and lists of children; sorted by name, so that the order is the
 * program's. */
#include "tests/preload/probe.h"

#include <fts.h>

static const char *const infos[] = {"0", "D",    "DC", "DEFAULT", "DNR", "DOT",    "DP", "ERR",
                                    "F", "INIT", "NS", "NSOK",    "SL",  "SLNONE", "W"};

static const char *below(const char *path)
{
    size_t len = strlen(probe_root);
    return strncmp(path, probe_root, len) == 0 ? path + len : path;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int by_name64(const FTSENT64 **a, const FTSENT64 **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static void tell(const FTSENT *node, int options)
{
    bool has_stat = !(options & FTS_NOSTAT) && node->fts_info != FTS_NS;
    bool file = has_stat && S_ISREG(node->fts_statp->st_mode);
    printf("  %s %s name %s level %d len %d %lld%s%s\n", below(node->fts_path), infos[node->fts_info],
           node->fts_level == 0 ? "-" : node->fts_name, node->fts_level,
           (int)strlen(node->fts_path) == node->fts_pathlen, file ? (long long)node->fts_statp->st_size : -1,
           node->fts_errno ? " " : "", node->fts_errno ? probe_errno(node->fts_errno) : "");
    probe_expect(node->fts_namelen == strlen(node->fts_name), "%s: length of the name", node->fts_path);
    if (node->fts_info == FTS_F) {
        uint64_t size;
        int fd = open(node->fts_accpath, O_RDONLY);
        probe_digest(fd, &size);
        probe_expect(fd >= 0 && (long long)size == (long long)node->fts_statp->st_size,
                     "%s: cannot be read by its access path", node->fts_path);
        close(fd);
    }
}

static void walk(const char *what, const char *first, const char *second, int options)
{
    char *paths[] = {(char *)first, (char *)second, NULL};
    errno = 0;
    FTS *tree = fts_open(paths, options, by_name);
    printf("%s: %s\n", what, tree ? "opened" : probe_errno(errno));
    if (!tree) {
        return;
    }
    FTSENT *node;
    while ((node = fts_read(tree))) {
        tell(node, options);
    }
    printf("  end: %s\n", probe_errno(errno));
    probe_expect(fts_read(tree) == NULL, "%s: something behind the end", what);
    printf("  close: %d\n", fts_close(tree));
}

/* libc forgets that a list was of names only when its directory is skipped: one kind of list a walk. */
static void instructions(bool names)
{
    char *paths[] = {probe_path(""), NULL};
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    FTSENT *node;
    int again = 0;
    for (FTSENT *root = fts_children(tree, 0); root; root = root->fts_link) {
        printf("root %s\n", below(root->fts_name));
    }
    while ((node = fts_read(tree))) {
        tell(node, 0);
        if (names && node->fts_info == FTS_D && strcmp(node->fts_name, "er") == 0) {
            int count = 0;
            for (FTSENT *child = fts_children(tree, FTS_NAMEONLY); child; child = child->fts_link) {
                count++;
            }
            printf("names in er: %d\n", count);
        }
        if (!names && node->fts_info == FTS_D && strcmp(node->fts_name, "er") == 0) {
            printf("set: %d\n", fts_set(tree, node, FTS_SKIP));
        }
        if (!names && node->fts_info == FTS_D && strcmp(node->fts_name, "b") == 0) {
            for (FTSENT *child = fts_children(tree, 0); child; child = child->fts_link) {
                printf("child %s %s %lld\n", child->fts_name, infos[child->fts_info],
                       (long long)child->fts_statp->st_size);
                if (strncmp(child->fts_name, "plus", 4) == 0) {
                    fts_set(tree, child, FTS_SKIP);
                }
            }
        }
        if (names && node->fts_info == FTS_D && strcmp(node->fts_name, "with space") == 0) {
            for (FTSENT *child = fts_children(tree, FTS_NAMEONLY); child; child = child->fts_link) {
                printf("name %s\n", child->fts_name);
            }
        }
        if (strcmp(node->fts_name, "top.txt") == 0 && again++ < 2) {
            fts_set(tree, node, FTS_AGAIN);
        }
        if (node->fts_info == FTS_F) {
            printf("children of a file: %d %s\n", fts_children(tree, 0) != NULL, probe_errno(errno));
        }
        node->fts_number++;
        if (node->fts_info == FTS_DP) {
            printf("  number %ld\n", node->fts_number);
        }
    }
    errno = 0;
    printf("wrong instruction: %d %s\n", fts_children(tree, 77) != NULL, probe_errno(errno));
    printf("close: %d\n", fts_close(tree));
}

static void leave_early(void)
{
    char *paths[] = {probe_path("a"), probe_path("b"), NULL};
    for (int steps = 0; steps < 12; steps++) {
        FTS *tree = fts_open(paths, FTS_PHYSICAL, by_name);
        for (int i = 0; i < steps; i++) {
            FTSENT *node = fts_read(tree);
            if (i % 3 == 0 && node->fts_info == FTS_D) {
                fts_children(tree, i % 2 ? FTS_NAMEONLY : 0);
            }
        }
        probe_expect(fts_close(tree) == 0, "close after %d steps", steps);
    }
}

int main(int argc, char **argv)
{
    probe_begin(argc, argv);
    char *root = probe_path("");
    char *a = probe_path("a/");
    char *file = probe_path("top.txt");
    char *missing = probe_path("no-such");
    char *in_file = probe_path("top.txt/x");
    char *b = probe_path("b");
    walk("physical", root, NULL, FTS_PHYSICAL | FTS_NOCHDIR);
    walk("logical", a, b, FTS_LOGICAL);
    walk("changing directories", a, NULL, FTS_PHYSICAL);
    walk("no stat", root, NULL, FTS_PHYSICAL | FTS_NOSTAT | FTS_NOCHDIR);
    walk("dots", b, a, FTS_PHYSICAL | FTS_SEEDOT | FTS_NOCHDIR);
    walk("one device", root, NULL, FTS_PHYSICAL | FTS_XDEV | FTS_COMFOLLOW | FTS_NOCHDIR);
    walk("files", file, missing, FTS_PHYSICAL | FTS_NOCHDIR);
    walk("below a file", in_file, NULL, FTS_PHYSICAL | FTS_NOCHDIR);
    walk("empty name", "", NULL, FTS_PHYSICAL);
    walk("unknown option", root, NULL, 0x400 | FTS_PHYSICAL);
    instructions(true);
    instructions(false);
    leave_early();
    char *paths[] = {root, NULL};
    FTS64 *tree = fts64_open(paths, FTS_PHYSICAL, by_name64);
    uint64_t hash = PROBE_HASH;
    FTSENT64 *node;
    while ((node = fts64_read(tree))) {
        hash = probe_hash(hash, node->fts_name, node->fts_namelen);
    }
    printf("fts64: %016llx %d\n", (unsigned long long)hash * (strcmp(root, "") != 0), fts64_close(tree));
    char *name = strrchr(root, '/') + 1;
    walk("relative", name, NULL, FTS_PHYSICAL | FTS_NOCHDIR);
    probe_expect(chdir(root) == 0, "chdir");
    walk("from inside", ".", NULL, FTS_PHYSICAL);
    walk("up and down", "a/../b", "a", FTS_LOGICAL);
    return probe_wrong;
}
