/* One profile of the AWS files: ~/.aws/credentials ([NAME]) and ~/.aws/config ([profile NAME], [default],
 * [services X]), or the files that AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE name. AWS_PROFILE chooses,
 * else "default". Any thread; reads files. */
#ifndef HR_AUTH_PROFILE_H
#define HR_AUTH_PROFILE_H

#include <stdbool.h>

#include "fetch/auth/env.h"

struct hr_profile_keys {
    char *access_key_id, *secret, *session_token; /* each NULL when not written */
};

struct hr_profile {
    char *name;
    bool found;                    /* a file has a section of that name */
    struct hr_profile_keys shared; /* from the credentials file: these go first */
    struct hr_profile_keys config; /* from the config file */
    char *method;     /* a way to get credentials that this version lacks ("role_arn"), NULL: none named */
    bool method_wins; /* it goes before keys of the same profile */
    char *region;
    char *endpoint_url;     /* the profile's, for every service */
    char *s3_endpoint_url;  /* of its services section, for S3 */
    char *addressing_style; /* "path", "virtual", "auto" */
    char *ca_bundle;
};

/* 0; -ENOENT: AWS_PROFILE names one that no file has; -EINVAL: a file is broken; -EACCES and other errors of
 * reading; -ENOMEM. ret_message (256 bytes) then says what and where; never quotes a value. Files that are
 * missing are empty. */
int hr_profile_load(hr_env_fn env, void *env_owner, char ret_message[256], struct hr_profile *ret);
void hr_profile_release(
    struct hr_profile *profile); /* zeroes secrets; the struct is empty and usable again */

#endif
