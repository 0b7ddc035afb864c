/* One growing array that may become large: memory while it is small, then a file without a name, mapped. */
#ifndef HR_LIST_SCRATCH_H
#define HR_LIST_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>

struct hr_scratch {
    const char *dir; /* the owner's; where the file goes; NULL: memory alone */
    void *base;      /* moves when it grows */
    size_t room;     /* bytes at base */
    bool mapped;     /* base is a file's, which `fd` is */
    int fd;
};

/* As hr_scratch_grow, for more than there is room for. */
int hr_scratch_more(struct hr_scratch *scratch, size_t bytes);
/* Room for `bytes` in all, contents kept. 0, -ENOMEM, -ENOSPC (also a quota or a limit on files), or what the
 * kernel said; on failure what was there stays. */
static inline int hr_scratch_grow(struct hr_scratch *scratch, size_t bytes)
{
    return bytes <= scratch->room ? 0 : hr_scratch_more(scratch, bytes);
}
/* Gives all of it back; it can grow again. */
void hr_scratch_empty(struct hr_scratch *scratch);

#endif
