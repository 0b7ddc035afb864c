/* Who we are: the first source in the chain that has credentials, and the profile that goes with them.
 *
 * A chain keeps a copy of the variables it needs, so that it can be asked again (keys in files are rotated)
 * when the job's environment is long gone. A source may only know where to ask (a role, a metadata service):
 * then the chain has a way instead of credentials, and keeper.h asks. Owned by one thread. Secrets are zeroed
 * when replaced or freed. */
#ifndef HR_AUTH_CHAIN_H
#define HR_AUTH_CHAIN_H

#include "fetch/auth/credentials.h"
#include "fetch/auth/env.h"
#include "fetch/auth/profile.h"
#include "fetch/auth/way.h"

struct hr_chain;

/* env is used during the call only. 0; -ENOENT: the profile that AWS_PROFILE names does not exist; -EINVAL:
 * something configured cannot be used; -ENOMEM; errors of reading files. ret_message (256 bytes) gets one
 * line, never a secret. */
int hr_chain_new(hr_env_fn env, void *env_owner, char ret_message[256], struct hr_chain **ret);
void hr_chain_ref(struct hr_chain *chain);
void hr_chain_free(struct hr_chain *chain); /* drops a reference; accepts NULL */

/* Asks the sources again. 1: other credentials than before; 0: the same, or there is a way; -errno as above,
 * and -EINVAL when this is another identity by now: everything stays as it was. */
int hr_chain_reload(struct hr_chain *chain, char ret_message[256]);

/* access_key_id NULL: anonymous, or there is a way. Valid until the next reload. */
const struct hr_credentials *hr_chain_credentials(const struct hr_chain *chain);
const struct hr_profile *hr_chain_profile(const struct hr_chain *chain); /* valid until the next reload */

/* How credentials are asked for; NULL: they are here. Valid until the next reload. */
const struct hr_way *hr_chain_way(const struct hr_chain *chain);
/* Whether both were made of the same variables. */
bool hr_chain_same(const struct hr_chain *a, const struct hr_chain *b);

/* The way's own ("role:ARN", ...); "anonymous"; "profile:NAME" for session keys out of a profile, which are
 * others at each renewal; else "key:ID". Allocated for the caller, NULL on ENOMEM. */
char *hr_chain_identity(const struct hr_chain *chain);

#endif
