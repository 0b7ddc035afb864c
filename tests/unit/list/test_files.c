#include "tests/unit/list/tree.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "fetch/base/digest.h"
#include "fetch/list/recheck.h"

#define NAMES_1 "0123456789abcdef-00000001.names"
#define NAMES_2 "0123456789abcdef-00000002.names"
#define BOOT 0xfedcba9876543210ull
#define STATES_2 "0123456789abcdef-00000002-fedcba9876543210.states"
#define USES_2 "0123456789abcdef-00000002-fedcba9876543210.uses"

static void publish_some(const char *dir, uint32_t gen, unsigned keys)
{
    struct hr_index_builder *builder;
    struct hr_index index;
    char key[64];

    assert_int_equal(hr_builder_new(&builder), 0);
    for (unsigned i = 0; i < keys; i++) {
        int len = snprintf(key, sizeof(key), "class%02u/gen%u-%06u.jpg", i % 10, gen, i);
        assert_int_equal(hr_builder_add(builder, key, (uint32_t)len, i, i, i % 3 ? "0123456789ABCDEF" : ""),
                         0);
    }
    assert_int_equal(hr_builder_publish(builder, dir, TREE_ID, gen, LISTED_NS, &index), 0);
    assert_int_equal(hr_index_check(&index, NULL), 0);
    hr_index_unmap(&index);
    hr_builder_free(builder);
}

static char *in(const char *dir, const char *name)
{
    static char path[256];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static bool exists(const char *dir, const char *name)
{
    return access(in(dir, name), F_OK) == 0;
}

/* Everything that a reader may ask of an index that nobody has checked: it ends, inside the file. */
static void use_all(const struct hr_index *index)
{
    char path[HR_KEY_MAX + 1];
    char etag[HR_INDEX_ETAG_MAX + 1];
    uint32_t found;
    uint32_t len;

    for (uint32_t entry = 0; entry < index->names->entry_count; entry++) {
        const char *name = hr_index_name(index, entry, &len);
        assert_true(name >= index->text && name + len <= index->text + index->names->text_bytes);
        for (uint32_t n = hr_index_child_count(index, entry); n-- > 0;) {
            assert_true(hr_index_child(index, entry, n) > entry);
            assert_true(hr_index_child(index, entry, n) < index->names->entry_count);
        }
        assert_true(hr_index_end(index, entry) <= index->names->entry_count);
        assert_true(hr_index_parent(index, entry) < index->names->dir_count);
        (void)hr_index_seek(index, entry, name, len);
        (void)hr_index_etag(index, entry, etag, sizeof(etag));
        if (hr_index_path(index, entry, path, sizeof(path)) > 0 &&
            hr_index_lookup(index, path, strlen(path), &found) == 0) {
            assert_true(found < index->names->entry_count);
        }
    }
}

/* What is loaded and stands the check behind: its generation, 0 for none. A damaged one is removed, as the
 * plan does. */
static uint32_t loaded_gen(const char *dir)
{
    struct hr_index index;
    uint32_t gen;
    int checked;

    do {
        int rc = hr_index_load(dir, TREE_ID, &index);
        if (rc == -ENOENT) {
            return 0;
        }
        assert_int_equal(rc, 0);
        gen = index.names->gen;
        checked = hr_index_verify(dir, TREE_ID, gen, NULL);
        use_all(&index);
        if (checked == -EBADMSG) {
            hr_index_remove(dir, TREE_ID, gen);
        } else {
            assert_int_equal(checked, 0);
        }
        hr_index_unmap(&index);
    } while (checked != 0);
    return gen;
}

static void test_published_file(void **state)
{
    char *dir = scratch_new();
    struct stat st;

    (void)state;
    assert_int_equal(loaded_gen(dir), 0);
    publish_some(dir, 1, 100);
    assert_int_equal(files_in(dir), 1);
    assert_int_equal(stat(in(dir, NAMES_1), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0400);
    assert_true(st.st_blocks * 512 >= st.st_size);
    publish_some(dir, 2, 200);
    publish_some(dir, 0xabcdef01u, 10);
    assert_int_equal(loaded_gen(dir), 0xabcdef01u);
    assert_int_equal(files_in(dir), 3);
    struct hr_index index;
    assert_int_equal(hr_index_load(dir, TREE_ID + 1, &index), -ENOENT);
    assert_int_equal(hr_index_load("/nonexistent", TREE_ID, &index), -ENOENT);
    scratch_remove(dir);
}

static void rewrite(const char *path, uint64_t at, const void *bytes, size_t len)
{
    assert_int_equal(chmod(path, 0600), 0);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, len, (off_t)at), len);
    assert_int_equal(fchmod(fd, 0400), 0);
    close(fd);
}

/* Changes the header and makes its checksum right again. */
static void forge_header(const char *path, size_t field, const void *bytes, size_t len)
{
    struct hr_names header;

    int fd = open(path, O_RDONLY);
    assert_int_equal(read(fd, &header, sizeof(header)), sizeof(header));
    close(fd);
    memcpy((char *)&header + field, bytes, len);
    header.header_checksum = 0;
    header.header_checksum = hr_crc64nvme(0, &header, sizeof(header));
    rewrite(path, 0, &header, sizeof(header));
}

/* Every way in which a file can be wrong: it is passed over for the older one, and removed. */
static void test_damaged(void **state)
{
    char *dir = scratch_new();
    struct stat st;
    const char bad = '\x5a';

    (void)state;
    publish_some(dir, 1, 100);
    for (unsigned how = 0; how < 400; how++) {
        publish_some(dir, 2, 50);
        char *path = in(dir, NAMES_2);
        assert_int_equal(stat(path, &st), 0);
        char *old = malloc((size_t)st.st_size);
        int fd = open(path, O_RDONLY);
        assert_int_equal(read(fd, old, (size_t)st.st_size), st.st_size);
        close(fd);
        uint64_t at = (uint64_t)st.st_size * how / 400;
        char other = (char)(old[at] ^ bad);
        rewrite(path, at, &other, 1);
        free(old);
        assert_int_equal(loaded_gen(dir), 1);
        assert_false(exists(dir, NAMES_2));
    }
    for (unsigned cut = 0; cut < 20; cut++) {
        publish_some(dir, 2, 50);
        assert_int_equal(stat(in(dir, NAMES_2), &st), 0);
        assert_int_equal(truncate(in(dir, NAMES_2), st.st_size * cut / 20), 0);
        assert_int_equal(loaded_gen(dir), 1);
        assert_false(exists(dir, NAMES_2));
    }
    publish_some(dir, 2, 50);
    assert_int_equal(stat(in(dir, NAMES_2), &st), 0);
    assert_int_equal(truncate(in(dir, NAMES_2), st.st_size + 64), 0);
    assert_int_equal(loaded_gen(dir), 1);
    scratch_remove(dir);
}

/* Right checksums over wrong things. */
static void test_forged(void **state)
{
    static const struct {
        size_t field;
        uint64_t value;
        size_t len;
    } cases[] = {
        {offsetof(struct hr_names, magic), 1, 8},
        {offsetof(struct hr_names, abi_version), HR_ABI_VERSION + 1, 4},
        {offsetof(struct hr_names, gen), 3, 4},
        {offsetof(struct hr_names, tree_id), TREE_ID + 1, 8},
        {offsetof(struct hr_names, file_bytes), 64, 8},
        {offsetof(struct hr_names, file_bytes), UINT64_MAX, 8},
        {offsetof(struct hr_names, entry_count), 0, 8},
        {offsetof(struct hr_names, entry_count), UINT64_MAX, 8},
        {offsetof(struct hr_names, entry_count), 60, 8},
        {offsetof(struct hr_names, dir_count), 0, 8},
        {offsetof(struct hr_names, dir_count), 1, 8},
        {offsetof(struct hr_names, file_count), 1, 8},
        {offsetof(struct hr_names, object_bytes), 1, 8},
        {offsetof(struct hr_names, hash_slots), 0, 8},
        {offsetof(struct hr_names, hash_slots), 1ull << 63, 8},
        {offsetof(struct hr_names, entries_offset), 0, 8},
        {offsetof(struct hr_names, entries_offset), 200, 8},
        {offsetof(struct hr_names, dirs_offset), UINT64_MAX - 63, 8},
        {offsetof(struct hr_names, hash_offset), 192, 8},
        {offsetof(struct hr_names, text_offset), 192, 8},
        {offsetof(struct hr_names, text_bytes), 10, 8},
        {offsetof(struct hr_names, text_bytes), UINT64_MAX, 8},
    };
    char *dir = scratch_new();

    (void)state;
    publish_some(dir, 1, 100);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        publish_some(dir, 2, 50);
        assert_int_equal(loaded_gen(dir), 2);
        forge_header(in(dir, NAMES_2), cases[i].field, &cases[i].value, cases[i].len);
        if (loaded_gen(dir) != 1) {
            fail_msg("case %zu is believed", i);
        }
        assert_false(exists(dir, NAMES_2));
    }
    scratch_remove(dir);
}

/* The header is enough to begin with: what is wrong behind it is the check's to find. */
static void test_adopted_unchecked(void **state)
{
    char *dir = scratch_new();
    struct hr_index index;
    struct stat st;
    atomic_bool stop = true;

    (void)state;
    publish_some(dir, 1, 100);
    assert_int_equal(hr_index_verify(dir, TREE_ID, 1, &stop), -ECANCELED);
    assert_int_equal(hr_index_verify(dir, TREE_ID, 2, NULL), -ENOENT);
    assert_int_equal(stat(in(dir, NAMES_1), &st), 0);
    rewrite(in(dir, NAMES_1), (uint64_t)st.st_size - 1, "~", 1);
    assert_int_equal(hr_index_load(dir, TREE_ID, &index), 0);
    assert_int_equal(hr_index_verify(dir, TREE_ID, 1, NULL), -EBADMSG);
    assert_true(exists(dir, NAMES_1));
    hr_index_unmap(&index);
    /* Others could have written what they may write. */
    assert_int_equal(chmod(in(dir, NAMES_1), 0600), 0);
    assert_int_equal(hr_index_load(dir, TREE_ID, &index), -ENOENT);
    assert_false(exists(dir, NAMES_1));
    scratch_remove(dir);
}

struct checking {
    struct hr_loop *loop;
    struct hr_recheck *recheck;
    unsigned ends;
    int error;
};

static void check_ended(void *owner, int error)
{
    struct checking *checking = owner;
    checking->ends++;
    checking->error = error;
    hr_recheck_free(checking->recheck);
    checking->recheck = NULL;
    hr_loop_stop(checking->loop);
}

static void test_recheck(void **state)
{
    char *dir = scratch_new();
    struct checking checking = {.error = 1};
    struct hr_recheck_options options = {
        .index_dir = dir, .tree_id = TREE_ID, .gen = 1, .done = check_ended, .owner = &checking};
    struct stat st;

    (void)state;
    assert_int_equal(hr_loop_new(&checking.loop), 0);
    options.loop = checking.loop;
    publish_some(dir, 1, 5000);
    assert_int_equal(hr_recheck_start(&options, &checking.recheck), 0);
    assert_int_equal(hr_loop_run(checking.loop), 0);
    assert_int_equal(checking.error, 0);
    assert_int_equal(stat(in(dir, NAMES_1), &st), 0);
    rewrite(in(dir, NAMES_1), (uint64_t)st.st_size / 2, "~", 1);
    assert_int_equal(hr_recheck_start(&options, &checking.recheck), 0);
    assert_int_equal(hr_loop_run(checking.loop), 0);
    assert_int_equal(checking.error, -EBADMSG);
    assert_int_equal(checking.ends, 2);
    /* Freed before its end: nobody is told. */
    assert_int_equal(hr_recheck_start(&options, &checking.recheck), 0);
    hr_recheck_free(checking.recheck);
    hr_recheck_free(NULL);
    assert_int_equal(checking.ends, 2);
    hr_loop_free(checking.loop);
    scratch_remove(dir);
}

static void test_not_a_file(void **state)
{
    char *dir = scratch_new();

    (void)state;
    publish_some(dir, 1, 10);
    assert_int_equal(symlink(NAMES_1, in(dir, NAMES_2)), 0);
    assert_int_equal(loaded_gen(dir), 1);
    assert_false(exists(dir, NAMES_2));
    assert_int_equal(mkfifo(in(dir, NAMES_2), 0600), 0);
    assert_int_equal(loaded_gen(dir), 1);
    assert_false(exists(dir, NAMES_2));
    assert_int_equal(mkdir(in(dir, NAMES_2), 0700), 0);
    assert_int_equal(loaded_gen(dir), 1);
    assert_int_equal(rmdir(in(dir, NAMES_2)), 0);
    assert_int_equal(chmod(in(dir, NAMES_1), 0600), 0);
    /* Only exact names are looked at. */
    assert_int_equal(
        rename(in(dir, NAMES_1), strcat(strcpy((char[300]){0}, dir), "/0123456789abcdef-1.names")), 0);
    assert_int_equal(loaded_gen(dir), 0);
    assert_int_equal(files_in(dir), 1);
    scratch_remove(dir);
}

static void test_states(void **state)
{
    char *dir = scratch_new();
    struct hr_states *states;
    struct hr_uses *uses;
    struct stat st;

    (void)state;
    assert_int_equal(hr_states_create(dir, TREE_ID, 2, BOOT, 0, &states, &uses), -EINVAL);
    assert_int_equal(hr_states_create("/nonexistent", TREE_ID, 2, BOOT, 5, &states, &uses), -ENOENT);
    assert_int_equal(hr_states_create(dir, TREE_ID, 2, BOOT, 1001, &states, &uses), 0);
    assert_int_equal(states->magic, HR_MAGIC_STATES);
    assert_int_equal(states->abi_version, HR_ABI_VERSION);
    assert_int_equal(states->boot, BOOT);
    assert_int_equal(states->entry_count, 1001);
    assert_int_equal(states->retired, 0);
    assert_int_equal(uses->magic, HR_MAGIC_USES);
    assert_int_equal(uses->abi_version, HR_ABI_VERSION);
    assert_int_equal(uses->entry_count, 1001);
    for (unsigned i = 0; i < 1001; i++) {
        assert_int_equal(states->states[i].word, 0);
        assert_int_equal(uses->last[i], 0);
    }
    states->states[1000].file_id = 1;
    uses->last[1000] = 1;
    assert_int_equal(stat(in(dir, STATES_2), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0400);
    assert_int_equal(st.st_size, 64 + 1001 * 16);
    assert_int_equal(stat(in(dir, USES_2), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_size, 64 + HR_USES_RING * 8 + 1001);
    /* What a client writes does not matter to unmapping. */
    uses->entry_count = UINT64_MAX;
    hr_states_unmap(states, uses);
    hr_states_unmap(NULL, NULL);
    assert_int_equal(files_in(dir), 2);
    scratch_remove(dir);
}

static void test_sweep(void **state)
{
    static const char *const others[] = {
        "0123456789abcdee-00000001.names",
        "other",
        "0123456789abcdef.names",
    };
    char *dir = scratch_new();
    struct hr_states *states;
    struct hr_uses *uses;

    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        close(open(in(dir, others[i]), O_CREAT | O_WRONLY, 0600));
    }
    publish_some(dir, 1, 10);
    publish_some(dir, 2, 10);
    for (uint32_t gen = 1; gen <= 2; gen++) {
        for (uint64_t boot = BOOT - 1; boot <= BOOT; boot++) {
            assert_int_equal(hr_states_create(dir, TREE_ID, gen, boot, 11, &states, &uses), 0);
            hr_states_unmap(states, uses);
        }
    }
    close(open(in(dir, NAMES_2 ".0123456789abcdef"), O_CREAT | O_WRONLY, 0600));
    assert_int_equal(files_in(dir), 3 + 2 + 8 + 1);
    hr_index_sweep(dir, TREE_ID, 2, BOOT);
    assert_int_equal(files_in(dir), 3 + 3);
    assert_true(exists(dir, NAMES_2) && exists(dir, STATES_2) && exists(dir, USES_2));
    assert_int_equal(loaded_gen(dir), 2);
    hr_index_sweep("/nonexistent", TREE_ID, 2, BOOT);
    scratch_remove(dir);
}

/* ---- no room ---- */

static void fill_and_fail(const char *dir)
{
    struct hr_index_builder *builder;
    struct hr_index index = {.names = NULL};
    struct hr_states *states = NULL;
    struct hr_uses *uses = NULL;
    char key[64];

    publish_some(dir, 1, 10);
    assert_int_equal(hr_builder_new(&builder), 0);
    for (unsigned i = 0; i < 50000; i++) {
        int len = snprintf(key, sizeof(key), "class%02u/%06u.jpg", i % 10, i);
        assert_int_equal(hr_builder_add(builder, key, (uint32_t)len, i, i, ""), 0);
    }
    assert_int_equal(hr_builder_publish(builder, dir, TREE_ID, 2, LISTED_NS, &index), -ENOSPC);
    assert_null(index.names);
    assert_int_equal(hr_builder_count(builder), 0);
    assert_int_equal(files_in(dir), 1);
    assert_int_equal(hr_states_create(dir, TREE_ID, 1, BOOT, 100000, &states, &uses), -ENOSPC);
    /* The states fit, the uses do not. */
    assert_int_equal(hr_states_create(dir, TREE_ID, 1, BOOT, 58000, &states, &uses), -ENOSPC);
    assert_null(states);
    assert_null(uses);
    assert_int_equal(files_in(dir), 1);
    assert_int_equal(loaded_gen(dir), 1);
    hr_builder_free(builder);
}

/* A file system of 1 MiB where we may mount one; a limit on file sizes everywhere. */
static void test_disk_full(void **state)
{
    char *dir = scratch_new();

    (void)state;
    if (mount("none", dir, "tmpfs", 0, "size=1m") == 0) {
        fill_and_fail(dir);
        assert_int_equal(umount2(dir, MNT_DETACH), 0);
    }
    scratch_remove(dir);
}

static void limited_child(const char *dir)
{
    struct hr_index_builder *builder;
    struct hr_index index;
    struct hr_states *states;
    struct hr_uses *uses;
    const struct rlimit limit = {1 << 20, 1 << 20};
    char key[64];

    signal(SIGXFSZ, SIG_IGN);
    if (hr_builder_new(&builder) < 0 || setrlimit(RLIMIT_FSIZE, &limit) < 0) {
        _exit(2);
    }
    for (unsigned i = 0; i < 50000; i++) {
        int len = snprintf(key, sizeof(key), "class%02u/%06u.jpg", i % 10, i);
        if (hr_builder_add(builder, key, (uint32_t)len, i, i, "") < 0) {
            _exit(3);
        }
    }
    if (hr_builder_publish(builder, dir, TREE_ID, 2, LISTED_NS, &index) != -ENOSPC) {
        _exit(4);
    }
    if (hr_states_create(dir, TREE_ID, 1, BOOT, 100000, &states, &uses) != -ENOSPC) {
        _exit(5);
    }
    hr_builder_free(builder);
    _exit(0);
}

static void test_size_limit(void **state)
{
    char *dir = scratch_new();
    int status;

    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        limited_child(dir);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(files_in(dir), 0);
    scratch_remove(dir);
}

static void test_bad_directory(void **state)
{
    struct hr_index_builder *builder;
    struct hr_index index;
    char *dir = scratch_new();
    char *link = strdup(in(dir, "link"));

    (void)state;
    assert_int_equal(hr_builder_new(&builder), 0);
    assert_int_equal(hr_builder_publish(builder, "/nonexistent", TREE_ID, 1, 1, &index), -ENOENT);
    assert_int_equal(symlink(dir, link), 0);
    assert_int_equal(hr_builder_publish(builder, link, TREE_ID, 1, 1, &index), -ENOTDIR);
    assert_int_equal(files_in(dir), 1);
    hr_builder_free(builder);
    free(link);
    scratch_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_file), cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_forged),         cmocka_unit_test(test_not_a_file),
        cmocka_unit_test(test_states),         cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_disk_full),      cmocka_unit_test(test_size_limit),
        cmocka_unit_test(test_bad_directory),  cmocka_unit_test(test_adopted_unchecked),
        cmocka_unit_test(test_recheck),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
