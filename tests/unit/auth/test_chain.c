/* Who we are: sources in their order, the AWS files, what is refused, and that keys in files may change. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fetch/auth/chain.h"

static char home[64];

struct variable {
    const char *name, *value;
};

static const char *from_table(void *owner, const char *name)
{
    for (const struct variable *v = owner; v->name != NULL; v++) {
        if (strcmp(v->name, name) == 0) {
            return strcmp(v->value, "@HOME") == 0 ? home : v->value;
        }
    }
    return NULL;
}

static void write_file(const char *name, const char *text)
{
    char path[128];
    FILE *file;
    (void)snprintf(path, sizeof(path), "%s/%s", home, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void drop_file(const char *name)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", home, name);
    (void)unlink(path);
}

static int make_home(void **state)
{
    (void)state;
    char path[128];
    (void)snprintf(home, sizeof(home), "/tmp/headrace-chain-XXXXXX");
    if (mkdtemp(home) == NULL) {
        return -1;
    }
    (void)snprintf(path, sizeof(path), "%s/.aws", home);
    return mkdir(path, 0700);
}

static int drop_home(void **state)
{
    (void)state;
    char path[128];
    drop_file(".aws/credentials");
    drop_file(".aws/config");
    drop_file("other");
    (void)snprintf(path, sizeof(path), "%s/.aws", home);
    (void)rmdir(path);
    return rmdir(home);
}

#define CREDENTIALS                                                                                          \
    "[default]\naws_access_key_id = AKDEFAULT\naws_secret_access_key = sdefault\n"                           \
    "[session]\naws_access_key_id=ASIA1\naws_secret_access_key=s1\naws_session_token=t1\n"                   \
    "[half]\naws_access_key_id=AKHALF\n"                                                                     \
    "[both]\naws_access_key_id=AKSHARED\naws_secret_access_key=sshared\n"                                    \
    "[sharedprocess]\naws_access_key_id=AKSP\naws_secret_access_key=ssp\n"
#define CONFIG                                                                                               \
    "[default]\nregion = eu-west-3\n"                                                                        \
    "[profile both]\naws_access_key_id=AKCONFIG\naws_secret_access_key=sconfig\nregion=us-west-2\n"          \
    "endpoint_url = https://all.example\nservices = mine\nca_bundle=/etc/ca.pem\n"                           \
    "s3 =\n  addressing_style = path\n"                                                                      \
    "[services mine]\ns3 =\n  endpoint_url = http://127.0.0.1:9000\nsqs =\n  endpoint_url = http://no\n"     \
    "[profile \"quoted name\"]\naws_access_key_id=AKQUOTED\naws_secret_access_key=sq\n"                      \
    "[profile role]\nrole_arn = arn:aws:iam::1:role/x\naws_access_key_id=AKR\naws_secret_access_key=sr\n"    \
    "[profile process]\ncredential_process = /bin/x\n"                                                       \
    "[profile processkeys]\ncredential_process = /bin/x\naws_access_key_id=AKP\naws_secret_access_key=sp\n"  \
    "[both]\nregion = not-a-config-section\n"                                                                \
    "[profile sharedprocess]\ncredential_process = /bin/x\n"                                                 \
    "[profile quote]\ncredential_process = /bin/x 'a\n"                                                      \
    "[profile chained]\nrole_arn = arn:aws:iam::2:role/y\nsource_profile = session\n"                        \
    "[profile self]\nrole_arn = arn:aws:iam::3:role/z\nsource_profile = self\n"                              \
    "aws_access_key_id = AKSELF\naws_secret_access_key = sself\n"                                            \
    "[profile circle]\nrole_arn = arn:aws:iam::4:role/c\nsource_profile = circle2\n"                         \
    "[profile circle2]\nrole_arn = arn:aws:iam::5:role/c\nsource_profile = circle\n"                         \
    "[profile orphan]\nrole_arn = arn:aws:iam::6:role/o\nsource_profile = nowhere\n"                         \
    "[profile hollow]\nrole_arn = arn:aws:iam::7:role/h\nsource_profile = unknownempty\n"                    \
    "[profile unknownempty]\nregion = eu-west-1\n"                                                           \
    "[profile mfa]\nrole_arn = arn:aws:iam::8:role/m\nsource_profile = session\nmfa_serial = arn:m\n"        \
    "[profile unknownsource]\nrole_arn = arn:aws:iam::9:role/u\ncredential_source = Moon\n"                  \
    "[profile login]\nlogin_session = arn:l\n"                                                               \
    "[profile sso]\nsso_session = corp\nsso_account_id = 111122223333\nsso_role_name = Reader\n"             \
    "[profile halfsso]\nsso_start_url = https://x\nsso_role_name = Reader\n"                                 \
    "[sso-session corp]\nsso_start_url = https://corp\nsso_region = eu-central-1\n"

/* error 0: expected identity and secret; else a part of the message. */
static const struct {
    const char *name;
    struct variable env[6];
    int error;
    const char *identity, *secret, *token;
    const char *message;
} rows[] = {
    {"nothing at all", {{NULL, NULL}}, 0, "anonymous", NULL, NULL, NULL},
    {"environment",
     {{"AWS_ACCESS_KEY_ID", "AK1"}, {"AWS_SECRET_ACCESS_KEY", "s"}, {"HOME", "@HOME"}},
     0,
     "key:AK1",
     "s",
     NULL,
     NULL},
    {"environment with a token",
     {{"AWS_ACCESS_KEY_ID", "AS1"}, {"AWS_SECRET_ACCESS_KEY", "s"}, {"AWS_SESSION_TOKEN", "tok"}},
     0,
     "key:AS1",
     "s",
     "tok",
     NULL},
    {"empty token is none",
     {{"AWS_ACCESS_KEY_ID", "AS1"}, {"AWS_SECRET_ACCESS_KEY", "s"}, {"AWS_SESSION_TOKEN", ""}},
     0,
     "key:AS1",
     "s",
     NULL,
     NULL},
    {"empty key id means anonymous",
     {{"AWS_ACCESS_KEY_ID", ""}, {"HOME", "@HOME"}},
     0,
     "anonymous",
     NULL,
     NULL,
     NULL},
    {"secret missing",
     {{"AWS_ACCESS_KEY_ID", "AK1"}},
     -EINVAL,
     NULL,
     NULL,
     NULL,
     "AWS_SECRET_ACCESS_KEY is not"},
    {"line end in the secret",
     {{"AWS_ACCESS_KEY_ID", "AK1"}, {"AWS_SECRET_ACCESS_KEY", "topsecret\n"}},
     -EINVAL,
     NULL,
     NULL,
     NULL,
     "secret access key from the environment"},
    {"header break in the token",
     {{"AWS_ACCESS_KEY_ID", "A"}, {"AWS_SECRET_ACCESS_KEY", "s"}, {"AWS_SESSION_TOKEN", "t\r\nx: y"}},
     -EINVAL,
     NULL,
     NULL,
     NULL,
     "session token"},
    {"default profile", {{"HOME", "@HOME"}}, 0, "key:AKDEFAULT", "sdefault", NULL, NULL},
    {"environment before files",
     {{"HOME", "@HOME"},
      {"AWS_PROFILE", "session"},
      {"AWS_ACCESS_KEY_ID", "AK1"},
      {"AWS_SECRET_ACCESS_KEY", "s"}},
     0,
     "key:AK1",
     "s",
     NULL,
     NULL},
    {"session keys of a profile",
     {{"HOME", "@HOME"}, {"AWS_PROFILE", "session"}},
     0,
     "profile:session",
     "s1",
     "t1",
     NULL},
    {"AWS_DEFAULT_PROFILE",
     {{"HOME", "@HOME"}, {"AWS_DEFAULT_PROFILE", "session"}},
     0,
     "profile:session",
     "s1",
     "t1",
     NULL},
    {"credentials file before config file",
     {{"HOME", "@HOME"}, {"AWS_PROFILE", "both"}},
     0,
     "key:AKSHARED",
     "sshared",
     NULL,
     NULL},
    {"quoted section",
     {{"HOME", "@HOME"}, {"AWS_PROFILE", "quoted name"}},
     0,
     "key:AKQUOTED",
     "sq",
     NULL,
     NULL},
    {"no such profile",
     {{"HOME", "@HOME"}, {"AWS_PROFILE", "nosuch"}},
     -ENOENT,
     NULL,
     NULL,
     NULL,
     "AWS_PROFILE=nosuch"},
    {"no such profile without files", {{"AWS_PROFILE", "nosuch"}}, -ENOENT, NULL, NULL, NULL, "nosuch"},
    {"half a key",
     {{"HOME", "@HOME"}, {"AWS_PROFILE", "half"}},
     -EINVAL,
     NULL,
     NULL,
     NULL,
     "no aws_secret_access_key"},
    {"a role goes before keys",
     {{"HOME", "@HOME"}, {"AWS_PROFILE", "role"}},
     -EINVAL,
     NULL,
     NULL,
     NULL,
     "role_arn needs source_profile"},
    {"a process",
     {{"HOME", "@HOME"}, {"AWS_PROFILE", "process"}},
     0,
     "process:process:00c9f6079def3455",
     NULL,
     NULL,
     NULL},
    {"a process goes before keys of the config file",
     {{"HOME", "@HOME"}, {"AWS_PROFILE", "processkeys"}},
     0,
     "process:processkeys:00c9f6079def3455",
     NULL,
     NULL,
     NULL},
    {"keys of the credentials file go before a process",
     {{"HOME", "@HOME"}, {"AWS_PROFILE", "sharedprocess"}},
     0,
     "key:AKSP",
     "ssp",
     NULL,
     NULL},
    {"a quote that is not closed",
     {{"HOME", "@HOME"}, {"AWS_PROFILE", "quote"}},
     -EINVAL,
     NULL,
     NULL,
     NULL,
     "a quote is not closed"},
    {"a role by keys of another profile",
     {{"HOME", "@HOME"}, {"AWS_PROFILE", "chained"}},
     0,
     "role:arn:aws:iam::2:role/y",
     NULL,
     NULL,
     NULL},
    {"a role of its own keys",
     {{"HOME", "@HOME"}, {"AWS_PROFILE", "self"}},
     0,
     "role:arn:aws:iam::3:role/z",
     NULL,
     NULL,
     NULL},
    {"a circle of roles",
     {{"HOME", "@HOME"}, {"AWS_PROFILE", "circle"}},
     -EINVAL,
     NULL,
     NULL,
     NULL,
     "in a circle"},
    {"source_profile that is not there",
     {{"HOME", "@HOME"}, {"AWS_PROFILE", "orphan"}},
     -EINVAL,
     NULL,
     NULL,
     NULL,
     "source_profile nowhere"},
    {"source_profile without credentials",
     {{"HOME", "@HOME"}, {"AWS_PROFILE", "hollow"}},
     -EINVAL,
     NULL,
     NULL,
     NULL,
     "gives no credentials"},
    {"a code is asked for",
     {{"HOME", "@HOME"}, {"AWS_PROFILE", "mfa"}},
     -EINVAL,
     NULL,
     NULL,
     NULL,
     "mfa_serial"},
    {"credential_source that nobody knows",
     {{"HOME", "@HOME"}, {"AWS_PROFILE", "unknownsource"}},
     -EINVAL,
     NULL,
     NULL,
     NULL,
     "credential_source = Moon"},
    {"a login session",
     {{"HOME", "@HOME"}, {"AWS_PROFILE", "login"}},
     -EINVAL,
     NULL,
     NULL,
     NULL,
     "login_session"},
    {"SSO without a login",
     {{"HOME", "@HOME"}, {"AWS_PROFILE", "sso"}},
     -EACCES,
     NULL,
     NULL,
     NULL,
     "aws sso login --profile sso"},
    {"SSO without an account",
     {{"HOME", "@HOME"}, {"AWS_PROFILE", "halfsso"}},
     -EINVAL,
     NULL,
     NULL,
     NULL,
     "sso_account_id"},
    {"web identity without a role",
     {{"HOME", "@HOME"}, {"AWS_WEB_IDENTITY_TOKEN_FILE", "/nonexistent/token"}},
     -EINVAL,
     NULL,
     NULL,
     NULL,
     "AWS_ROLE_ARN is not"},
    {"web identity without its file",
     {{"HOME", "@HOME"}, {"AWS_WEB_IDENTITY_TOKEN_FILE", "/nonexistent/token"}, {"AWS_ROLE_ARN", "arn:r"}},
     -EINVAL,
     NULL,
     NULL,
     NULL,
     "/nonexistent/token"},
    {"a container's path",
     {{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x"}},
     0,
     "container:http://169.254.170.2/v2/x",
     NULL,
     NULL,
     NULL},
    {"a container's URL, far away in clear",
     {{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.2.evil.example/x"}},
     -EINVAL,
     NULL,
     NULL,
     NULL,
     "https, or http to this machine"},
    {"a container's URL, loopback look-alike",
     {{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.evil.example/x"}},
     -EINVAL,
     NULL,
     NULL,
     NULL,
     "https, or http to this machine"},
    {"a container's URL, EKS over IPv6",
     {{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://[fd00:ec2::23]/v1/credentials"}},
     0,
     "container:http://[fd00:ec2::23]/v1/credentials",
     NULL,
     NULL,
     NULL},
    {"a container's URL far away by TLS",
     {{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "https://agent.example/x"}},
     0,
     "container:https://agent.example/x",
     NULL,
     NULL,
     NULL},
    {"a container's token with a line end",
     {{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/x"},
      {"AWS_CONTAINER_AUTHORIZATION_TOKEN", "tok\r\nx: y"}},
     -EINVAL,
     NULL,
     NULL,
     NULL,
     "line end"},
    {"keys of the profile go before a container",
     {{"HOME", "@HOME"}, {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x"}},
     0,
     "key:AKDEFAULT",
     "sdefault",
     NULL,
     NULL},
    {"a named metadata service",
     {{"AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1/"}},
     0,
     "instance:http://127.0.0.1:1",
     NULL,
     NULL,
     NULL},
    {"a metadata service that is switched off",
     {{"AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1/"}, {"AWS_EC2_METADATA_DISABLED", "true"}},
     0,
     "anonymous",
     NULL,
     NULL,
     NULL},
    {"files elsewhere, none there",
     {{"HOME", "@HOME"}, {"AWS_SHARED_CREDENTIALS_FILE", "/dev/null"}, {"AWS_CONFIG_FILE", "/nonexistent/x"}},
     0,
     "anonymous",
     NULL,
     NULL,
     NULL},
    {"relative path without a place",
     {{"AWS_CONFIG_FILE", "some/config"}},
     -EINVAL,
     NULL,
     NULL,
     NULL,
     "AWS_CONFIG_FILE=some/config"},
    {"relative path",
     {{"PWD", "@HOME"}, {"AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"}},
     0,
     "key:AKDEFAULT",
     "sdefault",
     NULL,
     NULL},
    {"home path",
     {{"HOME", "@HOME"}, {"AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"}},
     0,
     "key:AKDEFAULT",
     "sdefault",
     NULL,
     NULL},
    {"a directory for a file", {{"AWS_CONFIG_FILE", "@HOME"}}, -EINVAL, NULL, NULL, NULL, "Invalid argument"},
};

static void check_text(const char *row, const char *got, const char *expected)
{
    if ((got == NULL) != (expected == NULL) || (got != NULL && strcmp(got, expected) != 0)) {
        fail_msg("%s: got %s, expected %s", row, got != NULL ? got : "nothing",
                 expected != NULL ? expected : "nothing");
    }
}

static void sources_in_order(void **state)
{
    (void)state;
    write_file(".aws/credentials", CREDENTIALS);
    write_file(".aws/config", CONFIG);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hr_chain *chain = NULL;
        char message[256] = "";
        int r = hr_chain_new(from_table, (void *)rows[i].env, message, &chain);
        if (r != rows[i].error) {
            fail_msg("%s: %d (%s)", rows[i].name, r, message);
        }
        if (r < 0) {
            assert_null(chain);
            if (strstr(message, rows[i].message) == NULL) {
                fail_msg("%s: message %s", rows[i].name, message);
            }
            assert_null(strstr(message, "topsecret"));
            continue;
        }
        char *identity = hr_chain_identity(chain);
        check_text(rows[i].name, identity, rows[i].identity);
        check_text(rows[i].name, hr_chain_credentials(chain)->secret, rows[i].secret);
        check_text(rows[i].name, hr_chain_credentials(chain)->session_token, rows[i].token);
        free(identity);
        hr_chain_free(chain);
    }
}

static void profile_settings(void **state)
{
    (void)state;
    struct variable env[] = {{"HOME", "@HOME"}, {"AWS_PROFILE", "both"}, {NULL, NULL}};
    struct variable plain[] = {{"HOME", "@HOME"}, {NULL, NULL}};
    struct hr_profile profile = {0};
    char message[256];
    write_file(".aws/credentials", CREDENTIALS);
    write_file(".aws/config", CONFIG);
    assert_int_equal(hr_profile_load(from_table, env, NULL, message, &profile), 0);
    assert_string_equal(profile.region, "us-west-2");
    assert_string_equal(profile.endpoint_url, "https://all.example");
    assert_string_equal(profile.s3_endpoint_url, "http://127.0.0.1:9000");
    assert_string_equal(profile.addressing_style, "path");
    assert_string_equal(profile.ca_bundle, "/etc/ca.pem");
    hr_profile_release(&profile);
    assert_int_equal(hr_profile_load(from_table, plain, NULL, message, &profile), 0);
    assert_string_equal(profile.region, "eu-west-3");
    assert_null(profile.endpoint_url);
    assert_null(profile.s3_endpoint_url);
    hr_profile_release(&profile);
}

static void broken_file_names_its_line(void **state)
{
    (void)state;
    struct variable env[] = {{"HOME", "@HOME"}, {NULL, NULL}};
    struct hr_chain *chain = NULL;
    char message[256] = "";
    write_file(".aws/config", "[default]\nregion = x\naws_secret_access_key topsecret\n");
    assert_int_equal(hr_chain_new(from_table, env, message, &chain), -EINVAL);
    assert_non_null(strstr(message, ".aws/config line 3"));
    assert_null(strstr(message, "topsecret"));
    drop_file(".aws/config");
}

static void rotated_keys_are_found(void **state)
{
    (void)state;
    struct variable env[] = {{"AWS_SHARED_CREDENTIALS_FILE", "@HOME"}, {"HOME", "@HOME"}, {NULL, NULL}};
    struct hr_chain *chain = NULL;
    char message[256], path[96];
    drop_file(".aws/config");
    (void)snprintf(path, sizeof(path), "%s/other", home);
    env[0].value = path;
    write_file("other", "[default]\naws_access_key_id=A\naws_secret_access_key=s\naws_session_token=one\n");
    assert_int_equal(hr_chain_new(from_table, env, message, &chain), 0);
    /* The job's environment is gone: the chain has its copy. */
    env[0].name = "X";
    env[1].name = "X";
    assert_int_equal(hr_chain_reload(chain, message), 0);
    write_file("other", "[default]\naws_access_key_id=A2\naws_secret_access_key=s\naws_session_token=two\n");
    assert_int_equal(hr_chain_reload(chain, message), 1);
    assert_string_equal(hr_chain_credentials(chain)->access_key_id, "A2");
    assert_string_equal(hr_chain_credentials(chain)->session_token, "two");
    /* Broken in the middle of a rotation: what was there stays. */
    write_file("other", "[default]\naws_access_key_id=A3\n");
    assert_int_equal(hr_chain_reload(chain, message), -EINVAL);
    assert_string_equal(hr_chain_credentials(chain)->access_key_id, "A2");
    drop_file("other");
    hr_chain_free(chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources_in_order),
        cmocka_unit_test(profile_settings),
        cmocka_unit_test(broken_file_names_its_line),
        cmocka_unit_test(rotated_keys_are_found),
    };
    return cmocka_run_group_tests_name("auth/chain", tests, make_home, drop_home);
}
