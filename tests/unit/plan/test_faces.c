/* Faces: a large object is opened without asking the store for a byte of it. */
#include "tests/unit/plan/lab.h"

#include <sys/stat.h>

static struct hr_cache_stats cache_stats(struct lab *lab)
{
    struct hr_cache_stats stats;
    hr_cache_stats(lab->cache, &stats);
    return stats;
}

static void path_of(struct lab *lab, uint64_t file_id, char path[128])
{
    snprintf(path, 128, "%s/objects/%02x/%016llx", lab->dir, (unsigned)(file_id & 0xff),
             (unsigned long long)file_id);
}

static void check_face_file(struct lab *lab, uint64_t file_id)
{
    char path[128];
    struct stat st;
    path_of(lab, file_id, path);
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_mode, S_IFREG | 0200);
    assert_int_equal(st.st_size, 0);
}

static void test_listed_open_asks_nothing(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object = s3_add(lab->s3, "big", 3000 * MIB);
    struct hr_answer answer;
    lab_open(lab, &(struct lab_options){0});
    lab_list(lab);
    for (int i = 0; i < 20; i++) {
        lab_fetch(lab, "big");
    }
    lab_ask(lab, HR_OP_OPEN, "big", 7);
    uint64_t face = lab_face(lab, "big");
    check_face_file(lab, face);
    lab_settle(lab);
    assert_int_equal(lab->answers[7].times, 1);
    assert_int_equal(lab->answers[7].answer.file_id, face);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "big", &answer), 0);
    assert_int_equal(answer.flags, HR_ANSWER_FACE);
    assert_int_equal(answer.file_id, face);
    assert_int_equal(answer.size, object->size);
    assert_int_equal(s3_gets(lab->s3), 0);
    assert_int_equal(cache_stats(lab).faces, 1);
    assert_int_equal(cache_stats(lab).bytes, 0);
    assert_int_equal(lab_stats(lab).misses, 1);
    lab_note(lab, "big");
    lab_note(lab, "big");
    lab_run_ms(lab, 50);
    assert_int_equal(lab_stats(lab).hits, 1);
}

static void test_trees_share_the_face(void **state)
{
    struct lab *lab = *state;
    s3_add(lab->s3, "d/big", 100 * MIB);
    lab_open(lab, &(struct lab_options){0});
    uint32_t deep = lab_tree(lab, &(struct lab_options){0}, "d/");
    lab_list(lab);
    uint64_t face = lab_face(lab, "d/big");
    lab_ask_in(lab, deep, HR_OP_LIST, "", 1);
    lab_awaited = 1;
    lab_until(lab, lab_is_answered);
    assert_int_equal(HR_STATE_KIND(lab_word_in(lab, deep, "big")), HR_STATE_FACE); /* found by the listing */
    lab_ask_in(lab, deep, HR_OP_OPEN, "big", 1);
    lab_until(lab, lab_is_answered);
    assert_int_equal(lab->answers[1].answer.file_id, face);
    assert_int_equal(cache_stats(lab).faces, 1);
    lab_settle(lab);
}

static void test_looked_at_name_asks_nothing(void **state)
{
    struct lab *lab = *state;
    s3_add(lab->s3, "big", 100 * MIB);
    struct hr_answer answer;
    lab_open(lab, &(struct lab_options){0});
    assert_int_equal(lab_get(lab, HR_OP_LOOK, "big", NULL), 0);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "big", &answer), 0);
    assert_int_equal(answer.flags, HR_ANSWER_FACE);
    assert_int_equal(answer.size, 100 * MIB);
    check_face_file(lab, answer.file_id);
    assert_int_equal(s3_gets(lab->s3), 0);
    assert_int_equal(lab_stats(lab).misses, 1);
    lab_settle(lab);
}

/* Of a name that nobody knows the first range tells all, and stays as the first segment. */
static void test_unlisted_open_is_one_range(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object = s3_add(lab->s3, "big", 20 * MIB + 5);
    struct hr_answer answer, bytes;
    for (int life = 0; life < 2; life++) {
        uint64_t small_max = life ? 100000 : 8 * MIB; /* not a number of pages */
        lab_open(lab, &(struct lab_options){.small_max_bytes = small_max, .cache_bytes = 64 * MIB});
        unsigned before = s3_gets(lab->s3);
        s3_hold(lab->s3, true, false);
        lab_ask(lab, HR_OP_OPEN, "big", 5);
        lab_ask(lab, HR_OP_OPEN, "big", 6);
        s3_hold(lab->s3, false, false);
        assert_int_equal(lab_get(lab, HR_OP_OPEN, "big", &answer), 0);
        assert_int_equal(lab->answers[5].answer.file_id, answer.file_id);
        assert_int_equal(lab->answers[6].answer.file_id, answer.file_id);
        assert_int_equal(answer.flags, HR_ANSWER_FACE);
        assert_int_equal(answer.size, object->size);
        lab_settle(lab);
        assert_int_equal(s3_gets(lab->s3) - before, 1);
        assert_int_equal(lab_get_bytes(lab, answer.file_id, 10, 10, false, &bytes), 0);
        assert_int_equal(bytes.offset, 0);
        lab_check_bytes(lab, bytes.file_id, object, 0, bytes.size);
        assert_int_equal(lab_stats(lab).segment_hits, 1);
        lab_settle(lab);
        lab_close(lab);
    }
}

static void remove_face(struct lab *lab, uint64_t face)
{
    char path[128];
    path_of(lab, face, path);
    assert_int_equal(unlink(path), 0);
}

static void chmod_face(struct lab *lab, uint64_t face)
{
    char path[128];
    path_of(lab, face, path);
    assert_int_equal(chmod(path, 0400), 0);
}

static bool face_is_back(struct lab *lab)
{
    return HR_STATE_KIND(lab_word(lab, "big")) == HR_STATE_FACE && lab_word(lab, "big") != lab_seen;
}

static void test_lost_or_foreign_face_is_made_again(void **state)
{
    struct lab *lab = *state;
    s3_add(lab->s3, "big", 100 * MIB);
    lab_open(lab, &(struct lab_options){0});
    lab_list(lab);
    void (*const harm[])(struct lab *, uint64_t) = {remove_face, chmod_face};
    for (unsigned i = 0; i < 2; i++) {
        uint64_t face = lab_face(lab, "big");
        lab_seen = lab_word(lab, "big");
        lab_fetch(lab, "big"); /* all is well: nothing changes */
        lab_run_ms(lab, 20);
        assert_int_equal(lab_word(lab, "big"), lab_seen);
        harm[i](lab, face);
        lab_fetch(lab, "big");
        lab_until(lab, face_is_back);
        assert_int_not_equal(lab_file_id(lab, "big"), face);
        check_face_file(lab, lab_file_id(lab, "big"));
        assert_int_equal(lab_get_bytes(lab, face, 0, 1, false, NULL), -ESTALE);
        lab_settle(lab);
    }
    assert_int_equal(cache_stats(lab).faces, 1);
    assert_int_equal(s3_gets(lab->s3), 0);
}

static void test_second_life_knows_faces_and_segments(void **state)
{
    struct lab *lab = *state;
    struct s3_object *object = s3_add(lab->s3, "big", 40 * MIB);
    lab_open(lab, &(struct lab_options){0});
    lab_list(lab);
    uint64_t face = lab_face(lab, "big");
    lab_read(lab, face, object, 17 * MIB, 100 * KIB);
    lab_settle(lab);
    unsigned gets = s3_gets(lab->s3);
    lab_close(lab);
    lab_open(lab, &(struct lab_options){0});
    lab_list(lab);
    assert_int_equal(HR_STATE_KIND(lab_word(lab, "big")), HR_STATE_FACE);
    assert_int_equal(lab_face(lab, "big"), face);
    check_face_file(lab, face);
    lab_read(lab, face, object, 17 * MIB, 100 * KIB);
    assert_int_equal(s3_gets(lab->s3), gets);
    assert_int_equal(lab->s3->lists, 1);
    lab_settle(lab);
}

/* A limit that was raised: what used to be large is small now. */
static void test_face_below_small_max_is_no_answer(void **state)
{
    struct lab *lab = *state;
    s3_add(lab->s3, "x", 3 * MIB);
    lab_open(lab, &(struct lab_options){.small_max_bytes = 1 * MIB});
    lab_list(lab);
    (void)lab_face(lab, "x");
    lab_settle(lab);
    lab_close(lab);
    lab_open(lab, &(struct lab_options){0});
    lab_list(lab);
    assert_int_equal(lab_open_entry(lab, "x"), 0);
    lab_check_entry(lab, "x");
    lab_settle(lab);
}

static void test_sweep_leaves_large_objects_out(void **state)
{
    struct lab *lab = *state;
    char key[16];
    s3_add(lab->s3, "a", 9 * MIB);
    for (unsigned i = 0; i < 40; i++) {
        snprintf(key, sizeof key, "k%03u", i);
        s3_add(lab->s3, key, 1000);
    }
    s3_add(lab->s3, "z", 9 * MIB);
    lab_open(lab, &(struct lab_options){.prefetch = true});
    lab_list(lab);
    for (unsigned i = 0; i < 16; i++) {
        snprintf(key, sizeof key, "k%03u", 10 + i);
        assert_int_equal(lab_open_entry(lab, key), 0);
    }
    lab_settle(lab);
    assert_int_equal(lab->s3->gets, 40);
    assert_true(hr_tree_get(lab->plan, lab->tree)->sweep_done);
    (void)hr_sweep_ahead(hr_tree_get(lab->plan, lab->tree), lab_entry_in(lab, lab->tree, "z"),
                         HR_REASON_LOOKAHEAD);
    lab_settle(lab);
    assert_int_equal(lab->s3->gets, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define LAB_TEST(name) cmocka_unit_test_setup_teardown(name, lab_set_up, lab_tear_down)
        LAB_TEST(test_listed_open_asks_nothing),
        LAB_TEST(test_trees_share_the_face),
        LAB_TEST(test_looked_at_name_asks_nothing),
        LAB_TEST(test_unlisted_open_is_one_range),
        LAB_TEST(test_lost_or_foreign_face_is_made_again),
        LAB_TEST(test_second_life_knows_faces_and_segments),
        LAB_TEST(test_face_below_small_max_is_no_answer),
        LAB_TEST(test_sweep_leaves_large_objects_out),
#undef LAB_TEST
    };
    return cmocka_run_group_tests_name("plan faces", tests, NULL, NULL);
}
