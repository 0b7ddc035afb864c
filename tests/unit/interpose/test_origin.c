/* Where a descriptor leads by its name in /proc: objects that are not listed are known by what was opened
 * last. */
#include "interpose/origin.h"
#include "tests/unit/interpose/fake_group.h"

#define THREADS 4
#define ROUNDS 40  /* each makes a cache file; all of them stay below FAKE_RESIDENTS */
#define FORGETS 64 /* that many opens later a name is forgotten (interpose/origin.c) */

static const char *const names[] = {FAKE_MAP "/b.txt", FAKE_MAP "/a/x.jpg", FAKE_DEEP_MAP "/a/y.jpg"};

static int opened(const char *name)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    FAKE_MUST(fd >= 0);
    return fd;
}

static const char *leads_to(int fd)
{
    static _Thread_local char text[PATH_MAX];
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t got = readlink(link, text, sizeof(text) - 1);
    FAKE_MUST(got > 0);
    text[got] = '\0';
    return text;
}

static void not_listed(void **state)
{
    (void)state;
    int held = opened(names[1]);
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        int fd = opened(names[i]);
        assert_string_equal(leads_to(fd), names[i]);
        close(fd);
    }
    for (unsigned i = 0; i < FORGETS; i++) {
        close(opened(names[0]));
    }
    assert_true(strncmp(leads_to(held), cache, strlen(cache)) == 0);
    close(held);
    assert_int_equal(asked(HR_OP_LIST) + asked(HR_OP_DIR), 0);
}

/* A name that two write at the same time may be nobody's; never another object's. */
static void *opens(void *mine)
{
    const char *name = names[(uintptr_t)mine % 3];
    for (unsigned i = 0; i < ROUNDS; i++) {
        int fd = opened(name);
        const char *text = leads_to(fd);
        FAKE_MUST(strcmp(text, name) == 0 || strncmp(text, cache, strlen(cache)) == 0);
        close(fd);
    }
    return NULL;
}

static void threads_write_side_by_side(void **state)
{
    pthread_t thread[THREADS];
    (void)state;
    for (uintptr_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, opens, (void *)i), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    }
}

static void listed(void **state)
{
    (void)state;
    fake_publish(&fake, 1);
    int fd = opened(names[1]);
    assert_string_equal(leads_to(fd), names[1]);
    for (unsigned i = 0; i < FORGETS; i++) {
        close(opened(names[0]));
    }
    assert_string_equal(leads_to(fd), names[1]);
    close(fd);
}

int main(int argc, char **argv)
{
    (void)argc;
    group_begin(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(not_listed),
        cmocka_unit_test(threads_write_side_by_side),
        cmocka_unit_test(listed),
    };
    return cmocka_run_group_tests(tests, NULL, group_end);
}
