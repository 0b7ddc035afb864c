/* libc calls on a mapped path, against a daemon that the test plays: this program is linked with the hooks.
 */
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "interpose/context.h"
#include "interpose/standin.h"
#include "tests/unit/interpose/fake_group.h"

static void read_text(const char *path, const char *want)
{
    char text[64] = "";
    errno = 4321;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(errno, 4321);
    assert_true(read(fd, text, sizeof(text) - 1) >= 0);
    close(fd);
    assert_string_equal(text, want);
}

static void before_the_index(void **state)
{
    struct stat st;
    (void)state;
    assert_int_equal(stat(FAKE_MAP, &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_int_equal(asked(HR_OP_LOOK), 0);
    assert_int_equal(stat(FAKE_MAP "/b.txt", &st), 0);
    assert_int_equal(st.st_size, fake_size(FAKE_B));
    assert_int_equal(asked(HR_OP_LOOK), 1);
    fails(stat(FAKE_MAP "/nothing", &st), ENOENT);
    fails(stat(FAKE_MAP "/b.txt/", &st), ENOTDIR);
    asked(HR_OP_LOOK);
    read_text(FAKE_MAP "/a/x.jpg", "content of x.jpg\n");
    assert_int_equal(asked(HR_OP_OPEN), 1);
    assert_int_equal(asked(HR_OP_LOOK), 0);
    fails(open(FAKE_MAP "/denied", O_RDONLY), EACCES);
    /* Refused without fetching. */
    asked(HR_OP_OPEN);
    fails(open(FAKE_MAP "/b.txt", O_RDWR), EROFS);
    assert_int_equal(asked(HR_OP_OPEN), 0);
    /* The way to the deeper map is there, whatever the store says. */
    assert_int_equal(stat(FAKE_MAP "/deep/er", &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_int_equal(stat(FAKE_DEEP_MAP "/a/y.jpg", &st), 0);
}

static void a_listing_that_fails_tells_why(void **state)
{
    struct hr_view_dir dir;
    struct hr_place place;
    (void)state;
    assert_true(hr_path_find(AT_FDCWD, FAKE_MAP "/a", &place));
    assert_int_equal(hr_view_dir(&place, &dir), -EACCES);
    assert_int_equal(dir.salt, FAKE_SALT);
    atomic_store(&fake.publish_on_list, true);
    assert_int_equal(hr_view_dir(&place, &dir), 0);
    assert_int_equal(dir.index.names->gen, 1);
    assert_null(dir.own);
    assert_int_equal(asked(HR_OP_DIR), 2);
}

static void one_identity_everywhere(void **state)
{
    struct stat by_path, by_fd;
    struct statx by_statx;
    (void)state;
    assert_int_equal(stat(FAKE_MAP "/b.txt", &by_path), 0);
    assert_int_equal(by_path.st_mode, S_IFREG | 0444);
    assert_int_equal(by_path.st_dev, FAKE_DEV);
    assert_int_equal(by_path.st_ino, hr_object_ino(FAKE_SALT, "p/", 2, "b.txt", 5));
    assert_int_equal(by_path.st_nlink, 1);
    assert_int_equal(by_path.st_blocks, 1);
    assert_int_equal(by_path.st_blksize, 4096);
    assert_int_equal(by_path.st_mtim.tv_sec, FAKE_MTIME_NS / 1000000000);
    assert_int_equal(by_path.st_mtim.tv_nsec, FAKE_MTIME_NS % 1000000000);
    assert_int_equal(by_path.st_uid, geteuid());
    int fd = open(FAKE_MAP "/b.txt", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &by_fd), 0);
    assert_memory_equal(&by_path, &by_fd, sizeof(by_fd));
    assert_int_equal(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &by_statx), 0);
    assert_int_equal(by_statx.stx_ino, by_path.st_ino);
    assert_int_equal(by_statx.stx_size, by_path.st_size);
    /* Evicted while open: still itself; its inode may not be told to another file meanwhile. */
    fake_evict(&fake, FAKE_B, true);
    assert_int_equal(fstat(fd, &by_fd), 0);
    assert_memory_equal(&by_path, &by_fd, sizeof(by_fd));
    close(fd);
    /* Whoever opens the bare cache file has the same object; the user's own file keeps the kernel's answer.
     */
    char own[400];
    snprintf(own, sizeof(own), "%s/own", home);
    fd = open(own, O_RDWR | O_CREAT | O_CLOEXEC, 0400);
    assert_int_equal(fstat(fd, &by_fd), 0);
    assert_int_equal(by_fd.st_mode, S_IFREG | 0400);
    assert_int_not_equal(by_fd.st_dev, FAKE_DEV);
    close(fd);
    assert_int_equal(stat(FAKE_MAP "/a", &by_path), 0);
    assert_int_equal(by_path.st_mode, S_IFDIR | 0555);
    assert_int_equal(by_path.st_size, 4096);
    assert_int_equal(by_path.st_blocks, 0);
    assert_int_equal(by_path.st_ino, hr_object_ino(FAKE_SALT, "p/", 2, "a", 1));
    assert_int_equal(stat(FAKE_MAP, &by_path), 0);
    assert_int_equal(by_path.st_ino, hr_object_ino(FAKE_SALT, "p", 1, "", 0));
}

static void warm_opens_ask_nothing(void **state)
{
    (void)state;
    asked(HR_OP_FETCH);
    read_text(FAKE_MAP "/a/y.jpg", "content of y.jpg\n");
    assert_int_equal(asked(HR_OP_FETCH), 1);
    fake.uses->last[FAKE_Y] = 0;
    uint32_t head = fake.uses->head;
    for (int i = 0; i < 10; i++) {
        read_text(FAKE_MAP "/./a//y.jpg", "content of y.jpg\n");
    }
    assert_int_equal(asked(HR_OP_FETCH), 0);
    assert_int_equal(fake.uses->last[FAKE_Y], 9);
    assert_int_equal(fake.uses->head, head + 10);
    assert_int_equal(fake.uses->ring[head % HR_USES_RING], FAKE_Y);
    for (int told = 0; told < 2; told++) {
        fake_evict(&fake, FAKE_Y, told);
        read_text(FAKE_MAP "/a/y.jpg", "content of y.jpg\n");
        assert_int_equal(asked(HR_OP_FETCH), 1);
    }
}

/* The note that the next warm open leaves. */
static uint64_t noted(void)
{
    uint32_t head = fake.uses->head;
    read_text(FAKE_MAP "/a/y.jpg", "content of y.jpg\n");
    assert_int_equal(fake.uses->head, head + 1);
    return fake.uses->ring[head % HR_USES_RING];
}

/* As a loader's worker reads it, the header by itself; by_parts false: all at once. */
static void receive(int fds[2], const char *bytes, size_t len, bool by_parts)
{
    char text[64];
    size_t first = by_parts ? 4 : 0;
    assert_int_equal(syscall(SYS_write, fds[1], bytes, len), len);
    assert_int_equal(read(fds[0], text, first), first);
    assert_int_equal(read(fds[0], text + first, len - first), len - first);
    assert_memory_equal(text, bytes, len);
}

static void notes_name_the_batch(void **state)
{
    static const char none[] = "\0\0\0\x0cnot a pickle";
    static const char nine[] = "\0\0\0\x11\x80\2K\x9]q\0(K\5K\7e\x86q\1."; /* (9, [5, 7]) */
    static const char ten[] = "\0\0\0\xe\x80\2K\n]q\0K\5a\x86q\1.";        /* (10, [5]) */
    const uint32_t indices[] = {5, 7};
    int fds[2], other[2];
    (void)state;
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(pipe(other), 0);
    assert_int_equal(noted(), HR_USE(FAKE_Y, 0));
    receive(fds, none, sizeof none - 1, true);
    receive(fds, nine, sizeof nine - 1, false); /* nobody reads a queue like this */
    assert_int_equal(noted(), HR_USE(FAKE_Y, 0));
    receive(fds, nine, sizeof nine - 1, true);
    assert_int_equal(noted(), HR_USE(FAKE_Y, hr_batch_tag(9, indices, 2)));
    receive(other, none, sizeof none - 1, true);
    assert_int_equal(noted(), HR_USE(FAKE_Y, hr_batch_tag(9, indices, 2)));
    receive(other, ten, sizeof ten - 1, true);
    assert_int_equal(noted(), HR_USE(FAKE_Y, hr_batch_tag(10, indices, 1)));
    close(fds[0]), close(fds[1]), close(other[0]), close(other[1]);
}

static void answers_as_a_read_only_file_system(void **state)
{
    static const struct {
        const char *path;
        int flags, error;
    } rows[] = {
        {"/b.txt", O_WRONLY, EROFS},
        {"/b.txt", O_RDWR, EROFS},
        {"/b.txt", O_RDONLY | O_TRUNC, EROFS},
        {"/b.txt", O_WRONLY | O_CREAT | O_EXCL, EEXIST},
        {"/b.txt", O_RDONLY | O_DIRECTORY, ENOTDIR},
        {"/b.txt/", O_RDONLY, ENOTDIR},
        {"/b.txt/x", O_RDONLY, ENOTDIR},
        {"/new", O_WRONLY | O_CREAT, EROFS},
        {"/new", O_RDONLY, ENOENT},
        {"/a/new", O_WRONLY | O_CREAT, EROFS},
        {"/new/new", O_WRONLY | O_CREAT, ENOENT},
        {"/b.txt/new", O_WRONLY | O_CREAT, ENOTDIR},
        {"/a", O_WRONLY, EISDIR},
        {"/a", O_RDWR | O_CREAT, EISDIR},
        {"/a", O_RDONLY | O_CREAT | O_EXCL, EEXIST},
        {"/a", O_RDWR | O_TMPFILE, EROFS},
        {"", O_WRONLY, EISDIR},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char path[128];
        snprintf(path, sizeof(path), FAKE_MAP "%s", rows[i].path);
        fails(open(path, rows[i].flags, 0644), rows[i].error);
    }
    fails(creat(FAKE_MAP "/b.txt", 0644), EROFS);
    int fd = open(FAKE_MAP "/b.txt", O_RDONLY | O_CREAT, 0644);
    assert_true(fd >= 0);
    close(fd);
}

static void tells_access_links_and_real_names(void **state)
{
    char buffer[PATH_MAX];
    (void)state;
    assert_int_equal(access(FAKE_MAP "/b.txt", R_OK), 0);
    assert_int_equal(access(FAKE_MAP "/a", R_OK | X_OK), 0);
    fails(access(FAKE_MAP "/b.txt", W_OK), EROFS);
    fails(access(FAKE_MAP "/b.txt", X_OK), EACCES);
    fails(access(FAKE_MAP "/b.txt", 64), EINVAL);
    fails(access(FAKE_MAP "/nothing", F_OK), ENOENT);
    fails((int)readlink(FAKE_MAP "/b.txt", buffer, sizeof(buffer)), EINVAL);
    fails((int)readlink(FAKE_MAP "/nothing", buffer, sizeof(buffer)), ENOENT);
    assert_string_equal(realpath(FAKE_MAP "/a/../a/./x.jpg", buffer), FAKE_MAP "/a/x.jpg");
    char *given = realpath(FAKE_MAP "/", NULL);
    assert_string_equal(given, FAKE_MAP);
    free(given);
    assert_null(realpath(FAKE_MAP "/nothing", buffer));
    assert_int_equal(errno, ENOENT);
    /* Out of a map again, where no such directory is. */
    assert_string_equal(realpath(FAKE_MAP "/../tmp", buffer), "/tmp");
    assert_int_equal(access(FAKE_MAP "/../tmp", R_OK), 0);
}

static void descriptors_of_directories_lead_on(void **state)
{
    struct stat st, root;
    (void)state;
    int dir = open(FAKE_MAP "/a", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(dir >= 0);
    assert_int_equal(asked(HR_OP_STANDIN), 1);
    assert_true(hr_standin_maybe(dir));
    assert_int_equal(fstat(dir, &st), 0);
    assert_int_equal(st.st_ino, hr_object_ino(FAKE_SALT, "p/", 2, "a", 1));
    assert_int_equal(st.st_mode, S_IFDIR | 0555);
    assert_int_equal(fstatat(dir, "x.jpg", &st, 0), 0);
    assert_int_equal(st.st_ino, hr_object_ino(FAKE_SALT, "p/a/", 4, "x.jpg", 5));
    assert_int_equal(fstatat(dir, "../b.txt", &st, 0), 0);
    assert_int_equal(fstatat(dir, "../../tmp", &st, 0), 0);
    assert_int_not_equal(st.st_dev, FAKE_DEV);
    int fd = openat(dir, "y.jpg", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    close(fd);
    fails(openat(dir, "z.jpg", O_RDONLY), ENOENT);
    close(dir);
    /* A directory above the map, which the kernel has. */
    dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(fstatat(dir, &FAKE_MAP[1], &root, 0), 0);
    assert_int_equal(root.st_dev, FAKE_DEV);
    assert_int_equal(fstat(dir, &st), 0);
    assert_int_not_equal(st.st_dev, FAKE_DEV);
    close(dir);
}

static void follows_the_working_directory(void **state)
{
    char buffer[PATH_MAX], before[PATH_MAX];
    struct stat st;
    (void)state;
    assert_non_null(getcwd(before, sizeof(before)));
    assert_int_equal(chdir(FAKE_MAP "/a"), 0);
    assert_string_equal(getcwd(buffer, sizeof(buffer)), FAKE_MAP "/a");
    read_text("x.jpg", "content of x.jpg\n");
    read_text("../b.txt", "content of b.txt\n");
    assert_int_equal(stat("../../tmp", &st), 0);
    assert_int_equal(fstatat(AT_FDCWD, "", &st, AT_EMPTY_PATH), 0);
    assert_int_equal(st.st_ino, hr_object_ino(FAKE_SALT, "p/", 2, "a", 1));
    assert_string_equal(realpath(".", buffer), FAKE_MAP "/a");
    assert_int_equal(chdir("/"), 0);
    read_text("hr-unit/b.txt", "content of b.txt\n");
    read_text("./hr-unit/b.txt", "content of b.txt\n");
    assert_int_equal(chdir("/tmp"), 0);
    read_text("../hr-unit/b.txt", "content of b.txt\n");
    assert_int_equal(chdir(before), 0);
}

static void errors_are_told_and_said_once(void **state)
{
    int out[2];
    char text[512] = "";
    (void)state;
    assert_int_equal(pipe(out), 0);
    int saved = dup(2);
    dup2(out[1], 2);
    for (int i = 0; i < 3; i++) {
        int fd = open(FAKE_MAP "/denied", O_RDONLY);
        if (fd >= 0 || errno != EACCES) {
            dup2(saved, 2);
            fail();
        }
        /* The fake says it anew each time; only the first is printed unless the number moves. */
        atomic_store(&fake.slots->said[FAKE_TREE],
                     atomic_load(&fake.control->trees[FAKE_TREE].message_seq) + 2);
    }
    dup2(saved, 2);
    close(saved);
    close(out[1]);
    assert_true(read(out[0], text, sizeof(text) - 1) > 0);
    close(out[0]);
    assert_string_equal(text, "headrace: GET of p/denied: 403, the key may not read it\n");
}

static void lost_requests_are_asked_again(void **state)
{
    (void)state;
    fake_evict(&fake, FAKE_X, true);
    asked(HR_OP_FETCH);
    atomic_store(&fake.lose, 1);
    read_text(FAKE_MAP "/a/x.jpg", "content of x.jpg\n");
    assert_int_equal(asked(HR_OP_FETCH), 2);
}

static void on_signal(int number)
{
    (void)number;
}

static void storm(unsigned interval_us)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct itimerval timer = {{0, interval_us}, {0, interval_us}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void signals_do_not_show_in_short_waits(void **state)
{
    (void)state;
    fake_evict(&fake, FAKE_X, true);
    atomic_store(&fake.delay_ms, 300);
    storm(10000);
    int fd = open(FAKE_MAP "/a/x.jpg", O_RDONLY | O_CLOEXEC);
    storm(0);
    atomic_store(&fake.delay_ms, 0);
    assert_true(fd >= 0);
    close(fd);
}

static void a_stuck_open_can_be_interrupted(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_signal};
    struct itimerval once = {.it_value = {.tv_usec = 50000}};
    sigaction(SIGALRM, &action, NULL);
    uint64_t start_ms = fake_now_ms();
    setitimer(ITIMER_REAL, &once, NULL);
    fails(open(FAKE_MAP "/stuck", O_RDONLY), EINTR);
    assert_in_range(fake_now_ms() - start_ms, 2000, 3000);
}

static void *open_b(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)open(FAKE_MAP "/b.txt", O_RDONLY | O_CLOEXEC);
}

static void a_new_generation_moves_waiters(void **state)
{
    pthread_t thread;
    void *result;
    struct stat st;
    (void)state;
    fake_evict(&fake, FAKE_B, true);
    atomic_store(&fake.lose, 1);
    assert_int_equal(pthread_create(&thread, NULL, open_b, NULL), 0);
    usleep(200000);
    fake_publish(&fake, 2);
    pthread_join(thread, &result);
    assert_true((intptr_t)result >= 0);
    assert_int_equal(fstat((int)(intptr_t)result, &st), 0);
    assert_int_equal(st.st_dev, FAKE_DEV);
    close((int)(intptr_t)result);
}

/* The daemon is killed while somebody waits; the script "starts" another by waking this process. */
static void a_dead_daemon_is_replaced(void **state)
{
    static struct fake next;
    char flag[256], body[1000];
    pthread_t thread;
    void *result;
    (void)state;
    snprintf(flag, sizeof(flag), "%s/wanted", home);
    snprintf(body, sizeof(body), "touch %s\nwhile [ -e %s ]; do sleep 0.02; done\nsay 'ok %s/'", flag, flag,
             cache);
    fake_command(home, body);
    unsigned before = fake_attaches(home);
    fake_evict(&fake, FAKE_B, true);
    atomic_store(&fake.deaf, true);
    assert_int_equal(pthread_create(&thread, NULL, open_b, NULL), 0);
    usleep(100000);
    fake_die(&fake, false);
    while (access(flag, F_OK) != 0) {
        usleep(10000);
    }
    fake_start(&next, cache);
    fake_publish(&next, 3);
    unlink(flag);
    pthread_join(thread, &result);
    assert_true((intptr_t)result >= 0);
    close((int)(intptr_t)result);
    assert_int_equal(fake_attaches(home), before + 1);
    /* Nobody is left behind in this process. */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);

    /* A proper end: whoever comes next maps the new control file without starting anything. */
    static struct fake third;
    fake_die(&next, true);
    fake_start(&third, cache);
    fake_publish(&third, 4);
    read_text(FAKE_MAP "/a/x.jpg", "content of x.jpg\n");
    assert_int_equal(fake_attaches(home), before + 1);
    atomic_store(&third.stop, true);
    pthread_join(third.thread, NULL); /* it writes to `third` */
    fake = third;
    atomic_store(&fake.stop, false);
    assert_int_equal(pthread_create(&fake.thread, NULL, fake_run, &fake), 0);
}

static void forked_children_share_it(void **state)
{
    (void)state;
    unsigned before = fake_attaches(home);
    fake_evict(&fake, FAKE_X, true);
    for (int i = 0; i < 4; i++) {
        if (fork() == 0) {
            char text[64] = "";
            int fd = open(FAKE_MAP "/a/x.jpg", O_RDONLY);
            _exit(fd < 0 || read(fd, text, sizeof(text)) != 17 || fake_attaches(home) != before);
        }
    }
    for (int i = 0; i < 4; i++) {
        int status;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
}

static void await_announcement(struct fake *daemon)
{
    for (int ms = 0; ms < 10000 && !atomic_load(&daemon->requests[HR_OP_ANNOUNCE]); ms++) {
        usleep(1000);
    }
    assert_int_equal(atomic_exchange(&daemon->requests[HR_OP_ANNOUNCE], 0), 1);
}

/* A loader's main process may ask for nothing through all of a daemon's end and the next one's beginning:
 * only its workers do. */
static void announcements_follow_the_daemon(void **state)
{
    /* (1, [7, 8]) as pickle's protocol 3 has it */
    static const unsigned char batch[] = {0x80, 3, 'K', 1, ']', '(', 'K', 7, 'K', 8, 'e', 0x86, '.'};
    static struct fake next;
    unsigned before = fake_attaches(home);
    int out[2];
    (void)state;
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(write(out[1], batch, sizeof(batch)), sizeof(batch));
    await_announcement(&fake);
    fake_die(&fake, true);
    errno = 4321;
    assert_int_equal(write(out[1], batch, sizeof(batch)), sizeof(batch)); /* nobody is there yet */
    assert_int_equal(errno, 4321);
    fake_start(&next, cache);
    fake_publish(&next, 5);
    errno = 4321;
    assert_int_equal(write(out[1], batch, sizeof(batch)), sizeof(batch));
    assert_int_equal(errno, 4321);
    await_announcement(&next);
    assert_int_equal(fake_attaches(home), before);
    close(out[0]);
    close(out[1]);
    atomic_store(&next.stop, true);
    pthread_join(next.thread, NULL); /* it writes to `next` */
    fake = next;
    atomic_store(&fake.stop, false);
    assert_int_equal(pthread_create(&fake.thread, NULL, fake_run, &fake), 0);
}

/* Last: no daemon can be had. One line, one attempt, then quick errors. */
static void no_daemon_is_an_error_not_a_hang(void **state)
{
    char text[512] = "";
    int out[2];
    (void)state;
    fake_command(home, "say 'warn the map covers something'\nsay 'error no disk is left'");
    unsigned before = fake_attaches(home);
    fake_evict(&fake, FAKE_B, true);
    fake_die(&fake, false);
    usleep((HR_HEARTBEAT_STALE_MS + 100) * 1000);
    assert_int_equal(pipe(out), 0);
    int saved = dup(2);
    dup2(out[1], 2);
    int first = open(FAKE_MAP "/b.txt", O_RDONLY);
    int first_error = errno;
    int second = open(FAKE_MAP "/b.txt", O_RDONLY);
    dup2(saved, 2);
    close(saved);
    close(out[1]);
    assert_int_equal(first, -1);
    assert_int_equal(first_error, EIO);
    assert_int_equal(second, -1);
    assert_int_equal(fake_attaches(home), before + 1);
    assert_true(read(out[0], text, sizeof(text) - 1) > 0);
    close(out[0]);
    assert_string_equal(text, "headrace: the map covers something\nheadrace: no disk is left\n");
    /* What was published can still be seen. */
    struct stat st;
    assert_int_equal(stat(FAKE_MAP "/b.txt", &st), 0);
}

int main(int argc, char **argv)
{
    (void)argc;
    group_begin(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_the_index),
        cmocka_unit_test(a_listing_that_fails_tells_why),
        cmocka_unit_test(one_identity_everywhere),
        cmocka_unit_test(warm_opens_ask_nothing),
        cmocka_unit_test(notes_name_the_batch),
        cmocka_unit_test(answers_as_a_read_only_file_system),
        cmocka_unit_test(tells_access_links_and_real_names),
        cmocka_unit_test(descriptors_of_directories_lead_on),
        cmocka_unit_test(follows_the_working_directory),
        cmocka_unit_test(errors_are_told_and_said_once),
        cmocka_unit_test(lost_requests_are_asked_again),
        cmocka_unit_test(signals_do_not_show_in_short_waits),
        cmocka_unit_test(a_stuck_open_can_be_interrupted),
        cmocka_unit_test(a_new_generation_moves_waiters),
        cmocka_unit_test(a_dead_daemon_is_replaced),
        cmocka_unit_test(forked_children_share_it),
        cmocka_unit_test(announcements_follow_the_daemon),
        cmocka_unit_test(no_daemon_is_an_error_not_a_hang),
    };
    return cmocka_run_group_tests(tests, NULL, group_end);
}
