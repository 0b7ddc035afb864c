/* A folder of files for a fuzzer, removed at its end, and the check that ends one. */
#ifndef TESTS_FUZZ_SCRATCH_H
#define TESTS_FUZZ_SCRATCH_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

#define MUST(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s\n", #condition);                                                             \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

static char scratch[64]; /* the folder's path */

static inline void scratch_remove(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", scratch);
    (void)!system(command);
}

/* Once a fuzzer; below `where`, an absolute path. */
static inline void scratch_make(const char *where)
{
    snprintf(scratch, sizeof scratch, "%s/hr-fuzz-XXXXXX", where);
    MUST(mkdtemp(scratch));
    (void)atexit(scratch_remove);
}

static inline void scratch_put(const char *path, const void *bytes, size_t len)
{
    FILE *file = fopen(path, "w");
    MUST(file && fwrite(bytes, 1, len, file) == len && fclose(file) == 0);
}

#endif
