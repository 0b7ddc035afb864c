/* Recording: the order in which the names of some trees were first opened, written to a file as it comes and
 * given its name at the end. The file: "headrace-order 1", then a path a line, relative to its map and
 * percent-encoded; "@N" on a line of its own: what follows is of the N-th map (0 at the start); lines that
 * begin with '#' say nothing. Main loop. */
#ifndef HR_PLAN_RECORDING_H
#define HR_PLAN_RECORDING_H

#include <stdbool.h>
#include <stdint.h>

#define HR_ORDER_HEADER "headrace-order 1"

struct hr_plan;
struct hr_plan_tree;
struct hr_recording;

/* trees: of the job's maps, in their order. The bytes go to FILE.part until the end. What an earlier
 * recording of the same file left there, because its daemon was killed, becomes FILE.part.old (*ret_kept; one
 * that has that name goes). 0; -EBUSY: another recording of that file goes on; or -errno of opening it. */
int hr_recording_begin(struct hr_plan *plan, const uint32_t *trees, unsigned count, const char *file,
                       struct hr_recording **ret, bool *ret_kept);
const char *hr_recording_file(const struct hr_recording *recording);
/* What was noted by now is in FILE.part, whatever becomes of this process. */
void hr_recording_flush(struct hr_recording *recording);
/* Everything noted by now is in the file, which has its name; a failure is in the log. */
void hr_recording_end(struct hr_recording *recording);
/* CLOCK_MONOTONIC ms of the last name, or of the beginning. */
int64_t hr_recording_last_ms(const struct hr_recording *recording);

/* An entry, or a name that no index knows, was opened. */
void hr_recording_entry(struct hr_plan_tree *tree, uint32_t entry);
void hr_recording_name(struct hr_plan_tree *tree, const char *path, uint32_t path_len);

#endif
