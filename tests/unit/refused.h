/* Memory that is refused: of what the project's own objects ask for in this thread while `refused_from` is
 * set, that asking and those behind it, `refused_count` of them, get nothing. For programs linked with the
 * Makefile's REFUSED. */
#ifndef TESTS_REFUSED_H
#define TESTS_REFUSED_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define REFUSED_FN static __attribute__((unused))

static _Thread_local unsigned refused_from, refused_count; /* 0: nothing is refused; counted from 1 */
static _Thread_local unsigned refused_asked, refused_times;

REFUSED_FN void refused_begin(unsigned from, unsigned count)
{
    refused_asked = refused_times = 0;
    refused_count = count;
    refused_from = from;
}

/* How many were refused. */
REFUSED_FN unsigned refused_end(void)
{
    refused_from = 0;
    return refused_times;
}

static int refused(void)
{
    if (refused_from == 0 || ++refused_asked < refused_from ||
        refused_asked - refused_from >= refused_count) {
        return 0;
    }
    refused_times++;
    errno = ENOMEM;
    return 1;
}

#define REFUSED_WRAP(name, takes, gives)                                                                     \
    void *__real_##name takes;                                                                               \
    void *__wrap_##name takes;                                                                               \
    void *__wrap_##name takes                                                                                \
    {                                                                                                        \
        return refused() ? NULL : __real_##name gives;                                                       \
    }

REFUSED_WRAP(malloc, (size_t bytes), (bytes))
REFUSED_WRAP(calloc, (size_t count, size_t bytes), (count, bytes))
REFUSED_WRAP(realloc, (void *old, size_t bytes), (old, bytes))
REFUSED_WRAP(reallocarray, (void *old, size_t count, size_t bytes), (old, count, bytes))
REFUSED_WRAP(strdup, (const char *text), (text))
REFUSED_WRAP(strndup, (const char *text, size_t len), (text, len))
REFUSED_WRAP(hr_block_take, (void), ())

#endif
