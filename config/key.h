/* A process's context key: which maps, settings, endpoints and credential identity its environment asks for.
 *
 * Part of the preloaded object: never allocates, no state, errno untouched. Any thread (nobody may change the
 * environment meanwhile). The daemon and every client of one machine run the same code, so the value has no
 * portable form and may change between versions. Not a secret, and not a proof of anything. */
#ifndef HR_CONFIG_KEY_H
#define HR_CONFIG_KEY_H

#include <stdbool.h>
#include <stdint.h>

#define HR_CONTEXT_KEY_BYTES 16

/* Covers uid, HOME, every HEADRACE_* but HEADRACE_CACHE_DIR and HEADRACE_ALIAS, every AWS_* but
 * AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; whatever their order; of a name given twice the first, as
 * getenv does. envp may be NULL.
 */
void hr_context_key(char *const *envp, uint32_t uid, uint8_t ret[HR_CONTEXT_KEY_BYTES]);

/* Is this "NAME=VALUE" one of those that the key covers? */
bool hr_context_key_covers(const char *assignment);

#endif
