/* The directory above the tree shows it once, whether the map point is there or not; by readdir in all forms,
 * scandir, glob, nftw and fts, and positions in it can be gone back to. */
#include "tests/preload/probe.h"

#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <sys/wait.h>

#define NAMES_MAX 64

static char parent[PATH_MAX];
static const char *name;
static int seen;

static void tell(const char *what, char **names, int count)
{
    printf("%s:", what);
    for (int round = 0; round < count; round++) {
        int least = -1;
        for (int i = 0; i < count; i++) {
            least = names[i] && (least < 0 || strcmp(names[i], names[least]) < 0) ? i : least;
        }
        printf(" %s", names[least]);
        names[least] = NULL;
    }
    printf("\n");
}

static void walk(const char *what, DIR *dir)
{
    char *names[NAMES_MAX];
    long at[NAMES_MAX];
    int count = 0;
    struct dirent *entry;
    if (!dir) {
        probe_say(what, false);
        return;
    }
    while (at[count] = telldir(dir), (entry = readdir(dir)) && count < NAMES_MAX - 1) {
        names[count++] = strdup(entry->d_name);
        probe_expect(strcmp(entry->d_name, name) != 0 || (entry->d_type == DT_DIR && entry->d_ino),
                     "type of %s", name);
    }
    for (int i = count - 1; i >= 0; i--) {
        seekdir(dir, at[i]);
        entry = readdir(dir);
        probe_expect(entry && strcmp(entry->d_name, names[i]) == 0, "back to %s: %s", names[i],
                     entry ? entry->d_name : "end");
    }
    seekdir(dir, at[count]);
    probe_expect(!readdir(dir), "the end is not the end");
    rewinddir(dir);
    int again = 0;
    while (readdir64(dir)) {
        again++;
    }
    probe_expect(again == count, "%d names, then %d", count, again);
    struct stat by_fd, by_name;
    probe_expect(fstat(dirfd(dir), &by_fd) == 0 && stat(parent, &by_name) == 0 &&
                     by_fd.st_ino == by_name.st_ino,
                 "dirfd");
    probe_expect(fstatat(dirfd(dir), name, &by_fd, 0) == 0 && S_ISDIR(by_fd.st_mode), "from its descriptor");
    probe_expect(closedir(dir) == 0, "closedir");
    tell(what, names, count);
}

/* Without our object: at the map point itself. */
static void at_map_point(char *program)
{
    char *const argv[] = {program, (char *)probe_root, NULL};
    char *const none[] = {NULL};
    pid_t pid = fork();
    if (pid == 0) {
        close(2);
        execve(program, argv, none);
        _exit(99);
    }
    waitpid(pid, NULL, 0);
}

/* A directory stands at the map point, so that its parent shows it by itself. */
static void walk_over_point(void)
{
    static char make[] = "/bin/mkdir", take[] = "/bin/rmdir";
    char path[NAME_MAX + 16];
    struct stat st;
    at_map_point(make);
    DIR *dir = opendir(parent);
    snprintf(path, sizeof(path), "%s/top.txt", name);
    int fd = openat(dirfd(dir), path, O_RDONLY);
    uint64_t size = 0, hash = fd < 0 ? 0 : probe_digest(fd, &size);
    printf("open from dirfd: %llu %016llx, stat %d\n", (unsigned long long)size, (unsigned long long)hash,
           fstatat(dirfd(dir), path, &st, 0));
    close(fd);
    walk("over the map point", dir);
    at_map_point(take);
}

static int visit(const char *path, const struct stat *stat_at, int kind, struct FTW *where)
{
    (void)stat_at;
    (void)kind;
    seen += where->level == 1 && strcmp(path + where->base, name) == 0;
    seen += where->level == 2 && strcmp(path + where->base, "top.txt") == 0 ? 100 : 0;
    return 0;
}

int main(int argc, char **argv)
{
    probe_begin(argc, argv);
    snprintf(parent, sizeof(parent), "%s", probe_root);
    *strrchr(parent, '/') = '\0';
    name = strrchr(probe_root, '/') + 1;
    walk("opendir", opendir(parent));
    walk("opendir of .", opendir("."));
    walk("fdopendir", fdopendir(open(parent, O_RDONLY | O_DIRECTORY)));
    walk_over_point();
    struct dirent **list;
    int count = scandir(parent, &list, NULL, alphasort);
    printf("scandir: %d\n", count);
    for (int i = 0; i < count; i++) {
        printf("  %s\n", list[i]->d_name);
    }
    glob_t found = {0};
    char pattern[PATH_MAX + 16];
    snprintf(pattern, sizeof(pattern), "%s/*", parent);
    int result = glob(pattern, 0, NULL, &found);
    printf("glob: %d, %zu\n", result, found.gl_pathc);
    snprintf(pattern, sizeof(pattern), "%s/d*/t*.txt", parent);
    result = glob(pattern, 0, NULL, &found);
    printf("glob below: %d, %zu\n", result, found.gl_pathc);
    printf("nftw: %d", nftw(parent, visit, 5, FTW_PHYS));
    printf(" %d\n", seen);
    char *paths[] = {parent, NULL};
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    int nodes = 0;
    for (FTSENT *node; (node = fts_read(tree));) {
        nodes += node->fts_level >= 1 && strncmp(node->fts_path, probe_root, strlen(probe_root)) == 0;
    }
    fts_close(tree);
    printf("fts: %d\n", nodes);
    /* Many at once, and none is left. */
    for (int round = 0; round < 3; round++) {
        DIR *many[200];
        for (int i = 0; i < 200; i++) {
            many[i] = opendir(parent);
        }
        for (int i = 0; i < 200; i++) {
            probe_expect(many[i] && closedir(many[i]) == 0, "stream %d", i);
        }
    }
    DIR *root = opendir("/");
    int dots = 0;
    for (struct dirent *entry; (entry = readdir(root));) {
        dots += strcmp(entry->d_name, "..") == 0;
    }
    closedir(root);
    printf("root: %d\n", dots);
    return probe_wrong;
}
