/* The names that an argument of a command stands for: the published index of its tree, mapped. */
#ifndef HR_CMD_NAMED_H
#define HR_CMD_NAMED_H

#include "fetch/cmd/target.h"
#include "interpose/index.h"

/* One published generation; it stays whole although the daemon replaces it. */
struct named_index {
    struct hr_index index; /* names NULL: none */
    void *base;
    size_t bytes;
};
/* file "" is none. 0 or -errno. */
int named_index_map(const char *file, struct named_index *ret);
void named_index_unmap(struct named_index *index);

/* What the daemon says of a tree's names (serve/indexes.h); *ret is the caller's. want: lists unless there
 * are names. */
int named_state(const struct hr_job *job, uint32_t tree, bool want, json_t **ret,
                char message[HR_MESSAGE_BYTES]);
/* Waits while `what` ("listing", "importing") goes on, with progress on stderr; the last state in *ret.
 * expected: names that it will be, 0: not known. */
int named_wait(const struct hr_job *job, uint32_t tree, const char *what, uint64_t expected, json_t **ret,
               char message[HR_MESSAGE_BYTES]);
/* The tree has names, listed if need be; *ret says which. */
int named_there(const struct hr_job *job, uint32_t tree, json_t **ret, char message[HR_MESSAGE_BYTES]);

/* Waits until the maps with list=FILE have their names. 0, or -errno with the file, the line and what is
 * wrong. */
int named_files(const struct hr_job *job, const uint32_t *trees, char message[HR_MESSAGE_BYTES]);

struct named {
    struct target target;
    struct named_index there;
    uint32_t entry; /* what the argument names */
    bool single;    /* one object, which was asked for by name: size, mtime_ns, no index */
    uint64_t size;
    int64_t mtime_ns;
};
/* A mapped path, or a URL (of which no more is listed than it names). Release it in any case. 0 or -errno
 * with one line. */
int named_open(struct named *named, const char *arg, char message[HR_MESSAGE_BYTES]);
void named_release(struct named *named);

#endif
