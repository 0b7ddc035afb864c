/* The short way of open and stat against the long one, which an odd spelling of the same path takes. */
#include "tests/unit/interpose/fake_group.h"

#include "interpose/sys.h"
#include "interpose/view_parts.h"
#include "interpose/view_warm.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static unsigned asked_anything(void)
{
    unsigned sum = 0;
    for (unsigned op = 0; op < HR_OP_COUNT; op++) {
        sum += asked(op);
    }
    return sum;
}

static int open_and_close(const char *path, int flags)
{
    errno = 0;
    int fd = open(path, flags, 0600);
    if (fd < 0) {
        return -errno;
    }
    assert_int_equal(close(fd), 0);
    return 0;
}

static void without_an_index_it_is_the_long_way(void **state)
{
    struct stat st;
    (void)state;
    assert_int_equal(hr_view_open_warm(FAKE_DEEP_MAP "/a/x.jpg", O_RDONLY), HR_VIEW_LONG_WAY);
    assert_int_equal(hr_view_stat_warm(FAKE_DEEP_MAP "/a/x.jpg", &st), HR_VIEW_LONG_WAY);
    assert_int_equal(stat(FAKE_DEEP_MAP, &st), 0); /* attaches */
    assert_int_equal(hr_view_stat_warm(FAKE_DEEP_MAP "/a/x.jpg", &st), HR_VIEW_LONG_WAY);
    fake_publish(&fake, 1);
    assert_int_equal(stat(FAKE_DEEP_MAP "/a/x.jpg", &st), 0); /* maps the index */
}

static void takes_what_the_index_tells(void **state)
{
    static const struct {
        const char *path;
        int flags, open, stat;
    } rows[] = {
        {"/a/y.jpg", O_RDONLY, HR_VIEW_LONG_WAY, 0}, /* not in the cache */
        {"/b.txt", O_RDONLY, 0, 0},
        {"/b.txt", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0, 0},
        {"/b.txt", O_RDONLY | O_CREAT, HR_VIEW_LONG_WAY, 0},
        {"/b.txt", O_WRONLY, HR_VIEW_LONG_WAY, 0},
        {"/b.txt", O_RDONLY | O_DIRECTORY, HR_VIEW_LONG_WAY, 0},
        {"/b.txt", O_PATH, HR_VIEW_LONG_WAY, 0},
        {"/b.txt/", O_RDONLY, HR_VIEW_LONG_WAY, -ENOTDIR},
        {"/b.txt/x", O_RDONLY, -ENOTDIR, -ENOTDIR},
        {"/b.tx", O_RDONLY, -ENOENT, -ENOENT},
        {"/b.txtx", O_RDONLY, -ENOENT, -ENOENT},
        {"/new", O_WRONLY | O_CREAT, HR_VIEW_LONG_WAY, -ENOENT},
        {"/a", O_RDONLY, HR_VIEW_LONG_WAY, 0},
        {"/a/", O_RDONLY, HR_VIEW_LONG_WAY, 0},
        {"", O_RDONLY, HR_VIEW_LONG_WAY, HR_VIEW_LONG_WAY},
        {"/", O_RDONLY, HR_VIEW_LONG_WAY, HR_VIEW_LONG_WAY},
        {"/./b.txt", O_RDONLY, HR_VIEW_LONG_WAY, HR_VIEW_LONG_WAY},
        {"/a//x.jpg", O_RDONLY, HR_VIEW_LONG_WAY, HR_VIEW_LONG_WAY},
        {"x/b.txt", O_RDONLY, HR_VIEW_LONG_WAY, HR_VIEW_LONG_WAY}, /* the map above it, which is nested */
        {"/../map/b.txt", O_RDONLY, HR_VIEW_LONG_WAY, HR_VIEW_LONG_WAY},
    };
    (void)state;
    assert_int_equal(open_and_close(FAKE_DEEP_MAP "/b.txt", O_RDONLY), 0);
    asked_anything();
    for (size_t i = 0; i < LENGTH(rows); i++) {
        char path[128];
        struct stat st;
        snprintf(path, sizeof(path), "%s%s", FAKE_DEEP_MAP, rows[i].path);
        errno = 4711;
        int fd = hr_view_open_warm(path, rows[i].flags);
        if (fd >= 0) {
            assert_int_equal(close(fd), 0);
        }
        if ((fd < 0 ? fd : 0) != rows[i].open || hr_view_stat_warm(path, &st) != rows[i].stat) {
            fail_msg("%s, flags %o: open %d", rows[i].path, (unsigned)rows[i].flags, fd);
        }
        assert_int_equal(errno, 4711);
    }
    assert_int_equal(asked_anything(), 0);
    assert_int_equal(hr_view_open_warm("/hr-uni", O_RDONLY), HR_VIEW_ELSEWHERE);
    assert_int_equal(hr_view_open_warm("/hr-unity/a", O_RDONLY), HR_VIEW_ELSEWHERE);
    assert_int_equal(hr_view_open_warm("/hr-unity/./a", O_RDONLY), HR_VIEW_LONG_WAY);
}

static void both_ways_answer_the_same(void **state)
{
    static const char *const names[] = {"",         "/",         "a",   "a/",    "a/x.jpg",
                                        "a/x.jpg/", "a/x.jpg/z", "a/z", "b.txt", "b.txt/",
                                        ".b.txt",   "a/...",     "z",   "z/z"};
    static const int flags[] = {
        O_RDONLY, O_RDONLY | O_CLOEXEC, O_WRONLY, O_RDONLY | O_DIRECTORY, O_RDONLY | O_CREAT | O_EXCL,
        O_PATH,   O_RDONLY | O_NOFOLLOW};
    (void)state;
    for (size_t i = 0; i < LENGTH(names); i++) {
        char plain[128], odd[128];
        struct stat one, other;
        snprintf(plain, sizeof(plain), "%s/%s", FAKE_DEEP_MAP, names[i]);
        snprintf(odd, sizeof(odd), "%s/./%s", FAKE_DEEP_MAP, names[i]);
        for (size_t k = 0; k < LENGTH(flags); k++) {
            assert_int_equal(open_and_close(plain, flags[k]), open_and_close(odd, flags[k]));
        }
        memset(&one, 1, sizeof(one));
        memset(&other, 2, sizeof(other));
        errno = 0;
        int result = stat(plain, &one);
        int error = errno;
        errno = 0;
        assert_int_equal(stat(odd, &other), result);
        assert_int_equal(errno, error);
        if (result == 0) {
            assert_memory_equal(&one, &other, sizeof(one));
        }
    }
}

static void an_evicted_file_is_asked_for(void **state)
{
    struct stat st;
    (void)state;
    for (int told = 0; told < 2; told++) {
        assert_int_equal(open_and_close(FAKE_DEEP_MAP "/b.txt", O_RDONLY), 0);
        asked_anything();
        uint32_t head = fake.uses->head;
        assert_int_equal(open_and_close(FAKE_DEEP_MAP "/b.txt", O_RDONLY), 0);
        assert_int_equal(fake.uses->head, head + 1);
        assert_int_equal(fake.uses->ring[head % HR_USES_RING], FAKE_B);
        assert_int_equal(asked_anything(), 0);
        fake_evict(&fake, FAKE_B, told);
        assert_int_equal(hr_view_open_warm(FAKE_DEEP_MAP "/b.txt", O_RDONLY), HR_VIEW_LONG_WAY);
        assert_int_equal(fake.uses->head, head + 1);
        assert_int_equal(open_and_close(FAKE_DEEP_MAP "/b.txt", O_RDONLY), 0);
        assert_int_equal(asked_anything(), 1);
    }
    /* What only its name is known of is asked for by name. */
    atomic_store(&fake.states->by_name, 1);
    fake_set_state(&fake, FAKE_Y, HR_STATE_FAILED, HR_STATE_BY_NAME_ERRNO);
    assert_int_equal(hr_view_stat_warm(FAKE_DEEP_MAP "/a/y.jpg", &st), HR_VIEW_LONG_WAY);
    assert_int_equal(hr_view_stat_warm(FAKE_DEEP_MAP "/b.txt", &st), 0);
}

static void a_new_generation_is_the_long_way_once(void **state)
{
    struct stat st;
    (void)state;
    assert_int_equal(hr_view_stat_warm(FAKE_DEEP_MAP "/b.txt", &st), 0);
    fake_publish(&fake, 2);
    assert_int_equal(hr_view_stat_warm(FAKE_DEEP_MAP "/b.txt", &st), HR_VIEW_LONG_WAY);
    assert_int_equal(stat(FAKE_DEEP_MAP "/b.txt", &st), 0);
    assert_int_equal(hr_view_stat_warm(FAKE_DEEP_MAP "/b.txt", &st), 0);
    /* A daemon that is gone is the long way's. */
    atomic_store(&fake.control->retired, 1);
    assert_int_equal(hr_view_stat_warm(FAKE_DEEP_MAP "/b.txt", &st), HR_VIEW_LONG_WAY);
    atomic_store(&fake.control->retired, 0);
}

/* fstat's short way and its long one: the records of a chain, torn ones, other people's files. */
static void fstat_knows_its_own(void **state)
{
    struct stat by_fd, by_path;
    (void)state;
    int fd = open(FAKE_DEEP_MAP "/b.txt", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(stat(FAKE_DEEP_MAP "/b.txt", &by_path), 0);
    assert_int_equal(HR_SYS2(SYS_fstat, fd, &by_fd), 0); /* past the hooks */
    uint64_t ino = by_fd.st_ino;
    struct hr_resident *record = fake.residents->records;
    while (record->ino != ino || record->size != (uint64_t)by_fd.st_size) {
        record++;
    }
    assert_int_equal(fstat(fd, &by_fd), 0);
    assert_memory_equal(&by_fd, &by_path, sizeof(by_fd));
    /* Each of them alone makes it another file. */
    uint32_t nonce = record->nonce;
    record->nonce = (nonce + 1) % 1000000000;
    assert_int_equal(fstat(fd, &by_fd), 0);
    assert_int_equal(by_fd.st_mode, S_IFREG | 0400);
    record->nonce = nonce;
    record->size++;
    assert_int_equal(fstat(fd, &by_fd), 0);
    assert_int_equal(by_fd.st_mode, S_IFREG | 0400);
    record->size--;
    record->flags |= HR_RESIDENT_FACE;
    assert_int_equal(fstat(fd, &by_fd), 0);
    assert_int_equal(by_fd.st_mode, S_IFREG | 0400);
    record->flags &= ~HR_RESIDENT_FACE;
    atomic_fetch_add(&record->seq, 1); /* for ever */
    assert_int_equal(fstat(fd, &by_fd), 0);
    assert_int_equal(by_fd.st_mode, S_IFREG | 0400);
    atomic_fetch_add(&record->seq, 1);
    /* Far down its chain: all places from its own on are another inode's. */
    struct hr_resident moved = *record;
    uint64_t from = hr_ino_slot(ino, FAKE_RESIDENTS);
    uint64_t at = from;
    for (unsigned i = 0; i < 20; i++, at = (at + 1) % FAKE_RESIDENTS) {
        if (!fake.residents->records[at].ino || &fake.residents->records[at] == record) {
            fake.residents->records[at].ino = HR_INO_GONE;
        }
    }
    while (fake.residents->records[at].ino) {
        at = (at + 1) % FAKE_RESIDENTS;
    }
    memcpy(&fake.residents->records[at], &moved, sizeof(moved));
    assert_int_equal(fstat(fd, &by_fd), 0);
    assert_memory_equal(&by_fd, &by_path, sizeof(by_fd));
    close(fd);
}

static void buffers_are_of_whole_pages_and_bounded(void **state)
{
    static const struct {
        uint64_t size;
        uint32_t want;
    } rows[] = {{0, 4096},
                {1, 4096},
                {4096, 4096},
                {4097, 8192},
                {16 << 10, 16 << 10},
                {(16 << 10) + 1, 16 << 10},
                {1 << 20, 16 << 10},
                {(1 << 20) + 1, 4096},
                {UINT64_MAX >> 1, 4096}};
    (void)state;
    for (unsigned i = 0; i < LENGTH(rows); i++) {
        assert_int_equal(hr_view_io_bytes(rows[i].size), rows[i].want);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    group_begin(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_an_index_it_is_the_long_way),
        cmocka_unit_test(takes_what_the_index_tells),
        cmocka_unit_test(both_ways_answer_the_same),
        cmocka_unit_test(an_evicted_file_is_asked_for),
        cmocka_unit_test(a_new_generation_is_the_long_way_once),
        cmocka_unit_test(fstat_knows_its_own),
        cmocka_unit_test(buffers_are_of_whole_pages_and_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, group_end);
}
