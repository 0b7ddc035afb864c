/* A random program of libc calls over a tree of files: the same seed makes the same calls, and every call is
 * one line of output with all that a program can see of it. Run over a read-only file system and over a map
 * at the same path, the lines must be equal; tests/e2e/test_random.py compares them and has the table of what
 * is meant to differ. What is each file system's own affair is not printed. */
#ifndef HR_RANDOM_H
#define HR_RANDOM_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define KEPT_MAX 12
#define PATH_ROOM 6000          /* above PATH_MAX, which is also tried */
#define PLACE_BYTES (24u << 20) /* above the largest object but one: reads of all of it fit */

struct entry {
    char *name; /* relative to the root; "" is the root */
    bool folder;
};

/* ---- what is drawn (draw.c) */
void draw_begin(uint64_t seed);
uint32_t draw(uint32_t below); /* 0 <= result < below */
bool percent(uint32_t chance);
long draw_length(void);  /* of a read: small, whole pages, everything, nothing */
off_t draw_offset(void); /* in an object: the edges of pages and cells more often */
int draw_flags(const int *flags, size_t count, uint32_t chance);
/* A path as a program may spell it: absolute or relative to the working directory, with everything that a
 * path can have. Valid until the next call but two. `tamed`: names something that is there, spelled plainly.
 */
const char *draw_path(void);
const char *draw_tamed(bool folder);
/* The same below a descriptor that was kept, or AT_FDCWD, or a bad one. */
const char *draw_at(int *ret_dirfd);
const struct entry *draw_entry(bool folder);

/* ---- the world (world.c) */
void world_begin(const char *root, const char *list, const char *scratch);
const char *world_root(void);
const char *world_scratch(void); /* a local file that may be written, not in the tree */
size_t world_count(void);
const struct entry *world_entry(size_t number);
void world_moved(void); /* the working directory was changed */

/* Descriptors that later calls use. */
int any_fd(void);  /* one that was kept; at times a bad one */
int file_fd(void); /* kept and not a directory's, or -1 */
int folder_fd(void);
void keep(int fd);
void unkeep(int fd);
int kept(size_t number); /* -1: none */

/* Memory: PLACE_BYTES that are followed by a page that cannot be touched. */
unsigned char *place(void);
unsigned char *place_end(void);
uint64_t hash_of(const void *bytes, size_t count);
/* The same of memory that may not be there: false for a signal. */
bool hash_safely(const void *bytes, size_t count, uint64_t *ret);
bool touch_safely(volatile unsigned char *byte, unsigned char value);

/* ---- the line (world.c) */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_path(const char *path);   /* cut when very long */
void say_result(long long result); /* errno as it is now, when negative */
void say_error(int error);
void say_end(void);
#define CALL(call) (errno = 0, (call))
#define SAY_CALL(call) say_result((long long)CALL(call))

struct op {
    const char *name;
    unsigned weight;
    void (*run)(void);
};
extern const struct op open_ops[], read_ops[], stat_ops[], folder_ops[], walk_ops[], descriptor_ops[],
    map_ops[], process_ops[], stream_ops[], refused_ops[], together_ops[], handed_ops[], raw_ops[];

#endif
