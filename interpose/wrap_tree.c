/* ftw and nftw: libc walks past every hook, so a walk that starts in a map or above one is made here, over
 * our own opendir, stat and chdir, and may cross from real directories into a map. A directory is read whole
 * before its first child is reported, so no stream stays open while the caller's function runs. Other walks
 * are libc's. */
#define HR_HEAP_BY_CONTRACT /* a walk keeps names and visited directories, as libc's does; not signal-safe   \
                               there */
#include <ftw.h>

#include "interpose/alias.h"
#include "interpose/abi.h"
#include "interpose/door.h"
#include "interpose/sys.h"
#include "interpose/inner.h"

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "one layout on 64-bit Linux");

#define FIRST_BYTES 4096 /* of a path or of a directory's names; they double */
#define FIRST_VISITED 64
#define FLAGS_KNOWN (FTW_PHYS | FTW_MOUNT | FTW_CHDIR | FTW_DEPTH | FTW_ACTIONRETVAL)

typedef int (*visit_fn)(const char *, const struct stat *, int, struct FTW *);

struct visited {
    dev_t dev;
    ino_t ino;
    bool used;
};

struct tree {
    visit_fn visit;
    int flags;
    bool old; /* ftw: fewer kinds, no struct FTW */
    dev_t dev;
    struct FTW where;
    char *path;
    size_t path_room;
    struct visited *visited; /* directories, hashed; only without FTW_PHYS */
    size_t visited_count, visited_slots;
};

/* Names of one directory, each with its terminator. */
struct names {
    char *text;
    size_t bytes, room;
};

static int walk_entry(struct tree *tree, size_t parent_len, const char *name);

/* ---- memory ---- */

/* 0 or -1 with errno. */
static int make_room(char **buffer, size_t *room, size_t bytes)
{
    if (bytes <= *room) {
        return 0;
    }
    size_t next = *room ? *room : FIRST_BYTES;
    while (next < bytes) {
        next *= 2;
    }
    char *grown = realloc(*buffer, next);
    if (!grown) {
        return -1;
    }
    *buffer = grown;
    *room = next;
    return 0;
}

/* Where (dev, ino) is or belongs in a table of `slots`, a power of two with room. */
static size_t find_visited(const struct visited *table, size_t slots, const struct visited *key)
{
    size_t at = hr_mix64(key->ino ^ (uint64_t)key->dev << 40) & (slots - 1);
    while (table[at].used && (table[at].ino != key->ino || table[at].dev != key->dev)) {
        at = (at + 1) & (slots - 1);
    }
    return at;
}

static int double_visited(struct tree *tree)
{
    size_t slots = tree->visited_slots ? 2 * tree->visited_slots : FIRST_VISITED;
    struct visited *table = hr_zeroed(slots * sizeof(*table));
    if (!table) {
        return -1;
    }
    for (size_t i = 0; i < tree->visited_slots; i++) {
        if (tree->visited[i].used) {
            table[find_visited(table, slots, &tree->visited[i])] = tree->visited[i];
        }
    }
    free(tree->visited);
    tree->visited = table;
    tree->visited_slots = slots;
    return 0;
}

/* 1: new, 0: was here before, -1 with errno. */
static int remember(struct tree *tree, const struct stat *stat)
{
    struct visited key = {.dev = stat->st_dev, .ino = stat->st_ino, .used = true};
    if (2 * tree->visited_count >= tree->visited_slots && double_visited(tree)) {
        return -1;
    }
    struct visited *at = &tree->visited[find_visited(tree->visited, tree->visited_slots, &key)];
    if (at->used) {
        return 0;
    }
    *at = key;
    tree->visited_count++;
    return 1;
}

/* ---- one object ---- */

/* How the object is reached from where we stand. */
static const char *reach(const struct tree *tree)
{
    return tree->flags & FTW_CHDIR ? tree->path + tree->where.base : tree->path;
}

static int report(struct tree *tree, const struct stat *stat, int kind)
{
    static const int old_kinds[] = {
        [FTW_F] = FTW_F,  [FTW_D] = FTW_D,  [FTW_DNR] = FTW_DNR, [FTW_NS] = FTW_NS,
        [FTW_SL] = FTW_F, [FTW_DP] = FTW_D, [FTW_SLN] = FTW_NS};
    if (tree->old) {
        return ((__ftw_func_t)(void (*)(void))tree->visit)(tree->path, stat, old_kinds[kind]);
    }
    return tree->visit(tree->path, stat, kind, &tree->where);
}

static bool skips(const struct tree *tree, int result, int what)
{
    return (tree->flags & FTW_ACTIONRETVAL) && result == what;
}

/* Names of the directory at reach(), "." and ".." left out. */
static int read_names(const struct tree *tree, struct names *ret)
{
    const char *path = reach(tree);
    DIR *dir = opendir(*path ? path : ".");
    const struct dirent64 *entry;
    int error = 0;
    if (!dir) {
        return -1;
    }
    while (!error && (errno = 0, entry = readdir64(dir))) {
        const char *name = entry->d_name;
        if (name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]))) {
            continue;
        }
        size_t bytes = strlen(name) + 1;
        error = make_room(&ret->text, &ret->room, ret->bytes + bytes);
        if (!error) {
            memcpy(ret->text + ret->bytes, name, bytes);
            ret->bytes += bytes;
        }
    }
    int kept = errno;
    closedir(dir);
    errno = kept;
    return error || kept ? -1 : 0;
}

/* FTW_CHDIR: into a directory and back. The way back is a descriptor, for it may have come by a symlink. */
static int enter(struct tree *tree)
{
    const char *path = reach(tree);
    int back = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (back < 0) {
        return -1;
    }
    if (chdir(*path ? path : ".") < 0) {
        int kept = errno;
        close(back);
        errno = kept;
        return -1;
    }
    return back;
}

static int leave(int back, int result)
{
    int kept = errno;
    if (fchdir(back) < 0) {
        kept = errno;
        result = -1;
    }
    close(back);
    errno = kept;
    return result;
}

static int walk_names(struct tree *tree, const struct names *names)
{
    size_t len = strlen(tree->path);
    int base = tree->where.base;
    int result = 0;
    tree->where.level++;
    for (size_t at = 0; result == 0 && at < names->bytes; at += strlen(names->text + at) + 1) {
        result = walk_entry(tree, len, names->text + at);
    }
    tree->path[len] = '\0';
    tree->where.level--;
    tree->where.base = base;
    return skips(tree, result, FTW_SKIP_SIBLINGS) ? 0 : result;
}

static int walk_dir(struct tree *tree, const struct stat *stat)
{
    struct names names = {0};
    int back = -1;
    if (read_names(tree, &names) < 0) {
        int kept = errno;
        free(names.text);
        errno = kept;
        return kept == EACCES ? report(tree, stat, FTW_DNR) : -1;
    }
    int result = tree->flags & FTW_DEPTH ? 0 : report(tree, stat, FTW_D);
    if (result == 0 && (tree->flags & FTW_CHDIR)) {
        back = enter(tree);
        result = back < 0 ? -1 : 0;
    }
    if (result == 0) {
        result = walk_names(tree, &names);
        if (result == 0 && (tree->flags & FTW_DEPTH)) {
            result = report(tree, stat, FTW_DP);
        }
    }
    int kept = errno;
    free(names.text);
    errno = kept;
    return back < 0 ? result : leave(back, result);
}

/* What (2) says of the object at reach(): its FTW_ kind, or -1 with errno. */
static int kind_of(const struct tree *tree, struct stat *ret)
{
    const char *path = reach(tree);
    bool physical = tree->flags & FTW_PHYS;
    if ((physical ? lstat(*path ? path : ".", ret) : stat(*path ? path : ".", ret)) == 0) {
        return S_ISDIR(ret->st_mode) ? FTW_D : S_ISLNK(ret->st_mode) ? FTW_SL : FTW_F;
    }
    if (errno != EACCES && errno != ENOENT) {
        return -1;
    }
    return !physical && lstat(path, ret) == 0 && S_ISLNK(ret->st_mode) ? FTW_SLN : FTW_NS;
}

static int walk_object(struct tree *tree, const struct stat *stat, int kind)
{
    if (kind != FTW_D) {
        return report(tree, stat, kind);
    }
    int fresh = tree->flags & FTW_PHYS ? 1 : remember(tree, stat);
    return fresh > 0 ? walk_dir(tree, stat) : fresh;
}

static int walk_entry(struct tree *tree, size_t parent_len, const char *name)
{
    struct stat stat;
    size_t bytes = strlen(name) + 1;
    bool slash = tree->path[parent_len - 1] != '/';
    if (make_room(&tree->path, &tree->path_room, parent_len + slash + bytes)) {
        return -1;
    }
    tree->path[parent_len] = '/';
    tree->where.base = (int)(parent_len + slash);
    memcpy(tree->path + tree->where.base, name, bytes);
    memset(&stat, 0, sizeof(stat));
    int kind = kind_of(tree, &stat);
    if (kind < 0) {
        return -1;
    }
    if (kind != FTW_NS && (tree->flags & FTW_MOUNT) && stat.st_dev != tree->dev) {
        return 0;
    }
    int result = walk_object(tree, &stat, kind);
    return skips(tree, result, FTW_SKIP_SUBTREE) ? 0 : result;
}

/* ---- the start ---- */

/* FTW_CHDIR: the start itself is seen from the directory it is in. */
static int enter_parent(struct tree *tree)
{
    int back = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (back < 0 || tree->where.base == 0) {
        return back;
    }
    char kept = tree->path[tree->where.base];
    tree->path[tree->where.base] = '\0';
    int result = chdir(tree->path);
    tree->path[tree->where.base] = kept;
    if (result < 0) {
        int error = errno;
        close(back);
        errno = error;
        return -1;
    }
    return back;
}

static int walk_start(struct tree *tree)
{
    struct stat stat;
    memset(&stat, 0, sizeof(stat));
    int kind = kind_of(tree, &stat);
    if (kind < 0 || kind == FTW_NS) {
        return -1;
    }
    tree->dev = stat.st_dev;
    int result = walk_object(tree, &stat, kind);
    return skips(tree, result, FTW_SKIP_SUBTREE) || skips(tree, result, FTW_SKIP_SIBLINGS) ? 0 : result;
}

static HR_NOINLINE int walk_tree(const char *path, visit_fn visit, int flags, bool old)
{
    struct tree tree = {.visit = visit, .flags = flags, .old = old};
    size_t len = strlen(path);
    int saved = errno;
    int back = -1;
    int result = -1;
    if (flags & ~FLAGS_KNOWN) {
        errno = EINVAL;
        return -1;
    }
    if (make_room(&tree.path, &tree.path_room, len + 1)) {
        return -1;
    }
    memcpy(tree.path, path, len + 1);
    while (len > 1 && tree.path[len - 1] == '/') {
        tree.path[--len] = '\0';
    }
    const char *slash = strrchr(tree.path, '/');
    tree.where.base = slash ? (int)(slash + 1 - tree.path) : 0;
    if (!(flags & FTW_CHDIR) || (back = enter_parent(&tree)) >= 0) {
        result = walk_start(&tree);
    }
    if (back >= 0) {
        result = leave(back, result);
    }
    int kept = result == 0 ? saved : errno;
    free(tree.path);
    free(tree.visited);
    errno = kept;
    return result;
}

static HR_NOINLINE bool walk_is_ours(const char *path)
{
    struct hr_place place;
    return hr_path_find_as(AT_FDCWD, path, true, &place) || hr_path_is_way(AT_FDCWD, path, &place) ||
           hr_alias_follows; /* one on the way may lead into a map */
}

static inline bool ours(const char *path)
{
    return HR_UNLIKELY(hr_active) && path && path[0] && walk_is_ours(path);
}

int nftw(const char *path, __nftw_func_t visit, int descriptors, int flags)
{
    return ours(path) ? walk_tree(path, visit, flags, false) : HR_REAL(nftw)(path, visit, descriptors, flags);
}

int nftw64(const char *path, __nftw64_func_t visit, int descriptors, int flags)
{
    return ours(path) ? walk_tree(path, (visit_fn)visit, flags, false)
                      : HR_REAL(nftw64)(path, visit, descriptors, flags);
}

int ftw(const char *path, __ftw_func_t visit, int descriptors)
{
    return ours(path) ? walk_tree(path, (visit_fn)(void (*)(void))visit, 0, true)
                      : HR_REAL(ftw)(path, visit, descriptors);
}

int ftw64(const char *path, __ftw64_func_t visit, int descriptors)
{
    return ours(path) ? walk_tree(path, (visit_fn)(void (*)(void))visit, 0, true)
                      : HR_REAL(ftw64)(path, visit, descriptors);
}
