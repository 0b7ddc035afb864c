/* The journal's record codec: what goes in comes out; what is cut, bent or out of bounds does not. */
#include "tests/unit/cache/lab.h"

#include "fetch/cache/record.h"

static struct hr_record sample(const char *key, const char *etag)
{
    struct hr_record record = {
        .kind = HR_RECORD_OBJECT,
        .epoch = 9,
        .id = {5, 4, 3},
        .file_id = 0x123456789abcull,
        .size = 102400,
        .ino = 3333,
        .salt = 44,
        .mtime_ns = -5,
        .written_s = 1800000000,
        .nonce = 999999999,
        .dev = 17,
        .key = key,
        .key_len = (uint16_t)strlen(key),
        .etag = etag,
        .etag_len = (uint16_t)strlen(etag),
    };
    return record;
}

/* The same as a face's (1) or a segment's (2). */
static struct hr_record sample_of(uint16_t cached)
{
    struct hr_record record = sample("key", "etag");
    record.cached = cached;
    if (cached == HR_CACHED_SEGMENT) {
        record.face_id = record.file_id - 1;
        record.offset = 77ull << 23;
    }
    return record;
}

static void assert_same(const struct hr_record *a, const struct hr_record *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->epoch, b->epoch);
    assert_memory_equal(a->id, b->id, sizeof(a->id));
    assert_true(a->file_id == b->file_id && a->size == b->size && a->ino == b->ino && a->salt == b->salt);
    assert_true(a->mtime_ns == b->mtime_ns && a->written_s == b->written_s);
    assert_true(a->nonce == b->nonce && a->dev == b->dev);
    assert_true(a->cached == b->cached && a->face_id == b->face_id && a->offset == b->offset);
    assert_int_equal(a->key_len, b->key_len);
    assert_int_equal(a->etag_len, b->etag_len);
    assert_memory_equal(a->key, b->key, a->key_len);
    assert_memory_equal(a->etag, b->etag, a->etag_len);
}

static void round_trip(void **state)
{
    (void)state;
    char long_key[HR_KEY_MAX + 1];
    char long_etag[HR_ETAG_BYTES_MAX + 1];
    memset(long_key, 'k', HR_KEY_MAX);
    memset(long_etag, 'e', HR_ETAG_BYTES_MAX);
    long_key[HR_KEY_MAX] = long_etag[HR_ETAG_BYTES_MAX] = '\0';
    const char *const keys[] = {"a", "train/n01440764/x.JPEG", "\xff\x01 odd", long_key};
    const char *const etags[] = {"", "d41d8cd98f00b204e9800998ecf8427e", "x-1", long_etag};
    for (size_t k = 0; k < 4; k++) {
        for (size_t e = 0; e < 4; e++) {
            struct hr_buf bytes = HR_BUF_INIT(1 << 16);
            struct hr_record in = sample(keys[k], etags[e]);
            struct hr_record out;
            size_t used = 0;
            assert_int_equal(hr_record_encode(&in, &bytes), 0);
            assert_int_equal(bytes.len, hr_record_bytes(in.key_len, in.etag_len));
            assert_true(bytes.len <= HR_RECORD_BYTES_MAX);
            assert_int_equal(hr_record_decode(bytes.data, bytes.len, &out, &used), 0);
            assert_int_equal(used, bytes.len);
            assert_same(&in, &out);
            hr_buf_release(&bytes);
        }
    }
}

static void kinds(void **state)
{
    (void)state;
    for (uint16_t cached = HR_CACHED_WHOLE; cached <= HR_CACHED_SEGMENT; cached++) {
        struct hr_buf bytes = HR_BUF_INIT(1 << 16);
        struct hr_record in = sample_of(cached);
        struct hr_record out;
        size_t used = 0;
        assert_int_equal(hr_record_encode(&in, &bytes), 0);
        assert_int_equal(hr_record_decode(bytes.data, bytes.len, &out, &used), 0);
        assert_same(&in, &out);
        bytes.data[3] = '1'; /* the magic of the layout before */
        assert_int_equal(hr_record_decode(bytes.data, bytes.len, &out, &used), -EBADMSG);
        hr_buf_release(&bytes);
    }
}

static void cut_or_bent(void **state)
{
    (void)state;
    struct hr_buf bytes = HR_BUF_INIT(1 << 16);
    struct hr_record in = sample("some/key", "etag");
    struct hr_record out;
    size_t used = 12345;
    assert_int_equal(hr_record_encode(&in, &bytes), 0);
    for (size_t len = 0; len < bytes.len; len++) {
        assert_int_equal(hr_record_decode(bytes.data, len, &out, &used), -EAGAIN);
    }
    for (size_t bit = 0; bit < bytes.len * 8; bit++) {
        bytes.data[bit / 8] = (char)(bytes.data[bit / 8] ^ (1 << (bit % 8)));
        assert_true(hr_record_decode(bytes.data, bytes.len, &out, &used) < 0);
        bytes.data[bit / 8] = (char)(bytes.data[bit / 8] ^ (1 << (bit % 8)));
    }
    assert_int_equal(used, 12345);
    hr_buf_release(&bytes);
}

static void out_of_bounds(void **state)
{
    (void)state;
    struct hr_buf bytes = HR_BUF_INIT(1 << 16);
    struct hr_record bad[11];
    for (size_t i = 0; i < 11; i++) {
        bad[i] = sample("key", "etag");
    }
    bad[0].nonce = 1000000000;
    bad[1].file_id = 0;
    bad[2].ino = 0;
    bad[3].ino = HR_INO_GONE;
    bad[4].size = UINT64_MAX;
    bad[5].key_len = 0;
    bad[6].key = "k\0y";
    bad[7].etag_len = HR_ETAG_BYTES_MAX + 1;
    bad[8].file_id =
        (uint64_t)HR_FILE_ID_MAX + 1; /* the next number of it, or of an epoch, could be an old one */
    bad[9].epoch = (uint32_t)INT32_MAX + 1;
    bad[10] = (struct hr_record){.kind = HR_RECORD_IDS, .file_id = UINT64_MAX};
    for (size_t i = 0; i < 11; i++) {
        assert_int_equal(hr_record_encode(&bad[i], &bytes), -EINVAL);
        assert_int_equal(bytes.len, 0);
    }
    hr_buf_release(&bytes);
}

static void kinds_out_of_bounds(void **state)
{
    (void)state;
    struct hr_buf bytes = HR_BUF_INIT(1 << 16);
    struct hr_record bad[11];
    for (size_t i = 0; i < 11; i++) {
        bad[i] = sample_of(i < 3 ? HR_CACHED_FACE : HR_CACHED_SEGMENT);
    }
    bad[0].face_id = 1;
    bad[1].offset = 4096;
    bad[2].cached = 3;
    bad[3].face_id = 0;
    bad[4].face_id = bad[4].file_id; /* a face is older than its segments */
    bad[5].face_id = UINT64_MAX;
    bad[6].size = 0;
    bad[7].size = HR_CELL_BYTES + 1;
    bad[8].offset = UINT64_MAX;
    bad[9].cached = HR_CACHED_WHOLE;
    bad[10].kind = HR_RECORD_SYNCED;
    bad[10].key_len = bad[10].etag_len = 0;
    for (size_t i = 0; i < 11; i++) {
        assert_int_equal(hr_record_encode(&bad[i], &bytes), -EINVAL);
    }
    assert_int_equal(bytes.len, 0);
    hr_buf_release(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),          cmocka_unit_test(kinds),
        cmocka_unit_test(cut_or_bent),         cmocka_unit_test(out_of_bounds),
        cmocka_unit_test(kinds_out_of_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
