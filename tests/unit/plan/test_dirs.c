/* Directories that are read before there is an index, and trees that are never listed. */
#include <dirent.h>

#include "tests/unit/plan/lab.h"

#define WIDE 2500 /* names of a directory that takes three pages */

static void add_wide(struct lab *lab, const char *dir)
{
    char key[64];
    for (int i = 0; i < WIDE; i++) {
        snprintf(key, sizeof key, "%sf%05d", dir, i);
        s3_add(lab->s3, key, 10);
    }
}

/* A large prefix: three pages of "a/" before two small directories. */
static void add_tree(struct lab *lab)
{
    add_wide(lab, "a/");
    s3_add(lab->s3, "b/sub/z", 30);
    s3_add(lab->s3, "b/x", 2000);
    s3_add(lab->s3, "b/y", 40);
    s3_add(lab->s3, "top", 50);
}

static struct hr_plan_tree *tree_of(struct lab *lab)
{
    return hr_tree_get(lab->plan, lab->tree);
}

static void dir_path(struct lab *lab, uint64_t number, char path[160])
{
    snprintf(path, 160, "%s/index/%016llx-%08llx-%016llx.dir", lab->dir, (unsigned long long)tree_of(lab)->id,
             (unsigned long long)number, (unsigned long long)lab->plan->options.boot);
}

static unsigned files_named(struct lab *lab, const char *ending)
{
    char path[96];
    unsigned count = 0;
    snprintf(path, sizeof path, "%s/index", lab->dir);
    DIR *stream = opendir(path);
    assert_non_null(stream);
    for (struct dirent *entry; (entry = readdir(stream));) {
        const char *dot = strchr(entry->d_name, '.');
        count += dot && strncmp(dot, ending, strlen(ending)) == 0;
    }
    closedir(stream);
    return count;
}

/* The names of a directory's file, as a client maps it; directories end in '/'. */
static void names_of(struct lab *lab, uint64_t number, char *out, size_t room)
{
    char path[160];
    struct stat st;
    struct hr_index index;
    dir_path(lab, number, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0400);
    void *base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    assert_true(base != MAP_FAILED);
    assert_int_equal(hr_index_adopt(&index, base, (uint64_t)st.st_size), 0);
    assert_int_equal(index.names->gen, number);
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t n = 0; n < hr_index_child_count(&index, 0); n++) {
        uint32_t len, child = hr_index_child(&index, 0, n);
        const char *name = hr_index_name(&index, child, &len);
        used += (size_t)snprintf(out + used, room - used, "%.*s%s ", (int)len, name,
                                 index.entries[child].kind == HR_KIND_DIR ? "/" : "");
    }
    munmap(base, (size_t)st.st_size);
}

static void check_names(struct lab *lab, const char *path, const char *names)
{
    struct hr_answer answer;
    char text[512];
    assert_int_equal(lab_get(lab, HR_OP_DIR, path, &answer), 0);
    assert_int_equal(answer.kind, HR_KIND_DIR);
    assert_int_not_equal(answer.file_id, 0);
    names_of(lab, answer.file_id, text, sizeof text);
    assert_string_equal(text, names);
}

static bool is_indexed(struct lab *lab)
{
    return atomic_load(&lab->control->trees[lab->tree].gen) != 0;
}

static const char *message_of(struct lab *lab)
{
    return lab->control->trees[lab->tree].message;
}

/* One page holds all: reading a directory costs that page and nothing else. */
static void test_small_prefix_is_listed_once(void **state)
{
    struct lab *lab = *state;
    struct hr_answer answer;
    s3_add(lab->s3, "a/x", 10);
    s3_add(lab->s3, "b/y", 10);
    lab_open(lab, &(struct lab_options){.list_lanes = 48});
    assert_int_equal(lab_get(lab, HR_OP_DIR, "b", &answer), 0);
    assert_int_equal(answer.file_id, 0);
    assert_true(is_indexed(lab));
    assert_int_equal(s3_lists(lab->s3), 2); /* its page, and beside it the names of its folders */
    assert_int_equal(s3_delimited(lab->s3), 1);
    assert_int_equal(files_named(lab, ".dir"), 0);
}

/* The listing of a large prefix stands still behind its first page: a directory is read all the same, and
 * tells of its names. */
static void test_directory_before_the_listing(void **state)
{
    struct lab *lab = *state;
    struct hr_answer answer;
    char etag[64];
    add_tree(lab);
    lab_open(lab, &(struct lab_options){0});
    s3_hold_pages(lab->s3, true, 1);
    check_names(lab, "b", "sub/ x y ");
    assert_int_equal(s3_delimited(lab->s3), 1);
    check_names(lab, "", "a/ b/ top ");
    check_names(lab, "b", "sub/ x y "); /* known */
    assert_int_equal(s3_delimited(lab->s3), 2);
    unsigned lists = s3_lists(lab->s3);
    assert_int_equal(lab_get(lab, HR_OP_LOOK, "b/x", &answer), 0);
    assert_int_equal(answer.size, 2000);
    assert_int_equal(answer.kind, HR_KIND_FILE);
    assert_int_equal(lab_get(lab, HR_OP_LOOK, "b/sub", &answer), 0);
    assert_int_equal(answer.kind, HR_KIND_DIR);
    assert_int_equal(answer.mtime_ns, lab->control->trees[lab->tree].dirs_ns);
    assert_int_equal(lab_get(lab, HR_OP_LOOK, "b/none", NULL), -ENOENT);
    assert_int_equal(lab_get(lab, HR_OP_LOOK, "none/of/it", NULL), -ENOENT);
    assert_int_equal(lab_get(lab, HR_OP_LOOK, "b/x/below", NULL), -ENOTDIR);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "b/none", NULL), -ENOENT);
    assert_int_equal(lab_get(lab, HR_OP_DIR, "b/x", NULL), -ENOTDIR);
    assert_int_equal(lab_get(lab, HR_OP_DIR, "c", NULL), -ENOENT);
    hr_plan_etag(lab->plan, lab->tree, "b/x", 3, etag, sizeof etag);
    assert_string_equal(etag, s3_find(lab->s3, "b/x")->etag);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "b/x", &answer), 0);
    lab_check_file(lab, answer.file_id, s3_find(lab->s3, "b/x"));
    assert_int_equal(s3_find(lab->s3, "b/x")->ranges, 0); /* its size was known */
    assert_int_equal(s3_gets(lab->s3), 1);
    assert_int_equal(s3_lists(lab->s3), lists);
    assert_false(is_indexed(lab));
    /* The whole listing takes over. */
    s3_hold_pages(lab->s3, false, 0);
    lab_until(lab, is_indexed);
    assert_int_equal(files_named(lab, ".dir"), 0);
    assert_int_equal(lab_get(lab, HR_OP_DIR, "b", &answer), 0);
    assert_int_equal(answer.file_id, 0);
    assert_int_equal(HR_STATE_KIND(lab_word(lab, "b/x")), HR_STATE_RESIDENT);
    lab_settle(lab);
}

/* Names that are wanted leave at once, whatever a listing has in flight. */
static void test_names_pass_the_pages(void **state)
{
    struct lab *lab = *state;
    add_tree(lab);
    lab_open(lab, &(struct lab_options){.list_lanes = 48, .connections = 1});
    s3_hold_pages(lab->s3, true, 1);
    lab_ask(lab, HR_OP_LIST, "", 1);
    assert_int_equal(lab_get(lab, HR_OP_LOOK, "top", NULL), 0);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "b/y", NULL), 0);
    check_names(lab, "b", "sub/ x y ");
    assert_int_equal(lab->answers[1].times, 0);
    s3_hold_pages(lab->s3, false, 0);
    lab_until(lab, is_indexed);
    lab_settle(lab);
}

/* All keys lie in the root: there the listing is the directory, and many lanes bring it. */
static void test_flat_root_is_left_to_the_listing(void **state)
{
    struct lab *lab = *state;
    struct hr_answer answer;
    add_wide(lab, "");
    lab_open(lab, &(struct lab_options){.list_lanes = 48});
    assert_int_equal(lab_get(lab, HR_OP_DIR, "", &answer), 0);
    assert_int_equal(answer.file_id, 0);
    assert_int_equal(s3_delimited(lab->s3), 1); /* the listing's own */
    assert_int_equal(tree_of(lab)->index.names->file_count, WIDE);
}

static void test_list_dirs_never_lists_all(void **state)
{
    struct lab *lab = *state;
    struct hr_answer answer;
    char key[16], text[WIDE * 8];
    add_tree(lab);
    lab_open(lab, &(struct lab_options){.list = HR_LIST_DIRS});
    check_names(lab, "", "a/ b/ top ");
    check_names(lab, "b", "sub/ x y ");
    check_names(lab, "b/sub", "z ");
    assert_int_equal(s3_delimited(lab->s3), 3);
    assert_int_equal(lab_get(lab, HR_OP_DIR, "a", &answer), 0);
    assert_int_equal(s3_delimited(lab->s3), 6);
    names_of(lab, answer.file_id, text, sizeof text);
    assert_int_equal(strlen(text), WIDE * 7);
    for (int i = 0; i < 200; i++) {
        snprintf(key, sizeof key, "a/f%05d", i * 12);
        assert_int_equal(lab_get(lab, HR_OP_LOOK, key, NULL), 0);
    }
    assert_int_equal(lab_get(lab, HR_OP_DIR, "top", NULL), -ENOTDIR);
    assert_int_equal(lab_get(lab, HR_OP_DIR, "b/nothing/there", NULL), -ENOENT);
    assert_int_equal(s3_lists(lab->s3), 6);
    assert_false(is_indexed(lab));
}

/* Nothing is known of the directories above. */
static void test_what_is_no_directory(void **state)
{
    struct lab *lab = *state;
    add_tree(lab);
    lab_open(lab, &(struct lab_options){.list = HR_LIST_DIRS});
    assert_int_equal(lab_get(lab, HR_OP_DIR, "b/x", NULL), -ENOTDIR);
    assert_int_equal(lab_get(lab, HR_OP_DIR, "b/none", NULL), -ENOENT);
    check_names(lab, "b/sub", "z ");
    assert_int_equal(s3_delimited(lab->s3), 3);
}

/* What is in the store now: an older answer counts no more, and its file goes. */
static void test_directories_get_old(void **state)
{
    struct lab *lab = *state;
    struct hr_answer first, second;
    char path[160];
    add_tree(lab);
    lab_open(lab, &(struct lab_options){.list = HR_LIST_DIRS});
    tree_of(lab)->settings.revalidate_s = 0;
    assert_int_equal(lab_get(lab, HR_OP_DIR, "b", &first), 0);
    s3_find(lab->s3, "b/x")->hidden = true;
    assert_int_equal(lab_get(lab, HR_OP_DIR, "b", &second), 0);
    assert_int_not_equal(first.file_id, second.file_id);
    dir_path(lab, first.file_id, path);
    assert_int_equal(access(path, F_OK), -1);
    names_of(lab, second.file_id, path, sizeof path);
    assert_string_equal(path, "sub/ y ");
}

/* An object that goes after its directory was read. */
static void test_known_object_is_gone(void **state)
{
    struct lab *lab = *state;
    add_tree(lab);
    lab_open(lab, &(struct lab_options){.list = HR_LIST_DIRS});
    check_names(lab, "b", "sub/ x y ");
    s3_find(lab->s3, "b/x")->always = S3_MISSING;
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "b/x", NULL), -ENOENT);
    assert_int_equal(lab_get(lab, HR_OP_LOOK, "b/x", NULL), -ENOENT);
    assert_int_equal(s3_gets(lab->s3), 1);
    assert_int_equal(s3_lists(lab->s3), 1);
    lab_settle(lab);
}

static void test_leftovers_go(void **state)
{
    struct lab *lab = *state;
    char path[160];
    static const char *const names[] = {"0123456789abcdef-00000001-0123456789abcdef.dir",
                                        "0123456789abcdef-00000002-0123456789abcdef.dir.0123456789abcdef"};
    snprintf(path, sizeof path, "%s/index", lab->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/index/%s", lab->dir, names[i]);
        close(open(path, O_WRONLY | O_CREAT, 0600));
    }
    assert_int_equal(files_named(lab, ".dir"), 2);
    lab_open(lab, &(struct lab_options){0});
    assert_int_equal(files_named(lab, ".dir"), 0);
}

/* ---- list=none ---- */

static void test_list_none_asks_by_name(void **state)
{
    struct lab *lab = *state;
    struct hr_answer answer;
    add_tree(lab);
    s3_add(lab->s3, "void", 0);
    lab_open(lab, &(struct lab_options){.list = HR_LIST_NONE});
    assert_int_equal(lab_get(lab, HR_OP_LOOK, "b/x", &answer), 0);
    assert_int_equal(answer.size, 2000);
    assert_int_equal(answer.mtime_ns / 1000000000, 1795255200); /* 2026-11-21T10:00 */
    assert_int_equal(lab_get(lab, HR_OP_LOOK, "b/x", NULL), 0);
    assert_int_equal(lab->s3->heads, 1);
    assert_int_equal(lab_get(lab, HR_OP_LOOK, "void", &answer), 0);
    assert_int_equal(answer.size, 0);
    assert_int_equal(lab_get(lab, HR_OP_LOOK, "none", NULL), -ENOENT);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "b/x", &answer), 0);
    lab_check_file(lab, answer.file_id, s3_find(lab->s3, "b/x"));
    assert_int_equal(s3_gets(lab->s3), 1);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "none/such", NULL), -ENOENT);
    assert_int_equal(s3_gets(lab->s3), 2);
    /* Directories are those which lead to what was found. */
    assert_int_equal(lab_get(lab, HR_OP_LOOK, "b", &answer), 0);
    assert_int_equal(answer.kind, HR_KIND_DIR);
    assert_int_equal(lab_get(lab, HR_OP_LOOK, "b/sub", NULL), -ENOENT);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "b/sub/z", NULL), 0);
    assert_int_equal(lab_get(lab, HR_OP_LOOK, "b/sub", &answer), 0);
    assert_int_equal(answer.kind, HR_KIND_DIR);
    assert_int_equal(lab_get(lab, HR_OP_DIR, "b", NULL), -EACCES);
    assert_non_null(strstr(message_of(lab), "list=FILE"));
    assert_int_equal(lab_get(lab, HR_OP_LIST, "", NULL), -EACCES);
    assert_int_equal(lab->control->trees[lab->tree].message_seq, 2); /* said once */
    assert_int_equal(s3_lists(lab->s3), 0);
    lab_settle(lab);
}

/* Without the permission to list a missing key is 403: EACCES as long as nothing has come by these
 * credentials. */
static void test_missing_by_refusal(void **state)
{
    struct lab *lab = *state;
    add_tree(lab);
    lab->s3->missing_is_refused = true;
    s3_find(lab->s3, "b/y")->always = S3_REFUSED;
    lab_open(lab, &(struct lab_options){.list = HR_LIST_NONE});
    assert_int_equal(lab_get(lab, HR_OP_LOOK, "none", NULL), -EACCES);
    assert_non_null(strstr(message_of(lab), "may be missing"));
    for (int i = 0; i < 5; i++) { /* a program looks for what need not be there */
        char key[8];
        snprintf(key, sizeof key, "n%d", i);
        assert_int_equal(lab_get(lab, HR_OP_OPEN, key, NULL), -EACCES);
    }
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "b/x", NULL), 0);
    assert_int_equal(lab_get(lab, HR_OP_LOOK, "none", NULL), -ENOENT);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "none2", NULL), -ENOENT);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "top", NULL), 0);
    assert_int_equal(s3_lists(lab->s3), 0);
    lab_settle(lab);
}

/* list=auto where LIST is refused: as list=none, until another job tries again. */
static void test_refused_lists_are_given_up(void **state)
{
    struct lab *lab = *state;
    struct hr_answer answer;
    add_tree(lab);
    lab->s3->missing_is_refused = true;
    lab->s3->list_fault = S3_REFUSED;
    lab_open(lab, &(struct lab_options){0});
    assert_int_equal(lab_get(lab, HR_OP_LOOK, "b/x", &answer), 0);
    assert_int_equal(answer.size, 2000);
    assert_int_equal(lab->s3->heads, 1);
    assert_non_null(strstr(message_of(lab), "directories cannot be read"));
    assert_int_equal(lab_get(lab, HR_OP_DIR, "", NULL), -EACCES);
    assert_int_equal(lab_get(lab, HR_OP_DIR, "b", NULL), -EACCES);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "b/x", NULL), 0);
    assert_int_equal(lab_get(lab, HR_OP_LOOK, "none", NULL), -ENOENT);
    assert_int_equal(lab->control->trees[lab->tree].message_seq, 2);
    assert_int_equal(s3_lists(lab->s3), 1);
    lab->s3->list_fault = S3_FINE;
    (void)lab_tree(lab, &(struct lab_options){0}, "");
    s3_hold_pages(lab->s3, true, 1);
    check_names(lab, "b", "sub/ x y ");
    s3_hold_pages(lab->s3, false, 0);
    lab_until(lab, is_indexed);
    lab_settle(lab);
}

/* A file that need not be there, opened before anything was listed: the refusal is looked into. */
static void test_refused_open_is_looked_into(void **state)
{
    struct lab *lab = *state;
    add_tree(lab);
    lab->s3->missing_is_refused = true;
    lab->s3->list_fault = S3_REFUSED;
    lab_open(lab, &(struct lab_options){0});
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "b/x", NULL), 0);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "none", NULL), -ENOENT);
    assert_int_equal(s3_lists(lab->s3), 1);
    lab_settle(lab);
    lab_close(lab);
    /* Where LIST is allowed, a refusal is one. */
    lab->s3->list_fault = S3_FINE;
    s3_find(lab->s3, "b/y")->always = S3_REFUSED;
    lab_open(lab, &(struct lab_options){0});
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "top", NULL), 0);
    assert_int_equal(lab_get(lab, HR_OP_OPEN, "b/y", NULL), -EACCES);
    lab_settle(lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define LAB_TEST(name) cmocka_unit_test_setup_teardown(name, lab_set_up, lab_tear_down)
        LAB_TEST(test_small_prefix_is_listed_once),
        LAB_TEST(test_directory_before_the_listing),
        LAB_TEST(test_names_pass_the_pages),
        LAB_TEST(test_flat_root_is_left_to_the_listing),
        LAB_TEST(test_list_dirs_never_lists_all),
        LAB_TEST(test_what_is_no_directory),
        LAB_TEST(test_directories_get_old),
        LAB_TEST(test_known_object_is_gone),
        LAB_TEST(test_leftovers_go),
        LAB_TEST(test_list_none_asks_by_name),
        LAB_TEST(test_missing_by_refusal),
        LAB_TEST(test_refused_lists_are_given_up),
        LAB_TEST(test_refused_open_is_looked_into),
#undef LAB_TEST
    };
    return cmocka_run_group_tests_name("plan dirs", tests, NULL, NULL);
}
