/* The socket: whatever comes in, one line goes out or the connection ends; the daemon stays. */
#include "tests/unit/refused.h"

#include <sys/un.h>

#include "fetch/serve/contexts.h"
#include "fetch/serve/documents.h"
#include "fetch/serve/socket.h"
#include "tests/unit/plan/lab.h"

struct rig {
    struct lab *lab;
    struct hr_settings *settings;
    struct hr_contexts *contexts;
    struct hr_errands *errands;
    struct hr_socket *server;
    unsigned stops;
};

#define LONG_STATUS_BYTES ((size_t)3 << 20)

static bool status_is_long;

static char *status(void *owner)
{
    (void)owner;
    if (!status_is_long) {
        return strdup("{\"pid\":1}");
    }
    char *text = malloc(LONG_STATUS_BYTES + 1);
    assert_non_null(text);
    memset(text, '1', LONG_STATUS_BYTES);
    text[LONG_STATUS_BYTES] = '\0';
    return text;
}

static void stop(void *owner)
{
    struct rig *rig = owner;
    rig->stops++;
}

static int set_up(void **state)
{
    struct rig *rig = calloc(1, sizeof *rig);
    struct hr_settings_sources sources = {.no_file = true};
    char why[HR_SETTINGS_MESSAGE_BYTES];
    void *lab = NULL;
    assert_int_equal(lab_set_up(&lab), 0);
    rig->lab = lab;
    s3_add(rig->lab->s3, "d/x", 300);
    s3_add(rig->lab->s3, "large", 17 * MIB);
    lab_open(rig->lab, &(struct lab_options){0});
    assert_int_equal(hr_settings_load(&sources, why, &rig->settings), 0);
    assert_int_equal(
        hr_contexts_new(rig->lab->control, rig->lab->plan, rig->lab->stores, rig->settings, &rig->contexts),
        0);
    assert_int_equal(hr_errands_new(rig->lab->loop, rig->lab->plan, &rig->errands), 0);
    struct hr_socket_options options = {
        .loop = rig->lab->loop,
        .cache_dir = rig->lab->dir,
        .plan = rig->lab->plan,
        .contexts = rig->contexts,
        .errands = rig->errands,
        .control = rig->lab->control,
        .status = status,
        .stop = stop,
        .owner = rig,
    };
    assert_int_equal(hr_socket_open(&options, &rig->server), 0);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    void *lab = rig->lab;
    hr_socket_close(rig->server);
    hr_errands_free(rig->errands);
    s3_hold(rig->lab->s3, false, false);
    if (!rig->lab->ended) {
        lab_close(rig->lab);
    }
    hr_contexts_free(rig->contexts);
    hr_settings_free(rig->settings);
    free(rig);
    return lab_tear_down(&lab);
}

static int dial(struct rig *rig)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%.80s/" HR_SOCKET_NAME, rig->lab->dir);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static int dialled_fd;
static char answer_text[65536];
static size_t answer_len;
static bool answer_ended;

static bool has_answer(struct lab *lab)
{
    (void)lab;
    ssize_t got;
    while ((got = recv(dialled_fd, answer_text + answer_len, sizeof answer_text - 1 - answer_len,
                       MSG_DONTWAIT)) > 0) {
        answer_len += (size_t)got;
    }
    answer_text[answer_len] = '\0';
    answer_ended = got == 0 || (got < 0 && errno != EAGAIN);
    return answer_ended;
}

/* What comes back until the daemon ends the connection. */
static const char *read_answer(struct rig *rig, int fd)
{
    dialled_fd = fd;
    answer_len = 0;
    lab_until(rig->lab, has_answer);
    close(fd);
    return answer_text;
}

static const char *converse(struct rig *rig, const char *request)
{
    int fd = dial(rig);
    assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
    return read_answer(rig, fd);
}

static void test_questions_and_answers(void **state)
{
    struct rig *rig = *state;
    static const struct {
        const char *request, *says;
    } cases[] = {
        {"{\"op\":\"status\"}\n", "{\"pid\":1}\n"},
        {"{\"op\":\"status\"}\nand more", "{\"pid\":1}\n"},
        {"{\"op\":\"dance\"}\n", "unknown operation"},
        {"{}\n", "unknown operation"},
        {"\n", "malformed"},
        {"nonsense\n", "malformed"},
        {"[1,2]\n", "unknown operation"},
        {"{\"op\":7}\n", "unknown operation"},
        {"{\"op\":\"look\"}\n", "malformed"},
        {"{\"op\":\"trouble\",\"tree\":-1}\n", "Invalid argument"},
        {"{\"op\":\"trouble\",\"tree\":0}\n", "{}\n"},
        {"{\"op\":\"look\",\"tree\":-1,\"path\":\"x\"}\n", "malformed"},
        {"{\"op\":\"look\",\"tree\":1024,\"path\":\"x\"}\n", "malformed"},
        {"{\"op\":\"look\",\"tree\":99999999999999,\"path\":\"x\"}\n", "malformed"},
        {"{\"op\":\"look\",\"tree\":1000,\"path\":\"x\"}\n", "\"errno\":22"},
        {"{\"op\":\"look\",\"tree\":0,\"path\":\"%zz\"}\n", "malformed"},
        {"{\"op\":\"look\",\"tree\":0,\"path\":7}\n", "malformed"},
        {"{\"op\":\"look\",\"tree\":0,\"path\":\"a%00b\"}\n", "\"errno\":2"},
        {"{\"op\":\"look\",\"tree\":0,\"path\":\"../x\"}\n", "\"errno\":2"},
        {"{\"op\":\"look\",\"tree\":0,\"path\":\"d\"}\n", "\"kind\":\"dir\""},
        {"{\"op\":\"look\",\"tree\":0,\"path\":\"d/x\"}\n", "\"size\":300"},
        {"{\"op\":\"look\",\"tree\":0,\"path\":\"n\"}\n", "\"errno\":2"},
        {"{\"op\":\"open\",\"tree\":0,\"path\":\"d/x\"}\n", "/objects/"},
        {"{\"op\":\"open\",\"tree\":0,\"path\":\"\"}\n", "\"kind\":\"dir\""},
        {"{\"op\":\"list\",\"tree\":0,\"path\":\"\"}\n", ".names"},
        {"{\"op\":\"segment\"}\n", "malformed"},
        {"{\"op\":\"segment\",\"tree\":0,\"face\":1,\"offset\":-1,\"bytes\":1}\n", "malformed"},
        {"{\"op\":\"segment\",\"tree\":0,\"face\":1,\"offset\":0,\"bytes\":0}\n", "malformed"},
        {"{\"op\":\"segment\",\"tree\":0,\"face\":77,\"offset\":0,\"bytes\":1}\n", "\"errno\":116"},
        {"{\"op\":\"attach\"}\n", "attach: malformed"},
        {"{\"op\":\"attach\",\"key\":\"00\",\"env\":[]}\n", "attach: malformed"},
        {"{\"op\":\"attach\",\"key\":\"zz000000000000000000000000000000\",\"env\":[]}\n",
         "attach: malformed"},
        {"{\"op\":\"attach\",\"key\":\"00000000000000000000000000000000\",\"env\":[7]}\n",
         "attach: malformed"},
        {"{\"op\":\"attach\",\"key\":\"00000000000000000000000000000000\",\"env\":[]}\n", "\"context\":0"},
        {"{\"op\":\"attach\",\"key\":\"00000000000000000000000000000000\",\"env\":\"x\"}\n", "\"context\":0"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *answer = converse(rig, cases[i].request);
        if (!strstr(answer, cases[i].says)) {
            print_message("%s -> %s\n", cases[i].request, answer);
        }
        assert_non_null(strstr(answer, cases[i].says));
        assert_non_null(strchr(answer, '\n'));
        assert_ptr_equal(strchr(answer, '\n'), answer + strlen(answer) - 1); /* one line */
    }
    lab_settle(rig->lab);
}

/* A large object: its face, then file by file what is read. */
static void test_large_object_by_segments(void **state)
{
    struct rig *rig = *state;
    struct lab *lab = rig->lab;
    char request[256];
    assert_non_null(strstr(converse(rig, "{\"op\":\"list\",\"tree\":0,\"path\":\"\"}\n"), ".names"));
    const char *answer = converse(rig, "{\"op\":\"open\",\"tree\":0,\"path\":\"large\"}\n");
    const char *face = strstr(answer, "\"face\":");
    assert_non_null(face);
    assert_non_null(strstr(answer, "\"file\":\"\""));
    assert_non_null(strstr(answer, "\"size\":17825792"));
    long long face_id = atoll(face + strlen("\"face\":"));
    assert_int_equal(s3_gets(lab->s3), 0);
    static const struct {
        uint64_t offset, first, size;
    } reads[] = {{5, 0, 8 * MIB}, {8 * MIB, 8 * MIB, 8 * MIB}, {17 * MIB - 1, 16 * MIB, 1 * MIB}};
    for (unsigned i = 0; i < 3; i++) {
        snprintf(request, sizeof request,
                 "{\"op\":\"segment\",\"tree\":0,\"face\":%lld,\"offset\":%llu,\"bytes\":%llu}\n", face_id,
                 (unsigned long long)reads[i].offset, 17 * MIB - reads[i].offset);
        char says[64];
        snprintf(says, sizeof says, "\"offset\":%llu,\"size\":%llu", (unsigned long long)reads[i].first,
                 (unsigned long long)reads[i].size);
        answer = converse(rig, request);
        assert_non_null(strstr(answer, "/objects/"));
        assert_non_null(strstr(answer, says));
    }
    lab_settle(lab);
    assert_int_equal(s3_gets(lab->s3) - lab_extra_parts(lab), 3);
    s3_find(lab->s3, "large")->always = S3_REFUSED;
    hr_cache_drop_segments(lab->cache, (uint64_t)face_id);
    assert_non_null(strstr(converse(rig, request), "AccessDenied")); /* with the tree's message */
    lab_settle(lab);
}

static void test_stop_is_answered_first(void **state)
{
    struct rig *rig = *state;
    assert_string_equal(converse(rig, "{\"op\":\"stop\"}\n"), "{}\n");
    assert_int_equal(rig->stops, 1);
}

static size_t drained;

static bool is_drained(struct lab *lab)
{
    static char piece[65536];
    ssize_t got;
    (void)lab;
    while ((got = recv(dialled_fd, piece, sizeof piece, MSG_DONTWAIT)) > 0) {
        drained += (size_t)got;
    }
    return got == 0 || (got < 0 && errno != EAGAIN);
}

/* Thousands of waits are megabytes. */
static void test_answer_longer_than_a_request_may_be(void **state)
{
    struct rig *rig = *state;
    const char *request = "{\"op\":\"status\"}\n";
    dialled_fd = dial(rig);
    drained = 0;
    status_is_long = true;
    assert_int_equal(send(dialled_fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
    lab_until(rig->lab, is_drained);
    status_is_long = false;
    close(dialled_fd);
    assert_int_equal(drained, LONG_STATUS_BYTES + 1);
}

static void test_request_in_pieces(void **state)
{
    struct rig *rig = *state;
    const char *request = "{\"op\":\"status\"}\n";
    int fd = dial(rig);
    for (const char *at = request; *at; at++) {
        assert_int_equal(send(fd, at, 1, MSG_NOSIGNAL), 1);
        lab_run_ms(rig->lab, 2);
    }
    assert_string_equal(read_answer(rig, fd), "{\"pid\":1}\n");
}

static void test_request_without_end(void **state)
{
    struct rig *rig = *state;
    char piece[65536];
    memset(piece, '[', sizeof piece);
    int fd = dial(rig);
    size_t sent = 0;
    for (int i = 0; i < 200 && sent < 4 << 20; i++) {
        ssize_t put = send(fd, piece, sizeof piece, MSG_NOSIGNAL | MSG_DONTWAIT);
        sent += put > 0 ? (size_t)put : 0;
        if (put < 0 && errno != EAGAIN) {
            break;
        }
        lab_run_ms(rig->lab, 5);
    }
    assert_true(sent < 3 << 20); /* a megabyte was taken and some lie in the kernel */
    assert_string_equal(read_answer(rig, fd), "");
    /* Deep nesting that does end. */
    memset(piece, '[', 30000);
    piece[30000] = '\n';
    piece[30001] = '\0';
    assert_non_null(strstr(converse(rig, piece), "malformed"));
}

static void test_client_that_goes_away(void **state)
{
    struct rig *rig = *state;
    const char *request = "{\"op\":\"list\",\"tree\":0,\"path\":\"\"}\n";
    s3_hold(rig->lab->s3, false, true);
    int gone = dial(rig), stays = dial(rig), silent = dial(rig);
    assert_true(send(gone, request, strlen(request), MSG_NOSIGNAL) > 0);
    assert_true(send(stays, request, strlen(request), MSG_NOSIGNAL) > 0);
    lab_run_ms(rig->lab, 30);
    close(gone);
    close(silent);
    lab_run_ms(rig->lab, 30);
    s3_hold(rig->lab->s3, false, false);
    assert_non_null(strstr(read_answer(rig, stays), ".names"));
    assert_true(hr_socket_activity(rig->server) >= 2);
    assert_int_equal(hr_socket_activity(rig->server), 0);
}

/* The daemon's end with a question open: the connection ends, nobody is answered out of the grave. */
static void test_end_with_a_question_open(void **state)
{
    struct rig *rig = *state;
    const char *request = "{\"op\":\"open\",\"tree\":0,\"path\":\"d/x\"}\n";
    s3_hold(rig->lab->s3, true, true);
    int fd = dial(rig);
    assert_true(send(fd, request, strlen(request), MSG_NOSIGNAL) > 0);
    lab_run_ms(rig->lab, 30);
    hr_socket_close(rig->server);
    rig->server = NULL;
    char byte;
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    close(fd);
    lab_close(rig->lab);
}

/* More clients than are served at once: the others wait their turn. */
static void test_crowd(void **state)
{
    enum { CROWD = 200 };
    struct rig *rig = *state;
    const char *request = "{\"op\":\"status\"}\n";
    int fds[CROWD];
    for (int i = 0; i < CROWD; i++) {
        fds[i] = dial(rig); /* none of them says a word yet */
        if (i % 50 == 49) {
            lab_run_ms(rig->lab, 20);
        }
    }
    for (int i = 0; i < CROWD; i++) {
        assert_true(send(fds[i], request, strlen(request), MSG_NOSIGNAL) > 0);
    }
    for (int i = 0; i < CROWD; i++) {
        assert_string_equal(read_answer(rig, fds[i]), "{\"pid\":1}\n");
    }
}

static void test_name_of_the_socket(void **state)
{
    struct rig *rig = *state;
    char path[128];
    struct stat st;
    snprintf(path, sizeof path, "%.80s/" HR_SOCKET_NAME, rig->lab->dir);
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    /* Another daemon has taken the place: its name stays. */
    assert_int_equal(unlink(path), 0);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    close(fd);
    hr_socket_close(rig->server);
    rig->server = NULL;
    assert_int_equal(lstat(path, &st), 0);
}

/* Warming and orders: malformed ones are refused, and leave nothing behind. */
static void test_errands_refused(void **state)
{
    struct rig *rig = *state;
    static const char *const requests[] = {
        "{\"op\":\"warm\"}\n",
        "{\"op\":\"warm\",\"tree\":-1,\"paths\":[\"x\"]}\n",
        "{\"op\":\"warm\",\"tree\":0,\"paths\":[\"d\"]}\n", /* no index yet */
        "{\"op\":\"warm\",\"tree\":0,\"id\":9,\"paths\":[\"d\"]}\n",
        "{\"op\":\"warm\",\"tree\":0,\"paths\":[7]}\n",
        "{\"op\":\"warming\",\"id\":1}\n",
        "{\"op\":\"record\",\"trees\":[0],\"file\":\"relative\"}\n",
        "{\"op\":\"record\",\"trees\":[0],\"file\":\"/none/at/all\"}\n",
        "{\"op\":\"record\",\"trees\":7}\n",
        "{\"op\":\"replay\",\"trees\":[0],\"id\":3,\"lines\":[]}\n",
        "{\"op\":\"replay\",\"trees\":[0],\"lines\":[\"@1\"]}\n",
        "{\"op\":\"replay\",\"trees\":[77],\"lines\":[\"x\"]}\n",
        "{\"op\":\"replay\",\"trees\":[0],\"lines\":[\"%zz\"]}\n",
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        assert_non_null(strstr(converse(rig, requests[i]), "\"errno\""));
    }
    assert_false(hr_errands_tick(rig->errands));
    assert_non_null(
        strstr(converse(rig, "{\"op\":\"replay\",\"trees\":[0],\"lines\":[],\"more\":true}\n"), "\"id\""));
    assert_true(hr_errands_tick(rig->errands)); /* our own process asked, and lives */
}

/* No answer is cut short, and none says that the request was wrong: it is whole, or says what it is. */
static void test_refused_memory(void **state)
{
    struct rig *rig = *state;
    char attach[512], whole[4096];
    snprintf(
        attach, sizeof attach,
        "{\"op\":\"attach\",\"key\":\"00000000000000000000000000000000\",\"env\":[\"AWS_ENDPOINT_URL=http://"
        "127.0.0.1:%u\",\"HEADRACE_MAP=/r/a=s3://bucket/d/;/r/b=s3://bucket/;/r/c=s3://bucket/e/\"]}\n",
        rig->lab->s3->port);
    const char *const requests[] = {
        attach,
        "{\"op\":\"names\",\"tree\":1}\n", /* its prefix is d/ */
        "{\"op\":\"look\",\"tree\":0,\"path\":\"d/x\"}\n",
        "{\"op\":\"open\",\"tree\":0,\"path\":\"d/x\"}\n",
        "{\"op\":\"look\",\"tree\":0,\"path\":\"n\"}\n",
    };
    hr_documents_init();
    for (unsigned i = 0; i < sizeof requests / sizeof *requests; i++) {
        (void)converse(rig, requests[i]);
        snprintf(whole, sizeof whole, "%s", converse(rig, requests[i]));
        for (unsigned from = 1, times = 1; times > 0; from++) {
            refused_begin(from, 1);
            const char *answer = converse(rig, requests[i]);
            times = refused_end();
            bool told = strstr(answer, "\"errno\":12") || strstr(answer, "out of memory");
            if (!told && answer[0] && strcmp(answer, whole) != 0) {
                fail_msg("%s%u: %sbut whole %s", requests[i], from, answer, whole);
            }
        }
        assert_string_equal(converse(rig, requests[i]), whole);
    }
    lab_settle(rig->lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        RIG_TEST(test_questions_and_answers),
        RIG_TEST(test_errands_refused),
        RIG_TEST(test_large_object_by_segments),
        RIG_TEST(test_stop_is_answered_first),
        RIG_TEST(test_answer_longer_than_a_request_may_be),
        RIG_TEST(test_request_in_pieces),
        RIG_TEST(test_request_without_end),
        RIG_TEST(test_client_that_goes_away),
        RIG_TEST(test_end_with_a_question_open),
        RIG_TEST(test_crowd),
        RIG_TEST(test_name_of_the_socket),
        RIG_TEST(test_refused_memory),
#undef RIG_TEST
    };
    return cmocka_run_group_tests_name("socket", tests, NULL, NULL);
}
