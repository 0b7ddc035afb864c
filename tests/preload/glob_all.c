/* glob and glob64 with every flag that changes where they look, a caller's own callbacks, and wordexp. */
#include "tests/preload/probe.h"

#include <glob.h>
#include <wordexp.h>

static int own_calls;

/* Paths are told as below the root. */
static const char *below(const char *path)
{
    size_t len = strlen(probe_root);
    return strncmp(path, probe_root, len) == 0 ? path + len : path;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int on_error(const char *path, int error)
{
    printf("  error %s: %s\n", below(path), probe_errno(error));
    return 0;
}

static void tell(const char *what, int result, size_t count, char **list)
{
    printf("%s: %d, %zu\n", what, result, count);
    qsort(list, count, sizeof(*list), by_text);
    for (size_t i = 0; i < count; i++) {
        printf("  %s\n", below(list[i]));
    }
}

static void try_glob(const char *relative, int flags)
{
    glob_t found = {0};
    char *path = probe_path(relative);
    errno = 77;
    int result = glob(path, flags, on_error, &found);
    tell(relative, result, result ? 0 : found.gl_pathc, found.gl_pathv);
    probe_expect(!(found.gl_flags & GLOB_ALTDIRFUNC), "%s: the flag of the callbacks is left", relative);
    probe_expect(!found.gl_opendir && !found.gl_stat, "%s: callbacks are left", relative);
    globfree(&found);
    free(path);
}

static void *own_opendir(const char *path)
{
    own_calls++;
    return opendir(path);
}

static struct dirent *own_readdir(void *dir)
{
    return readdir(dir);
}

static void own_closedir(void *dir)
{
    closedir(dir);
}

static void own_callbacks(void)
{
    glob_t found = {.gl_opendir = own_opendir,
                    .gl_readdir = own_readdir,
                    .gl_closedir = own_closedir,
                    .gl_stat = stat,
                    .gl_lstat = lstat};
    char *path = probe_path("a/deep/er/f0*");
    int result = glob(path, GLOB_ALTDIRFUNC, NULL, &found);
    tell("own callbacks", result, result ? 0 : found.gl_pathc, found.gl_pathv);
    probe_expect(own_calls > 0 && found.gl_opendir == own_opendir, "own callbacks are not used");
    globfree(&found);
    free(path);
}

static void in_two_steps(void)
{
    glob64_t found = {.gl_offs = 3};
    char *first = probe_path("a/*.txt");
    char *second = probe_path("b/*");
    int result = glob64(first, GLOB_DOOFFS, NULL, &found);
    size_t one = found.gl_pathc;
    result |= glob64(second, GLOB_DOOFFS | GLOB_APPEND, NULL, &found);
    printf("appended: %d, %zu then %zu\n", result, one, found.gl_pathc);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        printf("  %s\n", below(found.gl_pathv[found.gl_offs + i]));
    }
    globfree64(&found);
    free(first);
    free(second);
}

static void relative_to_cwd(const char *pattern)
{
    glob_t found = {0};
    int result = glob(pattern, GLOB_MARK, NULL, &found);
    tell(pattern, result, result ? 0 : found.gl_pathc, found.gl_pathv);
    globfree(&found);
}

static void try_wordexp(const char *text, int flags)
{
    wordexp_t words = {.we_offs = 2};
    int result = wordexp(text, &words, flags);
    printf("wordexp %s: %d, %zu\n", text, result, result ? 0 : words.we_wordc);
    for (size_t i = 0; !result && i < words.we_wordc; i++) {
        printf("  %s\n", below(words.we_wordv[words.we_offs + i]));
    }
    if (!result) {
        wordfree(&words);
    }
}

static void try_words(const char *format)
{
    char text[2 * PATH_MAX];
    setenv("ROOT", probe_root, 1);
    try_wordexp(format, 0);
    try_wordexp(format, WRDE_DOOFFS);
    /* The root spelled out. */
    const char *dollar = strstr(format, "$ROOT");
    if (dollar) {
        snprintf(text, sizeof(text), "%.*s%s%s", (int)(dollar - format), format, probe_root, dollar + 5);
        wordexp_t words;
        int result = wordexp(text, &words, 0);
        tell("spelled out", result, words.we_wordc, words.we_wordv);
        wordfree(&words);
    }
}

int main(int argc, char **argv)
{
    static const char *const patterns[] = {
        "*",
        "*/*",
        "a/*.txt",
        ".h*",
        "b/*",
        "nothing*",
        "a/one.txt",
        "a*/d*/*/f5?.dat",
        "\\[brackets]/*",
        "?/[!d]*",
        "no/such*",
        "a/deep/er/f[0-1]*",
        "a/one.txt/*",
        "*/../top*",
        "with space/*",
        "top.txt",
        "x.txt",
    };
    probe_begin(argc, argv);
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        try_glob(patterns[i], 0);
    }
    try_glob("*", GLOB_MARK | GLOB_ONLYDIR);
    try_glob("*", GLOB_PERIOD);
    try_glob("{a,b,nothing}/*", GLOB_BRACE);
    try_glob("zzz*", GLOB_NOCHECK);
    try_glob("no-dir/*", GLOB_ERR);
    own_callbacks();
    in_two_steps();
    char *parent = strdup(probe_root);
    char *name = strrchr(parent, '/') + 1;
    char pattern[PATH_MAX];
    snprintf(pattern, sizeof(pattern), "%s/b/*", name);
    relative_to_cwd(pattern);
    snprintf(pattern, sizeof(pattern), "./%s/*.c", name);
    relative_to_cwd(pattern);
    probe_expect(chdir(probe_root) == 0, "chdir");
    relative_to_cwd("*.txt");
    relative_to_cwd("a/../b/p*");
    glob_t found = {0};
    setenv("HOME", probe_root, 1);
    int result = glob("~/a/*", GLOB_TILDE, NULL, &found);
    tell("home", result, result ? 0 : found.gl_pathc, found.gl_pathv);
    globfree(&found);
    try_words("$ROOT/a/*.txt plain $ROOT/b/p*");
    try_words("/et[c]/pas[s]wd $ROOT/nothing* end");
    try_words("'$ROOT/a/*.txt'");
    try_words("~/b/q*");
    try_words("$ROOT/with\\ space/* \"$ROOT/with space\"/* $ROOT/'with space'/x*");
    try_words("\"$ROOT\"/a/*.txt $ROOT/\\a/*.txt $ROOT/'a'*/o* \"\"$ROOT/b/q*");
    return probe_wrong;
}
