/* Files of the index directory: their names (interpose/abi.h), and making one so that nobody sees it before
 * it is whole. */
#ifndef HR_LIST_FILES_H
#define HR_LIST_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define HR_LIST_NAME_BYTES 80 /* TREE-GEN-BOOT.states is 49, a private ending 17 */

void hr_list_tree_prefix(uint64_t tree_id, char ret_name[HR_LIST_NAME_BYTES]); /* "TREE-" */
void hr_list_names_name(uint64_t tree_id, uint32_t gen, char ret_name[HR_LIST_NAME_BYTES]);
void hr_list_boot_name(uint64_t tree_id, uint32_t gen, uint64_t boot, const char *ending,
                       char ret_name[HR_LIST_NAME_BYTES]);
/* Exactly TREE-GEN.names of this tree. */
bool hr_list_names_parse(const char *name, uint64_t tree_id, uint32_t *ret_gen);

struct hr_list_file {
    int dir_fd;
    int fd; /* O_RDWR */
    char final_name[HR_LIST_NAME_BYTES];
    char private_name[HR_LIST_NAME_BYTES]; /* "": nothing to remove */
};
#define HR_LIST_FILE_NONE                                                                                    \
    (struct hr_list_file)                                                                                    \
    {                                                                                                        \
        .dir_fd = -1, .fd = -1                                                                               \
    }

/* An empty file of `bytes` zero bytes, all of them allocated, under a private name. 0, -ENOSPC (also quota
 * and file size limit), or what the kernel said; nothing is left behind then. */
int hr_list_file_new(const char *index_dir, const char *final_name, uint64_t bytes, struct hr_list_file *ret);
/* A file of `bytes` that has no name (or lost it at once), all of them allocated, read-write. Descriptor;
 * -ENOSPC or what the kernel said. */
int hr_list_file_unnamed(const char *dir, uint64_t bytes);
/* At least `bytes` long, all of them allocated. 0 or -errno, -ENOSPC as above. */
int hr_list_file_allocate(int fd, uint64_t bytes);
/* Gives it its mode and its name; lasting: it survives a power cut. 0 or -errno (then the
 * final name is not there). */
int hr_list_file_commit(struct hr_list_file *file, mode_t mode, bool lasting);
/* Closes; a file that was not committed is removed. For hr_cleanup. */
void hr_list_file_close(struct hr_list_file *file);

/* What a caller of this room gets for a write that failed: one word for "no room". */
int hr_list_write_error(int error);
int hr_list_dir_open(const char *index_dir); /* descriptor or -errno; not through a symlink */

#endif
