/* The daemon's life: start (lock, cache, shared memory, socket), heartbeat, idle end, stop. */
#ifndef HR_SERVE_DAEMON_H
#define HR_SERVE_DAEMON_H

#include "config/settings.h"

/* Runs until it is told to stop, gets SIGTERM or SIGINT, or is idle. ready_fd (or -1) gets one line, "ok" or
 * "error MESSAGE", once it serves or why not, and is closed. An exit status: 0 also when another daemon
 * lives. */
int hr_daemon_run(const char *cache_dir, const struct hr_settings *settings, int ready_fd);

#endif
