#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/stat.h>
#include <zlib.h>

#include "fetch/list/textfile.h"
#include "fetch/list/textlist.h"

static char folder[] = "/tmp/hr-textlist-XXXXXX";

struct read {
    struct hr_index index;
    struct hr_textlist_figures figures;
    char message[HR_TEXTLIST_MESSAGE_BYTES];
};

/* Reads text in pieces of `step` bytes into an index. The first error. */
static int read_text(const char *text, size_t len, size_t step, const struct hr_textlist_columns *columns,
                     const struct hr_filter *filter, struct read *ret)
{
    struct hr_index_builder *builder;
    struct hr_textlist *list;
    assert_int_equal(hr_builder_new(&builder), 0);
    struct hr_textlist_options options = {.columns = *columns,
                                          .bucket = "bkt",
                                          .prefix = "p/",
                                          .prefix_len = 2,
                                          .filter = filter,
                                          .builder = builder};
    assert_int_equal(hr_textlist_new(&options, &list), 0);
    *ret = (struct read){.message = ""};
    int error = 0;
    for (size_t at = 0; at < len && error == 0; at += step) {
        error = hr_textlist_feed(list, text + at, len - at < step ? len - at : step, ret->message);
    }
    error = error == 0 ? hr_textlist_end(list, ret->message) : error;
    hr_textlist_figures(list, &ret->figures);
    if (error == 0) {
        assert_int_equal(hr_builder_publish(builder, folder, 1, 1, 77, &ret->index), 0);
        assert_int_equal(hr_index_check(&ret->index, NULL), 0);
    }
    hr_textlist_free(list);
    hr_builder_free(builder);
    return error;
}

static int read_plain(const char *text, struct read *ret)
{
    return read_text(text, strlen(text), SIZE_MAX / 2, &hr_textlist_plain, NULL, ret);
}

static const struct hr_entry *entry_of(const struct read *read, const char *path)
{
    uint32_t entry;
    int error = hr_index_lookup(&read->index, path, strlen(path), &entry);
    return error < 0 ? NULL : &read->index.entries[entry];
}

static void expect_etag(const struct read *read, const char *path, const char *etag)
{
    char have[HR_INDEX_ETAG_MAX + 1];
    assert_true(hr_index_etag(&read->index, (uint32_t)(entry_of(read, path) - read->index.entries), have,
                              sizeof have) >= 0);
    assert_string_equal(have, etag);
}

#define MD5 "0123456789abcdef0123456789abcdef"

static const char fields[] = "p/a,5,2026-11-21T10:00:00.000Z," MD5 "\r\n"
                             "p/d/b,0,1795255200.25,\"\"\"odd tag\"\"\"\n"
                             "\n"
                             "\"p/c, \"\"x\"\"\ny\",7,1795255200\n"
                             "p/%25%0A+,8,1795255200,\n"
                             "p/alone\n"
                             "p/half,9\n"
                             "p/,0,1795255200,\n"
                             "q/other,1,1,";

static void test_rows(void **state)
{
    (void)state;
    for (size_t step = 1; step < 40; step += step < 4 ? 1 : 7) {
        struct read read;
        assert_int_equal(read_text(fields, sizeof fields - 1, step, &hr_textlist_plain, NULL, &read), 0);
        assert_int_equal(read.figures.rows, 8);
        assert_int_equal(read.figures.keys, 7);
        assert_int_equal(read.figures.outside, 1);
        assert_int_equal(read.figures.unknown, 2);
        assert_int_equal(read.index.names->file_count, 6);
        assert_int_equal(read.index.names->unknown_count, 2);
        assert_int_equal(entry_of(&read, "a")->size, 5);
        assert_int_equal(entry_of(&read, "a")->mtime_ns, 1795255200000000000);
        expect_etag(&read, "a", MD5);
        assert_int_equal(entry_of(&read, "d/b")->mtime_ns, 1795255200250000000);
        expect_etag(&read, "d/b", "odd tag");
        assert_int_equal(entry_of(&read, "c, \"x\"\ny")->size, 7);
        assert_int_equal(entry_of(&read, "%\n+")->size, 8);
        assert_int_equal(entry_of(&read, "alone")->etag_kind, HR_ETAG_UNKNOWN);
        assert_int_equal(entry_of(&read, "alone")->size, 0);
        assert_int_equal(entry_of(&read, "half")->etag_kind, HR_ETAG_UNKNOWN);
        assert_int_equal(entry_of(&read, "half")->size, 0);
        assert_int_equal(entry_of(&read, "")->mtime_ns, 1795255200250000000); /* none of an unknown one */
        hr_index_unmap(&read.index);
    }
}

static void test_empty_files(void **state)
{
    static const char *const texts[] = {"", "\n", "\r\n\r\n", "\r", "q/x\n"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct read read;
        assert_int_equal(read_plain(texts[i], &read), 0);
        assert_int_equal(read.index.names->file_count, 0);
        hr_index_unmap(&read.index);
    }
}

static void test_faults_name_their_line(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"p/a\np/b,x\n", "line 2: this is no size: 'x'"},
        {"p/a,99999999999999999999", "line 1: this is no size: '99999999999999999999'"},
        {"p/a,+1", "line 1: this is no size: '+1'"},
        {"p/a,1,2026-13-01T00:00:00Z", "line 1: this is no time: '2026-13-01T00:00:00Z'"},
        {"p/a,1,-5", "line 1: this is no time: '-5'"},
        {"\"p/a\nb\"\np/%zz", "line 3: a '%' in a key is written %25, any byte but 0 as %XX: 'p/%zz'"},
        {"p/%00", "line 1: a '%' in a key is written %25, any byte but 0 as %XX: 'p/%00'"},
        {"\n\n\"p/a", "line 3: a quote that does not end"},
        {"\"p/a\"b", "line 1: something follows the closing quote"},
        {"p/a\rb", "line 1: a carriage return that no line feed follows; quote the field"},
        {",1,2", "line 1: there is no key"},
        {"\"\"", "line 1: there is no key"},
        {"p/a,1\x01", "line 1: this is no size: '1?'"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct read read;
        assert_int_equal(read_plain(cases[i].text, &read), -EINVAL);
        assert_string_equal(read.message, cases[i].message);
    }
}

static void test_rows_that_are_too_much(void **state)
{
    struct read read;
    char *text = malloc(70000);
    (void)state;
    memset(text, 'x', 70000);
    assert_int_equal(read_text(text, 70000, 4096, &hr_textlist_plain, NULL, &read), -EINVAL);
    assert_string_equal(read.message, "line 1: it is too long");
    memset(text, ',', 200);
    memcpy(text, "p/a", 3);
    assert_int_equal(read_text(text, 200, 200, &hr_textlist_plain, NULL, &read), -EINVAL);
    assert_string_equal(read.message, "line 1: too many fields");
    memset(text, 'y', 70000);
    memcpy(text, "p/", 2);
    assert_int_equal(read_text(text, 3000, 3000, &hr_textlist_plain, NULL, &read), 0); /* no path: hidden */
    assert_int_equal(read.index.names->file_count, 0);
    assert_int_equal(read.index.names->hidden_count, 1);
    hr_index_unmap(&read.index);
    free(text);
}

static void test_inventory(void **state)
{
    struct hr_textlist_columns columns;
    struct read read;
    static const char text[] =
        "\"bkt\",\"p/a+b%2B\",\"v2\",\"true\",\"false\",\"5\",\"2026-11-21T10:00:00.000Z\",\"" MD5 "\"\n"
        "\"bkt\",\"p/a+b%2B\",\"v1\",\"false\",\"false\",\"4\",\"2025-11-21T10:00:00.000Z\",\"" MD5 "\"\n"
        "\"bkt\",\"p/gone\",\"v1\",\"true\",\"true\",\"\",\"2025-11-21T10:00:00.000Z\",\"\"\n";
    (void)state;
    assert_true(hr_textlist_inventory(text, sizeof text - 1, "bkt", &columns));
    assert_int_equal(columns.size, 5);
    assert_int_equal(read_text(text, sizeof text - 1, 11, &columns, NULL, &read), 0);
    assert_int_equal(read.figures.gone, 2);
    assert_int_equal(read.index.names->file_count, 1);
    assert_int_equal(entry_of(&read, "a b+")->size, 5);
    hr_index_unmap(&read.index);
    static const char other[] = "\"bkt\",\"p/a\",\"5\",\"2026-11-21T10:00:00Z\"\n\"b2\",\"p/a\",\"5\",\"\"\n";
    assert_true(hr_textlist_inventory(other, sizeof other - 1, "bkt", &columns));
    assert_int_equal(columns.is_latest, HR_TEXTLIST_NONE);
    assert_int_equal(columns.size, 2);
    assert_int_equal(read_text(other, sizeof other - 1, 4096, &columns, NULL, &read), -EINVAL);
    assert_string_equal(read.message, "line 2: it is of another bucket: 'b2'");
    assert_false(hr_textlist_inventory("bkt,5,1795255200,x\n", 19, "bkt", &columns)); /* a key of that name */
    assert_false(hr_textlist_inventory("bkt\n", 4, "bkt", &columns));
    assert_false(hr_textlist_inventory("", 0, "bkt", &columns));
    assert_int_equal(hr_textlist_schema("Size, Bucket", &columns), -EINVAL);
    assert_int_equal(hr_textlist_schema("Size,Other , Key ", &columns), 0);
    assert_int_equal(columns.key, 2);
    assert_int_equal(columns.size, 0);
    assert_int_equal(columns.etag, HR_TEXTLIST_NONE);
}

static void test_filter_of_the_map(void **state)
{
    struct hr_filter *filter;
    struct read read;
    char why[256];
    (void)state;
    assert_int_equal(hr_filter_new("*.jpg", "", &filter, why), 0);
    static const char text[] = "p/a.jpg\np/b.txt\n";
    assert_int_equal(read_text(text, sizeof text - 1, 64, &hr_textlist_plain, filter, &read), 0);
    assert_int_equal(read.index.names->file_count, 1);
    hr_index_unmap(&read.index);
    hr_filter_free(filter);
}

/* ---- files ---- */

static void write_file(const char *path, const void *bytes, size_t len)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, len, out), len);
    assert_int_equal(fclose(out), 0);
}

static int64_t read_file(const char *path, char *bytes, size_t room)
{
    struct hr_textfile *file;
    int error = hr_textfile_open(path, &file);
    if (error < 0) {
        return error;
    }
    int64_t got = hr_textfile_read(file, bytes, room);
    hr_textfile_close(file);
    return got;
}

static void test_files(void **state)
{
    char path[64], have[8192], text[5000], zipped[8192];
    (void)state;
    snprintf(path, sizeof path, "%s/file", folder);
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (char)((i * 2654435761u) >> 13); /* does not compress */
    }
    write_file(path, text, sizeof text);
    assert_int_equal(read_file(path, have, sizeof have), sizeof text);
    assert_memory_equal(have, text, sizeof text);
    gzFile out = gzopen(path, "wb");
    assert_int_equal(gzwrite(out, text, sizeof text), sizeof text);
    assert_int_equal(gzclose(out), Z_OK);
    assert_int_equal(read_file(path, have, sizeof have), sizeof text);
    assert_memory_equal(have, text, sizeof text);
    FILE *in = fopen(path, "rb");
    size_t len = fread(zipped, 1, sizeof zipped, in);
    fclose(in);
    for (size_t cut = 20; cut < len; cut += 500) {
        write_file(path, zipped, cut);
        assert_int_equal(read_file(path, have, sizeof have), -EBADMSG);
    }
    zipped[len - 6] = (char)(zipped[len - 6] ^ 1); /* of its CRC */
    write_file(path, zipped, len);
    assert_int_equal(read_file(path, have, sizeof have), -EBADMSG);
    assert_int_equal(read_file(folder, have, sizeof have), -EISDIR);
    (void)unlink(path);
    assert_int_equal(read_file(path, have, sizeof have), -ENOENT);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(read_file(path, have, sizeof have), -EINVAL);
    (void)unlink(path);
}

static void expect_foreign(const char *bytes, size_t len, const char *what)
{
    const char *have = hr_textlist_foreign(bytes, len);
    if (!what != !have || (what && !strstr(have, what))) {
        fail_msg("%.8s: %s", bytes, have ? have : "(text)");
    }
}

/* Files that are no lists are told by what they are; names that begin alike are names. */
static void test_foreign_files(void **state)
{
    static const char manifest[] = " {\n \"sourceBucket\": \"b\", \"fileSchema\": \"Bucket, Key\"}";
    (void)state;
    expect_foreign("PAR1\x15\0\x15", 7, "Parquet");
    expect_foreign("ORC\x0a\0", 5, "ORC");
    expect_foreign("\x28\xb5\x2f\xfd\0", 5, "zstd");
    expect_foreign("\x04\x22\x4d\x18\0", 5, "lz4");
    expect_foreign("\0\0", 2, "no text");
    expect_foreign("{\"headrace_index\":1}\n\0", 23, "headrace index import");
    expect_foreign(manifest + 1, sizeof manifest - 2, "headrace index import");
    expect_foreign("PAR1\nPAR1/x\n", 12, NULL);
    expect_foreign("ORC/a,5,1795255200\n", 19, NULL);
    expect_foreign("BZh", 3, NULL);
    expect_foreign("{a},5,1795255200\n", 17, NULL);
    expect_foreign("", 0, NULL);
}

/* ---- an index of another node ---- */

static void test_import_of_a_names_file(void **state)
{
    struct read read;
    struct hr_index index;
    char path[64];
    (void)state;
    assert_int_equal(read_plain("p/a,5,1795255200," MD5 "\np/alone\n", &read), 0);
    size_t len = (size_t)read.index.names->file_bytes;
    char *bytes = malloc(len + 10);
    memcpy(bytes, "0123456789", 10);
    memcpy(bytes + 10, read.index.names, len);
    hr_index_unmap(&read.index);
    snprintf(path, sizeof path, "%s/moved", folder);
    for (size_t flip = 0; flip <= len; flip++) {
        bool whole = flip == len;
        if (!whole) {
            bytes[10 + flip] ^= 0x10;
        }
        write_file(path, bytes, len + 10);
        FILE *file = fopen(path, "rb");
        int error = hr_index_import(folder, fileno(file), 10, 2, 9, &index);
        assert_int_equal(error == 0, whole); /* every byte counts */
        if (whole) {
            assert_int_equal(index.names->tree_id, 2);
            assert_int_equal(index.names->gen, 9);
            assert_int_equal(index.names->listed_ns, 77);
            read.index = index;
            assert_int_equal(entry_of(&read, "a")->size, 5);
            hr_index_unmap(&index);
        } else {
            assert_true(error == -EBADMSG || error == -EPROTONOSUPPORT);
            bytes[10 + flip] ^= 0x10;
        }
        fclose(file);
    }
    write_file(path, bytes, len);
    FILE *file = fopen(path, "rb");
    assert_int_equal(hr_index_import(folder, fileno(file), 10, 2, 10, &index), -EBADMSG);
    fclose(file);
    free(bytes);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[96];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_empty_files),
        cmocka_unit_test(test_faults_name_their_line),
        cmocka_unit_test(test_rows_that_are_too_much),
        cmocka_unit_test(test_inventory),
        cmocka_unit_test(test_filter_of_the_map),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_foreign_files),
        cmocka_unit_test(test_import_of_a_names_file),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
