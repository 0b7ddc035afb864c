/* Temporary files: refused in a map, and made where a relative template leads out of one. */
#include "interpose/door.h"
#include "interpose/refuse.h"
#include "interpose/inner.h"

#define RANDOM_LETTERS 6  /* "XXXXXX" */
#define AS_DIRECTORY (-1) /* instead of open flags: mkdtemp */

/* A relative template that leads out of a map: made at its absolute path, the letters copied back. */
static int temporary_outside(char *template, size_t tail, int suffix_len, int flags, char *path)
{
    int result;
    if (flags == AS_DIRECTORY) {
        result = HR_REAL(mkdtemp)(path) ? 0 : -1;
    } else {
        result = HR_REAL(mkostemps)(path, suffix_len, flags);
    }
    if (result >= 0) {
        memcpy(template + strlen(template) - tail, path + strlen(path) - tail, tail);
    }
    return result;
}

/* True: *ret is the answer. A template that libc would reject is left to libc. */
static bool temporary(char *template, int suffix_len, int flags, int *ret)
{
    struct hr_place place;
    const char *path = template;
    if (HR_LIKELY(!hr_active) || suffix_len < 0) {
        return false;
    }
    size_t len = strlen(template), tail = RANDOM_LETTERS + (size_t)suffix_len;
    if (len < tail || memcmp(template + len - tail, "XXXXXX", RANDOM_LETTERS) != 0) {
        return false;
    }
    if (hr_door(AT_FDCWD, &path, &place)) {
        *ret = (int)hr_edge(hr_refuse_temporary(&place));
        return true;
    }
    int error = hr_way_ahead(AT_FDCWD, path, 0);
    if (error < 0) {
        *ret = (int)hr_edge(error);
        return true;
    }
    if (path != place.path) {
        return false;
    }
    *ret = temporary_outside(template, tail, suffix_len, flags, place.path);
    return true;
}

int mkstemp(char *template)
{
    int result;
    return temporary(template, 0, 0, &result) ? result : HR_REAL(mkstemp)(template);
}

int mkstemp64(char *template)
{
    int result;
    return temporary(template, 0, 0, &result) ? result : HR_REAL(mkstemp64)(template);
}

int mkostemp(char *template, int flags)
{
    int result;
    return temporary(template, 0, flags, &result) ? result : HR_REAL(mkostemp)(template, flags);
}

int mkostemp64(char *template, int flags)
{
    int result;
    return temporary(template, 0, flags, &result) ? result : HR_REAL(mkostemp64)(template, flags);
}

int mkstemps(char *template, int suffix_len)
{
    int result;
    return temporary(template, suffix_len, 0, &result) ? result : HR_REAL(mkstemps)(template, suffix_len);
}

int mkstemps64(char *template, int suffix_len)
{
    int result;
    return temporary(template, suffix_len, 0, &result) ? result : HR_REAL(mkstemps64)(template, suffix_len);
}

int mkostemps(char *template, int suffix_len, int flags)
{
    int result;
    return temporary(template, suffix_len, flags, &result) ? result
                                                           : HR_REAL(mkostemps)(template, suffix_len, flags);
}

int mkostemps64(char *template, int suffix_len, int flags)
{
    int result;
    return temporary(template, suffix_len, flags, &result)
               ? result
               : HR_REAL(mkostemps64)(template, suffix_len, flags);
}

char *mkdtemp(char *template)
{
    int result;
    if (!temporary(template, 0, AS_DIRECTORY, &result)) {
        return HR_REAL(mkdtemp)(template);
    }
    return result < 0 ? NULL : template;
}
