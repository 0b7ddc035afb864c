/* Memory that is refused while a job lists, opens and reads: whoever asks again gets every name and every
 * byte, nobody gets another one, and nothing is left over. */
#include "tests/unit/refused.h"

#include <dirent.h>

#include "tests/unit/plan/lab.h"

#define FILES 12u /* in three folders */
#define LARGE_BYTES (9 * MIB)
#define TRIES 50u      /* a refusal is told or loses a request; clients ask again */
#define PATIENCE_MS 40 /* till then; they wait for a second */

static bool is_refusal(int error)
{
    return error == 0 || error == -ENOMEM || error == -EIO || error == -EAGAIN;
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir)) {
        count++;
    }
    closedir(dir);
    return count;
}

static bool was_answered(struct lab *lab)
{
    return lab_is_over(lab) || lab->answers[lab_awaited].times > 0;
}

static void wait_briefly(struct lab *lab, bool (*until)(struct lab *lab))
{
    lab->over_beats = lab->beats + PATIENCE_MS / LAB_BEAT_MS;
    lab->over_ms = hr_clock_ms() + PATIENCE_MS;
    lab_until(lab, until);
}

/* Asks again until it is answered without an error. */
static void ask(struct lab *lab, enum hr_op op, const char *path, struct hr_answer *ret)
{
    static uint32_t ticket;
    for (unsigned i = 0; i < TRIES; i++) {
        ticket = (ticket + 1) % LAB_ANSWERS;
        lab_awaited = ticket;
        hr_tree_get(lab->plan, lab->tree)->list_error_until_ms = 0; /* else 2 s */
        lab_ask(lab, op, path, ticket);
        wait_briefly(lab, was_answered);
        const struct lab_answer *answer = &lab->answers[ticket];
        assert_true(answer->times <= 1 && is_refusal(answer->answer.error));
        if (answer->times == 1 && answer->answer.error == 0) {
            memcpy(ret, &answer->answer, sizeof *ret);
            return;
        }
    }
    fail_msg("op %d \"%s\" is not answered: %d, refused %u of %u", (int)op, path,
             lab->answers[ticket].answer.error, refused_times, refused_asked);
}

static void read_large(struct lab *lab, uint64_t face)
{
    static uint32_t ticket;
    const struct s3_object *object = s3_find(lab->s3, "large");
    unsigned tries = 0;
    for (uint64_t at = 0; at < LARGE_BYTES && tries < TRIES; tries++) {
        ticket = (ticket + 1) % LAB_ANSWERS;
        lab_awaited = ticket;
        lab_ask_bytes(lab, 1, face, at, LARGE_BYTES - at, false, ticket);
        wait_briefly(lab, was_answered);
        const struct lab_answer *answer = &lab->answers[ticket];
        assert_true(answer->times <= 1 && is_refusal(answer->answer.error));
        if (answer->times == 1 && answer->answer.error == 0) {
            assert_true(answer->answer.offset <= at && at < answer->answer.offset + answer->answer.size);
            lab_check_bytes(lab, answer->answer.file_id, object, answer->answer.offset, answer->answer.size);
            at = answer->answer.offset + answer->answer.size;
        }
    }
    assert_true(tries < TRIES);
}

static bool is_there_or_over(struct lab *lab)
{
    return lab_is_over(lab) || lab_is_there(lab_word(lab, lab_path));
}

static void open_entry(struct lab *lab, const char *path)
{
    snprintf(lab_path, sizeof lab_path, "%s", path);
    for (unsigned i = 0; i < TRIES && !lab_is_there(lab_word(lab, path)); i++) {
        uint32_t word = lab_word(lab, path);
        assert_true(HR_STATE_KIND(word) != HR_STATE_FAILED || is_refusal(-(int)HR_STATE_ERRNO(word)));
        lab_fetch(lab, path);
        wait_briefly(lab, is_there_or_over);
    }
    assert_true(lab_is_there(lab_word(lab, path)));
}

static void name_of(unsigned number, char ret[32])
{
    snprintf(ret, 32, "d%u/f%u", number % 3, number);
}

/* Half of it before there is a listing, half of it behind. */
static void do_job(struct lab *lab)
{
    struct hr_answer answer;
    char name[32];
    ask(lab, HR_OP_LOOK, "d1", &answer);
    assert_int_equal(answer.kind, HR_KIND_DIR);
    for (unsigned i = 0; i < FILES / 2; i++) {
        name_of(i, name);
        ask(lab, HR_OP_OPEN, name, &answer);
        assert_int_equal(answer.size, s3_find(lab->s3, name)->size);
    }
    ask(lab, HR_OP_LIST, "", &answer);
    for (unsigned i = 0; i < FILES; i++) {
        name_of(i, name);
        open_entry(lab, name);
        lab_check_entry(lab, name);
    }
    open_entry(lab, "large");
    assert_int_equal(HR_STATE_KIND(lab_word(lab, "large")), HR_STATE_FACE);
    read_large(lab, lab_file_id(lab, "large"));
}

/* How many were refused. */
static unsigned run_one(unsigned from, unsigned count, unsigned *ret_asked)
{
    void *state = NULL;
    char name[32];
    unsigned before = open_descriptors();
    assert_int_equal(lab_set_up(&state), 0);
    struct lab *lab = state;
    for (unsigned i = 0; i < FILES; i++) {
        name_of(i, name);
        s3_add(lab->s3, name, 1 + 700 * i);
    }
    s3_add(lab->s3, "large", LARGE_BYTES);
    lab_open(lab, &(struct lab_options){.timeout_ms = 200});
    refused_begin(from, count);
    do_job(lab);
    *ret_asked = refused_asked;
    unsigned times = refused_end();
    do_job(lab);
    lab_settle(lab);
    assert_int_equal(lab_tear_down(&state), 0);
    assert_int_equal(open_descriptors(), before);
    return times;
}

static void sweep(unsigned count, unsigned rounds)
{
    unsigned asked, other, times = 0;
    (void)run_one(UINT32_MAX, 1, &asked);
    for (unsigned i = 0; i < rounds; i++) {
        times += run_one(1 + i * asked / rounds, count, &other);
    }
    assert_true(times >= rounds / 2);
}

static void test_one_refusal(void **state)
{
    (void)state;
    sweep(1, 80);
}

static void test_refusals_in_a_row(void **state)
{
    (void)state;
    sweep(4, 40);
}

int main(void)
{
    (void)hr_log_open("/dev/null", HR_LOG_ERROR); /* its descriptor stays */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_refusal),
        cmocka_unit_test(test_refusals_in_a_row),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
