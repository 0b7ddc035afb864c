/* INI text: our own `name = value` file, and the clouds' credentials and config files.
 *
 *   # comment, ; comment          whole lines, and after a value when a blank stands before the mark
 *   [section]                     passed as written between the brackets, trimmed ("profile dev", "default")
 *   key = value                   both trimmed; the value may be empty, hold '=', and have anything behind it
 *   s3 =                          reported as "s3" with "", and then, because they are indented deeper,
 *     addressing_style = path     as "s3.addressing_style"
 *
 * CRLF and a UTF-8 BOM are accepted. Nothing is allocated; no state. Any thread. */
#ifndef HR_CONFIG_INI_H
#define HR_CONFIG_INI_H

#include <stddef.h>

#define HR_INI_LINE_MAX 16384 /* bytes of a line; session tokens run to several KiB */
#define HR_INI_NAME_MAX 512   /* bytes of a section or of a (joined) key */

/* section is "" before the first one. The strings live only during the call. 0, or -errno to stop. */
typedef int (*hr_ini_fn)(void *owner, const char *section, const char *key, const char *value, unsigned line);

struct hr_ini_error {
    unsigned line;       /* from 1 */
    const char *message; /* static: what is wrong with it; never quotes the line, which may hold a secret */
};

/* 0; -EBADMSG at the first broken line (ret_error filled); fn's value when it stopped (ret_error has the line
 * and message NULL). ret_error may be NULL. */
int hr_ini_parse(const char *text, size_t len, hr_ini_fn fn, void *owner, struct hr_ini_error *ret_error);

#endif
