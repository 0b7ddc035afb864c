/* One profile of the AWS files: ~/.aws/credentials ([NAME]) and ~/.aws/config ([profile NAME], [default],
 * [services X], [sso-session X]), or the files that AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE name.
 * AWS_PROFILE chooses, else "default". Any thread; reads files. */
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
    /* Each NULL when not written. */
    char *region;
    char *endpoint_url;     /* the profile's, for every service */
    char *s3_endpoint_url;  /* of its services section, for S3 */
    char *sts_endpoint_url; /* and for STS */
    char *addressing_style; /* "path", "virtual", "auto" */
    char *ca_bundle;
    char *services; /* which services section */
    char *role_arn, *source_profile, *credential_source, *external_id, *mfa_serial, *role_session_name;
    char *duration_seconds, *web_identity_token_file, *credential_process, *login_session;
    char *sso_session; /* which sso-session section: start_url and region may be that one's */
    char *sso_start_url, *sso_region, *sso_account_id, *sso_role_name;
};

/* name NULL: the one that AWS_PROFILE chooses. 0; -ENOENT: it names one that no file has; -EINVAL: a file is
 * broken; -EACCES and other errors of reading; -ENOMEM. ret_message (256 bytes) then says what and where;
 * never quotes a value. Files that are missing are empty. */
int hr_profile_load(hr_env_fn env, void *env_owner, const char *name, char ret_message[256],
                    struct hr_profile *ret);
void hr_profile_release(
    struct hr_profile *profile); /* zeroes secrets; the struct is empty and usable again */

#endif
