/* The daemon's and the command's log: one line an event, `level key=value` style, to a file or stderr.
 *
 * Only programs log (serve/, cmd/, and plan/ where a decision must be seen); libraries return errors. Lines
 * longer than 1 KiB are cut. Control bytes are escaped, so that a key cannot forge a line. Callers never pass
 * secrets. Any thread. */
#ifndef HR_BASE_LOG_H
#define HR_BASE_LOG_H

enum hr_log_level { HR_LOG_ERROR, HR_LOG_WARNING, HR_LOG_INFO, HR_LOG_DEBUG, HR_LOG_LEVEL_COUNT };

/* path NULL: stderr. 0 or -errno (then the log stays where it was). */
int hr_log_open(const char *path, enum hr_log_level level);
void hr_log(enum hr_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
