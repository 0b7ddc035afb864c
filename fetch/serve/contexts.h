/* Contexts: what one job's environment means. The environment that `headrace attach` handed over -> maps,
 * stores, trees, published in the control file under the job's key. Main loop. */
#ifndef HR_SERVE_CONTEXTS_H
#define HR_SERVE_CONTEXTS_H

#include <stdint.h>

#include "fetch/plan/plan.h"
#include "fetch/store/store.h"
#include "interpose/abi.h"

struct hr_contexts;
struct hr_settings;

/* settings: the daemon's own; they outlive the contexts. 0 or -ENOMEM. */
int hr_contexts_new(struct hr_control *control, struct hr_plan *plan, struct hr_stores *stores,
                    const struct hr_settings *settings, struct hr_contexts **ret);
void hr_contexts_free(struct hr_contexts *contexts);

/* Which global settings of this job the daemon, started by another, has otherwise: one line, or "". */
void hr_contexts_compare(const struct hr_contexts *contexts, char *const *envp, char ret_warning[512]);

/* envp: "NAME=VALUE", the job's, with file and --set settings already in it as HEADRACE_*. Known key: its
 * trees are found again and its credentials taken over when fresher. 0 or -errno with one line in ret_message
 * (512 bytes). */
int hr_contexts_attach(struct hr_contexts *contexts, const uint8_t key[16], char *const *envp,
                       char ret_message[512], uint32_t *ret_context);

#endif
