/* What a random program draws: numbers, offsets, and paths with everything that a path can have. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/random/random.h"

#define PATHS 4 /* valid at a time */

static uint64_t state;
static char paths[PATHS][PATH_ROOM];
static unsigned next_path;
static char here[PATH_ROOM]; /* the working directory relative to the root; "?": elsewhere */

void draw_begin(uint64_t seed)
{
    state = seed;
    state = (uint64_t)draw(UINT32_MAX) << 32; /* neighbours are not the same numbers a step apart */
    state |= seed;
}

/* splitmix64 */
uint32_t draw(uint32_t below)
{
    uint64_t x = state += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return (uint32_t)((x ^ (x >> 31)) >> 20) % below;
}

bool percent(uint32_t chance)
{
    return draw(100) < chance;
}

long draw_length(void)
{
    static const long edges[] = {0,     1,     2,     511,    512,    4095,    4096,    4097,
                                 65535, 65536, 65537, 131072, 262144, 1 << 20, 1 << 22, PLACE_BYTES};
    return percent(60) ? (long)draw(20000) : edges[draw(sizeof(edges) / sizeof(edges[0]) - !percent(20))];
}

off_t draw_offset(void)
{
    static const off_t edges[] = {
        0,      1,       4095,    4096,          4097,     65535,    65536,           65537,
        100000, 1 << 20, 8 << 20, (8 << 20) - 1, 16 << 20, 20 << 20, (20 << 20) + 777};
    uint32_t kind = draw(100);
    if (kind < 35) {
        return edges[draw(sizeof(edges) / sizeof(edges[0]))];
    }
    if (kind < 70) {
        return draw(140000);
    }
    if (kind < 95) {
        return draw(21 << 20);
    }
    static const off_t odd[] = {-1,        -4096,         INT64_MAX, INT64_MAX - 4095, (off_t)1 << 40,
                                INT64_MIN, (off_t)1 << 31};
    return odd[draw(sizeof(odd) / sizeof(odd[0]))];
}

int draw_flags(const int *flags, size_t count, uint32_t chance)
{
    int result = 0;
    for (size_t i = 0; i < count; i++) {
        result |= percent(chance) ? flags[i] : 0;
    }
    return result;
}

/* The many of one folder, named alike, are drawn less often. */
const struct entry *draw_entry(bool folder)
{
    bool many = percent(8);
    for (;;) {
        const struct entry *entry = world_entry(draw((uint32_t)world_count()));
        if (entry->folder == folder && (many || strncmp(entry->name, "many/", 5) != 0)) {
            return entry;
        }
    }
}

static char *new_path(void)
{
    char *path = paths[next_path++ % PATHS];
    path[0] = '\0';
    return path;
}

static void add(char *path, const char *text)
{
    size_t used = strlen(path);
    snprintf(path + used, PATH_ROOM - used, "%s", text);
}

static void add_many(char *path, char byte, size_t count)
{
    size_t used = strlen(path);
    memset(path + used, byte, count);
    path[used + count] = '\0';
}

/* Something between two components, or at the end. */
static void add_turn(char *path)
{
    switch (draw(9)) {
    case 0:
        add(path, "//");
        break;
    case 1:
        add(path, "/./");
        break;
    case 2:
        add(path, "/nothing/../");
        break;
    case 3:
        add(path, "/../");
        break;
    case 4:
        add(path, "/././/");
        break;
    default:
        add(path, "/");
    }
}

/* One that is too long, or as long as can be. */
static void add_long(char *path)
{
    static const size_t names[] = {254, 255, 256, 1000};
    if (percent(60)) {
        add(path, "/");
        add_many(path, 'n', names[draw(4)]);
        return;
    }
    static const size_t wholes[] = {PATH_MAX - 2, PATH_MAX - 1, PATH_MAX, PATH_MAX + 1};
    size_t whole = wholes[draw(4)];
    bool dots = percent(50);
    while (strlen(path) + 2 <= whole) {
        add(path, dots ? "/." : "//");
    }
    if (strlen(path) < whole) {
        add(path, "/");
    }
}

static void add_end(char *path)
{
    switch (draw(12)) {
    case 0:
    case 1:
        add(path, "/");
        break;
    case 2:
        add(path, "/.");
        break;
    case 3:
        add(path, "/..");
        break;
    case 4:
        add(path, "/nothing");
        break;
    case 5:
        add(path, "//");
        break;
    case 6:
        add(path, "/../.");
        break;
    case 7:
        add(path, ".");
        break;
    case 8:
        if (path[0]) {
            path[strlen(path) - 1] = '\0';
        }
        break;
    case 9:
        add(path, "/nothing/.././..");
        break;
    case 10:
        add_long(path);
        break;
    default:
        add(path, "x");
    }
}

/* `rest` with turns at some of its slashes. */
static void add_bent(char *path, const char *rest, bool bent)
{
    char one[2] = "";
    for (; *rest; rest++) {
        if (*rest == '/' && bent && percent(25)) {
            add_turn(path);
        } else {
            one[0] = *rest;
            add(path, one);
        }
    }
}

/* Where the name is looked from: absolute, or relative to the working directory. */
static void add_start(char *path, const struct entry *entry, bool plain)
{
    size_t len = strlen(here);
    if (percent(55) || here[0] == '?') {
        add(path, world_root());
        if (entry->name[0]) {
            add(path, "/");
        }
        return;
    }
    bool below = len && strncmp(entry->name, here, len) == 0 && entry->name[len] == '/';
    if (below || (!plain && percent(10))) {
        return;
    }
    size_t ups = len ? 1 : 0;
    for (size_t i = 0; i < len; i++) {
        ups += here[i] == '/';
    }
    for (; ups > 0; ups--) {
        add(path, "../");
    }
    if (percent(15)) {
        add(path, "../data/");
    }
    if (!path[0] && !entry->name[0]) {
        add(path, ".");
    }
}

static const char *spell(const struct entry *entry, bool bent)
{
    char *path = new_path();
    add_start(path, entry, !bent);
    size_t len = strlen(here);
    bool below = path[0] != '/' && path[0] != '.' && len && strncmp(entry->name, here, len) == 0 &&
                 entry->name[len] == '/';
    add_bent(path, entry->name + (below ? len + 1 : 0), bent);
    return path;
}

const char *draw_tamed(bool folder)
{
    return spell(draw_entry(folder), false);
}

const char *draw_path(void)
{
    uint32_t kind = draw(100);
    if (kind < 45) {
        return draw_tamed(percent(25));
    }
    if (kind < 85) {
        char *path = (char *)spell(draw_entry(percent(40)), percent(60));
        if (percent(60)) {
            add_end(path);
        }
        return path;
    }
    static const char *const odd[] = {"",
                                      ".",
                                      "..",
                                      "/",
                                      "./",
                                      "../",
                                      "../data",
                                      "../beside.txt",
                                      "data",
                                      "...",
                                      "./.",
                                      "../..",
                                      "/dev/null",
                                      "nothing",
                                      "nothing/",
                                      ".//",
                                      " ",
                                      "../datax",
                                      "/proc/self/cwd",
                                      "../data/../data",
                                      "../to-tree",
                                      "../to-tree/a/short.txt",
                                      "../to-folder",
                                      "../to-folder/",
                                      "../to-folder/er/..",
                                      "../to-folder/../a-b",
                                      "../to-file",
                                      "../to-file/",
                                      "../to-nothing",
                                      "../to-link",
                                      "../to-link/still",
                                      "../to-link/still/three.txt"};
    if (kind < 96) {
        char *path = new_path();
        add(path, odd[draw(sizeof(odd) / sizeof(odd[0]))]);
        return path;
    }
    if (kind < 98) {
        char *path = new_path();
        int fd = any_fd();
        snprintf(path, PATH_ROOM, "/%s/fd/%d%s", percent(50) ? "proc/self" : "dev", fd,
                 percent(20) ? "/." : "");
        return path;
    }
    return NULL;
}

const char *draw_at(int *ret_dirfd)
{
    if (percent(40)) {
        *ret_dirfd = AT_FDCWD;
        return draw_path();
    }
    *ret_dirfd = percent(80) ? folder_fd() : any_fd();
    if (percent(20)) {
        return draw_path();
    }
    /* Relative to a directory that is kept: which one it is, the kernel knows; names of any level fit
     * somewhere. */
    const struct entry *entry = draw_entry(percent(30));
    const char *name = entry->name;
    for (const char *slash; percent(40) && (slash = strchr(name, '/'));) {
        name = slash + 1;
    }
    char *path = new_path();
    for (uint32_t ups = percent(30) ? draw(3) : 0; ups > 0; ups--) {
        add(path, "../");
    }
    add_bent(path, name, percent(30));
    if (percent(20)) {
        add_end(path);
    }
    return path;
}

void world_moved(void)
{
    char now[PATH_ROOM];
    size_t len = strlen(world_root());
    const char *in = getcwd(now, sizeof(now)) && strncmp(now, world_root(), len) == 0 ? now + len : "?";
    if (in[0] && in[0] != '/') {
        in = "?";
    }
    snprintf(here, sizeof(here), "%s", in[0] == '/' ? in + 1 : in);
}
