/* Any bytes as a line of /proc/PID/maps: nothing beyond its end is read, and an object's number is what the
 * end of its path says. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Before the ban on these that vma.c brings. */
static char *exactly(const uint8_t *data, size_t size)
{
    char *line = malloc(size ? size : 1);
    return line ? memcpy(line, data, size) : NULL;
}

static void let_go(char *line)
{
    free(line);
}

static void fail(void)
{
    abort();
}

static void name_of(uint64_t object, char ret[32])
{
    snprintf(ret, 32, "%016llx", (unsigned long long)object);
}

/* Not among the objects every fuzzer links. */
#include "interpose/vma.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hr_vma vma = {0};
    char name[32];
    char *line = exactly(data, size);
    if (line && hr_vma_parse(line, size, &vma) && vma.object) {
        name_of(vma.object, name);
        if (!memmem(line, size, name, ID_DIGITS)) {
            fail();
        }
    }
    if (line) {
        let_go(line);
    }
    return 0;
}
