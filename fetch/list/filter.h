/* Which names of a map are there: the options include= and exclude=. Pure; a filter is read-only once made.
 *
 * A list of patterns separated by ','; '\' takes the next byte as it is. '*' and '?' stand for bytes of one
 * part, '**' for any, [a-z] and [!a-z] for one byte of a set. A pattern without '/' is compared with single
 * parts, one with '/' with the path from the map's root ('/' at its beginning says only that). What matches a
 * directory matches all below it. An object is there when no pattern of exclude matches and, with include,
 * one of include does. */
#ifndef HR_LIST_FILTER_H
#define HR_LIST_FILTER_H

#include <stdbool.h>
#include <stddef.h>

struct hr_filter;

/* NULL or "" for none; both none: *ret is NULL, which admits everything. 0, -ENOMEM; -EINVAL (an empty
 * pattern, a set that does not end) with one line. */
int hr_filter_new(const char *include, const char *exclude, struct hr_filter **ret, char ret_message[256]);
void hr_filter_free(struct hr_filter *filter); /* accepts NULL */

/* An object's path relative to the map's root. A path that ends in '/' is a directory's marker. */
bool hr_filter_admits(const struct hr_filter *filter, const char *path, size_t len);
/* Something below the directory may be admitted; false: nothing is. "" is the root. */
bool hr_filter_admits_below(const struct hr_filter *filter, const char *dir, size_t len);

#endif
