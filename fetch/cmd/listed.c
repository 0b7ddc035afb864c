/* `headrace ls|du|count`: names and sizes of mapped paths and of URLs, from the index. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "fetch/cmd/cmd.h"
#include "fetch/cmd/named.h"

/* ---- ls ---- */

static void print_details(bool known, uint64_t size, int64_t mtime_ns)
{
    char date[32];
    time_t seconds = (time_t)(mtime_ns / 1000000000);
    struct tm tm;
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &tm));
    if (known) {
        printf("%15llu %s ", (unsigned long long)size, date);
    } else {
        printf("%15s %20s ", "-", "-");
    }
}

static void print_line(const struct hr_index *index, uint32_t number, const char *path, bool details)
{
    const struct hr_entry *entry = &index->entries[number];
    bool is_dir = entry->kind == HR_KIND_DIR;
    if (details) {
        print_details(entry->etag_kind != HR_ETAG_UNKNOWN, is_dir ? 0 : entry->size, entry->mtime_ns);
    }
    printf("%s%s\n", path, is_dir ? "/" : "");
}

static void list_dir(const struct hr_index *index, uint32_t dir, char *path, size_t len, bool deep,
                     bool details)
{
    uint32_t count = hr_index_child_count(index, dir);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t child = hr_index_child(index, dir, i);
        uint32_t name_len;
        const char *name = hr_index_name(index, child, &name_len);
        if (len + name_len + 2 > PATH_MAX) {
            continue; /* a key has at most 1024 bytes: cannot happen with a checked index */
        }
        memcpy(path + len, name, name_len);
        path[len + name_len] = '\0';
        print_line(index, child, path, details);
        if (deep && index->entries[child].kind == HR_KIND_DIR) {
            path[len + name_len] = '/';
            list_dir(index, child, path, len + name_len + 1, deep, details);
        }
    }
}

static int ls_one(const char *arg, bool deep, bool details)
{
    char message[HR_MESSAGE_BYTES], line[PATH_MAX] = "";
    struct named named;
    int error = named_open(&named, arg, message);
    if (error < 0) {
        hr_complain_of(arg, message);
    } else if (named.single) {
        if (details) {
            print_details(true, named.size, named.mtime_ns);
        }
        printf("%s\n", named.target.path);
    } else if (named.there.index.entries[named.entry].kind == HR_KIND_DIR) {
        list_dir(&named.there.index, named.entry, line, 0, deep, details);
    } else {
        print_line(&named.there.index, named.entry, named.target.path, details);
    }
    named_release(&named);
    return error;
}

int hr_cmd_ls(int argc, char **argv)
{
    bool deep = false, details = false;
    int i = 0, failed = 0;
    for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
        deep |= strcmp(argv[i], "-R") == 0 || strcmp(argv[i], "-lR") == 0;
        details |= strcmp(argv[i], "-l") == 0 || strcmp(argv[i], "-lR") == 0;
        if (strcmp(argv[i], "-R") != 0 && strcmp(argv[i], "-l") != 0 && strcmp(argv[i], "-lR") != 0) {
            return hr_usage("ls");
        }
    }
    if (i >= argc) {
        return hr_usage("ls");
    }
    for (; i < argc; i++) {
        failed |= ls_one(argv[i], deep, details) < 0;
    }
    return failed ? HR_EXIT_FAILED : 0;
}

/* ---- du, count ---- */

struct sum {
    uint64_t bytes, objects, unknown;
};

/* All that is below a directory is one range of entries. */
static struct sum sum_of(const struct named *named)
{
    const struct hr_index *index = &named->there.index;
    struct sum sum = {0};
    if (named->single) {
        return (struct sum){.bytes = named->size, .objects = 1};
    }
    bool dir = index->entries[named->entry].kind == HR_KIND_DIR;
    uint32_t at = dir ? hr_index_child(index, named->entry, 0) : named->entry;
    uint32_t end = hr_index_end(index, named->entry);
    for (; at > 0 && at < end; at++) {
        const struct hr_entry *entry = &index->entries[at];
        if (entry->kind == HR_KIND_FILE) {
            sum.bytes += entry->size;
            sum.objects++;
            sum.unknown += entry->etag_kind == HR_ETAG_UNKNOWN;
        }
    }
    return sum;
}

static void print_human(uint64_t bytes)
{
    static const char units[] = "BKMGTPE";
    double value = (double)bytes;
    unsigned unit = 0;
    while (value >= 1024 && unit < sizeof units - 2) {
        value /= 1024;
        unit++;
    }
    printf("%.*f%c", unit > 0 && value < 100 ? 1 : 0, value, units[unit]);
}

static int sum_one(const char *arg, bool with_bytes, bool human)
{
    char message[HR_MESSAGE_BYTES];
    struct named named;
    int error = named_open(&named, arg, message);
    if (error < 0) {
        hr_complain_of(arg, message);
        named_release(&named);
        return error;
    }
    struct sum sum = sum_of(&named);
    if (with_bytes && human) {
        print_human(sum.bytes);
        printf("\t");
    } else if (with_bytes) {
        printf("%llu\t", (unsigned long long)sum.bytes);
    }
    printf("%llu\t%s\n", (unsigned long long)sum.objects, arg);
    if (with_bytes && sum.unknown) {
        hr_complain("%s: the sizes of %llu objects are not known (their file of names has none)", arg,
                    (unsigned long long)sum.unknown);
        error = -ENODATA;
    }
    named_release(&named);
    return error;
}

int hr_cmd_du(int argc, char **argv)
{
    bool human = argc > 0 && strcmp(argv[0], "-h") == 0;
    int i = human ? 1 : 0, failed = 0;
    if (i >= argc || argv[i][0] == '-') {
        return hr_usage("du");
    }
    for (; i < argc; i++) {
        failed |= sum_one(argv[i], true, human) < 0;
    }
    return failed ? HR_EXIT_FAILED : 0;
}

int hr_cmd_count(int argc, char **argv)
{
    int failed = 0;
    if (argc == 0 || argv[0][0] == '-') {
        return hr_usage("count");
    }
    for (int i = 0; i < argc; i++) {
        failed |= sum_one(argv[i], false, false) < 0;
    }
    return failed ? HR_EXIT_FAILED : 0;
}
