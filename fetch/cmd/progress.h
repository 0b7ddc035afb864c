/* One line on stderr that says how far a long command is: on a terminal in place, with a bar; elsewhere a
 * line now and then, so that a log stays short. Rate and time left go by the last seconds. Why nothing
 * comes is told by waiting.h. */
#ifndef HR_CMD_PROGRESS_H
#define HR_CMD_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#define HR_PROGRESS_SAMPLES 32

struct hr_progress_figures {
    uint64_t items, items_total; /* total 0: not known, then there is no bar and no time left */
    uint64_t bytes, bytes_total;
};

struct hr_progress {
    const char *what; /* of the items: "files", "names" */
    bool terminal;
    bool with_bytes;
    int64_t started_ms, told_ms;
    unsigned shown_len; /* of the line that stands on the terminal */
    struct {
        int64_t at_ms;
        uint64_t items, bytes;
    } samples[HR_PROGRESS_SAMPLES]; /* a ring of the last seconds */
    unsigned sample_count;
};

/* what: static. with_bytes: bytes are shown, and tell the time left. */
void hr_progress_begin(struct hr_progress *progress, const char *what, bool with_bytes);
/* As often as the caller likes. `last` always prints, and ends the line; more (may be NULL) goes behind it.
 */
void hr_progress_tell(struct hr_progress *progress, const struct hr_progress_figures *figures, bool last,
                      const char *more);

/* The line that stands on a terminal goes: another comes there. */
void hr_progress_clear(struct hr_progress *progress);

/* The line without bar and ends, for any time: what hr_progress_tell prints. */
void hr_progress_line(struct hr_progress *progress, const struct hr_progress_figures *figures, int64_t now_ms,
                      bool last, char *ret, unsigned room);

#endif
