#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/ini.h"

/* What was reported, as "line:section|key|value" lines. */
struct seen {
    char text[4096];
    size_t len;
    unsigned calls, stop_at; /* stop with -ECANCELED at this call */
};

static int note(void *owner, const char *section, const char *key, const char *value, unsigned line)
{
    struct seen *seen = owner;
    if (++seen->calls == seen->stop_at) {
        return -ECANCELED;
    }
    int len = snprintf(seen->text + seen->len, sizeof(seen->text) - seen->len, "%u:%s|%s|%.40s\n", line,
                       section, key, value);
    assert_true(len > 0 && (size_t)len < sizeof(seen->text) - seen->len);
    seen->len += (size_t)len;
    return 0;
}

/* The exact bytes in a block of their own, so that a sanitizer sees a step beyond them. */
static int parse(const char *text, size_t len, struct seen *seen, struct hr_ini_error *error)
{
    char *exact = malloc(len ? len : 1);
    assert_non_null(exact);
    memcpy(exact, text, len);
    int result = hr_ini_parse(exact, len, note, seen, error);
    free(exact);
    return result;
}

static void good_texts(void **state)
{
    static const struct {
        const char *text, *seen;
    } cases[] = {
        {"", ""},
        {"\n\n  \n# c\n;c\n   # c\n", ""},
        {"memory = 1G", "1:|memory|1G\n"},
        {"memory=1G\r\nname = a = b\r\n", "1:|memory|1G\n2:|name|a = b\n"},
        {"\xef\xbb\xbfk = v\n", "1:|k|v\n"},
        {"k =\n", "1:|k|\n"},
        {"k = v # comment\nl = a#b;c\nm = # comment\nn = x\t;y\n", "1:|k|v\n2:|l|a#b;c\n3:|m|\n4:|n|x\n"},
        {"[default]\nk = v\n[ profile dev ]  # c\nl = w\n[x]\n", "2:default|k|v\n4:profile dev|l|w\n"},
        {"[profile \"a b\"]\nk=v", "2:profile \"a b\"|k|v\n"},
        {"[p]\ns3 =\n  addressing_style = path\n\n  max = 2\nregion = r\n",
         "2:p|s3|\n3:p|s3.addressing_style|path\n5:p|s3.max|2\n6:p|region|r\n"},
        {"[p]\n  a = 1\n  s3 =\n    x = y\n  b = 2\n", "2:p|a|1\n3:p|s3|\n4:p|s3.x|y\n5:p|b|2\n"},
        {"[p]\ns3 =\n  x = y\n[q]\n  z = 1\n", "2:p|s3|\n3:p|s3.x|y\n5:q|z|1\n"},
        {"a b = c d\n", "1:|a b|c d\n"},
        {"a =\nb = 1\n", "1:|a|\n2:|b|1\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct seen seen = {0};
        assert_int_equal(parse(cases[i].text, strlen(cases[i].text), &seen, NULL), 0);
        assert_string_equal(seen.text, cases[i].seen);
    }
}

static void broken_texts(void **state)
{
    static const struct {
        const char *text;
        unsigned line;
        const char *message;
    } cases[] = {
        {"a = 1\nnonsense\n", 2, "no '='; write name = value"},
        {" = 1\n", 1, "no name before '='"},
        {"\n[abc\n", 2, "'[' without ']'"},
        {"[]\n", 1, "a section without a name"},
        {"[ ]\n", 1, "a section without a name"},
        {"[a] b = c\n", 1, "text after ']'"},
        {"a = 1\n  b = 2\n", 2, "indented deeper than the line above, which has a value of its own"},
        {"a =\n  b\n", 2, "no '='; write name = value"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct seen seen = {0};
        struct hr_ini_error error = {0};
        assert_int_equal(parse(cases[i].text, strlen(cases[i].text), &seen, &error), -EBADMSG);
        assert_int_equal(error.line, cases[i].line);
        assert_string_equal(error.message, cases[i].message);
        assert_int_equal(parse(cases[i].text, strlen(cases[i].text), &seen, NULL), -EBADMSG);
    }
}

static void zero_byte(void **state)
{
    struct seen seen = {0};
    struct hr_ini_error error = {0};
    (void)state;
    assert_int_equal(parse("a = 1\nb = \0x\n", 13, &seen, &error), -EBADMSG);
    assert_int_equal(error.line, 2);
    assert_string_equal(seen.text, "1:|a|1\n");
}

static void long_lines(void **state)
{
    static char text[HR_INI_LINE_MAX + 16];
    (void)state;
    for (unsigned over = 0; over < 2; over++) {
        struct seen seen = {0};
        struct hr_ini_error error = {0};
        memset(text, 'v', sizeof(text));
        memcpy(text, "k = ", 4);
        text[HR_INI_LINE_MAX + over] = '\n';
        assert_int_equal(parse(text, HR_INI_LINE_MAX + over + 1, &seen, &error), over ? -EBADMSG : 0);
        assert_int_equal(seen.calls, !over);
    }
    /* Names: the longest, one byte more, and one that only joined is too long. */
    for (unsigned over = 0; over < 2; over++) {
        struct seen seen = {0};
        memset(text, 'k', sizeof(text));
        memcpy(text + HR_INI_NAME_MAX + over, "=1\n", 3);
        assert_int_equal(hr_ini_parse(text, HR_INI_NAME_MAX + over + 3, note, &seen, NULL),
                         over ? -EBADMSG : 0);
        memset(text, 'k', sizeof(text));
        text[0] = '[';
        text[HR_INI_NAME_MAX + over + 1] = ']';
        assert_int_equal(hr_ini_parse(text, HR_INI_NAME_MAX + over + 2, note, &seen, NULL),
                         over ? -EBADMSG : 0);
        memset(text, 'k', sizeof(text));
        memcpy(text, "p=\n ", 4);
        memcpy(text + 4 + HR_INI_NAME_MAX - 2 + over, "=1\n", 3);
        assert_int_equal(hr_ini_parse(text, HR_INI_NAME_MAX + over + 5, note, &seen, NULL),
                         over ? -EBADMSG : 0);
    }
}

static void callback_stops(void **state)
{
    struct seen seen = {.stop_at = 2};
    struct hr_ini_error error = {.message = "x"};
    (void)state;
    assert_int_equal(parse("a=1\n\nb=2\nc=3\n", 13, &seen, &error), -ECANCELED);
    assert_int_equal(seen.calls, 2);
    assert_int_equal(error.line, 3);
    assert_null(error.message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_texts), cmocka_unit_test(broken_texts),   cmocka_unit_test(zero_byte),
        cmocka_unit_test(long_lines), cmocka_unit_test(callback_stops),
    };
    return cmocka_run_group_tests_name("config/ini", tests, NULL, NULL);
}
