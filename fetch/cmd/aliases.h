/* Symlinks that lead into a map, as `run` finds them before the job starts: in the working directory and in
 * the arguments. */
#ifndef HR_CMD_ALIASES_H
#define HR_CMD_ALIASES_H

#include "fetch/cmd/client.h"

/* Their names go into job's HEADRACE_ALIAS (config/links.h), at most HR_LINKS_MAX; without any the variable
 * is empty where it was set. 0 or -ENOMEM. */
int hr_aliases_export(struct hr_job *job, char *const *command);

#endif
