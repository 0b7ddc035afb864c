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

#include <cmocka.h>

#include "tests/unit/auth/keeper.h"

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
        BED_TEST(role_is_assumed_by_signed_request),
        BED_TEST(web_identity_reads_its_file_each_time),
        BED_TEST(container_with_token_file),
        BED_TEST(instance_metadata_version_2),
        BED_TEST(instance_without_service_or_role),
        BED_TEST(instance_that_refuses_its_role),
        BED_TEST(role_of_a_container),
        BED_TEST(sso_login_gives_a_role),
        BED_TEST(sts_errors),
        BED_TEST(refusals_and_many_waiters),
        BED_TEST(refused_keys_are_replaced),
        BED_TEST(expired_keys_are_used_for_a_while),
        BED_TEST(let_go_while_asking),
    };
    return cmocka_run_group_tests_name("keeper", tests, NULL, NULL);
}
