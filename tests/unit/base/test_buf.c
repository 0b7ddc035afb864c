/* hr_buf: ceiling, termination, exact first reservation, unchanged on failure. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "fetch/base/block.h"
#include "fetch/base/buf.h"

static void empty_buffer_is_usable(void **state)
{
    (void)state;
    struct hr_buf buf = HR_BUF_INIT(100);
    hr_buf_reset(&buf);
    hr_buf_release(&buf);
    assert_int_equal(hr_buf_append(&buf, "", 0), 0);
    assert_string_equal(buf.data, "");
    hr_buf_release(&buf);
    assert_null(buf.data);
    assert_int_equal(buf.ceiling, 100);
}

static void grows_to_the_ceiling_and_not_beyond(void **state)
{
    (void)state;
    for (size_t ceiling = 0; ceiling < 300; ceiling += 7) {
        struct hr_buf buf;
        hr_buf_init(&buf, ceiling);
        for (size_t i = 0; i < ceiling; i++) {
            char c = (char)('a' + i % 26);
            assert_int_equal(hr_buf_append(&buf, &c, 1), 0);
            assert_true(buf.len == i + 1 && buf.len <= buf.cap && buf.cap <= ceiling);
            assert_int_equal(buf.data[buf.len], '\0');
        }
        size_t len = buf.len, cap = buf.cap;
        char *data = buf.data;
        assert_int_equal(hr_buf_append(&buf, "x", 1), -EFBIG);
        assert_true(buf.len == len && buf.cap == cap && buf.data == data);
        for (size_t i = 0; i < ceiling; i++) {
            assert_int_equal(buf.data[i], 'a' + i % 26);
        }
        hr_buf_release(&buf);
    }
}

static void first_reservation_is_exact(void **state)
{
    (void)state;
    struct hr_buf buf = HR_BUF_INIT(1 << 20);
    assert_int_equal(hr_buf_reserve(&buf, 100000), 0);
    assert_int_equal(buf.cap, 100000);
    char *data = buf.data;
    for (int i = 0; i < 100; i++) {
        char piece[1000];
        memset(piece, i, sizeof(piece));
        assert_int_equal(hr_buf_append(&buf, piece, sizeof(piece)), 0);
    }
    assert_true(buf.data == data && buf.cap == 100000 && buf.len == 100000);
    assert_int_equal(hr_buf_append(&buf, "x", 1), 0);
    assert_int_equal(buf.cap, 200000);
    hr_buf_reset(&buf);
    assert_true(buf.len == 0 && buf.cap == 200000 && buf.data[0] == '\0');
    hr_buf_release(&buf);
}

static void splits_into_memory_of_its_own(void **state)
{
    (void)state;
    for (size_t at = 0; at <= 10; at += 5) {
        struct hr_buf buf = HR_BUF_INIT(100), rest = HR_BUF_INIT(10);
        assert_int_equal(hr_buf_append(&buf, "0123456789", 10), 0);
        assert_int_equal(hr_buf_split(&buf, at, &rest), 0);
        assert_true(buf.len == at && buf.cap == at && rest.len == 10 - at);
        assert_memory_equal(buf.data, "0123456789", at);
        assert_string_equal(rest.data, &"0123456789"[at]);
        assert_int_equal(buf.data[at], '\0');
        hr_buf_release(&buf);
        hr_buf_release(&rest);
    }
    struct hr_buf buf = HR_BUF_INIT(100), small = HR_BUF_INIT(4);
    assert_int_equal(hr_buf_split(&buf, 0, &small), 0);
    assert_int_equal(small.len, 0);
    assert_int_equal(hr_buf_append(&buf, "0123456789", 10), 0);
    assert_int_equal(hr_buf_split(&buf, 5, &small), -EFBIG);
    assert_string_equal(buf.data, "0123456789");
    hr_buf_release(&buf);
    hr_buf_release(&small);
    struct hr_buf body = HR_BUF_INIT(HR_BLOCK_BYTES), rest = HR_BUF_INIT(HR_BLOCK_BYTES);
    assert_int_equal(hr_buf_reserve_body(&body, HR_BLOCK_BYTES), 0);
    memset(body.data, 'b', HR_BLOCK_BYTES);
    body.len = HR_BLOCK_BYTES;
    assert_int_equal(hr_buf_split(&body, 1000, &rest), 0);
    assert_true(!body.is_block && body.len == 1000 && strlen(body.data) == 1000);
    assert_true(rest.len == HR_BLOCK_BYTES - 1000 && strlen(rest.data) == rest.len);
    hr_buf_release(&body);
    hr_buf_release(&rest);
}

static void overflow_is_refused(void **state)
{
    (void)state;
    struct hr_buf buf = HR_BUF_INIT(SIZE_MAX);
    assert_int_equal(hr_buf_puts(&buf, "abc"), 0);
    assert_int_equal(hr_buf_reserve(&buf, SIZE_MAX), -EFBIG);
    assert_int_equal(hr_buf_reserve(&buf, SIZE_MAX - 3), -ENOMEM);
    assert_string_equal(buf.data, "abc");
    hr_buf_release(&buf);
}

static void printf_appends_or_leaves(void **state)
{
    (void)state;
    struct hr_buf buf = HR_BUF_INIT(10);
    assert_int_equal(hr_buf_printf(&buf, "%d-%s", 12, "ab"), 0);
    assert_string_equal(buf.data, "12-ab");
    assert_int_equal(hr_buf_printf(&buf, "%s", "123456"), -EFBIG);
    assert_string_equal(buf.data, "12-ab");
    assert_int_equal(hr_buf_printf(&buf, "%s", "12345"), 0);
    assert_string_equal(buf.data, "12-ab12345");
    hr_buf_release(&buf);
}

static void bodies_take_blocks_in_turn(void **state)
{
    (void)state;
    struct hr_buf buf = HR_BUF_INIT(2 * (size_t)HR_BLOCK_BYTES);
    assert_int_equal(hr_buf_reserve_body(&buf, HR_BLOCK_LEAST_BYTES - 1), 0);
    assert_false(buf.is_block);
    hr_buf_release(&buf);
    assert_int_equal(hr_buf_reserve_body(&buf, HR_BLOCK_BYTES + 1), 0);
    assert_false(buf.is_block);
    hr_buf_release(&buf);

    assert_int_equal(hr_buf_reserve_body(&buf, HR_BLOCK_BYTES), 0);
    assert_true(buf.is_block && buf.cap == HR_BLOCK_BYTES && buf.len == 0);
    assert_string_equal(buf.data, "");
    char *block = buf.data;
    hr_buf_release(&buf);
    assert_true(!buf.data && !buf.is_block);
    assert_int_equal(hr_blocks_idle(), 1);
    assert_int_equal(hr_buf_reserve_body(&buf, HR_BLOCK_LEAST_BYTES), 0);
    assert_ptr_equal(buf.data, block);
    assert_int_equal(hr_blocks_idle(), 0);

    /* What was announced is exceeded: the bytes stay, the block goes back. */
    for (size_t i = 0; i <= HR_BLOCK_LEAST_BYTES; i += 1024) {
        char piece[1024];
        memset(piece, (int)(i >> 10), sizeof(piece));
        assert_int_equal(hr_buf_append(&buf, piece, sizeof(piece)), 0);
    }
    assert_false(buf.is_block);
    assert_int_equal(hr_blocks_idle(), 1);
    for (size_t i = 0; i < buf.len; i += 1024) {
        assert_int_equal((unsigned char)buf.data[i], (i >> 10) & 0xff);
    }
    hr_buf_release(&buf);
}

static void blocks_that_nobody_needs_are_given_back(void **state)
{
    (void)state;
    char *one = hr_block_take(), *two = hr_block_take();
    assert_true(one && two);
    memset(two, 1, HR_BLOCK_BYTES + 1);
    hr_block_give(one);
    hr_block_give(two);
    hr_blocks_trim(); /* both were needed since the last time */
    assert_int_equal(hr_blocks_idle(), 2);
    hr_block_give(hr_block_take());
    hr_blocks_trim(); /* one was */
    assert_int_equal(hr_blocks_idle(), 1);
    hr_blocks_trim();
    assert_int_equal(hr_blocks_idle(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_buffer_is_usable),
        cmocka_unit_test(grows_to_the_ceiling_and_not_beyond),
        cmocka_unit_test(first_reservation_is_exact),
        cmocka_unit_test(splits_into_memory_of_its_own),
        cmocka_unit_test(overflow_is_refused),
        cmocka_unit_test(printf_appends_or_leaves),
        cmocka_unit_test(bodies_take_blocks_in_turn),
        cmocka_unit_test(blocks_that_nobody_needs_are_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
