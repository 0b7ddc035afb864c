/* Building an index from keys in a directory of the test's own, and writing a tree down as one line of text.
 */
#ifndef HR_TEST_LIST_TREE_H
#define HR_TEST_LIST_TREE_H

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fetch/base/buf.h"
#include "fetch/list/publish.h"

#define TREE_ID 0x0123456789abcdefull
#define LISTED_NS 1234567890123456789ll

static inline char *scratch_new(void)
{
    char name[] = "/tmp/hr-list-XXXXXX";
    assert_non_null(mkdtemp(name));
    return strdup(name);
}

static inline unsigned files_in(const char *dir)
{
    unsigned count = 0;
    DIR *stream = opendir(dir);

    assert_non_null(stream);
    for (const struct dirent *entry = readdir(stream); entry; entry = readdir(stream)) {
        count += entry->d_name[0] != '.';
    }
    closedir(stream);
    return count;
}

static inline void scratch_remove(char *dir)
{
    DIR *stream = opendir(dir);

    assert_non_null(stream);
    for (const struct dirent *entry = readdir(stream); entry; entry = readdir(stream)) {
        (void)unlinkat(dirfd(stream), entry->d_name, 0);
    }
    closedir(stream);
    assert_int_equal(rmdir(dir), 0);
    free(dir);
}

static inline void put_escaped(struct hr_buf *out, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        assert_int_equal(byte > ' ' && byte < 0x7f ? hr_buf_append(out, bytes + i, 1)
                                                   : hr_buf_printf(out, "<%02x>", byte),
                         0);
    }
}

/* Everything below a directory, parents first: "a/ a/b=3 c=1" (blanks and odd bytes as <20>). Checks on the
 * way that what is walked to can be looked up. */
static inline void put_tree(struct hr_buf *out, const struct hr_index *index, uint32_t dir)
{
    char path[HR_KEY_MAX + 1];

    for (uint32_t n = 0; n < hr_index_child_count(index, dir); n++) {
        uint32_t entry = hr_index_child(index, dir, n);
        uint32_t found = 0;
        uint32_t name_len;
        const char *name = hr_index_name(index, entry, &name_len);
        int len = hr_index_path(index, entry, path, sizeof(path));
        assert_true(len > 0);
        assert_int_equal(hr_index_lookup(index, path, (size_t)len, &found), 0);
        assert_int_equal(found, entry);
        assert_int_equal(hr_index_seek(index, dir, name, name_len), n);
        if (out->len > 0) {
            assert_int_equal(hr_buf_puts(out, " "), 0);
        }
        put_escaped(out, path, (size_t)len);
        if (index->entries[entry].kind == HR_KIND_DIR) {
            assert_int_equal(hr_buf_puts(out, "/"), 0);
            put_tree(out, index, entry);
        } else {
            assert_int_equal(hr_buf_printf(out, "=%llu", (unsigned long long)index->entries[entry].size), 0);
        }
    }
}

static inline char *tree_text(const struct hr_index *index)
{
    struct hr_buf out = HR_BUF_INIT(16 << 20);

    assert_int_equal(hr_buf_puts(&out, ""), 0);
    put_tree(&out, index, 0);
    return out.data ? out.data : strdup("");
}

#endif
