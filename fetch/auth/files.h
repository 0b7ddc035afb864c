/* Files that credentials come from, found as the job that attached would find them. Any thread. */
#ifndef HR_AUTH_FILES_H
#define HR_AUTH_FILES_H

#include <stddef.h>

#include "fetch/auth/env.h"

#define HR_AUTH_PATH_BYTES 4096 /* PATH_MAX */

/* The path that `variable` holds (absolute, "~/...", or from the job's PWD), else HOME/fallback. "" when
 * there is none. 0 or -EINVAL with one line. */
int hr_auth_path(hr_env_fn env, void *env_owner, const char *variable, const char *fallback,
                 char ret_message[256], char ret_path[HR_AUTH_PATH_BYTES]);
/* The whole file, terminated, for the caller to zero and free. Missing, or a character device: 0, untouched.
 * -errno; -EINVAL when it is no file; -EFBIG. */
int hr_auth_read(const char *path, char **ret_text, size_t *ret_len);

#endif
