/* The walks that are made here instead of by libc, and what they leave behind: run with a sanitizer, leaks
 * show. */
#include <dirent.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <spawn.h>
#include <sys/wait.h>
#include <wordexp.h>

#include "tests/unit/interpose/fake_group.h"

static char seen[4096];
static int stop_behind;

static int visit(const char *path, const struct stat *stat_at, int kind, struct FTW *where)
{
    (void)stat_at;
    size_t used = strlen(seen);
    snprintf(seen + used, sizeof(seen) - used, "%s:%d:%d ", path + where->base, kind, where->level);
    return stop_behind && --stop_behind == 0 ? 7 : 0;
}

static void nftw_reports_all(void **state)
{
    (void)state;
    seen[0] = '\0';
    errno = 4321;
    assert_int_equal(nftw(FAKE_MAP "/a", visit, 4, FTW_PHYS), 0);
    assert_int_equal(errno, 4321);
    assert_string_equal(seen, "a:1:0 x.jpg:0:1 y.jpg:0:1 ");
    seen[0] = '\0';
    assert_int_equal(nftw(FAKE_MAP "/a///", visit, 4, FTW_DEPTH | FTW_CHDIR), 0);
    assert_string_equal(seen, "x.jpg:0:1 y.jpg:0:1 a:5:0 ");
    stop_behind = 2;
    assert_int_equal(nftw64(FAKE_MAP, (__nftw64_func_t)visit, 1, 0), 7);
    stop_behind = 0;
    assert_int_equal(nftw(FAKE_MAP "/nothing", visit, 1, 0), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(nftw(FAKE_MAP "/b.txt/x", visit, 1, 0), -1);
    assert_int_equal(errno, ENOTDIR);
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return -strcmp((*a)->fts_name, (*b)->fts_name);
}

static void fts_frees_what_it_was_left_with(void **state)
{
    char *paths[] = {(char *)(FAKE_MAP "/a"), (char *)(FAKE_MAP), (char *)(FAKE_MAP "/nothing"), NULL};
    (void)state;
    for (int steps = 0; steps < 20; steps++) {
        FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
        assert_non_null(tree);
        for (int i = 0; i < steps; i++) {
            FTSENT *node = fts_read(tree);
            if (node && i % 2 == 0) {
                fts_children(tree, i % 4 ? FTS_NAMEONLY : 0);
            }
            if (node && i % 5 == 4) {
                fts_set(tree, node, FTS_SKIP);
            }
        }
        assert_int_equal(fts_close(tree), 0);
    }
}

static void glob_and_wordexp_match(void **state)
{
    glob_t found = {0};
    wordexp_t words;
    (void)state;
    assert_int_equal(glob(FAKE_MAP "/*/?.jpg", 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 2);
    assert_string_equal(found.gl_pathv[1], FAKE_MAP "/a/y.jpg");
    assert_int_equal(glob(FAKE_MAP "/b*", GLOB_APPEND, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 3);
    globfree(&found);
    assert_int_equal(wordexp("first " FAKE_MAP "/a/*.jpg " FAKE_MAP "/none* last", &words, 0), 0);
    assert_int_equal(words.we_wordc, 5);
    assert_string_equal(words.we_wordv[1], FAKE_MAP "/a/x.jpg");
    assert_string_equal(words.we_wordv[3], FAKE_MAP "/none*");
    assert_string_equal(words.we_wordv[4], "last");
    assert_null(words.we_wordv[5]);
    assert_int_equal(wordexp(FAKE_MAP "/[ab]", &words, WRDE_APPEND), 0);
    assert_int_equal(words.we_wordc, 6);
    assert_string_equal(words.we_wordv[5], FAKE_MAP "/a");
    wordfree(&words);
}

static void raw_directories_keep_a_position(void **state)
{
    char buffer[64];
    (void)state;
    for (int round = 0; round < 200; round++) {
        int fd = open(FAKE_MAP "/a", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int copy = dup(fd);
        unsigned count = 0;
        ssize_t got;
        while ((got = getdents64(count % 2 ? fd : copy, buffer, 40)) > 0) {
            count++;
        }
        assert_int_equal(got, 0);
        assert_int_equal(count, 4);
        assert_int_equal(lseek(copy, 0, SEEK_SET), 0);
        assert_true(getdents64(fd, buffer, sizeof(buffer)) > 0);
        assert_int_equal(read(fd, buffer, 1), -1);
        assert_int_equal(errno, EISDIR);
        close(fd);
        close(copy);
    }
}

static void parents_show_the_map_once(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        DIR *dir = opendir("/");
        assert_non_null(dir);
        int shown = 0;
        long behind = 0;
        for (struct dirent *entry; (entry = readdir(dir));) {
            if (strcmp(entry->d_name, &FAKE_MAP[1]) == 0) {
                shown++;
                assert_int_equal(entry->d_type, DT_DIR);
                behind = telldir(dir);
            }
        }
        assert_int_equal(shown, 1);
        seekdir(dir, behind);
        assert_null(readdir(dir));
        rewinddir(dir);
        assert_non_null(readdir(dir));
        assert_int_equal(closedir(dir), 0);
    }
}

static void children_get_what_their_actions_name(void **state)
{
    char *argv[] = {(char *)"sh", (char *)"-c", (char *)"read a b c; test \"$a $b $c\" = 'content of x.jpg'",
                    NULL};
    (void)state;
    for (int round = 0; round < 2; round++) {
        posix_spawn_file_actions_t actions;
        pid_t pid;
        int status;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 0, FAKE_MAP "/a/x.jpg", O_RDONLY, 0);
        /* Evicted behind the adding of the action. */
        fake_evict(&fake, FAKE_X, true);
        assert_int_equal(posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, environ), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        posix_spawn_file_actions_addopen(&actions, 5, FAKE_MAP "/nothing", O_RDONLY, 0);
        assert_int_equal(posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, environ), ENOENT);
        posix_spawn_file_actions_destroy(&actions);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    group_begin(argv);
    fake_publish(&fake, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nftw_reports_all),          cmocka_unit_test(fts_frees_what_it_was_left_with),
        cmocka_unit_test(glob_and_wordexp_match),    cmocka_unit_test(raw_directories_keep_a_position),
        cmocka_unit_test(parents_show_the_map_once), cmocka_unit_test(children_get_what_their_actions_name),
    };
    return cmocka_run_group_tests(tests, NULL, group_end);
}
