/* Where the cache may be, and stand-in directories. What needs another user runs in a child that becomes one.
 */
#include "tests/unit/cache/lab.h"

#include <grp.h>
#include <sched.h>
#include <sys/mount.h>

#define NOBODY 65534

static char home[256];

static int setup(void **state)
{
    (void)state;
    (void)snprintf(home, sizeof(home), "/var/tmp/headrace-test-XXXXXX");
    return mkdtemp(home) ? 0 : -1;
}

static int teardown(void **state)
{
    char command[1024];
    (void)state;
    (void)snprintf(command, sizeof(command), "chmod -R u+rwX '%s' && rm -rf '%s'", home, home);
    lab_run_command(command);
    return 0;
}

static const char *below(const char *name)
{
    static char path[4][PATH_MAX];
    static unsigned turn;
    turn = (turn + 1) % 4;
    (void)snprintf(path[turn], PATH_MAX, "%s/%s", home, name);
    return path[turn];
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    return lstat(path, &st) ? 0 : st.st_mode & 07777;
}

static void checks(void **state)
{
    (void)state;
    char message[256];
    assert_int_equal(mkdir(below("open"), 0755), 0);
    assert_int_equal(chmod(below("open"), 0755), 0);
    assert_int_equal(mkdir(below("tight"), 0500), 0);
    assert_int_equal(symlink("tight", below("link")), 0);
    assert_int_equal(symlink("nowhere", below("dangling")), 0);
    (void)close(open(below("file"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    const struct {
        const char *dir;
        int error;
        const char *says;
    } table[] = {
        {below("new"), 0, ""},
        {below("deep/er/new"), 0, ""},
        {below("new///"), 0, ""},
        {"relative/dir", -EINVAL, "not an absolute path"},
        {"", -EINVAL, "not an absolute path"},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        message[0] = '\0';
        assert_int_equal(hr_cache_dir_check(table[i].dir, message), table[i].error);
        assert_non_null(strstr(message, table[i].says));
    }
    const struct {
        const char *name;
        int error;
        const char *says;
    } bad[] = {
        {"open", -EPERM, "chmod 700"},    {"tight", -EACCES, "mode 0500"},
        {"link", -ELOOP, "symlink"},      {"link/", -ELOOP, "symlink"},
        {"dangling", -ELOOP, "symlink"},  {"file", -ENOTDIR, "not a directory"},
        {"file/below", -ENOTDIR, "file"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        message[0] = '\0';
        assert_int_equal(hr_cache_dir_check(below(bad[i].name), message), bad[i].error);
        assert_non_null(strstr(message, bad[i].says));
        assert_null(strchr(message, '\n'));
    }
    assert_int_equal(mode_of(below("new")), 0700);
    assert_int_equal(mode_of(below("deep")), 0700);
    assert_int_equal(mode_of(below("open")), 0755);
    char long_dir[PATH_MAX + 10];
    memset(long_dir, 'x', sizeof(long_dir));
    long_dir[0] = '/';
    long_dir[sizeof(long_dir) - 1] = '\0';
    assert_int_equal(hr_cache_dir_check(long_dir, message), -ENAMETOOLONG);
}

static void other_owner(void **state)
{
    (void)state;
    char message[256];
    if (geteuid() != 0) {
        print_message("skipped: other_owner needs root\n");
        skip();
    }
    assert_int_equal(mkdir(below("theirs"), 0700), 0);
    assert_int_equal(chown(below("theirs"), NOBODY, NOBODY), 0);
    assert_int_equal(hr_cache_dir_check(below("theirs"), message), -EPERM);
    assert_non_null(strstr(message, "belongs to user 65534"));
}

static void file_systems(void **state)
{
    (void)state;
    char message[256];
    struct stat st;
    if (!stat("/dev/shm", &st)) { /* asked for: tmpfs is fine */
        char dir[64];
        (void)snprintf(dir, sizeof(dir), "/dev/shm/headrace-place-%d", (int)getpid());
        assert_int_equal(hr_cache_dir_check(dir, message), 0);
        assert_int_equal(rmdir(dir), 0);
    }
    assert_true(hr_cache_dir_check("/proc/headrace", message) < 0);
    assert_non_null(strstr(message, "/proc/headrace"));
    if (geteuid() != 0) {
        print_message("skipped: the read-only part of file_systems needs root\n");
        return;
    }
    const char *point = below("ro");
    assert_int_equal(mkdir(point, 0700), 0);
    if (mount("tmpfs", point, "tmpfs", MS_RDONLY, "mode=0700") < 0) {
        print_message("skipped: the read-only part of file_systems needs mount\n");
        return;
    }
    assert_int_equal(hr_cache_dir_check(point, message), -EROFS);
    assert_int_equal(hr_cache_dir_check(below("ro/below"), message), -EROFS);
    assert_int_equal(umount(point), 0);
}

/* A network file system by its number: autofs is the one that a test can mount without a server, where it
 * can. */
static void remote_is_named(void **state)
{
    (void)state;
    char message[256];
    char data[64];
    int pipes[2];
    if (geteuid() != 0 || pipe(pipes) < 0) {
        print_message("skipped: remote_is_named needs root\n");
        skip();
    }
    const char *point = below("auto");
    assert_int_equal(mkdir(point, 0700), 0);
    (void)snprintf(data, sizeof(data), "fd=%d,pgrp=%d,minproto=5,maxproto=5,direct", pipes[1],
                   (int)getpgrp());
    int r = mount("test", point, "autofs", 0, data);
    (void)close(pipes[0]);
    (void)close(pipes[1]);
    if (r < 0) {
        print_message("skipped: remote_is_named: no autofs in this kernel\n");
        skip();
    }
    r = hr_cache_dir_check(point, message);
    (void)umount2(point, MNT_DETACH);
    assert_int_equal(r, -EOPNOTSUPP);
    assert_non_null(strstr(message, "autofs"));
    assert_non_null(strstr(message, "set cache_dir to a local place"));
}

struct fake_env {
    const char *name[4];
    const char *value[4];
};

static const char *fake_getenv(void *owner, const char *name)
{
    const struct fake_env *env = owner;
    for (int i = 0; i < 4; i++) {
        if (env->name[i] && !strcmp(env->name[i], name)) {
            return env->value[i];
        }
    }
    return NULL;
}

static void defaults(void **state)
{
    (void)state;
    char dir[PATH_MAX];
    char want[PATH_MAX];
    char message[256];
    assert_int_equal(mkdir(below("slurm"), 0700), 0);
    assert_int_equal(mkdir(below("open"), 0755), 0);
    const struct {
        struct fake_env env;
        const char *below;
        bool with_user;
    } table[] = {
        {{{"SLURM_TMPDIR", "TMPDIR", "HOME"}, {below("slurm"), "/nowhere", "/nowhere"}},
         "slurm/headrace",
         true},
        {{{"SLURM_TMPDIR", "TMPDIR", "HOME"}, {"", below("slurm"), "/nowhere"}}, "slurm/headrace", true},
        {{{"TMPDIR", "HOME"}, {"/dev/shm", below("slurm")}}, "slurm/.cache/headrace", false},
        {{{"TMPDIR", "XDG_CACHE_HOME"}, {"not/absolute", below("open")}}, "open/headrace", false},
        {{{"TMPDIR", "XDG_CACHE_HOME"}, {"/proc/nowhere", below("slurm")}}, "slurm/headrace", false},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct fake_env env = table[i].env;
        assert_int_equal(hr_cache_dir_default(fake_getenv, &env, dir, sizeof(dir), message), 0);
        assert_string_equal(message, "");
        (void)snprintf(want, sizeof(want), "%s/%s", home, table[i].below);
        if (table[i].with_user) {
            (void)snprintf(want + strlen(want), 20, "-%u", (unsigned)geteuid());
        }
        assert_string_equal(dir, want);
        assert_int_equal(mode_of(dir), 0700);
    }
    assert_int_equal(access("/dev/shm/headrace-0", F_OK), -1);
    struct fake_env env = {{"TMPDIR"}, {below("slurm")}};
    assert_int_equal(hr_cache_dir_default(fake_getenv, &env, dir, 5, message), -ENAMETOOLONG);
}

/* Where the default place is, and nothing is made. */
static void found(void **state)
{
    (void)state;
    char dir[PATH_MAX] = "untouched", want[PATH_MAX], message[256];
    assert_int_equal(mkdir(below("home"), 0700), 0);
    (void)close(open(below("plain"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    struct fake_env env = {{"SLURM_TMPDIR", "HOME"}, {below("plain"), below("home")}};
    assert_int_equal(hr_cache_dir_find(fake_getenv, &env, dir, sizeof(dir), message), -ENOENT);
    assert_string_equal(dir, "untouched");
    assert_int_equal(access(below("home/.cache"), F_OK), -1);
    assert_int_equal(hr_cache_dir_default(fake_getenv, &env, want, sizeof(want), message), 0);
    assert_int_equal(hr_cache_dir_find(fake_getenv, &env, dir, sizeof(dir), message), 0);
    assert_string_equal(dir, want);
}

/* Every place in memory or bad; in a child with a /var/tmp of its own. Its exit status: 0 right, 77 cannot be
 * tried. */
static void no_default(void **state)
{
    (void)state;
    (void)fflush(NULL);
    pid_t child = fork();
    if (!child) {
        char message[256] = "";
        char dir[PATH_MAX] = "untouched";
        struct fake_env env = {{"HOME", "TMPDIR"}, {"/proc", "/var/tmp/below"}};
        if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
            mount("tmpfs", "/var/tmp", "tmpfs", 0, "mode=1777")) {
            _exit(77);
        }
        int r = hr_cache_dir_default(fake_getenv, &env, dir, sizeof(dir), message);
        bool made = access("/var/tmp/below", F_OK) == 0; /* nothing is made in a place that is not taken */
        _exit(r < 0 && !strcmp(dir, "untouched") && strstr(message, "set cache_dir") && !made ? 0 : 1);
    }
    int status = 0;
    assert_true(waitpid(child, &status, 0) == child && WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("skipped: no_default needs root and mount namespaces\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static bool make_standins(struct lab *lab)
{
    static const char *const good[] = {"", "a", "a/b/c", "a/b", "a/b/c/d/e/f", "x y/\xff\n"};
    static const char *const bad[] = {"/", "/a", "a/", "a//b", ".", "..", "a/..", "a/../b", "a/./b"};
    char name[PATH_MAX];
    bool right = true;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        for (int again = 0; again < 2; again++) {
            right = right && !hr_cache_standin(lab->cache, 0xabcdef, good[i], (uint32_t)strlen(good[i]));
        }
        (void)snprintf(name, sizeof(name), "%s/dirs/0000000000abcdef/%s", lab->dir, good[i]);
        right = right && mode_of(name) == 0111;
    }
    (void)snprintf(name, sizeof(name), "%s/dirs/0000000000abcdef", lab->dir);
    right = right && mode_of(name) == 0111;
    (void)snprintf(name, sizeof(name), "%s/dirs/0000000000abcdef/a/b", lab->dir);
    right = right && mode_of(name) == 0111;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        right = right && hr_cache_standin(lab->cache, 1, bad[i], (uint32_t)strlen(bad[i])) == -EINVAL;
    }
    right = right && hr_cache_standin(lab->cache, 1, "a\0b", 3) == -EINVAL;
    memset(name, 'n', 1100);
    right = right && hr_cache_standin(lab->cache, 1, name, 256) == -EINVAL;
    right = right && hr_cache_standin(lab->cache, 1, name, 1100) == -EINVAL;
    right = right && hr_cache_standin(lab->cache, 1, name, 255) == 0;
    (void)snprintf(name, sizeof(name), "%s/dirs/0000000000000001/a", lab->dir);
    return right && mode_of(name) == 0; /* nothing was made of a bad path */
}

static void standins(void **state)
{
    (void)state;
    struct lab lab;
    lab_start_in(&lab, home);
    lab_open(&lab);
    (void)umask(0077);
    assert_true(make_standins(&lab));
    (void)umask(0022);
    hr_cache_close(lab.cache);
    hr_loop_free(lab.loop);
}

static void standins_not_root(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: standins_not_root: standins did it already\n");
        skip();
    }
    assert_int_equal(chown(home, NOBODY, NOBODY), 0);
    (void)fflush(NULL);
    pid_t child = fork();
    if (!child) {
        struct lab lab;
        if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY)) {
            _exit(2);
        }
        lab_start_in(&lab, home);
        lab_open(&lab);
        bool right = make_standins(&lab);
        bool put = !lab_put_whole(&lab, "k", "e", 5000, NULL, NULL);
        lab_close(&lab);
        hr_loop_free(lab.loop);
        _exit(right ? put ? 0 : 3 : 4);
    }
    int status = 0;
    assert_true(waitpid(child, &status, 0) == child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(checks, setup, teardown),
        cmocka_unit_test_setup_teardown(other_owner, setup, teardown),
        cmocka_unit_test_setup_teardown(file_systems, setup, teardown),
        cmocka_unit_test_setup_teardown(remote_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(defaults, setup, teardown),
        cmocka_unit_test_setup_teardown(found, setup, teardown),
        cmocka_unit_test_setup_teardown(no_default, setup, teardown),
        cmocka_unit_test_setup_teardown(standins, setup, teardown),
        cmocka_unit_test_setup_teardown(standins_not_root, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
