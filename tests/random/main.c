/* main ROOT NAMES SCRATCH SEED STEPS [-OP...]: draws STEPS calls and makes them, but those of the kinds OP.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tests/random/random.h"

#define FIRST_FREE 3 /* descriptors that a parent left open would be numbers that differ */

static const struct op *const families[] = {open_ops,       read_ops,   stat_ops,    folder_ops, walk_ops,
                                            descriptor_ops, map_ops,    process_ops, stream_ops, refused_ops,
                                            together_ops,   handed_ops, raw_ops};
#define FAMILIES (sizeof(families) / sizeof(families[0]))

static const struct op *draw_op(unsigned total)
{
    unsigned left = draw(total);
    for (size_t i = 0; i < FAMILIES; i++) {
        for (const struct op *op = families[i]; op->name; op++) {
            if (left < op->weight) {
                return op;
            }
            left -= op->weight;
        }
    }
    abort();
}

/* Paths lead out of the tree, and what is drawn may be to remove them. */
static void insist_on_read_only(const char *path)
{
    struct statvfs stat;
    if (statvfs(path, &stat) != 0 || !(stat.f_flag & ST_RDONLY)) {
        fprintf(stderr, "%s can be written: not a place to draw calls in\n", path);
        exit(2);
    }
}

static bool is_left_out(char *const *names, const char *name)
{
    while (*names && strcmp(*names + 1, name) != 0) {
        names++;
    }
    return *names != NULL;
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(stderr, "usage: %s ROOT NAMES SCRATCH SEED STEPS [-OP...]\n", argv[0]);
        return 2;
    }
    insist_on_read_only("/");
    insist_on_read_only("/dev");
    close_range(FIRST_FREE, ~0u, 0);
    draw_begin(strtoull(argv[4], NULL, 10));
    world_begin(argv[1], argv[2], argv[3]);
    unsigned total = 0;
    for (size_t i = 0; i < FAMILIES; i++) {
        for (const struct op *op = families[i]; op->name; op++) {
            total += op->weight;
        }
    }
    if (chdir(argv[1]) != 0) {
        perror(argv[1]);
        return 2;
    }
    world_moved();
    long steps = atol(argv[5]);
    for (long step = 0; step < steps; step++) {
        const struct op *op = draw_op(total);
        say("%ld %s", step, op->name);
        if (!is_left_out(argv + 6, op->name)) {
            op->run();
        }
        say_end();
    }
    return 0;
}
