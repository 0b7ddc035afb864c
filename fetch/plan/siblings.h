/* Names of the large objects that lie behind one in its folder and end like it, in the listing's order: out
 * of the index, or by one page of a listing of that folder alone. Names that programs ask for are answered
 * without them. Main loop. */
#ifndef HR_PLAN_SIBLINGS_H
#define HR_PLAN_SIBLINGS_H

#include "fetch/plan/inner.h"

struct hr_sibling {
    uint64_t name; /* hr_sibling_name */
    uint64_t size;
    int64_t mtime_ns;
    char *key, *etag; /* one block, key first */
    uint32_t key_len;
    bool opened, read_whole; /* since the epoch began, as shards.c has it */
};

struct hr_siblings {
    struct hr_sibling *list;
    uint32_t count, room;
    bool more; /* the folder goes on behind them */
};

/* Bytes of the key up to its last '/', that with it. */
uint32_t hr_sibling_folder(const char *key, uint32_t key_len);
/* What is behind the last dot of its name, up to a '-' ("x.tfrecord-00001-of-00100"); "" where there is none.
 */
const char *hr_sibling_suffix(const char *key, uint32_t key_len, uint32_t *ret_len);
uint64_t hr_sibling_name(const char *key, uint32_t key_len); /* a hash */

/* Siblings of `key` from it on, as the index has them. 0 or -errno (-ENOENT: it has no such folder). */
int hr_siblings_indexed(struct hr_plan_tree *tree, const char *key, uint32_t key_len,
                        struct hr_siblings *ret);
/* Asks for the page; done with the call, which is the caller's to free. 0 or -errno. */
int hr_siblings_list(struct hr_plan_tree *tree, const char *key, uint32_t key_len,
                     void (*done)(struct hr_call *call), void *owner);
int hr_siblings_listed(struct hr_plan_tree *tree, const char *key, uint32_t key_len,
                       const struct hr_call *call, struct hr_siblings *ret);
void hr_siblings_free(struct hr_siblings *siblings); /* empty and usable again */

#endif
