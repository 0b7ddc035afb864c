/* Calls that walk: glob, ftw, nftw, fts. */
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/random/random.h"

#define DESCRIPTORS 20 /* of nftw */
#define LONGEST 4000   /* libc cuts and adds slashes before the kernel sees a path */

static uint64_t walk_hash;
static long walk_count;
static int walk_stop;

/* The order is the file system's: a sum has none. */
static int on_file(const char *path, const struct stat *stat, int kind, struct FTW *ftw)
{
    walk_hash += hash_of(path, strlen(path)) + (uint64_t)kind * 7919 + (uint64_t)ftw->level * 104729 +
                 (uint64_t)ftw->base;
    walk_hash += S_ISREG(stat->st_mode) ? (uint64_t)stat->st_size : 0;
    walk_count++;
    return kind == FTW_F && walk_stop ? 17 : 0;
}

static int on_plain(const char *path, const struct stat *stat, int kind)
{
    struct FTW none = {0};
    return on_file(path, stat, kind, &none);
}

/* A small one, or the whole tree at times. */
static const char *draw_top(void)
{
    return percent(50) ? draw_tamed(true) : draw_path();
}

static void say_walk(int result)
{
    int error = errno;
    say(" = %d", result);
    if (result < 0) {
        say_error(error);
    }
    if (!walk_stop) {
        say(" %ld %016llx", walk_count, (unsigned long long)walk_hash);
    }
}

static void run_nftw(void)
{
    static const int kinds[] = {FTW_CHDIR, FTW_DEPTH, FTW_PHYS};
    const char *path = draw_top();
    int flags = draw_flags(kinds, 3, 40);
    walk_hash = 0;
    walk_count = 0;
    walk_stop = percent(10);
    bool old = percent(20);
    if (!path || strlen(path) > LONGEST || strncmp(path, "/", 2) == 0 || strncmp(path, "..", 2) == 0 ||
        strstr(path, "/fd/") || strstr(path, "/cwd")) {
        return; /* libc reads the text; and what lies outside changes while others work there */
    }
    say(" %s %x", old ? "ftw" : "nftw", (unsigned)flags);
    say_path(path);
    errno = 0;
    int result =
        old ? ftw(path, on_plain, DESCRIPTORS) : nftw(path, on_file, percent(80) ? DESCRIPTORS : 1, flags);
    say_walk(result);
}

static int by_name(const FTSENT **left, const FTSENT **right)
{
    return strcmp((*left)->fts_name, (*right)->fts_name);
}

static void run_fts(void)
{
    static const int kinds[] = {FTS_NOCHDIR, FTS_NOSTAT, FTS_SEEDOT, FTS_COMFOLLOW};
    const char *path = draw_top();
    if (!path || strlen(path) > LONGEST || path[0] == '\0' || strncmp(path, "/", 2) == 0 ||
        strncmp(path, "..", 2) == 0 || strstr(path, "/fd/") || strstr(path, "/cwd")) {
        return;
    }
    char *const paths[] = {(char *)path, NULL};
    int flags = draw_flags(kinds, 4, 30) | (percent(50) ? FTS_PHYSICAL : FTS_LOGICAL);
    say(" %x", (unsigned)flags);
    say_path(path);
    errno = 0;
    FTS *fts = fts_open(paths, flags, by_name);
    if (!fts) {
        say_error(errno);
        return;
    }
    uint64_t hash = 0;
    long count = 0;
    for (FTSENT *entry; (entry = fts_read(fts)); count++) {
        hash = hash * 31 + hash_of(entry->fts_path, entry->fts_pathlen);
        hash =
            hash * 31 + entry->fts_info * 7 + (uint64_t)entry->fts_level + (uint64_t)entry->fts_errno * 1000;
        hash += entry->fts_info == FTS_F && !(flags & FTS_NOSTAT) ? (uint64_t)entry->fts_statp->st_size : 0;
        if (entry->fts_info == FTS_D && percent(10)) {
            fts_set(fts, entry, FTS_SKIP);
        }
        if (entry->fts_info == FTS_D && percent(10)) {
            long children = 0;
            for (FTSENT *child = fts_children(fts, percent(50) ? FTS_NAMEONLY : 0); child;
                 child = child->fts_link) {
                children++;
            }
            hash = hash * 31 + (uint64_t)children;
        }
    }
    say(" %ld %016llx errno", count, (unsigned long long)hash);
    say_error(errno);
    SAY_CALL(fts_close(fts));
}

static void run_glob(void)
{
    static const char *const patterns[] = {
        "*",   "*/*",    "a/*",        "*.txt",    "many/f*7",       "[a-m]*",
        "*/",  ".*",     "a/deep/*/*", "no*thing", "{a,b,many}/*1*", "with?space/*",
        "\\*", "size-*", "s*/..",      "a/../*",   "~/nothing",      "*/[!a-d]*"};
    static const int kinds[] = {GLOB_MARK,  GLOB_NOCHECK, GLOB_PERIOD,  GLOB_BRACE,
                                GLOB_TILDE, GLOB_ONLYDIR, GLOB_NOMAGIC, GLOB_ERR};
    char pattern[PATH_ROOM];
    glob_t found;
    const char *text = patterns[draw(sizeof(patterns) / sizeof(patterns[0]))];
    char here[PATH_ROOM];
    bool inside = getcwd(here, sizeof(here)) && strncmp(here, world_root(), strlen(world_root())) == 0;
    snprintf(pattern, sizeof(pattern), "%s", percent(60) || !inside ? world_root() : "");
    snprintf(pattern + strlen(pattern), 200, "%s%s", pattern[0] ? "/" : "", text);
    int flags = draw_flags(kinds, 8, 20);
    say(" %x %s", (unsigned)flags, pattern);
    int result = glob(pattern, flags, NULL, &found);
    say(" = %d", result);
    if (result == 0) {
        uint64_t hash = 0;
        for (size_t i = 0; i < found.gl_pathc; i++) {
            hash = hash * 31 + hash_of(found.gl_pathv[i], strlen(found.gl_pathv[i]));
        }
        say(" %zu %s %016llx", found.gl_pathc, found.gl_pathc ? found.gl_pathv[0] : "",
            (unsigned long long)hash);
        globfree(&found);
    }
}

const struct op walk_ops[] = {{"nftw", 6, run_nftw}, {"fts", 6, run_fts}, {"glob", 20, run_glob}, {0}};
