/* Credentials that come from elsewhere, against emulated endpoints: what is asked, what is made of the
 * answers, renewal before the end, one asking for all, refusals and failures. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "fetch/auth/keeper.h"
#include "fetch/auth/process.h"
#include "tests/unit/store/script_server.h"

struct variable {
    const char *name, *value;
};

/* What a case runs in: a home of its own, a scripted server, a loop. "@PORT" in a file or a variable is the
 * server's port. */
struct bed {
    char home[64];
    struct script script;
    struct hr_loop *loop;
    struct hr_http *http;
    struct hr_keepers *keepers;
    struct variable env[8];
    char values[8][256];
    char message[256];
    unsigned woken;
};

static void fill(const struct bed *bed, const char *text, char *ret, size_t room)
{
    const char *at = strstr(text, "@PORT");
    const char *home = strstr(text, "@HOME");

    if (at != NULL) {
        (void)snprintf(ret, room, "%.*s%u%s", (int)(at - text), text, bed->script.port, at + 5);
    } else if (home != NULL) {
        (void)snprintf(ret, room, "%.*s%s%s", (int)(home - text), text, bed->home, home + 5);
    } else {
        (void)snprintf(ret, room, "%s", text);
    }
}

static const char *from_bed(void *owner, const char *name)
{
    struct bed *bed = owner;

    for (int i = 0; i < 8 && bed->env[i].name != NULL; i++) {
        if (strcmp(bed->env[i].name, name) == 0) {
            fill(bed, bed->env[i].value, bed->values[i], sizeof(bed->values[i]));
            return bed->values[i];
        }
    }
    return NULL;
}

static void write_file(struct bed *bed, const char *name, const char *text)
{
    char path[256], filled[4096];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", bed->home, name);
    fill(bed, text, filled, sizeof(filled));
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(filled, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int set_up(void **state)
{
    struct bed *bed = calloc(1, sizeof(*bed));
    struct hr_http_options options = {.threads = 1, .max_connections = 4, .user_agent = "test"};
    static const char *const folders[] = {".aws", ".aws/sso", ".aws/sso/cache"};
    char path[128];

    (void)snprintf(bed->home, sizeof(bed->home), "/tmp/headrace-keeper-XXXXXX");
    if (mkdtemp(bed->home) == NULL) {
        return -1;
    }
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", bed->home, folders[i]);
        (void)mkdir(path, 0700);
    }
    if (hr_loop_new(&bed->loop) < 0 || hr_http_new(&options, bed->loop, &bed->http) < 0) {
        return -1;
    }
    *state = bed;
    return hr_keepers_new(bed->loop, bed->http, &bed->keepers);
}

static int tear_down(void **state)
{
    struct bed *bed = *state;
    char command[128];

    hr_http_free(bed->http);
    hr_keepers_free(bed->keepers);
    hr_loop_free(bed->loop);
    (void)snprintf(command, sizeof(command), "rm -rf %s", bed->home);
    int r = system(command);
    free(bed);
    return r;
}

static void play(struct bed *bed, const struct script_step *steps, unsigned count)
{
    memcpy(bed->script.steps, steps, count * sizeof(*steps));
    bed->script.step_count = count;
    assert_int_equal(script_start(&bed->script), 0);
}

static struct hr_keeper *open_keeper(struct bed *bed, const char *identity)
{
    struct hr_chain *chain = NULL;
    struct hr_keeper *keeper = NULL;
    char *who;

    if (hr_chain_new(from_bed, bed, bed->message, &chain) < 0) {
        fail_msg("%s", bed->message);
    }
    assert_non_null(hr_chain_way(chain));
    who = hr_chain_identity(chain);
    if (strncmp(who, identity, strlen(identity)) != 0) {
        fail_msg("identity %s, expected %s", who, identity);
    }
    free(who);
    assert_int_equal(hr_keeper_get(bed->keepers, chain, &keeper), 0);
    hr_chain_free(chain);
    return keeper;
}

static void on_woken(void *owner)
{
    struct bed *bed = owner;

    bed->woken++;
    hr_loop_stop(bed->loop);
}

static void wait_for(struct bed *bed, struct hr_keeper *keeper)
{
    struct hr_keeper_wait wait = {.fn = on_woken, .owner = bed};

    assert_int_equal(hr_keeper_wait(keeper, &wait), 0);
    assert_int_equal(hr_loop_run(bed->loop), 0);
    assert_null(wait.keeper);
}

static void expect_keys(struct bed *bed, struct hr_keeper *keeper, const char *id, const char *token)
{
    const char *why = "";

    wait_for(bed, keeper);
    if (hr_keeper_failure(keeper, &why) != 0) {
        fail_msg("%s", why);
    }
    assert_true(hr_keeper_ready(keeper));
    assert_string_equal(hr_keeper_credentials(keeper)->access_key_id, id);
    assert_string_equal(hr_keeper_credentials(keeper)->secret, "se+cr/et");
    if (token != NULL) {
        assert_string_equal(hr_keeper_credentials(keeper)->session_token, token);
    }
}

static void expect_failure(struct bed *bed, struct hr_keeper *keeper, int error, const char *says)
{
    const char *why = "";

    wait_for(bed, keeper);
    assert_false(hr_keeper_ready(keeper));
    assert_int_equal(hr_keeper_failure(keeper, &why), error);
    if (strstr(why, says) == NULL) {
        fail_msg("%s: expected %s", why, says);
    }
    assert_null(strchr(why, '\n'));
    assert_null(strstr(why, "se+cr/et"));
    assert_null(strstr(why, "bearer-token"));
}

#define FAR "2199-01-01T00:00:00Z"
#define STS_KEYS(id, token, ends)                                                                            \
    "<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleResult>"             \
    "<AssumedRoleUser><Arn>arn:x</Arn></AssumedRoleUser><Credentials><AccessKeyId>" id                       \
    "</AccessKeyId><SecretAccessKey>se+cr/et</SecretAccessKey><SessionToken>" token                          \
    "</SessionToken><Expiration>" ends "</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"
#define STS_ERROR(code)                                                                                      \
    "<ErrorResponse><Error><Type>Sender</Type><Code>" code "</Code><Message>not &lt;you&gt;\n"               \
    "really</Message></Error><RequestId>r</RequestId></ErrorResponse>"
#define SERVICE_KEYS(id, token, ends)                                                                        \
    "{\"Code\":\"Success\",\"AccessKeyId\":\"" id "\",\"SecretAccessKey\":\"se+cr/et\",\"Token\":\"" token   \
    "\",\"Expiration\":\"" ends "\"}"
#define OK(text)                                                                                             \
    {                                                                                                        \
        "200 OK\r\n", text, 0                                                                                \
    }

static void role_is_assumed_by_signed_request(void **state)
{
    struct bed *bed = *state;
    const struct script_step steps[] = {OK(STS_KEYS("ASIAROLE", "tok1", FAR))};

    play(bed, steps, 1);
    write_file(bed, ".aws/config",
               "[profile r]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = base\nexternal_id = ex=1\n"
               "duration_seconds = 1800\nregion = eu-west-3\nrole_session_name = me\n"
               "services = s\n[services s]\nsts =\n  endpoint_url = http://127.0.0.1:@PORT\n");
    write_file(
        bed, ".aws/credentials",
        "[base]\naws_access_key_id=AKBASE\naws_secret_access_key=basesecret\naws_session_token=basetok\n");
    bed->env[0] = (struct variable){"HOME", "@HOME"};
    bed->env[1] = (struct variable){"AWS_PROFILE", "r"};
    struct hr_keeper *keeper = open_keeper(bed, "role:arn:aws:iam::1:role/x");
    expect_keys(bed, keeper, "ASIAROLE", "tok1");
    script_stop(&bed->script);
    const char *asked = bed->script.log[0];
    assert_non_null(strstr(asked, "POST / HTTP/1.1\r\n"));
    assert_non_null(strstr(asked,
                           "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fx"
                           "&RoleSessionName=me&ExternalId=ex%3D1&DurationSeconds=1800"));
    assert_non_null(strstr(asked, "Credential=AKBASE/"));
    assert_non_null(strstr(asked, "/eu-west-3/sts/aws4_request, "
                                  "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token,"));
    assert_non_null(strstr(asked, "x-amz-security-token: basetok\r\n"));
    assert_null(strstr(asked, "basesecret"));
    hr_keeper_unref(keeper);
}

static void web_identity_reads_its_file_each_time(void **state)
{
    struct bed *bed = *state;
    /* Lives one second by the server's clock, whatever ours says: ready, and to be renewed in time. */
    const struct script_step steps[] = {{"200 OK\r\nDate: Sat, 21 Nov 2009 10:41:00 GMT\r\n",
                                         STS_KEYS("ASIA1", "t1", "2009-11-21T10:41:01Z"), 0},
                                        OK(STS_KEYS("ASIA2", "t2", FAR))};

    play(bed, steps, 2);
    write_file(bed, "token", "bearer-token-1\n");
    bed->env[0] = (struct variable){"AWS_WEB_IDENTITY_TOKEN_FILE", "@HOME/token"};
    bed->env[1] = (struct variable){"AWS_ROLE_ARN", "arn:aws:iam::1:role/web"};
    bed->env[2] = (struct variable){"AWS_ENDPOINT_URL_STS", "http://127.0.0.1:@PORT/"};
    struct hr_keeper *keeper = open_keeper(bed, "role:arn:aws:iam::1:role/web");
    expect_keys(bed, keeper, "ASIA1", "t1");
    unsigned generation = hr_keeper_generation(keeper);
    write_file(bed, "token", "bearer-token-2");
    /* Used once, so it is renewed by itself; nobody asks for it here. */
    while (hr_keeper_generation(keeper) == generation) {
        struct hr_timer soon = HR_TIMER_INIT(on_woken, bed);
        assert_int_equal(hr_loop_arm(bed->loop, &soon, 20), 0);
        assert_int_equal(hr_loop_run(bed->loop), 0);
    }
    assert_string_equal(hr_keeper_credentials(keeper)->access_key_id, "ASIA2");
    script_stop(&bed->script);
    assert_int_equal(bed->script.asked, 2);
    assert_non_null(strstr(bed->script.log[0], "Action=AssumeRoleWithWebIdentity&"));
    assert_non_null(strstr(bed->script.log[0], "RoleSessionName=headrace&WebIdentityToken=bearer-token-1"));
    assert_non_null(strstr(bed->script.log[1], "WebIdentityToken=bearer-token-2"));
    assert_null(strcasestr(bed->script.log[0], "authorization:"));
    hr_keeper_unref(keeper);
}

static void container_with_token_file(void **state)
{
    struct bed *bed = *state;
    const struct script_step steps[] = {OK(SERVICE_KEYS("ASIAECS", "tk", FAR))};

    play(bed, steps, 1);
    write_file(bed, "token", "bearer-token\n");
    bed->env[0] =
        (struct variable){"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:@PORT/v1/credentials"};
    bed->env[1] = (struct variable){"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "@HOME/token"};
    bed->env[2] = (struct variable){"AWS_CONTAINER_AUTHORIZATION_TOKEN", "not-this"};
    struct hr_keeper *keeper = open_keeper(bed, "container:http://127.0.0.1:");
    struct hr_keeper *same = open_keeper(bed, "container:http://127.0.0.1:");
    assert_ptr_equal(keeper, same);
    expect_keys(bed, keeper, "ASIAECS", "tk");
    expect_keys(bed, same, "ASIAECS", "tk");
    script_stop(&bed->script);
    assert_int_equal(bed->script.asked, 1);
    assert_non_null(strstr(bed->script.log[0], "GET /v1/credentials HTTP/1.1\r\n"));
    assert_non_null(strstr(bed->script.log[0], "authorization: bearer-token\r\n"));
    hr_keeper_unref(keeper);
    hr_keeper_unref(same);
}

static void instance_metadata_version_2(void **state)
{
    struct bed *bed = *state;
    const struct script_step steps[] = {OK("TOKENV2"), OK("my-role\nother"),
                                        OK(SERVICE_KEYS("ASIAEC2", "tk", FAR))};

    play(bed, steps, 3);
    bed->env[0] = (struct variable){"AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:@PORT/"};
    struct hr_keeper *keeper = open_keeper(bed, "instance:http://127.0.0.1:");
    expect_keys(bed, keeper, "ASIAEC2", "tk");
    script_stop(&bed->script);
    assert_non_null(strstr(bed->script.log[0], "PUT /latest/api/token HTTP/1.1\r\n"));
    assert_non_null(strstr(bed->script.log[0], "x-aws-ec2-metadata-token-ttl-seconds: 21600\r\n"));
    assert_non_null(
        strstr(bed->script.log[1], "GET /latest/meta-data/iam/security-credentials/ HTTP/1.1\r\n"));
    assert_non_null(strstr(bed->script.log[1], "x-aws-ec2-metadata-token: TOKENV2\r\n"));
    assert_non_null(strstr(bed->script.log[2], "/iam/security-credentials/my-role HTTP/1.1\r\n"));
    hr_keeper_unref(keeper);
}

/* Nobody there, and an instance without a role: anonymous, known at once, asked once. */
static void instance_without_service_or_role(void **state)
{
    struct bed *bed = *state;
    const struct script_step steps[] = {OK("TOKENV2"), {"404 Not Found\r\n", "no", 0}};

    bed->env[0] = (struct variable){"AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1"};
    struct hr_keeper *keeper = open_keeper(bed, "instance:");
    wait_for(bed, keeper);
    assert_true(hr_keeper_ready(keeper));
    assert_null(hr_keeper_credentials(keeper)->access_key_id);
    hr_keeper_unref(keeper);
    play(bed, steps, 2);
    bed->env[0].value = "http://127.0.0.1:@PORT";
    keeper = open_keeper(bed, "instance:");
    wait_for(bed, keeper);
    assert_true(hr_keeper_ready(keeper));
    assert_null(hr_keeper_credentials(keeper)->access_key_id);
    script_stop(&bed->script);
    assert_int_equal(bed->script.asked, 2);
    hr_keeper_unref(keeper);
}

static void instance_that_refuses_its_role(void **state)
{
    struct bed *bed = *state;
    const struct script_step steps[] = {
        OK("T"), OK("r"),
        OK("{\"Code\":\"AssumeRoleUnauthorizedAccess\",\"Message\":\"EC2 cannot\\nassume\"}")};

    play(bed, steps, 3);
    bed->env[0] = (struct variable){"AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:@PORT"};
    struct hr_keeper *keeper = open_keeper(bed, "instance:");
    expect_failure(bed, keeper, -EACCES, "AssumeRoleUnauthorizedAccess EC2 cannot?assume");
    script_stop(&bed->script);
    hr_keeper_unref(keeper);
}

static void role_of_a_container(void **state)
{
    struct bed *bed = *state;
    const struct script_step steps[] = {OK(SERVICE_KEYS("ASIABASE", "basetok", FAR)),
                                        OK(STS_KEYS("ASIAROLE", "tok", FAR))};

    play(bed, steps, 2);
    write_file(bed, ".aws/config", "[default]\nrole_arn = arn:r\ncredential_source = EcsContainer\n");
    bed->env[0] = (struct variable){"HOME", "@HOME"};
    bed->env[1] = (struct variable){"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:@PORT/c"};
    bed->env[2] = (struct variable){"AWS_ENDPOINT_URL", "http://127.0.0.1:@PORT"};
    struct hr_keeper *keeper = open_keeper(bed, "role:arn:r");
    expect_keys(bed, keeper, "ASIAROLE", "tok");
    script_stop(&bed->script);
    assert_non_null(strstr(bed->script.log[1], "Credential=ASIABASE/"));
    assert_non_null(strstr(bed->script.log[1], "x-amz-security-token: basetok"));
    hr_keeper_unref(keeper);
}

static void write_login(struct bed *bed, const char *ends)
{
    char text[256];

    /* The name is the SHA-1 of "corp". */
    (void)snprintf(text, sizeof(text), "{\"accessToken\": \"bearer-token\", \"expiresAt\": \"%s\"}", ends);
    write_file(bed, ".aws/sso/cache/ee0bfd2552fbd840c02cc48b6e823320543c450f.json", text);
}

static void sso_login_gives_a_role(void **state)
{
    struct bed *bed = *state;
    struct hr_chain *chain = NULL;
    const struct script_step steps[] = {
        OK("{\"roleCredentials\":{\"accessKeyId\":\"ASIASSO\",\"secretAccessKey\":\"se+cr/"
           "et\",\"sessionToken\":"
           "\"st\",\"expiration\":7226582400000}}"),
        {"401 Unauthorized\r\n", "{\"message\":\"Session token not found or invalid\"}", 0}};

    play(bed, steps, 2);
    write_file(bed, ".aws/config",
               "[profile s]\nsso_session = corp\nsso_account_id = 1111\nsso_role_name = R d\n"
               "[sso-session corp]\nsso_region = eu-west-1\nsso_start_url = https://corp\n");
    bed->env[0] = (struct variable){"HOME", "@HOME"};
    bed->env[1] = (struct variable){"AWS_PROFILE", "s"};
    bed->env[2] = (struct variable){"AWS_ENDPOINT_URL_SSO", "http://127.0.0.1:@PORT"};
    write_login(bed, "2020-01-01T00:00:00UTC");
    assert_int_equal(hr_chain_new(from_bed, bed, bed->message, &chain), -EACCES);
    assert_non_null(strstr(bed->message, "has expired; run: aws sso login --profile s"));
    write_login(bed, FAR);
    struct hr_keeper *keeper = open_keeper(bed, "sso:1111/R d");
    expect_keys(bed, keeper, "ASIASSO", "st");
    assert_non_null(
        strstr(bed->script.log[0], "GET /federation/credentials?role_name=R%20d&account_id=1111 "));
    assert_non_null(strstr(bed->script.log[0], "x-amz-sso_bearer_token: bearer-token\r\n"));
    hr_keeper_unref(keeper);
    keeper = open_keeper(bed, "sso:1111/R d");
    expect_failure(bed, keeper, -EACCES, "aws sso login");
    script_stop(&bed->script);
    hr_keeper_unref(keeper);
}

static void process_prints_a_document(void **state)
{
    struct bed *bed = *state;
    struct stat st;
    char path[128];

    write_file(bed, "helper",
               "#!/bin/sh\necho \"$#:$1:$2:$HOME:$AWS_PROFILE:$LD_PRELOAD\" > \"$HOME/seen\"\n"
               "echo '{\"Version\": 1, \"AccessKeyId\": \"AKPROC\", \"SecretAccessKey\": \"se+cr/et\"}'\n"
               "sleep 3 &\n"); /* what it leaves behind holds the pipe, and is not waited for */
    (void)snprintf(path, sizeof(path), "%s/helper", bed->home);
    assert_int_equal(chmod(path, 0700), 0);
    write_file(bed, ".aws/config", "[profile p]\ncredential_process = @HOME/helper 'a b' $HOME\n");
    bed->env[0] = (struct variable){"HOME", "@HOME"};
    bed->env[1] = (struct variable){"AWS_PROFILE", "p"};
    struct hr_keeper *keeper = open_keeper(bed, "process:p:");
    expect_keys(bed, keeper, "AKPROC", NULL);
    assert_null(hr_keeper_credentials(keeper)->session_token);
    hr_keeper_unref(keeper);
    char seen[256] = "", expected[256];
    (void)snprintf(path, sizeof(path), "%s/seen", bed->home);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(seen, sizeof(seen), file));
    (void)fclose(file);
    (void)snprintf(expected, sizeof(expected), "2:a b:$HOME:%s:p:\n", bed->home); /* no shell looked at it */
    assert_string_equal(seen, expected);
    assert_int_equal(stat(path, &st), 0);
}

static void process_that_fails(void **state)
{
    struct bed *bed = *state;
    static const struct {
        const char *config;
        int error;
        const char *says;
    } rows[] = {
        {"[default]\ncredential_process = false se+cr/et\n", -EACCES, "ended with status 1: run it by hand"},
        {"[default]\ncredential_process = /nonexistent/helper\n", -EACCES, "cannot be started: No such file"},
        {"[default]\ncredential_process = echo '{\"Version\":2}'\n", -EIO, "Version 1"},
        {"[default]\ncredential_process = echo se+cr/et\n", -EIO, "did not print a JSON document"},
        {"[default]\ncredential_process = head -c 70000 /dev/zero\n", -EIO, "more than 64 KiB"},
        {"[default]\ncredential_process = sh -c 'kill -9 $$'\n", -EACCES, "signal 9"},
    };

    bed->env[0] = (struct variable){"HOME", "@HOME"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        write_file(bed, ".aws/config", rows[i].config);
        struct hr_keeper *keeper = open_keeper(bed, "process:default:");
        expect_failure(bed, keeper, rows[i].error, rows[i].says);
        hr_keeper_unref(keeper);
    }
}

struct outcome {
    int error;
    unsigned calls;
    struct hr_loop *loop;
};

static void on_process_end(void *owner, const struct hr_process_result *result)
{
    struct outcome *outcome = owner;

    outcome->error = result->error;
    outcome->calls++;
    hr_loop_stop(outcome->loop);
}

static void process_that_does_not_end(void **state)
{
    struct bed *bed = *state;
    struct hr_process *process = NULL;
    struct outcome outcome = {.loop = bed->loop};
    const char *const words[] = {"sleep", "1000", NULL};
    char *none[] = {NULL};

    assert_int_equal(hr_process_start(bed->loop, (char *const *)(uintptr_t)words, none, 50, on_process_end,
                                      &outcome, &process),
                     0);
    assert_int_equal(hr_loop_run(bed->loop), 0);
    assert_int_equal(outcome.error, -ETIMEDOUT);
    assert_int_equal(outcome.calls, 1);
    hr_process_free(process);
    /* Given up while it runs: ended, and no word of it. */
    assert_int_equal(hr_process_start(bed->loop, (char *const *)(uintptr_t)words, none, 60000, on_process_end,
                                      &outcome, &process),
                     0);
    hr_process_free(process);
    assert_int_equal(outcome.calls, 1);
}

static void command_lines_are_split(void **state)
{
    static const struct {
        const char *line;
        const char *words[4]; /* none: refused */
    } rows[] = {
        {"a", {"a"}},
        {"  a\tb\n c ", {"a", "b", "c"}},
        {"a 'b c' \"d 'e\"", {"a", "b c", "d 'e"}},
        {"a\\ b \"\\\"\\\\\\n\"", {"a b", "\"\\\\n"}},
        {"x'y'\"z\" ''", {"xyz", ""}},
        {"'a\\b' $HOME", {"a\\b", "$HOME"}},
        {"", {NULL}},
        {"  ", {NULL}},
        {"a 'b", {NULL}},
        {"a \"b", {NULL}},
        {"a \\", {NULL}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char **words = NULL;
        int r = hr_words(rows[i].line, &words);
        size_t count = 0;

        assert_int_equal(r, rows[i].words[0] != NULL ? 0 : -EINVAL);
        for (; r == 0 && words[count] != NULL; count++) {
            assert_non_null(rows[i].words[count]);
            assert_string_equal(words[count], rows[i].words[count]);
        }
        assert_null(rows[i].words[count]);
        free(words);
    }
}

static void sts_errors(void **state)
{
    struct bed *bed = *state;
    static const struct {
        struct script_step steps[3];
        unsigned asked;
        int error;
        const char *says;
    } rows[] = {
        {{{"403 Forbidden\r\n", STS_ERROR("AccessDenied"), 0}}, 1, -EACCES, "AccessDenied: not <you>?really"},
        {{{"403 Forbidden\r\n", STS_ERROR("InvalidClientTokenId"), 0}}, 1, -EACCES, "InvalidClientTokenId"},
        {{{"403 Forbidden\r\n", "<html>", 0}}, 1, -EACCES, "status 403"},
        {{{"200 OK\r\n", "<a><!-- se+cr/et", 0}}, 1, -EIO, "status 200"},
        {{{"200 OK\r\n", "<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>", 0}}, 1, -EIO, "status 200"},
        {{{"200 OK\r\n", STS_KEYS("", "t", FAR), 0}}, 1, -EIO, "status 200"},
        {{{"200 OK\r\n", STS_KEYS("A B", "t", FAR), 0}}, 1, -EIO, "access key id"},
        {{{"200 OK\r\n", STS_KEYS("A", "t", "soon"), 0}}, 1, -EIO, "status 200"},
        {{{"503 Busy\r\n", "", 0}, {"500 No\r\n", "", 0}, {"503 Busy\r\n", "", 0}}, 3, -EIO, "status 503"},
        {{{"400 No\r\n", STS_ERROR("Throttling"), 0},
          {NULL, NULL, 0},
          {"400 No\r\n", STS_ERROR("Throttling"), 0}},
         3,
         -EIO,
         "Throttling"},
    };

    write_file(bed, "token", "bearer-token");
    bed->env[0] = (struct variable){"AWS_WEB_IDENTITY_TOKEN_FILE", "@HOME/token"};
    bed->env[1] = (struct variable){"AWS_ROLE_ARN", "arn:aws:iam::1:role/web"};
    bed->env[2] = (struct variable){"AWS_ENDPOINT_URL_STS", "http://127.0.0.1:@PORT"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        play(bed, rows[i].steps, rows[i].asked);
        struct hr_keeper *keeper = open_keeper(bed, "role:");
        expect_failure(bed, keeper, rows[i].error, rows[i].says);
        /* Remembered: who comes now is told without a request. */
        expect_failure(bed, keeper, rows[i].error, rows[i].says);
        script_stop(&bed->script);
        assert_int_equal(bed->script.asked, rows[i].asked);
        hr_keeper_unref(keeper);
    }
}

/* Keys that were given only now and are refused: others would not be better. Waiters are all woken. */
static void refusals_and_many_waiters(void **state)
{
    struct bed *bed = *state;
    struct hr_keeper_wait waits[3];
    const struct script_step steps[] = {OK(SERVICE_KEYS("A1", "t", FAR))};

    play(bed, steps, 1);
    bed->env[0] = (struct variable){"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:@PORT/c"};
    struct hr_keeper *keeper = open_keeper(bed, "container:");
    for (int i = 0; i < 3; i++) {
        waits[i] = (struct hr_keeper_wait){.fn = on_woken, .owner = bed};
        assert_int_equal(hr_keeper_wait(keeper, &waits[i]), 0);
    }
    hr_keeper_unwait(&waits[1]);
    assert_int_equal(hr_loop_run(bed->loop), 0);
    assert_int_equal(bed->woken, 2);
    assert_true(hr_keeper_ready(keeper));
    assert_false(hr_keeper_refused(keeper));
    script_stop(&bed->script);
    assert_int_equal(bed->script.asked, 1);
    hr_keeper_unref(keeper);
}

/* Refused a while after they were given: others are asked for. Nobody used these, so nothing else renews
 * them. */
static void refused_keys_are_replaced(void **state)
{
    struct bed *bed = *state;
    const struct script_step steps[] = {{"200 OK\r\nDate: Sat, 21 Nov 2009 10:41:00 GMT\r\n",
                                         SERVICE_KEYS("A1", "t", "2009-11-21T10:41:00.4Z"), 0},
                                        OK(SERVICE_KEYS("A2", "t", FAR))};

    play(bed, steps, 2);
    bed->env[0] = (struct variable){"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:@PORT/c"};
    struct hr_keeper *keeper = open_keeper(bed, "container:");
    wait_for(bed, keeper);
    struct hr_timer soon = HR_TIMER_INIT(on_woken, bed);
    assert_int_equal(hr_loop_arm(bed->loop, &soon, 120), 0);
    assert_int_equal(hr_loop_run(bed->loop), 0);
    unsigned generation = hr_keeper_generation(keeper);
    assert_true(hr_keeper_refused(keeper));
    assert_false(hr_keeper_ready(keeper));
    expect_keys(bed, keeper, "A2", "t");
    assert_int_equal(hr_keeper_generation(keeper), generation + 1);
    script_stop(&bed->script);
    assert_int_equal(bed->script.asked, 2);
    hr_keeper_unref(keeper);
}

/* A service that gives out what has expired: the store decides, and nobody asks again for each request. */
static void expired_keys_are_used_for_a_while(void **state)
{
    struct bed *bed = *state;
    const struct script_step steps[] = {OK(SERVICE_KEYS("A1", "t", "2009-11-21T10:41:00Z"))};

    play(bed, steps, 1);
    bed->env[0] = (struct variable){"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:@PORT/c"};
    struct hr_keeper *keeper = open_keeper(bed, "container:");
    expect_keys(bed, keeper, "A1", "t");
    expect_keys(bed, keeper, "A1", "t");
    script_stop(&bed->script);
    assert_int_equal(bed->script.asked, 1);
    hr_keeper_unref(keeper);
}

/* Let go while it is asked for: nothing is left, nobody is called. */
static void let_go_while_asking(void **state)
{
    struct bed *bed = *state;
    struct hr_keeper_wait wait = {.fn = on_woken, .owner = bed};
    const struct script_step steps[] = {OK(SERVICE_KEYS("A1", "t", FAR))};

    play(bed, steps, 1);
    bed->env[0] = (struct variable){"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:@PORT/c"};
    struct hr_keeper *keeper = open_keeper(bed, "container:");
    assert_int_equal(hr_keeper_wait(keeper, &wait), 0);
    hr_keeper_unwait(&wait);
    hr_keeper_unref(keeper);
    struct hr_timer soon = HR_TIMER_INIT(on_woken, bed);
    assert_int_equal(hr_loop_arm(bed->loop, &soon, 50), 0);
    assert_int_equal(hr_loop_run(bed->loop), 0);
    assert_int_equal(bed->woken, 1);
    script_stop(&bed->script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define BED_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        BED_TEST(role_is_assumed_by_signed_request),
        BED_TEST(web_identity_reads_its_file_each_time),
        BED_TEST(container_with_token_file),
        BED_TEST(instance_metadata_version_2),
        BED_TEST(instance_without_service_or_role),
        BED_TEST(instance_that_refuses_its_role),
        BED_TEST(role_of_a_container),
        BED_TEST(sso_login_gives_a_role),
        BED_TEST(process_prints_a_document),
        BED_TEST(process_that_fails),
        BED_TEST(process_that_does_not_end),
        cmocka_unit_test(command_lines_are_split),
        BED_TEST(sts_errors),
        BED_TEST(refusals_and_many_waiters),
        BED_TEST(refused_keys_are_replaced),
        BED_TEST(expired_keys_are_used_for_a_while),
        BED_TEST(let_go_while_asking),
#undef BED_TEST
    };
    return cmocka_run_group_tests_name("keeper", tests, NULL, NULL);
}
