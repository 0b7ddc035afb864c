/* Where settings and credentials come from: the variables of the job that attached, never the daemon's own.
 */
#ifndef HR_AUTH_ENV_H
#define HR_AUTH_ENV_H

/* NULL when not set. The string lives during the call that was given the function. */
typedef const char *(*hr_env_fn)(void *owner, const char *name);

#endif
