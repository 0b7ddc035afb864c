/* The plain file of a large object, for those who cannot use its face: streams, aio, children. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <aio.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "interpose/standin.h"
#include "tests/unit/interpose/face_files.h"

/* A child without our object reads its standard input. */
static char shell[] = "sh", option[] = "-c", script[] = "dd bs=65536 2>/dev/null > scratch";
static char *const reader[] = {shell, option, script, NULL};
static char search_path[] = "PATH=/usr/bin:/bin";
static char *const bare[] = {search_path, NULL};

static void is_plain(int fd, off_t at)
{
    struct hr_face face;
    struct stat st;
    assert_false(hr_face_maybe(fd));
    hr_face_mark(fd);
    assert_false(hr_face_of(fd, &face)); /* and that takes the mark away */
    assert_false(hr_face_maybe(fd));
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, SIZE);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), at);
}

static void materialised_in_place(void **state)
{
    (void)state;
    struct hr_face face;
    int fd = open_face(O_NONBLOCK);
    assert_int_equal(lseek(fd, 1234, SEEK_SET), 1234);
    assert_true(hr_face_of(fd, &face));
    atomic_store(&fake_large.whole_error, -ENOSPC);
    assert_int_equal(hr_face_materialise(fd, &face), -ENOSPC);
    assert_true(hr_face_of(fd, &face));
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 1234);
    atomic_store(&fake_large.whole_error, 0);
    assert_int_equal(hr_face_materialise(fd, &face), 0);
    is_plain(fd, 1234);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    close(fd);
    fd = open_face(0);
    assert_int_equal(fcntl(fd, F_SETFD, 0), 0);
    assert_int_equal(hr_face_materialise_if(fd), 0);
    assert_int_equal(fcntl(fd, F_GETFD), 0);
    close(fd);
}

static void streams_read_plain_files(void **state)
{
    (void)state;
    int fd = open_face(0);
    assert_int_equal(lseek(fd, 50, SEEK_SET), 50);
    FILE *stream = fdopen(fd, "r");
    assert_non_null(stream);
    char text[16], name[32];
    assert_int_equal(fread(text, 1, 16, stream), 16);
    assert_true(fake_is_object(text, 16, 50));
    fclose(stream);
    fd = open_face(0);
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    stream = fopen(name, "r");
    assert_non_null(stream);
    assert_int_equal(fread(text, 1, 16, stream), 16);
    assert_true(fake_is_object(text, 16, 0));
    assert_null(fopen(name, "w"));
    assert_int_equal(errno, EROFS);
    stream = freopen(name, "r", stream);
    assert_non_null(stream);
    assert_int_equal(fread(text, 1, 8, stream), 8);
    stream = freopen(NULL, "r", stream);
    assert_non_null(stream);
    fclose(stream);
    atomic_store(&fake_large.whole_error, -ENOSPC);
    assert_null(fdopen(fd, "r"));
    assert_int_equal(errno, ENOSPC);
    close(fd);
}

static void aio_reads_plain_files(void **state)
{
    (void)state;
    char text[64];
    int fd = open_face(0);
    struct aiocb request = {
        .aio_fildes = fd, .aio_buf = text, .aio_nbytes = sizeof(text), .aio_offset = 70000};
    const struct aiocb *list[] = {&request};
    assert_int_equal(aio_read(&request), 0);
    while (aio_error(&request) == EINPROGRESS) {
        aio_suspend(list, 1, NULL);
    }
    assert_int_equal(aio_return(&request), sizeof(text));
    assert_true(fake_is_object(text, sizeof(text), 70000));
    is_plain(fd, 0);
    close(fd);
}

/* The inherited ones and their dups, whose offset stays one. */
static void inherited_faces_become_plain(void **state)
{
    (void)state;
    int fd = open_face(0), copy = dup(fd), other = open_face(0), kept = open_face(0);
    assert_int_equal(lseek(fd, 99, SEEK_SET), 99);
    assert_int_equal(fcntl(other, F_SETFD, 0), 0);
    assert_int_equal(lseek(other, 7, SEEK_SET), 7);
    assert_int_equal(hr_face_materialise_inherited(), 0);
    is_plain(fd, 99);
    is_plain(copy, 99);
    is_plain(other, 7);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(fcntl(copy, F_GETFD), 0);
    assert_int_equal(lseek(fd, 500, SEEK_SET), 500);
    assert_int_equal(lseek(copy, 0, SEEK_CUR), 500);
    assert_int_equal(lseek(other, 0, SEEK_CUR), 7);
    assert_true(hr_face_maybe(kept)); /* closed by the exec anyway */
    close(fd);
    close(copy);
    close(other);
    close(kept);
}

/* By posix_spawn: standard input is a face of ours. */
static int spawn_reader(int fd, char *const envp[], pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, 0);
    int error = posix_spawn(pid, "/bin/sh", &actions, NULL, reader, envp);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static void spawned_children_read(void **state)
{
    (void)state;
    int fd = open_face(0), status;
    pid_t pid;
    assert_int_equal(lseek(fd, 3000, SEEK_SET), 3000);
    atomic_store(&fake_large.whole_error, -ENOSPC);
    assert_int_equal(spawn_reader(fd, bare, &pid), ENOSPC);
    atomic_store(&fake_large.whole_error, 0);
    assert_int_equal(spawn_reader(fd, bare, &pid), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    int out = open("scratch", O_RDONLY | O_CLOEXEC);
    holds(out, 3000, SIZE - 3000);
    close(out);
    is_plain(fd, (off_t)SIZE); /* the child's offset is ours */
    close(fd);
}

/* vfork and exec: the child changes its own descriptors and nothing of its parent's. */
static void a_vfork_child_leaves_its_parent_alone(void **state)
{
    (void)state;
    int fd = open_face(0), status;
    struct hr_face face;
    pid_t pid = vfork();
    if (pid == 0) {
        syscall(SYS_dup3, fd, 0, 0);
        atomic_store(&hr_standin_marks[0], HR_MARK_FACE); /* as the hook of dup2 does */
        execve("/bin/sh", reader, bare);
        _exit(99);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(hr_face_maybe(fd) && hr_face_of(fd, &face));
    int out = open("scratch", O_RDONLY | O_CLOEXEC);
    holds(out, 0, SIZE);
    close(out);
    close(fd);
}

int main(int argc, char **argv)
{
    (void)argc;
    group_begin(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(materialised_in_place, new_face),
        cmocka_unit_test_setup(streams_read_plain_files, new_face),
        cmocka_unit_test_setup(aio_reads_plain_files, new_face),
        cmocka_unit_test_setup(inherited_faces_become_plain, new_face),
        cmocka_unit_test_setup(spawned_children_read, new_face),
        cmocka_unit_test_setup(a_vfork_child_leaves_its_parent_alone, new_face),
    };
    return cmocka_run_group_tests(tests, NULL, group_end);
}
