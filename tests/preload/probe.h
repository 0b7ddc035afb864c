/* What the preload programs share. Each gets a directory as its argument and prints what it sees there, the
 * same on a local copy and on a map; things that differ by design are compared inside and printed only when
 * they are wrong. */
#ifndef HR_PROBE_H
#define HR_PROBE_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define PROBE_UNUSED __attribute__((unused))
#define PROBE_ENTRIES_MAX 20000 /* far above any fixture */

static const char *probe_root;
static int probe_wrong;

static PROBE_UNUSED void probe_begin(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
        exit(2);
    }
    probe_root = argv[1];
    setvbuf(stdout, NULL, _IOLBF, 0);
}

/* Is the directory a map? Asked of the environment, not of the thing under test. */
static PROBE_UNUSED bool probe_mapped(void)
{
    const char *maps = getenv("HEADRACE_MAP");
    const char *at = maps ? strstr(maps, probe_root) : NULL;
    return at && at[strlen(probe_root)] == '=';
}

static PROBE_UNUSED const char *probe_errno(int error)
{
    const char *name = strerrorname_np(error);
    return error == 0 ? "0" : name ? name : "?";
}

/* "what: ok" or "what: ENOENT". */
static PROBE_UNUSED void probe_say(const char *what, bool good)
{
    int error = errno;
    printf("%s: %s\n", what, good ? "ok" : probe_errno(error));
}

/* Printed only when it is not as it must be, so that the two runs differ. */
static PROBE_UNUSED void probe_expect(bool good, const char *format, ...)
{
    if (good) {
        return;
    }
    va_list list;
    va_start(list, format);
    printf("WRONG: ");
    vprintf(format, list);
    printf("\n");
    va_end(list);
    probe_wrong = 1;
}

static PROBE_UNUSED char *probe_path(const char *relative)
{
    char *path;
    if (asprintf(&path, "%s%s%s", probe_root, relative[0] ? "/" : "", relative) < 0) {
        abort();
    }
    return path;
}

static PROBE_UNUSED uint64_t probe_hash(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ at[i]) * 0x100000001b3ull;
    }
    return hash;
}

#define PROBE_HASH 0xcbf29ce484222325ull

/* Digest of what is left to read; *ret_size bytes. 0 with errno when it cannot be read. */
static PROBE_UNUSED uint64_t probe_digest(int fd, uint64_t *ret_size)
{
    static _Thread_local char buffer[65536];
    uint64_t hash = PROBE_HASH;
    ssize_t got;
    *ret_size = 0;
    while ((got = read(fd, buffer, sizeof(buffer))) > 0) {
        hash = probe_hash(hash, buffer, (size_t)got);
        *ret_size += (uint64_t)got;
    }
    return got < 0 ? 0 : hash;
}

struct probe_entry {
    char *path;         /* relative to the root */
    unsigned char type; /* DT_DIR or DT_REG */
    uint64_t ino;
};

static struct probe_entry *probe_entries;
static size_t probe_count;

static PROBE_UNUSED int probe_by_path(const void *a, const void *b)
{
    return strcmp(((const struct probe_entry *)a)->path, ((const struct probe_entry *)b)->path);
}

static PROBE_UNUSED void probe_walk_below(const char *relative)
{
    char *path = probe_path(relative);
    DIR *dir = opendir(path);
    if (!dir) {
        printf("opendir %s: %s\n", path, probe_errno(errno));
        exit(1);
    }
    struct dirent *entry;
    while ((errno = 0, entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (probe_count == PROBE_ENTRIES_MAX) {
            printf("too many entries\n");
            exit(1);
        }
        char *below;
        if (asprintf(&below, "%s%s%s", relative, relative[0] ? "/" : "", entry->d_name) < 0) {
            abort();
        }
        probe_entries[probe_count++] =
            (struct probe_entry){.path = below, .type = entry->d_type, .ino = entry->d_ino};
        if (entry->d_type == DT_DIR) {
            probe_walk_below(below);
        }
    }
    if (errno) {
        printf("readdir %s: %s\n", path, probe_errno(errno));
        exit(1);
    }
    closedir(dir);
    free(path);
}

/* Everything below the root, sorted, into probe_entries. */
static PROBE_UNUSED void probe_walk(void)
{
    probe_entries = calloc(PROBE_ENTRIES_MAX, sizeof(*probe_entries));
    if (!probe_entries) {
        abort();
    }
    probe_walk_below("");
    qsort(probe_entries, probe_count, sizeof(*probe_entries), probe_by_path);
}

/* The first entry of a type behind `skip` others, or exit: every fixture has some of each. */
static PROBE_UNUSED const char *probe_some(unsigned char type, int skip)
{
    for (size_t i = 0; i < probe_count; i++) {
        if (probe_entries[i].type == type && skip-- == 0) {
            return probe_entries[i].path;
        }
    }
    printf("the tree has too few entries\n");
    exit(1);
}

#endif
