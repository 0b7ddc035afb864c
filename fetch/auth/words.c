/* A command line's words. */
#include "fetch/auth/process.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* One word from *at to `out`; returns its end in out, NULL when a quote or an escape is open. */
static char *take_word(const char **at, char *out)
{
    char quote = '\0';

    for (; **at != '\0' && (quote != '\0' || !is_blank(**at)); (*at)++) {
        char c = **at;

        if (quote == '\0' && (c == '\'' || c == '"')) {
            quote = c;
        } else if (c == quote) {
            quote = '\0';
        } else if (c == '\\' && (quote == '\0' || (quote == '"' && ((*at)[1] == '"' || (*at)[1] == '\\')))) {
            if ((*at)[1] == '\0') {
                return NULL;
            }
            *out++ = *++*at;
        } else {
            *out++ = c;
        }
    }
    return quote == '\0' ? out : NULL;
}

int hr_words(const char *line, char ***ret_words)
{
    size_t len = strlen(line), most = len / 2 + 2, count = 0;
    char **words = malloc(most * sizeof(*words) + len + 1);

    if (words == NULL) {
        return -ENOMEM;
    }
    char *out = (char *)(words + most);
    for (;;) {
        line += strspn(line, " \t\r\n");
        if (*line == '\0') {
            break;
        }
        words[count++] = out;
        out = take_word(&line, out);
        if (out == NULL) {
            free(words);
            return -EINVAL;
        }
        *out++ = '\0';
    }
    if (count == 0) {
        free(words);
        return -EINVAL;
    }
    words[count] = NULL;
    *ret_words = words;
    return 0;
}
