/* scandir, scandir64, scandirat, scandirat64 with filters and orders: printed as they come. */
#include "tests/preload/probe.h"

static int no_dots(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int no_dots64(const struct dirent64 *entry)
{
    return entry->d_name[0] != '.';
}

static int nothing(const struct dirent *entry)
{
    (void)entry;
    return 0;
}

static void show(const char *what, const char *relative, int count, struct dirent **list)
{
    printf("%s %s: %d\n", what, relative, count);
    for (int i = 0; i < count; i++) {
        printf("  %s %d\n", list[i]->d_name, list[i]->d_type);
        free(list[i]);
    }
    if (count >= 0) {
        free(list);
    }
}

static void scan(const char *relative, int root)
{
    char *path = probe_path(relative);
    struct dirent **list, **other;
    struct dirent64 **list64;
    int count = scandir(path, &list, NULL, alphasort);
    show("all", relative, count, list);
    count = scandir(path, &list, no_dots, versionsort);
    show("versions", relative, count, list);
    int again = scandirat(root, relative[0] ? relative : ".", &other, no_dots, alphasort);
    probe_expect(count == again, "%s: scandirat finds %d", relative, again);
    show("at", relative, again, other);
    again = scandirat64(AT_FDCWD, path, &list64, no_dots64, alphasort64);
    probe_expect(count == again, "%s: scandirat64 finds %d", relative, again);
    show("at64", relative, again, (struct dirent **)list64);
    again = scandir64(path, &list64, no_dots64, alphasort64);
    probe_expect(count == again, "%s: scandir64 finds %d", relative, again);
    show("64", relative, again, (struct dirent **)list64);
    errno = 0;
    count = scandir(path, &list, nothing, NULL);
    show("nothing", relative, count, list);
    probe_expect(errno == 0, "%s: scandir left errno %s", relative, probe_errno(errno));
    free(path);
}

int main(int argc, char **argv)
{
    struct dirent **list;
    probe_begin(argc, argv);
    probe_walk();
    int root = open(probe_root, O_RDONLY | O_DIRECTORY);
    scan("", root);
    for (size_t i = 0; i < probe_count; i++) {
        if (probe_entries[i].type == DT_DIR) {
            scan(probe_entries[i].path, root);
        }
    }
    char *path = probe_path("no-such-name");
    probe_say("missing", scandir(path, &list, NULL, NULL) >= 0);
    free(path);
    path = probe_path(probe_some(DT_REG, 0));
    probe_say("file", scandir(path, &list, NULL, NULL) >= 0);
    free(path);
    close(root);
    return probe_wrong;
}
