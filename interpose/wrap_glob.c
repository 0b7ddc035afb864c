/* glob and wordexp: libc walks past every hook here, so a pattern that may lead into a map is matched by
 * libc's own code over our opendir, readdir and stat (GLOB_ALTDIRFUNC). */
#define HR_HEAP_BY_CONTRACT /* the words of a wordexp_t are freed by wordfree */
#include <glob.h>
#include <wordexp.h>

#include "interpose/cwd.h"
#include "interpose/door.h"
#include "interpose/inner.h"

_Static_assert(sizeof(glob_t) == sizeof(glob64_t) &&
                   offsetof(glob_t, gl_closedir) == offsetof(glob64_t, gl_closedir),
               "one layout serves both names on 64-bit machines");

/* ---- does a pattern lead into a map? ---- */

/* Bytes before the first character that may stand for something else. A backslash counts: behind it the text
 * is not what it says. */
static size_t plain_bytes(const char *pattern, int flags)
{
    size_t len = strcspn(pattern, flags & GLOB_BRACE ? "*?[\\{" : "*?[\\");
    return (flags & (GLOB_TILDE | GLOB_TILDE_CHECK)) && pattern[0] == '~' ? 0 : len;
}

static bool starts_anywhere(const char *pattern, int flags)
{
    return ((flags & GLOB_BRACE) && pattern[0] == '{') ||
           ((flags & (GLOB_TILDE | GLOB_TILDE_CHECK)) && pattern[0] == '~');
}

static HR_NOINLINE bool pattern_leads(const char *pattern, int flags)
{
    struct hr_place place;
    char fixed[HR_PLACE_MAX];
    size_t len = plain_bytes(pattern, flags);
    if (hr_alias_follows) {
        return true; /* what a wildcard stands for may be such a symlink */
    }
    /* What comes back up behind a wildcard may arrive anywhere. */
    if (starts_anywhere(pattern, flags) || strstr(pattern + len, "..")) {
        return true;
    }
    if (pattern[len] != '\0') {
        while (len > 0 && pattern[len - 1] != '/') {
            len--;
        }
    }
    if (len >= sizeof(fixed)) {
        return false;
    }
    memcpy(fixed, pattern, len);
    fixed[len] = '\0';
    const char *start = len > 0 ? fixed : ".";
    return hr_path_find_as(AT_FDCWD, start, true, &place) || hr_path_is_way(AT_FDCWD, start, &place);
}

static inline bool leads(const char *pattern, int flags)
{
    return HR_UNLIKELY(hr_active) && pattern && pattern_leads(pattern, flags);
}

/* ---- glob ---- */

static void *open_dir(const char *path)
{
    return opendir(path);
}

static struct dirent *next_entry(void *dir)
{
    return readdir(dir);
}

static void close_dir(void *dir)
{
    closedir(dir);
}

/* What a caller's glob_t holds in the places that we borrow. */
struct borrowed {
    void (*closedir)(void *);
    struct dirent *(*readdir)(void *);
    void *(*opendir)(const char *);
    int (*lstat)(const char *, struct stat *);
    int (*stat)(const char *, struct stat *);
};

typedef int (*glob_fn)(const char *, int, int (*)(const char *, int), glob_t *);

static HR_NOINLINE int glob_over_ours(glob_fn real, const char *pattern, int flags,
                                      int (*on_error)(const char *, int), glob_t *ret)
{
    struct borrowed kept = {.closedir = ret->gl_closedir,
                            .readdir = ret->gl_readdir,
                            .opendir = ret->gl_opendir,
                            .lstat = ret->gl_lstat,
                            .stat = ret->gl_stat};
    ret->gl_closedir = close_dir;
    ret->gl_readdir = next_entry;
    ret->gl_opendir = open_dir;
    ret->gl_lstat = lstat;
    ret->gl_stat = stat;
    int result = real(pattern, flags | GLOB_ALTDIRFUNC, on_error, ret);
    ret->gl_flags &= ~GLOB_ALTDIRFUNC;
    ret->gl_closedir = kept.closedir;
    ret->gl_readdir = kept.readdir;
    ret->gl_opendir = kept.opendir;
    ret->gl_lstat = kept.lstat;
    ret->gl_stat = kept.stat;
    return result;
}

int glob(const char *pattern, int flags, int (*on_error)(const char *, int), glob_t *ret)
{
    return !(flags & GLOB_ALTDIRFUNC) && leads(pattern, flags)
               ? glob_over_ours(HR_REAL(glob), pattern, flags, on_error, ret)
               : HR_REAL(glob)(pattern, flags, on_error, ret);
}

int glob64(const char *pattern, int flags, int (*on_error)(const char *, int), glob64_t *ret)
{
    return !(flags & GLOB_ALTDIRFUNC) && leads(pattern, flags)
               ? glob_over_ours((glob_fn)HR_REAL(glob64), pattern, flags, on_error, (glob_t *)ret)
               : HR_REAL(glob64)(pattern, flags, on_error, ret);
}

/* ---- wordexp: wildcards that lead into a map are escaped, libc expands the rest, and the words they became
 * are matched here. Where a wildcard or a backslash is quoted, a word does not tell which of its own were, so
 * words stay as libc leaves them.
 * ---- */

static bool has_wildcard(const char *word)
{
    return strpbrk(word, "*?[") != NULL;
}

/* Puts `count` copies in the place of word `at`. words->we_wordv grows; a word that is taken out is freed. */
static int replace_word(wordexp_t *words, size_t at, char **found, size_t count)
{
    size_t offs = words->we_offs;
    size_t behind = words->we_wordc - at; /* with the terminator, less the word itself */
    char **list = realloc(words->we_wordv, (offs + words->we_wordc + count + 1) * sizeof(*list));
    if (!list) {
        return WRDE_NOSPACE;
    }
    words->we_wordv = list;
    char *pattern = list[offs + at];
    memmove(&list[offs + at + count], &list[offs + at + 1], behind * sizeof(*list));
    words->we_wordc += count - 1;
    for (size_t i = 0; i < count; i++) {
        list[offs + at + i] = strdup(found[i]);
        if (!list[offs + at + i]) {
            /* wordfree stops at nothing: the words that did not come are taken out again. */
            memmove(&list[offs + at + i], &list[offs + at + count], behind * sizeof(*list));
            words->we_wordc -= count - i;
            free(pattern);
            return WRDE_NOSPACE;
        }
    }
    free(pattern);
    return 0;
}

static HR_NOINLINE int expand_words(wordexp_t *words, size_t from)
{
    int error = 0;
    for (size_t i = from; !error && i < words->we_wordc; i++) {
        const char *word = words->we_wordv[words->we_offs + i];
        if (!has_wildcard(word) || !pattern_leads(word, 0)) {
            continue;
        }
        glob_t found = {0};
        int result = glob(word, 0, NULL, &found);
        if (result == 0) {
            size_t count = found.gl_pathc;
            error = replace_word(words, i, found.gl_pathv, count);
            i += count - 1;
        } else if (result == GLOB_NOSPACE) {
            error = WRDE_NOSPACE;
        }
        globfree(&found);
    }
    return error;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* How many bytes of the text at `at` stand for one of the word: 0: a quote that begins or ends; 2: `at` is a
 * backslash that quotes the next one. *open: which quotes are open. */
static size_t step(const char *at, char *open)
{
    if (*open ? *at == *open : *at == '"' || *at == '\'') {
        *open = *open ? '\0' : *at;
        return 0;
    }
    bool quotes = *at == '\\' && *open != '\'' && at[1] && (!*open || strchr("$`\"\\\n", at[1]));
    return quotes ? 2 : 1;
}

/* Does each wildcard and backslash of the words stand in the text outside quotes? */
static bool is_matched_as_written(const char *text)
{
    char open = '\0';
    while (*text) {
        size_t bytes = step(text, &open);
        if ((bytes == 2 && strchr("*?[\\", text[1])) || (bytes == 1 && open && strchr("*?[\\", *text))) {
            return false;
        }
        text += bytes ? bytes : 1;
    }
    return true;
}

/* Copies the next word of *text as libc takes the quotes off; *text is behind it then. Its end in `out`. */
static char *unquote(const char **text, char *out)
{
    char open = '\0';
    while (**text && (open || !is_blank(**text))) {
        size_t bytes = step(*text, &open);
        *text += bytes == 2;
        if (bytes) {
            *out++ = **text;
        }
        *text += 1;
    }
    *out = '\0';
    return out;
}

/* A copy of the text with those wildcards escaped; NULL: no memory. */
static char *escaped(const char *text)
{
    char *copy = malloc(2 * strlen(text) + 1);
    char *out = copy;
    while (copy && *text) {
        char *token = out;
        while (is_blank(*text)) {
            *out++ = *text++;
            token = out;
        }
        const char *start = text;
        out = unquote(&text, out);
        bool ours = !strpbrk(token, "$`~") && has_wildcard(token) && pattern_leads(token, 0);
        for (out = token; start < text; start++) {
            if (ours && strchr("*?[", *start)) {
                *out++ = '\\';
            }
            *out++ = *start;
        }
    }
    if (copy) {
        *out = '\0';
    }
    return copy;
}

static HR_NOINLINE int wordexp_active(const char *text, wordexp_t *words, int flags)
{
    /* Later the caller's count is libc's. */
    size_t from = flags & WRDE_APPEND ? words->we_wordc : 0;
    char *copy = escaped(text);
    if (!copy) {
        return WRDE_NOSPACE;
    }
    int result = HR_REAL(wordexp)(copy, words, flags);
    free(copy);
    /* Without WRDE_DOOFFS libc has set we_offs to 0. */
    return result ? result : expand_words(words, from);
}

int wordexp(const char *text, wordexp_t *words, int flags)
{
    return HR_UNLIKELY(hr_active) && has_wildcard(text) && is_matched_as_written(text)
               ? wordexp_active(text, words, flags)
               : HR_REAL(wordexp)(text, words, flags);
}
