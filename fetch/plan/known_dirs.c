#include "fetch/plan/known_dirs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "fetch/base/clock.h"

/* Names of directories kept for further readers, of all trees together; the least recently used go. Ours: far
 * below the kernel's 65,530 mappings a process, and 600,000 names. */
#define HR_DIRS_MAX 4096u
#define HR_DIRS_BYTES_MAX (64ull << 20)

struct hr_known_dir {
    UT_hash_handle hh;                /* in its tree, by path */
    struct hr_known_dir *prev, *next; /* in plan->dirs.list, least recently used first */
    struct hr_plan_tree *tree;
    struct hr_index index; /* entry 0 is the directory; directories in it have no children here */
    uint32_t number;
    int64_t told_ms, until_ms;
    uint32_t path_len;
    char path[];
};

static void forget(struct hr_known_dir *dir)
{
    struct hr_plan *plan = dir->tree->plan;
    HASH_DEL(dir->tree->dirs, dir);
    DL_DELETE(plan->dirs.list, dir);
    plan->dirs.count--;
    plan->dirs.bytes -= dir->index.names->file_bytes;
    hr_index_remove_dir(plan->index_dir, dir->tree->id, dir->number, plan->options.boot);
    hr_index_unmap(&dir->index);
    free(dir);
}

struct hr_known_dir *hr_known_dir_find(struct hr_plan_tree *tree, const char *path, uint32_t path_len)
{
    struct hr_known_dir *dir = NULL;
    HASH_FIND(hh, tree->dirs, path, path_len, dir);
    return dir && dir->until_ms > hr_clock_ms() ? dir : NULL;
}

const struct hr_index *hr_known_dir_index(const struct hr_known_dir *dir)
{
    return &dir->index;
}

uint32_t hr_known_dir_use(struct hr_known_dir *dir)
{
    struct hr_plan *plan = dir->tree->plan;
    DL_DELETE(plan->dirs.list, dir);
    DL_APPEND(plan->dirs.list, dir);
    return dir->number;
}

int hr_known_dir_add(struct hr_plan_tree *tree, const char *path, uint32_t path_len,
                     const struct hr_index *index, uint32_t number, int64_t told_ms)
{
    struct hr_plan *plan = tree->plan;
    struct hr_known_dir *old = NULL;
    struct hr_known_dir *dir = calloc(1, sizeof *dir + path_len + 1);
    if (!dir) {
        return -ENOMEM;
    }
    HASH_FIND(hh, tree->dirs, path, path_len, old);
    if (old) {
        forget(old);
    }
    dir->tree = tree;
    dir->index = *index;
    dir->number = number;
    dir->told_ms = told_ms;
    dir->until_ms = hr_tree_until_ms(tree, told_ms);
    dir->path_len = path_len;
    memcpy(dir->path, path, path_len);
    HASH_ADD_KEYPTR(hh, tree->dirs, dir->path, dir->path_len, dir);
    if (!dir->hh.tbl) {
        free(dir);
        return -ENOMEM;
    }
    DL_APPEND(plan->dirs.list, dir);
    plan->dirs.count++;
    plan->dirs.bytes += index->names->file_bytes;
    while (plan->dirs.list != dir &&
           (plan->dirs.count > HR_DIRS_MAX || plan->dirs.bytes > HR_DIRS_BYTES_MAX)) {
        forget(plan->dirs.list);
    }
    return 0;
}

static void fill_name(const struct hr_plan_tree *tree, const struct hr_index *index, uint32_t entry,
                      struct hr_name *ret)
{
    const struct hr_entry *found = &index->entries[entry];
    bool file = found->kind == HR_KIND_FILE;
    *ret = (struct hr_name){.kind = found->kind,
                            .size = file ? found->size : 0,
                            .mtime_ns = file ? found->mtime_ns : tree->shared->start_ns};
    if (!file || hr_index_etag(index, entry, ret->etag, sizeof ret->etag) < 0) {
        ret->etag[0] = '\0';
    }
}

/* Ancestors tell as well: where one of them has no such child, nothing can be below it. */
bool hr_known_dirs_tell(struct hr_plan_tree *tree, const char *path, uint32_t path_len, struct hr_name *ret,
                        int64_t *ret_told_ms)
{
    struct hr_known_dir *dir = tree->dirs ? hr_known_dir_find(tree, path, path_len) : NULL;
    if (dir) {
        *ret = (struct hr_name){.kind = HR_KIND_DIR, .mtime_ns = tree->shared->start_ns};
        *ret_told_ms = dir->told_ms;
        return true;
    }
    for (uint32_t end = path_len; tree->dirs && end > 0;) {
        const char *slash = memrchr(path, '/', end);
        uint32_t parent = slash ? (uint32_t)(slash - path) : 0;
        uint32_t name = slash ? parent + 1 : 0;
        uint32_t entry;
        dir = hr_known_dir_find(tree, path, parent);
        if (dir) {
            int error = hr_index_lookup(&dir->index, path + name, end - name, &entry);
            *ret_told_ms = dir->told_ms;
            if (error < 0) {
                *ret = (struct hr_name){.error = error};
                return true;
            }
            if (end == path_len) {
                fill_name(tree, &dir->index, entry, ret);
                return true;
            }
            *ret = (struct hr_name){.error = -ENOTDIR};
            return dir->index.entries[entry].kind == HR_KIND_FILE;
        }
        end = parent;
    }
    return false;
}

void hr_known_dirs_forget(struct hr_plan_tree *tree)
{
    struct hr_known_dir *dir, *next;
    HASH_ITER(hh, tree->dirs, dir, next)
    {
        forget(dir);
    }
}
