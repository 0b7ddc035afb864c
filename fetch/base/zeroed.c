#include "fetch/base/zeroed.h"

#include <stdlib.h>
#include <string.h>

void *hr_zeroed(size_t bytes)
{
    void *made = malloc(bytes);
    __asm__("" : "+r"(made)); /* else compilers make a calloc of both */
    return made ? memset(made, 0, bytes) : NULL;
}
