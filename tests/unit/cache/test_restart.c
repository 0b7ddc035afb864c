/* What a life leaves and the next one takes over: records, torn tails, foreign files, ids, other boots. */
#include "tests/unit/cache/lab.h"

#include "fetch/cache/record.h"

/* Hundreds of lives, each with its fsync: in memory where there is such a place. */
static int setup_quick(void **state)
{
    char home[] = "/dev/shm/headrace-test-XXXXXX";
    if (!mkdtemp(home)) {
        return lab_set_up(state);
    }
    struct lab *lab = malloc(sizeof(*lab));
    lab_start_in(lab, home);
    *state = lab;
    return 0;
}

static void put_many(struct lab *lab, const char *prefix, int count, uint64_t *ret_ids)
{
    for (int i = 0; i < count; i++) {
        char key[64];
        (void)snprintf(key, sizeof(key), "%s%d", prefix, i);
        assert_int_equal(lab_put_whole(lab, key, "e", 1000 + (size_t)i, NULL, &ret_ids[i]), 0);
    }
}

static void adopted(void **state)
{
    struct lab *lab = *state;
    uint64_t ids[50];
    lab_open(lab);
    put_many(lab, "k", 50, ids);
    uint64_t bytes = lab_stats(lab).bytes;
    for (int life = 0; life < 40; life++) { /* more lives than segments are kept */
        lab_close(lab);
        lab_open(lab);
        assert_int_equal(lab_stats(lab).adopted, 50);
    }
    assert_int_equal(lab_stats(lab).bytes, bytes);
    assert_true(lab_count(lab, "records") < 30);
    assert_int_equal(lab->evicted_count, 0);
    for (int i = 0; i < 50; i++) {
        char key[64];
        (void)snprintf(key, sizeof(key), "k%d", i);
        const struct hr_cached *cached = lab_find(lab, key, "e");
        assert_non_null(cached);
        assert_true(cached->file_id == ids[i] && cached->size == 1000 + (uint64_t)i);
        assert_int_equal(cached->mtime_ns, 1700000000123456789);
        assert_true(lab_file_right(lab, ids[i], key, cached->size));
    }
    assert_int_equal(hr_cache_make_room(lab->cache, lab->size_bytes - bytes + 1), 0);
    assert_int_equal(lab->evicted_count, 1);
    assert_true(lab->evicted_ids[0] == ids[0]); /* the oldest goes first in the next life too */
}

static void smaller_budget(void **state)
{
    struct lab *lab = *state;
    uint64_t ids[50];
    lab_open(lab);
    put_many(lab, "k", 50, ids);
    lab_close(lab);
    lab->size_bytes = 10 * 4096;
    lab_open(lab);
    assert_int_equal(lab_stats(lab).objects, 10);
    assert_int_equal(lab->evicted_count, 0);
    assert_non_null(lab_find(lab, "k49", "e"));
    assert_null(lab_find(lab, "k39", "e"));
    lab_await_gone(lab, ids[0]);
}

enum spoiling { REMOVED, LONGER, SHORTER, MODE, TOUCHED, COPIED, SYMLINK, FOLDER, SPOILINGS };

static void spoil_file(const char *path, enum spoiling how)
{
    static const char *const commands[SPOILINGS] = {
        [REMOVED] = "rm -f $F",
        [LONGER] = "chmod 600 $F && echo x >> $F && chmod 400 $F",
        [SHORTER] = "chmod 600 $F && truncate -s 999 $F && chmod 400 $F",
        [MODE] = "chmod 600 $F",
        [TOUCHED] = "touch $F",
        [COPIED] = "cp -p $F $F.x && mv -f $F.x $F",
        [SYMLINK] = "rm -f $F && ln -s /etc/passwd $F",
        [FOLDER] = "rm -f $F && mkdir $F",
    };
    assert_int_equal(setenv("F", path, 1), 0);
    lab_run_command(commands[how]);
}

static void spoiled_files_are_forgotten(void **state)
{
    struct lab *lab = *state;
    uint64_t ids[SPOILINGS + 2];
    lab_open(lab);
    put_many(lab, "k", SPOILINGS + 2, ids);
    lab_close(lab);
    for (int how = 0; how < SPOILINGS; how++) {
        char path[PATH_MAX];
        lab_path(lab, ids[how], path);
        spoil_file(path, (enum spoiling)how);
    }
    lab_open(lab);
    assert_int_equal(lab_stats(lab).adopted, 2);
    for (int how = 0; how < SPOILINGS; how++) {
        struct stat st;
        char path[PATH_MAX];
        lab_path(lab, ids[how], path);
        assert_int_equal(lstat(path, &st), -1);
    }
    assert_int_equal(lab_count(lab, "objects"), 2);
    assert_int_equal(access("/etc/passwd", F_OK), 0);
}

static void foreign_files(void **state)
{
    struct lab *lab = *state;
    uint64_t ids[3];
    char command[4096];
    lab_open(lab);
    put_many(lab, "k", 3, ids);
    lab_close(lab);
    (void)snprintf(
        command, sizeof(command),
        "cd '%s' && mkdir -p objects/00 objects/01 objects/04 objects/05 objects/ff && "
        "touch objects/00/junk objects/ff/ffffffffffffffff objects/00/0000000000000100 "
        "objects/01/0000000000000101.part spool/left && mkdir spool/aa && touch spool/aa/left "
        "spool/0000000000000000 records/readme "
        "records/zzzzzzzz.log records/ffffffff.log && mkdir -p objects/02/full/below objects/03/empty && "
        "ln -s /etc/passwd objects/04/0000000000000004 && mkfifo objects/05/0000000000000005 "
        "records/00009999.log && echo garbage > records/00000777.log",
        lab->dir);
    lab_run_command(command);
    lab_open(lab);
    assert_int_equal(lab_stats(lab).adopted, 3);
    assert_int_equal(lab_count(lab, "objects"), 3);
    assert_int_equal(lab_count(lab, "spool"), 0);
    assert_int_equal(access("/etc/passwd", F_OK), 0);
    uint64_t id = 0;
    assert_int_equal(lab_put_whole(lab, "new", "e", 10, NULL, &id), 0);
    assert_true(id > ids[2] && id < (1ull << 62));
    lab_close(lab);
    lab_open(lab);
    assert_int_equal(lab_stats(lab).adopted, 4);
}

/* The one segment that has objects, its path. */
static void find_segment(const struct lab *lab, char path[PATH_MAX])
{
    char folder[PATH_MAX];
    off_t largest = 0;
    (void)snprintf(folder, sizeof(folder), "%s/records", lab->dir);
    DIR *stream = opendir(folder);
    assert_non_null(stream);
    for (const struct dirent *entry = readdir(stream); entry; entry = readdir(stream)) {
        char at[PATH_MAX];
        struct stat st;
        (void)snprintf(at, sizeof(at), "%.3000s/%s", folder, entry->d_name);
        if (strstr(entry->d_name, ".log") && !stat(at, &st) && st.st_size > largest) {
            largest = st.st_size;
            (void)strcpy(path, at);
        }
    }
    (void)closedir(stream);
    assert_true(largest > 0);
}

static size_t read_file(const char *path, char *bytes, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = read(fd, bytes, room);
    assert_true(fd >= 0 && got >= 0);
    (void)close(fd);
    return (size_t)got;
}

static void write_file(const char *path, const char *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), (ssize_t)len);
    (void)close(fd);
}

/* The journal cut at every byte: the objects whose records are whole are there, no other, and none is wrong.
 * Each cut starts from a copy, because what lost its record is removed. */
static void torn_tail(void **state)
{
    struct lab *lab = *state;
    enum { OBJECTS = 2 };
    uint64_t ids[OBJECTS];
    char segment[PATH_MAX];
    char original[PATH_MAX];
    char keep[512];
    char command[2048];
    static char bytes[65536];
    lab_open(lab);
    put_many(lab, "k", OBJECTS, ids);
    lab_close(lab);
    find_segment(lab, segment);
    (void)strcpy(original, segment);
    size_t len = read_file(segment, bytes, sizeof(bytes));
    size_t record = hr_record_bytes(2, 1);
    assert_true(len >= HR_RECORD_HEAD_BYTES + OBJECTS * record);
    (void)snprintf(keep, sizeof(keep), "%.400s/keep", lab->home);
    (void)snprintf(command, sizeof(command), "cp -al '%s' '%s'", lab->dir, keep);
    lab_run_command(command);
    for (size_t cut = 0; cut <= len; cut++) {
        uint64_t expected = cut < HR_RECORD_HEAD_BYTES ? 0 : (cut - HR_RECORD_HEAD_BYTES) / record;
        write_file(original, bytes, cut);
        lab_open(lab);
        assert_int_equal(lab_stats(lab).adopted, expected > OBJECTS ? OBJECTS : expected);
        assert_int_equal(lab_count(lab, "objects"), lab_stats(lab).adopted);
        for (int i = 0; i < OBJECTS; i++) {
            char key[8];
            (void)snprintf(key, sizeof(key), "k%d", i);
            const struct hr_cached *cached = lab_find(lab, key, "e");
            assert_true(!cached || lab_file_right(lab, cached->file_id, key, 1000 + (uint64_t)i));
        }
        lab_close(lab);
        /* The same inodes again: hard links out of the copy. */
        (void)snprintf(command, sizeof(command), "rm -f '%s'/records/*.log && cp -alf '%s'/objects '%s'/",
                       lab->dir, keep, lab->dir);
        lab_run_command(command);
    }
}

static void ids_never_again(void **state)
{
    struct lab *lab = *state;
    uint64_t last = 0;
    for (int life = 0; life < 6; life++) {
        uint64_t ids[3];
        char command[2048] = "true";
        lab_open(lab);
        put_many(lab, "k", 3, ids);
        for (int i = 0; i < 3; i++) {
            assert_true(ids[i] > last);
            last = ids[i];
        }
        hr_cache_drop(lab->cache, last);
        lab_close(lab);
        switch (life) {
        case 1: /* all objects and records lost, the number not */
            (void)snprintf(command, sizeof(command), "rm -rf '%s'/objects '%s'/records/*.log", lab->dir,
                           lab->dir);
            break;
        case 2: /* the number lost, the records not */
            (void)snprintf(command, sizeof(command), "rm '%s'/records/ids", lab->dir);
            break;
        case 3: /* the number damaged */
            (void)snprintf(command, sizeof(command), "echo damage > '%s'/records/ids", lab->dir);
            break;
        case 4: /* the replacing of the number cut off */
            (void)snprintf(command, sizeof(command), "head -c 20 '%s'/records/ids > '%s'/records/ids.new",
                           lab->dir, lab->dir);
            break;
        default:
            break;
        }
        lab_run_command(command);
    }
}

/* Rewrites a segment as if another boot of the machine had written it. */
static void as_other_boot(const char *path, bool keep_marks)
{
    static char bytes[1 << 20];
    struct hr_buf out = HR_BUF_INIT(1 << 20);
    size_t len = read_file(path, bytes, sizeof(bytes));
    for (size_t at = 0; at < len;) {
        struct hr_record record;
        size_t used = 0;
        assert_int_equal(hr_record_decode(bytes + at, len - at, &record, &used), 0);
        at += used;
        if (record.kind == HR_RECORD_SEGMENT) {
            record.id[0] ^= 1;
        }
        if (record.kind != HR_RECORD_SYNCED || keep_marks) {
            assert_int_equal(hr_record_encode(&record, &out), 0);
        }
    }
    write_file(path, out.data, out.len);
    hr_buf_release(&out);
}

static void other_boot(void **state)
{
    struct lab *lab = *state;
    uint64_t ids[5];
    char segment[PATH_MAX];
    /* Closed in good order (a syncfs, a mark): believed after a reboot. */
    lab_open(lab);
    put_many(lab, "k", 5, ids);
    lab_close(lab);
    find_segment(lab, segment);
    as_other_boot(segment, true);
    lab_open(lab);
    assert_int_equal(lab_stats(lab).adopted, 5);
    lab_close(lab);
    /* Without the mark: nothing proves that the bytes reached the disk. */
    char command[1024];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'/records", lab->dir);
    lab_run_command(command);
    lab_open(lab);
    put_many(lab, "k", 5, ids);
    lab_close(lab);
    find_segment(lab, segment);
    as_other_boot(segment, false);
    lab_open(lab);
    assert_int_equal(lab_stats(lab).adopted, 0);
    assert_int_equal(lab_count(lab, "objects"), 0);
    lab_close(lab);
}

/* Records of another layout: they and what they named are removed, and the numbers go on upwards. */
static void other_layout(void **state)
{
    struct lab *lab = *state;
    uint64_t ids[5];
    char path[PATH_MAX];
    static char bytes[65536];
    lab_open(lab);
    put_many(lab, "k", 5, ids);
    lab_close(lab);
    find_segment(lab, path);
    size_t len = read_file(path, bytes, sizeof(bytes));
    for (size_t at = 0; at < len;) {
        struct hr_record record;
        size_t used = 0;
        assert_int_equal(hr_record_decode(bytes + at, len - at, &record, &used), 0);
        bytes[at + 3] = '1'; /* last of the magic "HRC2" */
        at += used;
    }
    write_file(path, bytes, len);
    (void)snprintf(path, sizeof(path), "%s/records/ids", lab->dir);
    len = read_file(path, bytes, sizeof(bytes));
    bytes[3] = '1';
    write_file(path, bytes, len);
    lab_open(lab);
    assert_int_equal(lab_stats(lab).adopted, 0);
    assert_int_equal(lab_count(lab, "objects"), 0);
    assert_int_equal(lab_count(lab, "records"), 1); /* ids */
    uint64_t id = 0;
    assert_int_equal(lab_put_whole(lab, "k0", "e", 10, NULL, &id), 0);
    assert_true(id > ids[4]);
    lab_close(lab);
    lab_open(lab);
    assert_int_equal(lab_stats(lab).adopted, 1);
}

/* Much more is written than kept: the journal stays small and right, though its files are removed. */
static void clean(struct lab *lab, int puts, bool removed)
{
    enum { KEPT = 1000 };
    char long_key[900];
    uint64_t newest = 0;
    memset(long_key, 'x', sizeof(long_key));
    lab->size_bytes = KEPT * 4096;
    lab->awaited = true;
    lab_open(lab);
    uint64_t ids[8];
    char command[1024];
    put_many(lab, "early", 8, ids);
    if (removed) {
        (void)snprintf(command, sizeof(command), "rm '%s'/records/*.log", lab->dir);
        lab_run_command(command);
    }
    for (int i = 0; i < puts; i++) {
        (void)snprintf(long_key + 800, 90, "%d", i);
        assert_int_equal(lab_put_whole(lab, long_key, "e", 10, NULL, &newest), 0);
        for (int k = 0; k < 8; k++) {
            hr_cache_touch(lab->cache, ids[k]);
        }
    }
    assert_true(lab_stats(lab).evictions > (uint64_t)puts / 2);
    (void)snprintf(command, sizeof(command), "test $(du -sk '%s'/records | cut -f1) -lt 6144", lab->dir);
    lab_run_command(command);
    lab_close(lab);
    lab_open(lab);
    assert_int_equal(lab_stats(lab).adopted, KEPT);
    for (int k = 0; k < 8; k++) {
        char key[64];
        (void)snprintf(key, sizeof(key), "early%d", k);
        const struct hr_cached *cached = lab_find(lab, key, "e");
        assert_true(cached && cached->file_id == ids[k]);
    }
    assert_true(lab_find(lab, long_key, "e") && lab_find(lab, long_key, "e")->file_id == newest);
}

static void cleaning(void **state)
{
    clean(*state, 10000, false);
}

static void cleaning_what_is_not_there(void **state)
{
    clean(*state, 4000, true); /* four segments */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(adopted, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(smaller_budget, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(spoiled_files_are_forgotten, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(foreign_files, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(torn_tail, setup_quick, lab_tear_down),
        cmocka_unit_test_setup_teardown(ids_never_again, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(other_boot, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(other_layout, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(cleaning, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(cleaning_what_is_not_there, lab_set_up, lab_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
