/* The bytes of a regular file, plain or gzip (whatever its name), in pieces. Blocks as the disk does. */
#ifndef HR_LIST_TEXTFILE_H
#define HR_LIST_TEXTFILE_H

#include <stddef.h>
#include <stdint.h>

struct hr_textfile;

/* 0; -errno of opening it; -EINVAL: no regular file; -ENOMEM. */
int hr_textfile_open(const char *path, struct hr_textfile **ret);
/* Bytes, fewer than room at the end alone; 0 at the end. -EIO: cannot be read; -EBADMSG: damaged gzip, or cut
 * off. */
int64_t hr_textfile_read(struct hr_textfile *file, char *ret_bytes, size_t room);
int64_t hr_textfile_mtime_ns(const struct hr_textfile *file);
uint64_t hr_textfile_size(const struct hr_textfile *file); /* on disk */
void hr_textfile_close(struct hr_textfile *file);          /* accepts NULL */

#endif
