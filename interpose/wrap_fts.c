/* fts: libc walks past every hook, so a walk with a root in a map or above one is made here, over our own
 * opendir and stat; it may cross from real directories into a map. It never changes the working directory,
 * which FTS_NOCHDIR only promises and the absence of it only allows: fts_accpath is fts_path always. Other
 * walks are libc's. fts_set writes into the node alone, so libc's serves both. As in libc, fts_path is one
 * buffer of the whole walk, right for the node that fts_read has just returned. */
#define HR_HEAP_BY_CONTRACT /* nodes are the caller's to look at until the walk moves on */
#include <fts.h>

#include "interpose/alias.h"
#include "interpose/door.h"
#include "interpose/inner.h"

_Static_assert(sizeof(FTS) == sizeof(FTS64) && sizeof(FTSENT) == sizeof(FTSENT64) &&
                   sizeof(struct stat) == sizeof(struct stat64),
               "one layout serves both names on 64-bit machines");

/* In fts_options, where libc never sets it: the walk is one of these. */
#define OURS 0x10000
/* fts_pathlen counts in 16 bits; pages that no path reaches stay untouched. */
#define PATH_BYTES 65536

enum build { BUILD_NAMES, BUILD_CHILDREN, BUILD_READ };

typedef int (*compare_fn)(const FTSENT **, const FTSENT **);

static FTSENT *new_node(const FTS *walk, const char *name, size_t len)
{
    size_t head = (offsetof(FTSENT, fts_name) + len + 1 + 15) & ~(size_t)15;
    size_t bytes = head + sizeof(struct stat);
    FTSENT *node = hr_zeroed(bytes);
    if (node) {
        memcpy(node->fts_name, name, len);
        node->fts_namelen = (unsigned short)len;
        node->fts_path = node->fts_accpath = walk->fts_path;
        node->fts_instr = FTS_NOINSTR;
        node->fts_statp = walk->fts_options & FTS_NOSTAT ? NULL : (struct stat *)((char *)node + head);
    }
    return node;
}

static void free_list(FTSENT *list)
{
    while (list) {
        FTSENT *next = list->fts_link;
        free(list);
        list = next;
    }
}

/* Back into list order; without memory the order stays as it was read. */
static FTSENT *sort_list(FTS *walk, FTSENT *list, size_t count)
{
    FTSENT **array = count > 1 && walk->fts_compar ? malloc(count * sizeof(*array)) : NULL;
    if (!array) {
        return list;
    }
    for (size_t i = 0; i < count; i++, list = list->fts_link) {
        array[i] = list;
    }
    qsort(array, count, sizeof(*array), walk->fts_compar);
    for (size_t i = 0; i + 1 < count; i++) {
        array[i]->fts_link = array[i + 1];
    }
    array[count - 1]->fts_link = NULL;
    list = array[0];
    free(array);
    return list;
}

/* ---- what a node is ---- */

static bool is_dots(const char *name)
{
    return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

/* `path` is the node's. */
static unsigned short look(const FTS *walk, FTSENT *node, const char *path, bool follow)
{
    struct stat own;
    struct stat *at = node->fts_statp ? node->fts_statp : &own;
    bool logical = follow || (walk->fts_options & FTS_LOGICAL);
    if ((logical ? stat(path, at) : lstat(path, at)) < 0) {
        int error = errno;
        if (logical && lstat(path, at) == 0) {
            errno = 0;
            return FTS_SLNONE;
        }
        node->fts_errno = error;
        memset(at, 0, sizeof(*at));
        return FTS_NS;
    }
    if (!S_ISDIR(at->st_mode)) {
        return S_ISLNK(at->st_mode) ? FTS_SL : S_ISREG(at->st_mode) ? FTS_F : FTS_DEFAULT;
    }
    node->fts_dev = at->st_dev;
    node->fts_ino = at->st_ino;
    node->fts_nlink = at->st_nlink;
    if (is_dots(node->fts_name)) {
        return FTS_DOT;
    }
    for (FTSENT *above = node->fts_parent; above->fts_level >= FTS_ROOTLEVEL; above = above->fts_parent) {
        if (above->fts_ino == node->fts_ino && above->fts_dev == node->fts_dev) {
            node->fts_cycle = above;
            return FTS_DC;
        }
    }
    return FTS_D;
}

/* ---- the children of a directory ---- */

/* Where a child's '/' goes. */
static size_t end_of(const FTS *walk, const FTSENT *dir)
{
    size_t len = dir->fts_pathlen;
    return len > 0 && walk->fts_path[len - 1] == '/' ? len - 1 : len;
}

static void put_name(FTS *walk, const FTSENT *node)
{
    char *at = walk->fts_path + end_of(walk, node->fts_parent);
    *at++ = '/';
    memcpy(at, node->fts_name, (size_t)node->fts_namelen + 1);
}

/* What only the stat tells is asked; d_type suffices for the rest of a physical walk without stat. */
static bool needs_look(const FTS *walk, const struct dirent64 *entry, enum build build)
{
    const int sparing = FTS_NOSTAT | FTS_PHYSICAL;
    return build != BUILD_NAMES && ((walk->fts_options & sparing) != sparing || entry->d_type == DT_DIR ||
                                    entry->d_type == DT_UNKNOWN);
}

/* One child, or NULL with errno. */
static FTSENT *new_child(FTS *walk, FTSENT *dir, const struct dirent64 *entry, enum build build)
{
    size_t len = strlen(entry->d_name);
    size_t path_len = end_of(walk, dir) + 1 + len;
    if (path_len >= PATH_BYTES) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    FTSENT *node = new_node(walk, entry->d_name, len);
    if (!node) {
        return NULL;
    }
    node->fts_level = (short)(dir->fts_level + 1);
    node->fts_parent = dir;
    node->fts_pathlen = (unsigned short)path_len;
    node->fts_ino = entry->d_ino;
    node->fts_info = FTS_NSOK;
    if (needs_look(walk, entry, build)) {
        put_name(walk, node);
        node->fts_info = look(walk, node, walk->fts_path, false);
    }
    return node;
}

/* All of them in reading order; -1 with errno when the list is not whole. */
static int read_children(FTS *walk, FTSENT *dir, DIR *stream, enum build build, FTSENT **ret,
                         size_t *ret_count)
{
    const struct dirent64 *entry;
    FTSENT **tail = ret;
    while ((errno = 0, entry = readdir64(stream))) {
        if (is_dots(entry->d_name) && !(walk->fts_options & FTS_SEEDOT)) {
            continue;
        }
        *tail = new_child(walk, dir, entry, build);
        if (!*tail) {
            return -1;
        }
        tail = &(*tail)->fts_link;
        (*ret_count)++;
    }
    return errno ? -1 : 0;
}

/* The sorted list; NULL: empty, or an error that `dir` tells. */
static FTSENT *build_children(FTS *walk, FTSENT *dir, enum build build)
{
    FTSENT *list = NULL;
    size_t count = 0;
    int error = 0;
    DIR *stream = opendir(walk->fts_path);
    if (!stream || read_children(walk, dir, stream, build, &list, &count) < 0) {
        error = errno;
    }
    if (stream) {
        closedir(stream);
    }
    walk->fts_path[dir->fts_pathlen] = '\0';
    if (error == ENOMEM || error == ENAMETOOLONG) {
        free_list(list);
        dir->fts_info = FTS_ERR;
        dir->fts_errno = error;
        walk->fts_options |= FTS_STOP;
        errno = error;
        return NULL;
    }
    if (error) {
        free_list(list);
        if (build == BUILD_READ) {
            dir->fts_info = FTS_DNR;
            dir->fts_errno = error;
        }
        errno = error;
        return NULL;
    }
    if (!list && build == BUILD_READ) {
        dir->fts_info = FTS_DP;
    }
    return sort_list(walk, list, count);
}

/* ---- open, close ---- */

static FTSENT *new_root(FTS *walk, FTSENT *parent, const char *path)
{
    size_t len = strlen(path);
    if (len == 0 || len >= PATH_BYTES) {
        errno = len ? ENAMETOOLONG : ENOENT;
        return NULL;
    }
    FTSENT *node = new_node(walk, path, len);
    if (node) {
        node->fts_level = FTS_ROOTLEVEL;
        node->fts_parent = parent;
        node->fts_pathlen = (unsigned short)len;
        node->fts_accpath = node->fts_name;
        node->fts_info = look(walk, node, node->fts_name, walk->fts_options & FTS_COMFOLLOW);
        /* "." as a root is to be walked. */
        node->fts_info = node->fts_info == FTS_DOT ? FTS_D : node->fts_info;
    }
    return node;
}

static void free_walk(FTS *walk)
{
    /* From the current node on along its level, then up. */
    for (FTSENT *node = walk->fts_cur; node;) {
        FTSENT *next = node->fts_link                          ? node->fts_link
                       : node->fts_level > FTS_ROOTPARENTLEVEL ? node->fts_parent
                                                               : NULL;
        free(node);
        node = next;
    }
    free_list(walk->fts_child);
    free(walk->fts_path);
    free(walk);
}

static int add_roots(FTS *walk, FTSENT *parent, char *const *paths)
{
    FTSENT *list = NULL;
    FTSENT **tail = &list;
    size_t count = 0;
    for (; *paths; paths++, count++, tail = &(*tail)->fts_link) {
        *tail = new_root(walk, parent, *paths);
        if (!*tail) {
            free_list(list);
            return -1;
        }
    }
    walk->fts_cur->fts_link = sort_list(walk, list, count);
    return 0;
}

static HR_NOINLINE FTS *open_walk(char *const *paths, int options, compare_fn compare)
{
    FTS *walk = hr_zeroed(sizeof(*walk));
    if (!walk) {
        return NULL;
    }
    walk->fts_compar = (int (*)(const void *, const void *))compare;
    walk->fts_options = options | OURS | (options & FTS_LOGICAL ? FTS_NOCHDIR : 0);
    walk->fts_rfd = -1;
    walk->fts_path = malloc(PATH_BYTES);
    walk->fts_pathlen = PATH_BYTES;
    FTSENT *parent = walk->fts_path ? new_node(walk, "", 0) : NULL;
    walk->fts_cur = parent ? new_node(walk, "", 0) : NULL;
    if (!walk->fts_cur) {
        free(parent);
        free_walk(walk);
        errno = ENOMEM;
        return NULL;
    }
    parent->fts_level = FTS_ROOTPARENTLEVEL;
    walk->fts_path[0] = '\0';
    walk->fts_cur->fts_parent = parent;
    walk->fts_cur->fts_info = FTS_INIT;
    if (add_roots(walk, parent, paths) < 0) {
        int kept = errno;
        free_walk(walk);
        errno = kept;
        return NULL;
    }
    return walk;
}

/* ---- the walk ---- */

/* A root's turn: its name becomes the last component. */
static FTSENT *load_root(FTS *walk, FTSENT *node)
{
    size_t len = node->fts_namelen;
    memcpy(walk->fts_path, node->fts_name, len + 1);
    const char *slash = strrchr(node->fts_name, '/');
    if (slash && (slash != node->fts_name || slash[1])) {
        len = strlen(slash + 1);
        memmove(node->fts_name, slash + 1, len + 1);
        node->fts_namelen = (unsigned short)len;
    }
    node->fts_accpath = walk->fts_path;
    walk->fts_dev = node->fts_dev;
    return node;
}

static FTSENT *descend(FTS *walk, FTSENT *dir, int instruction)
{
    bool stays = instruction == FTS_SKIP || ((walk->fts_options & FTS_XDEV) && dir->fts_dev != walk->fts_dev);
    if (stays || (walk->fts_options & FTS_NAMEONLY)) {
        walk->fts_options &= ~FTS_NAMEONLY;
        free_list(walk->fts_child);
        walk->fts_child = NULL;
    }
    if (stays) {
        dir->fts_info = FTS_DP;
        return dir;
    }
    FTSENT *first = walk->fts_child ? walk->fts_child : build_children(walk, dir, BUILD_READ);
    walk->fts_child = NULL;
    if (!first) {
        return walk->fts_options & FTS_STOP ? NULL : dir;
    }
    walk->fts_cur = first;
    put_name(walk, first);
    return first;
}

static FTSENT *ascend(FTS *walk, FTSENT *from)
{
    FTSENT *dir = from->fts_parent;
    free(from);
    walk->fts_cur = dir;
    if (dir->fts_level == FTS_ROOTPARENTLEVEL) {
        free(dir);
        walk->fts_cur = NULL;
        errno = 0;
        return NULL;
    }
    walk->fts_path[dir->fts_pathlen] = '\0';
    dir->fts_info = dir->fts_errno ? FTS_ERR : FTS_DP;
    return dir;
}

static FTSENT *advance(FTS *walk, FTSENT *node)
{
    FTSENT *next;
    while ((next = node->fts_link)) {
        free(node);
        walk->fts_cur = node = next;
        if (node->fts_level == FTS_ROOTLEVEL) {
            return load_root(walk, node);
        }
        if (node->fts_instr == FTS_SKIP) {
            continue;
        }
        put_name(walk, node);
        if (node->fts_instr == FTS_FOLLOW) {
            node->fts_info = look(walk, node, walk->fts_path, true);
            node->fts_instr = FTS_NOINSTR;
        }
        return node;
    }
    return ascend(walk, node);
}

static FTSENT *read_node(FTS *walk)
{
    FTSENT *node = walk->fts_cur;
    if (!node || (walk->fts_options & FTS_STOP)) {
        return NULL;
    }
    int instruction = node->fts_instr;
    bool link = node->fts_info == FTS_SL || node->fts_info == FTS_SLNONE;
    node->fts_instr = FTS_NOINSTR;
    if (instruction == FTS_AGAIN || (instruction == FTS_FOLLOW && link)) {
        node->fts_info = look(walk, node, walk->fts_path, instruction == FTS_FOLLOW);
        return node;
    }
    return node->fts_info == FTS_D ? descend(walk, node, instruction) : advance(walk, node);
}

static FTSENT *list_children(FTS *walk, int what)
{
    FTSENT *node = walk->fts_cur;
    if (what != 0 && what != FTS_NAMEONLY) {
        errno = EINVAL;
        return NULL;
    }
    errno = 0; /* the contract: 0 is "empty" */
    if (!node || (walk->fts_options & FTS_STOP)) {
        return NULL;
    }
    if (node->fts_info == FTS_INIT) {
        return node->fts_link;
    }
    if (node->fts_info != FTS_D) {
        return NULL;
    }
    free_list(walk->fts_child);
    walk->fts_options = (walk->fts_options & ~FTS_NAMEONLY) | what;
    walk->fts_child = build_children(walk, node, what ? BUILD_NAMES : BUILD_CHILDREN);
    return walk->fts_child;
}

/* ---- which walks ---- */

static HR_NOINLINE bool any_is_ours(char *const *paths)
{
    struct hr_place place;
    for (; *paths; paths++) {
        if (**paths && (hr_path_find_as(AT_FDCWD, *paths, true, &place) ||
                        hr_path_is_way(AT_FDCWD, *paths, &place) || hr_alias_follows)) {
            return true;
        }
    }
    return false;
}

static inline bool takes(char *const *paths, int options)
{
    return HR_UNLIKELY(hr_active) && !(options & ~FTS_OPTIONMASK) && any_is_ours(paths);
}

static inline bool is_ours(const FTS *walk)
{
    return HR_UNLIKELY(hr_active) && (walk->fts_options & OURS);
}

FTS *fts_open(char *const *paths, int options, compare_fn compare)
{
    return takes(paths, options) ? open_walk(paths, options, compare)
                                 : HR_REAL(fts_open)(paths, options, compare);
}

FTSENT *fts_read(FTS *walk)
{
    return is_ours(walk) ? read_node(walk) : HR_REAL(fts_read)(walk);
}

FTSENT *fts_children(FTS *walk, int what)
{
    return is_ours(walk) ? list_children(walk, what) : HR_REAL(fts_children)(walk, what);
}

int fts_close(FTS *walk)
{
    if (!is_ours(walk)) {
        return HR_REAL(fts_close)(walk);
    }
    free_walk(walk);
    return 0;
}

FTS64 *fts64_open(char *const *paths, int options, int (*compare)(const FTSENT64 **, const FTSENT64 **))
{
    return takes(paths, options) ? (FTS64 *)open_walk(paths, options, (compare_fn)(void (*)(void))compare)
                                 : HR_REAL(fts64_open)(paths, options, compare);
}

FTSENT64 *fts64_read(FTS64 *walk)
{
    return is_ours((FTS *)walk) ? (FTSENT64 *)read_node((FTS *)walk) : HR_REAL(fts64_read)(walk);
}

FTSENT64 *fts64_children(FTS64 *walk, int what)
{
    return is_ours((FTS *)walk) ? (FTSENT64 *)list_children((FTS *)walk, what)
                                : HR_REAL(fts64_children)(walk, what);
}

int fts64_close(FTS64 *walk)
{
    return is_ours((FTS *)walk) ? fts_close((FTS *)walk) : HR_REAL(fts64_close)(walk);
}
