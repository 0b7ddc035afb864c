/* Puts, look-ups, verification, eviction, full disks. */
#include "tests/unit/cache/lab.h"

#include <sys/mount.h>

static void put_and_find(void **state)
{
    struct lab *lab = *state;
    static const size_t sizes[] = {0, 1, 4095, 4096, 100000, 3 * 1024 * 1024 + 1};
    lab_open(lab);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char key[32];
        uint64_t id = 0;
        (void)snprintf(key, sizeof(key), "dir/%zu.jpg", sizes[i]);
        assert_null(lab_find(lab, key, "e1"));
        assert_int_equal(lab_put_whole(lab, key, "e1", sizes[i], NULL, &id), 0);
        const struct hr_cached *cached = lab_find(lab, key, "e1");
        assert_non_null(cached);
        assert_true(cached->file_id == id && cached->size == sizes[i]);
        assert_int_equal(cached->mtime_ns, 1700000000123456789);
        assert_string_equal(hr_cached_key(cached), key);
        assert_string_equal(hr_cached_etag(cached), "e1");
        assert_null(lab_find(lab, key, "e2"));
        assert_true(lab_file_right(lab, id, key, sizes[i]));
    }
    assert_int_equal(lab_count(lab, "spool"), 0);
    assert_int_equal(lab_count(lab, "objects"), 6);
    struct hr_cache_stats stats = lab_stats(lab);
    assert_int_equal(stats.objects, 6);
    assert_int_equal(stats.bytes, 3 * 4096 + 4096 + 102400 + 3 * MIB + 4096);
    assert_int_equal(stats.writes_in_flight, 0);
    assert_true(stats.free_bytes > 0);
    struct stat st;
    char path[PATH_MAX];
    lab_path(lab, lab_find(lab, "dir/1.jpg", "e1")->file_id, path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_dev, stats.cache_dev);
}

static void put_bad_names(void **state)
{
    struct lab *lab = *state;
    struct lab_put put;
    char long_key[HR_KEY_MAX + 2];
    char long_etag[200];
    memset(long_key, 'k', sizeof(long_key));
    memset(long_etag, 'e', sizeof(long_etag));
    long_key[HR_KEY_MAX + 1] = long_etag[199] = '\0';
    lab_open(lab);
    assert_int_equal(lab_begin(lab, &put, "", "e", 1), -EINVAL);
    assert_int_equal(lab_begin(lab, &put, long_key, "e", 1), -EINVAL);
    assert_int_equal(lab_begin(lab, &put, "k", long_etag, 1), -EINVAL);
    assert_null(lab_find(lab, long_key, "e"));
    long_key[HR_KEY_MAX] = '\0';
    assert_int_equal(lab_put_whole(lab, long_key, "", 10, NULL, NULL), 0);
    assert_non_null(lab_find(lab, long_key, ""));
}

static void parts_any_order(void **state)
{
    struct lab *lab = *state;
    enum { PARTS = 7, PART = 70001 };
    static const int orders[][PARTS] = {{0, 1, 2, 3, 4, 5, 6}, {6, 5, 4, 3, 2, 1, 0}, {3, 0, 6, 1, 5, 2, 4}};
    lab_open(lab);
    for (size_t o = 0; o < 3; o++) {
        for (int with_md5 = 0; with_md5 < 2; with_md5++) {
            struct lab_put put;
            struct hr_verify verify = {.md5 = with_md5};
            char key[32];
            uint64_t size = PARTS * PART - 11;
            (void)snprintf(key, sizeof(key), "order%zu-%d", o, with_md5);
            if (with_md5) {
                struct hr_buf whole;
                uint8_t digest[HR_MD5_BYTES];
                lab_fill(&whole, key, 0, size);
                assert_int_equal(hr_digest(HR_DIGEST_MD5, whole.data, size, digest), 0);
                hr_hex_encode(digest, sizeof(digest), verify.md5_hex);
                hr_buf_release(&whole);
            }
            assert_int_equal(lab_begin(lab, &put, key, "e", size), 0);
            for (int i = 0; i < PARTS; i++) {
                uint64_t from = (uint64_t)orders[o][i] * PART;
                assert_int_equal(lab_part(&put, key, from, from + PART > size ? size - from : PART), 0);
                assert_int_equal(lab_part(&put, key, from, 1), -EINVAL);
                if (i == 3) {
                    lab_linger(lab, 5); /* so that some are written before finish */
                }
                assert_null(lab_find(lab, key, "e")); /* there may be a file; nobody knows of it */
                assert_int_equal(lab_stats(lab).objects, o * 2 + (unsigned)with_md5);
            }
            assert_int_equal(lab_part(&put, key, size, 1), -EINVAL);
            hr_put_finish(put.put, with_md5 ? &verify : NULL);
            lab_wait(&put);
            assert_int_equal(put.error, 0);
            assert_int_equal(put.written_count, PARTS);
            assert_int_equal(put.written_bytes, size);
            assert_true(lab_file_right(lab, put.file_id, key, size));
        }
    }
}

/* Numbers ascend; few folders are filled at a time. */
static void numbers_and_folders(void **state)
{
    struct lab *lab = *state;
    enum { OBJECTS = 200 };
    uint64_t before = 0;
    unsigned files[256] = {0};
    unsigned folders = 0;
    lab_open(lab);
    for (int i = 0; i < OBJECTS; i++) {
        char key[16];
        uint64_t id = 0;
        (void)snprintf(key, sizeof(key), "k%d", i);
        assert_int_equal(lab_put_whole(lab, key, "e", 1, NULL, &id), 0);
        assert_true(id > before);
        before = id;
        folders += !files[id & 0xff]++;
    }
    assert_true(folders >= 64 && folders <= 128); /* the numbers may begin at the end of the first 64 */
    for (unsigned i = 0; i < 256; i++) {
        char path[PATH_MAX];
        assert_true(files[i] <= 4);
        (void)snprintf(path, sizeof(path), "%s/objects/%02x", lab->dir, i);
        assert_int_equal(access(path, F_OK) == 0, files[i] > 0);
    }
}

static void gap_is_an_error(void **state)
{
    struct lab *lab = *state;
    struct lab_put put;
    lab_open(lab);
    assert_int_equal(lab_begin(lab, &put, "k", "e", 1000), 0);
    assert_int_equal(lab_part(&put, "k", 0, 400), 0);
    assert_int_equal(lab_part(&put, "k", 500, 500), 0);
    hr_put_finish(put.put, NULL);
    lab_wait(&put);
    assert_int_equal(put.error, -EINVAL);
    assert_int_equal(put.written_bytes, 900);
    assert_int_equal(lab_count(lab, "objects") + lab_count(lab, "spool"), 0);
    assert_int_equal(lab_stats(lab).bytes, 0);
}

static void fill_verify(struct hr_verify *verify, uint32_t kind, bool md5, const void *bytes, size_t len)
{
    *verify = (struct hr_verify){.md5 = md5, .crc_kind = kind};
    uint8_t digest[HR_MD5_BYTES];
    assert_int_equal(hr_digest(HR_DIGEST_MD5, bytes, len, digest), 0);
    if (md5) {
        hr_hex_encode(digest, sizeof(digest), verify->md5_hex);
    }
    switch (kind) {
    case HR_CRC_CRC32:
        verify->crc = hr_crc32(0, bytes, len);
        break;
    case HR_CRC_CRC32C:
        verify->crc = hr_crc32c(0, bytes, len);
        break;
    case HR_CRC_CRC64NVME:
        verify->crc = hr_crc64nvme(0, bytes, len);
        break;
    case HR_CRC_SHA1:
        assert_int_equal(hr_digest(HR_DIGEST_SHA1, bytes, len, verify->sha), 0);
        break;
    case HR_CRC_SHA256:
        assert_int_equal(hr_digest(HR_DIGEST_SHA256, bytes, len, verify->sha), 0);
        break;
    default:
        break;
    }
}

static void spoil(struct hr_verify *verify)
{
    if (verify->crc_kind == HR_CRC_SHA1 || verify->crc_kind == HR_CRC_SHA256) {
        verify->sha[19] ^= 1;
    } else if (verify->crc_kind) {
        verify->crc ^= 1;
    } else {
        verify->md5_hex[31] = verify->md5_hex[31] == '0' ? '1' : '0';
    }
}

/* Each kind, right and wrong, of a body in one part (from memory), in two (from the file), and empty. */
static void every_verification(void **state)
{
    struct lab *lab = *state;
    static const struct {
        uint32_t kind;
        bool md5;
    } kinds[] = {{HR_CRC_NONE, true},       {HR_CRC_CRC32, false}, {HR_CRC_CRC32C, false},
                 {HR_CRC_CRC64NVME, false}, {HR_CRC_SHA1, false},  {HR_CRC_SHA256, false},
                 {HR_CRC_CRC32C, true},     {HR_CRC_SHA256, true}};
    static const size_t sizes[] = {0, 777, 600000};
    uint64_t failures = 0;
    lab_open(lab);
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        for (unsigned variant = 0; variant < 12; variant++) {
            size_t size = sizes[variant % 3];
            bool bad = (variant / 3) % 2;
            bool two = variant / 6;
            char key[32];
            struct hr_buf whole;
            struct hr_verify verify;
            struct lab_put put;
            char md5_hex[33];
            (void)snprintf(key, sizeof(key), "v%zu-%u", k, variant);
            lab_fill(&whole, key, 0, size);
            fill_verify(&verify, kinds[k].kind, kinds[k].md5, whole.data, size);
            memcpy(md5_hex, verify.md5_hex, sizeof(md5_hex));
            hr_buf_release(&whole);
            if (bad) {
                spoil(&verify);
                failures++;
            }
            assert_int_equal(lab_begin(lab, &put, key, "e", size), 0);
            if (size && two) {
                assert_int_equal(lab_part(&put, key, 500, size - 500), 0);
                assert_int_equal(lab_part(&put, key, 0, 500), 0);
            } else if (size) {
                assert_int_equal(lab_part(&put, key, 0, size), 0);
            }
            hr_put_finish(put.put, &verify);
            lab_wait(&put);
            assert_int_equal(put.error, bad ? -EBADMSG : 0);
            assert_string_equal(put.md5_hex, kinds[k].md5 ? md5_hex : "");
            assert_true(bad ? !lab_find(lab, key, "e") : lab_file_right(lab, put.file_id, key, size));
        }
    }
    assert_int_equal(lab_stats(lab).verify_failures, failures);
    assert_int_equal(lab_count(lab, "objects"), failures);
    assert_int_equal(lab_count(lab, "spool"), 0);
}

static void evicts_least_recently_used(void **state)
{
    struct lab *lab = *state;
    uint64_t ids[6];
    lab->size_bytes = 4 * MIB;
    lab_open(lab);
    for (int i = 0; i < 4; i++) {
        char key[8];
        (void)snprintf(key, sizeof(key), "k%d", i);
        assert_int_equal(lab_put_whole(lab, key, "e", MIB, NULL, &ids[i]), 0);
    }
    assert_int_equal(lab->evicted_count, 0);
    hr_cache_touch(lab->cache, ids[0]);
    hr_cache_touch(lab->cache, 424242);
    assert_int_equal(lab_put_whole(lab, "k4", "e", MIB, NULL, &ids[4]), 0);
    assert_int_equal(lab_put_whole(lab, "k5", "e", MIB, NULL, &ids[5]), 0);
    assert_int_equal(lab->evicted_count, 2);
    assert_true(lab->evicted_ids[0] == ids[1] && lab->evicted_ids[1] == ids[2]);
    lab_await_gone(lab, ids[1]);
    lab_await_gone(lab, ids[2]);
    assert_non_null(lab_find(lab, "k0", "e"));
    assert_null(lab_find(lab, "k1", "e"));
    assert_true(lab_file_right(lab, ids[0], "k0", MIB));
    struct hr_cache_stats stats = lab_stats(lab);
    assert_int_equal(stats.evictions, 2);
    assert_int_equal(stats.evicted_bytes, 2 * MIB);
    assert_int_equal(stats.bytes, 4 * MIB);
    assert_int_equal(hr_cache_make_room(lab->cache, 4 * MIB), 0);
    assert_int_equal(lab_stats(lab).objects, 0);
    assert_int_equal(hr_cache_make_room(lab->cache, 4 * MIB + 1), -ENOSPC);
}

static void drop_and_replace(void **state)
{
    struct lab *lab = *state;
    uint64_t first = 0;
    uint64_t second = 0;
    lab_open(lab);
    assert_int_equal(lab_put_whole(lab, "k", "e", 5000, NULL, &first), 0);
    assert_int_equal(lab_put_whole(lab, "k", "e", 5000, NULL, &second), 0);
    assert_true(second > first);
    assert_int_equal(lab->evicted_count, 1);
    assert_true(lab->evicted_ids[0] == first);
    lab_await_gone(lab, first);
    assert_true(lab_file_right(lab, second, "k", 5000));
    hr_cache_drop(lab->cache, first);
    assert_int_equal(lab->evicted_count, 1);
    hr_cache_drop(lab->cache, second);
    assert_int_equal(lab->evicted_count, 2);
    assert_null(lab_find(lab, "k", "e"));
    lab_await_gone(lab, second);
    assert_int_equal(lab_stats(lab).bytes, 0);
}

static void small_budget(void **state)
{
    struct lab *lab = *state;
    struct lab_put one;
    struct lab_put two;
    lab->size_bytes = 2 * MIB;
    lab_open(lab);
    assert_int_equal(lab_begin(lab, &one, "big", "e", 2 * MIB + 1), -ENOSPC);
    assert_int_equal(lab_begin(lab, &one, "big", "e", UINT64_MAX), -ENOSPC);
    assert_int_equal(lab_begin(lab, &one, "one", "e", 2 * MIB), 0);
    assert_int_equal(lab_stats(lab).bytes, 2 * MIB);
    assert_int_equal(lab_begin(lab, &two, "two", "e", 1), -EAGAIN);
    assert_int_equal(lab_part(&one, "one", 0, 2 * MIB), 0);
    hr_put_finish(one.put, NULL);
    lab_wait(&one);
    assert_int_equal(one.error, 0);
    assert_int_equal(lab_put_whole(lab, "two", "e", 1, NULL, NULL), 0);
    assert_int_equal(lab->evicted_count, 1);
}

static void abort_everywhere(void **state)
{
    struct lab *lab = *state;
    struct lab_put put;
    lab_open(lab);
    for (int stage = 0; stage < 4; stage++) {
        assert_int_equal(lab_begin(lab, &put, "k", "e", 100000), 0);
        if (stage >= 1) {
            assert_int_equal(lab_part(&put, "k", 0, 50000), 0);
        }
        if (stage == 2) {
            lab_linger(lab, 20);
        }
        if (stage == 3) {
            assert_int_equal(lab_part(&put, "k", 50000, 50000), 0);
            hr_put_finish(put.put, NULL);
        }
        hr_put_abort(put.put);
        for (int i = 0; i < 500 && lab_stats(lab).writes_in_flight; i++) {
            lab_linger(lab, 5);
        }
        assert_int_equal(lab_stats(lab).writes_in_flight, 0);
        assert_false(put.done);
        assert_int_equal(put.written_bytes, stage == 0 ? 0 : stage == 3 ? 100000 : 50000);
        assert_int_equal(lab_stats(lab).bytes, 0);
        assert_int_equal(lab_count(lab, "objects") + lab_count(lab, "spool"), 0);
    }
}

static void close_with_puts_under_way(void **state)
{
    struct lab *lab = *state;
    struct lab_put unfinished;
    struct lab_put finished;
    lab_open(lab);
    assert_int_equal(lab_begin(lab, &unfinished, "u", "e", 100000), 0);
    assert_int_equal(lab_part(&unfinished, "u", 0, 50000), 0);
    assert_int_equal(lab_begin(lab, &finished, "f", "e", 100000), 0);
    assert_int_equal(lab_part(&finished, "f", 0, 100000), 0);
    hr_put_finish(finished.put, NULL);
    lab_close(lab);
    assert_false(unfinished.done);
    assert_int_equal(unfinished.written_bytes, 50000);
    assert_true(finished.done);
    assert_int_equal(finished.error, 0);
    assert_int_equal(lab_count(lab, "spool"), 0);
    lab_open(lab);
    assert_non_null(lab_find(lab, "f", "e"));
    assert_null(lab_find(lab, "u", "e"));
}

static void each_of_a_source_fn(void *owner, const struct hr_cached *cached)
{
    unsigned *seen = owner;
    *seen |= 1u << (hr_cached_key(cached)[1] - '0');
}

static void each_of_a_source(void **state)
{
    struct lab *lab = *state;
    const struct hr_source_id other = {{9}};
    unsigned seen = 0;
    lab_open(lab);
    for (int i = 0; i < 5; i++) {
        char key[8];
        (void)snprintf(key, sizeof(key), "k%d", i);
        assert_int_equal(lab_put_whole(lab, key, "e", 10, NULL, NULL), 0);
    }
    hr_cache_each(lab->cache, &lab_source, each_of_a_source_fn, &seen);
    assert_int_equal(seen, 31);
    hr_cache_each(lab->cache, &other, each_of_a_source_fn, &seen);
    assert_int_equal(seen, 31);
    assert_null(hr_cache_find(lab->cache, &other, "k0", 2, "e"));
}

/* Until every file that was given up is unlinked. */
static void settle_unlinks(struct lab *lab)
{
    for (int i = 0; i < 500 && lab_count(lab, "objects") != lab_stats(lab).objects; i++) {
        lab_linger(lab, 5);
    }
    assert_int_equal(lab_count(lab, "objects"), lab_stats(lab).objects);
}

/* The disk is full before the budget is. */
static void full_disk(void **state)
{
    struct lab *outer = *state;
    struct lab lab;
    char mount_point[512];
    (void)snprintf(mount_point, sizeof(mount_point), "%s/tiny", outer->home);
    assert_int_equal(mkdir(mount_point, 0700), 0);
    if (geteuid() != 0 || mount("tmpfs", mount_point, "tmpfs", 0, "size=8m,mode=0700") < 0) {
        print_message("skipped: full_disk needs root and mount\n");
        skip();
    }
    lab_start_in(&lab, mount_point);
    lab.size_bytes = 1024 * MIB;
    lab_open(&lab);
    for (int i = 0; i < 40; i++) { /* 40 x 1 MiB through 8 MiB less the residents: each evicts what it must */
        char key[16];
        uint64_t id = 0;
        (void)snprintf(key, sizeof(key), "k%d", i);
        assert_int_equal(lab_put_whole(&lab, key, "e", MIB, NULL, &id), 0);
        assert_true(lab_file_right(&lab, id, key, MIB));
    }
    assert_true(lab.evicted_count >= 30);
    assert_int_equal(lab_put_whole(&lab, "never", "e", 9 * MIB, NULL, NULL), -ENOSPC);
    struct lab_put put;
    /* Somebody else takes the space after the reservation: the write itself meets ENOSPC. */
    assert_int_equal(lab_begin(&lab, &put, "late", "e", 2 * MIB), 0);
    settle_unlinks(&lab);
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/others", mount_point);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    static char block[65536];
    while (write(fd, block, sizeof(block)) > 0) {
    }
    (void)close(fd);
    unsigned before = lab.evicted_count;
    assert_int_equal(lab_part(&put, "late", 0, 2 * MIB), 0);
    hr_put_finish(put.put, NULL);
    lab_wait(&put);
    assert_int_equal(put.error, 0);
    assert_true(lab.evicted_count > before);
    assert_true(lab_file_right(&lab, put.file_id, "late", 2 * MIB));
    /* And when nothing is left to give up, it is the truth. */
    assert_int_equal(hr_cache_make_room(lab.cache, 0), 0);
    assert_int_equal(lab_begin(&lab, &put, "too late", "e", MIB), 0);
    hr_cache_drop(lab.cache, lab_find(&lab, "late", "e")->file_id);
    for (int i = 0; i < 40; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        const struct hr_cached *cached = lab_find(&lab, key, "e");
        if (cached) {
            hr_cache_drop(lab.cache, cached->file_id);
        }
    }
    settle_unlinks(&lab);
    fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    while (write(fd, block, sizeof(block)) > 0) {
    }
    (void)close(fd);
    assert_int_equal(lab_part(&put, "too late", 0, MIB), 0);
    hr_put_finish(put.put, NULL);
    lab_wait(&put);
    assert_int_equal(put.error, -ENOSPC);
    assert_int_equal(lab_count(&lab, "spool"), 0);
    assert_int_equal(lab_count(&lab, "objects"), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(lab_put_whole(&lab, "again", "e", MIB, NULL, NULL), 0);
    lab_close(&lab);
    hr_loop_free(lab.loop);
    assert_int_equal(umount(mount_point), 0);
}

static void free_floor(void **state)
{
    struct lab *lab = *state;
    struct lab_put put;
    char message[256];
    const struct hr_cache_options options = {
        .dir = lab->dir,
        .size_bytes = 64 * MIB,
        .free_bytes = UINT64_MAX / 4, /* more than any disk has */
        .writer_threads = 1,
        .loop = lab->loop,
    };
    assert_int_equal(hr_cache_open(&options, message, &lab->cache), 0);
    assert_int_equal(lab_begin(lab, &put, "k", "e", 1), -ENOSPC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(put_and_find, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(put_bad_names, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(parts_any_order, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(numbers_and_folders, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(gap_is_an_error, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(every_verification, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(evicts_least_recently_used, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(drop_and_replace, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(small_budget, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(abort_everywhere, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(close_with_puts_under_way, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(each_of_a_source, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(full_disk, lab_set_up, lab_tear_down),
        cmocka_unit_test_setup_teardown(free_floor, lab_set_up, lab_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
