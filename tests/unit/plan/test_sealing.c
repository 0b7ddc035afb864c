/* A large index is sealed beside the loop: requests are answered meanwhile. The disk's time is this test's to
 * give: a file's fsync waits until it is let go. */
#include <dirent.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fetch/plan/adopting.h"
#include "fetch/plan/names.h"
#include "tests/unit/plan/lab.h"

#define NAMES 2500 /* of one directory: three pages */

static pthread_t loop_thread;
static sem_t let_go;
static atomic_bool holding;
static atomic_uint held, on_loop;

/* In the place of libc's. On the loop's thread there is nothing to wait for: nobody could let it go. */
int fsync(int fd)
{
    if (atomic_load(&holding) && pthread_equal(pthread_self(), loop_thread)) {
        atomic_fetch_add(&on_loop, 1);
    } else if (atomic_load(&holding)) {
        atomic_fetch_add(&held, 1);
        while (sem_wait(&let_go) < 0) {
        }
    }
    return (int)syscall(SYS_fsync, fd);
}

static struct hr_plan_tree *tree_of(struct lab *lab)
{
    return hr_tree_get(lab->plan, lab->tree);
}

static bool is_held(struct lab *lab)
{
    (void)lab;
    return atomic_load(&held) + atomic_load(&on_loop) > 0;
}

static bool both_answered(struct lab *lab)
{
    return lab->answers[1].times > 0 && lab->answers[2].times > 0;
}

static bool is_imported(struct lab *lab)
{
    return tree_of(lab)->import_end.count > 0;
}

static void hold(void)
{
    loop_thread = pthread_self();
    atomic_store(&held, 0);
    atomic_store(&on_loop, 0);
    assert_int_equal(sem_init(&let_go, 0, 0), 0);
    atomic_store(&holding, true);
}

/* Asks for all names and stops before their file gets its name. */
static void seal_half(struct lab *lab)
{
    struct lab_options options = {.list = HR_LIST_AUTO};
    char key[64];

    for (int i = 0; i < NAMES; i++) {
        snprintf(key, sizeof key, "a/f%05d", i);
        s3_add(lab->s3, key, 10);
    }
    s3_add(lab->s3, "b/x", 2000);
    lab_open(lab, &options);
    hold();
    lab_ask(lab, HR_OP_LIST, "", 1);
    lab_until(lab, is_held);
    assert_int_equal(atomic_load(&on_loop), 0);
    assert_int_equal(lab->answers[1].times, 0);
}

/* Imports a list of two names, of which the store has one, and stops there, too. */
static void import_half(struct lab *lab)
{
    struct lab_options options = {.list = HR_LIST_AUTO};
    char path[96];
    char message[HR_MESSAGE_MAX];
    const char *file = path;
    struct hr_import import = {.files = &file, .file_count = 1};

    s3_add(lab->s3, "b/x", 2000);
    s3_add(lab->s3, "c/y", 10);
    lab_open(lab, &options);
    snprintf(path, sizeof path, "%s/names", lab->dir);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_true(fputs("b/x\nb/z\n", out) >= 0);
    assert_int_equal(fclose(out), 0);
    hold();
    assert_int_equal(hr_adopting_import(lab->plan, lab->tree, &import, message), 0);
    lab_until(lab, is_held);
    assert_int_equal(atomic_load(&on_loop), 0);
    assert_int_equal(tree_of(lab)->import_end.count, 0);
}

static void go_on(void)
{
    atomic_store(&holding, false);
    assert_int_equal(sem_post(&let_go), 0);
}

static unsigned names_files(struct lab *lab)
{
    char path[96];
    unsigned count = 0;
    snprintf(path, sizeof path, "%s/index", lab->dir);
    DIR *stream = opendir(path);
    assert_non_null(stream);
    for (struct dirent *entry; (entry = readdir(stream));) {
        count += strstr(entry->d_name, ".names") != NULL;
    }
    closedir(stream);
    return count;
}

static void test_requests_are_answered_meanwhile(void **state)
{
    struct lab *lab = *state;
    struct hr_answer answer;

    seal_half(lab);
    assert_int_equal(lab_get(lab, HR_OP_LOOK, "b/x", &answer), 0);
    assert_int_equal(answer.size, 2000);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "b/x", NULL), 0);
    assert_null(tree_of(lab)->index.names);
    unsigned lists = s3_lists(lab->s3);
    lab_ask(lab, HR_OP_LIST, "", 2); /* waits for the same names */
    go_on();
    lab_until(lab, both_answered);
    assert_int_equal(lab->answers[1].answer.error, 0);
    assert_int_equal(lab->answers[2].answer.error, 0);
    assert_int_equal(s3_lists(lab->s3), lists);
    assert_int_equal(tree_of(lab)->index.names->file_count, NAMES + 1);
    assert_int_equal(HR_STATE_KIND(lab_word(lab, "b/x")), HR_STATE_RESIDENT);
    assert_int_equal(names_files(lab), 1);
    lab_close(lab);
}

/* The daemon ends before it was told of the index: the file goes, who waits gets an error. */
static void test_end_in_the_middle(void **state)
{
    struct lab *lab = *state;

    seal_half(lab);
    go_on();
    lab_close(lab);
    assert_int_equal(lab->answers[1].times, 1);
    assert_int_equal(lab->answers[1].answer.error, -ECANCELED);
    assert_int_equal(names_files(lab), 0);
}

/* Names that are imported while others are sealed take their place. */
static void test_replaced_in_the_middle(void **state)
{
    struct lab *lab = *state;
    struct hr_index_builder *builder;
    struct hr_index index;

    seal_half(lab);
    assert_int_equal(hr_builder_new(&builder), 0);
    assert_int_equal(hr_builder_add(builder, "b/x", 3, 2000, 1, NULL), 0);
    go_on();
    assert_int_equal(hr_builder_publish(builder, lab->plan->index_dir, tree_of(lab)->id,
                                        tree_of(lab)->next_gen, 1, &index),
                     0);
    hr_builder_free(builder);
    assert_int_equal(hr_listing_replace(tree_of(lab), &index), 0);
    assert_null(tree_of(lab)->lister);
    assert_int_equal(tree_of(lab)->index.names->file_count, 1);
    assert_int_equal(names_files(lab), 1);
    hr_listing_ended(tree_of(lab));
    assert_int_equal(lab->answers[1].times, 1);
    assert_int_equal(lab_get(lab, HR_OP_LIST, "", NULL), 0);
    lab_close(lab);
}

static void test_an_import_is_sealed_beside(void **state)
{
    struct lab *lab = *state;
    struct hr_answer answer;

    import_half(lab);
    assert_int_equal(lab_get(lab, HR_OP_LOOK, "b/x", &answer), 0);
    assert_int_equal(answer.size, 2000);
    assert_null(tree_of(lab)->index.names);
    go_on();
    lab_until(lab, is_imported);
    assert_int_equal(tree_of(lab)->import_end.error, 0);
    assert_int_equal(tree_of(lab)->index.names->file_count, 2);
    assert_int_equal(names_files(lab), 1);
    lab_close(lab);
}

/* A listing that ends meanwhile leaves alone what is being written, and is replaced in the end. */
static void test_a_listing_beside_an_import(void **state)
{
    struct lab *lab = *state;

    import_half(lab);
    atomic_store(&holding, false); /* only the import's file waits */
    assert_int_equal(lab_get(lab, HR_OP_LIST, "", NULL), 0);
    uint32_t gen = tree_of(lab)->index.names->gen;
    assert_int_equal(tree_of(lab)->index.names->file_count, 2);
    assert_int_equal(lab_get(lab, HR_OP_LOOK, "b/z", NULL), -ENOENT);
    go_on();
    lab_until(lab, is_imported);
    assert_int_equal(tree_of(lab)->import_end.error, 0);
    assert_int_not_equal(tree_of(lab)->index.names->gen, gen);
    assert_true(tree_of(lab)->next_gen > gen);
    assert_int_equal(names_files(lab), 1);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "b/x", NULL), 0);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "b/z", NULL), -ENOENT);
    lab_close(lab);
}

static void test_end_in_the_middle_of_an_import(void **state)
{
    struct lab *lab = *state;

    import_half(lab);
    go_on();
    lab_close(lab);
    assert_int_equal(names_files(lab), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_requests_are_answered_meanwhile, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_end_in_the_middle, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_replaced_in_the_middle, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_an_import_is_sealed_beside, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_a_listing_beside_an_import, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(test_end_in_the_middle_of_an_import, lab_set_up, lab_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
