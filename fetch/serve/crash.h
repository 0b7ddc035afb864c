/* The daemon's last words: on SIGSEGV and its like, a native stack into the log, then the default action. */
#ifndef HR_SERVE_CRASH_H
#define HR_SERVE_CRASH_H

/* Walks the stack once now, so that the handler finds every table loaded and allocates nothing. fd: where to
 * write. */
void hr_crash_install(int fd);

#endif
