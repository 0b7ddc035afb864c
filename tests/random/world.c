/* What a random program has at hand: the names of the tree, descriptors, memory, and the line it writes. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/random/random.h"

#define ENTRIES_MAX 2000
#define LINE_ROOM 65536

static struct entry entries[ENTRIES_MAX];
static size_t entry_count;
static const char *root, *scratch;
static int kept_fds[KEPT_MAX];
static unsigned char *memory;
static char line[LINE_ROOM];
static size_t line_used;
static sigjmp_buf back;
static volatile sig_atomic_t careful;

static void on_fault(int number)
{
    if (careful) {
        siglongjmp(back, number);
    }
    say(" killed by signal %d", number); /* vsnprintf works as it is used here, and the process ends */
    say_end();
    _exit(3);
}

static void read_list(const char *path)
{
    FILE *list = fopen(path, "r");
    char *text = NULL;
    size_t room = 0;
    while (list && entry_count < ENTRIES_MAX && getdelim(&text, &room, '\0', list) > 1) {
        entries[entry_count].folder = text[0] == 'd';
        entries[entry_count++].name = strdup(text + 2);
    }
    free(text);
    if (!list || entry_count == 0) {
        fprintf(stderr, "no names in %s\n", path);
        exit(2);
    }
    fclose(list);
}

void world_begin(const char *tree, const char *list, const char *outside)
{

    root = tree;
    scratch = outside;
    read_list(list);
    for (size_t i = 0; i < KEPT_MAX; i++) {
        kept_fds[i] = -1;
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    memory = mmap(NULL, PLACE_BYTES + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + PLACE_BYTES, page, PROT_NONE) != 0) {
        perror("mmap");
        exit(2);
    }
    struct sigaction action = {.sa_handler = on_fault};
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

const char *world_root(void)
{
    return root;
}

const char *world_scratch(void)
{
    return scratch;
}

size_t world_count(void)
{
    return entry_count;
}

const struct entry *world_entry(size_t number)
{
    return &entries[number];
}

static bool is_folder(int fd)
{
    struct stat stat;
    return fstat(fd, &stat) == 0 && S_ISDIR(stat.st_mode);
}

static int some_kept(int folder)
{
    size_t first = draw(KEPT_MAX);
    for (size_t i = 0; i < KEPT_MAX; i++) {
        int fd = kept_fds[(first + i) % KEPT_MAX];
        if (fd >= 0 && (folder < 0 || is_folder(fd) == (folder > 0))) {
            return fd;
        }
    }
    return -1;
}

int any_fd(void)
{
    if (percent(3)) {
        static const int bad[] = {-1, -100, 999, 5000, 1 << 30};
        return bad[draw(sizeof(bad) / sizeof(bad[0]))];
    }
    return some_kept(percent(75) ? 0 : -1);
}

int file_fd(void)
{
    return some_kept(0);
}

int folder_fd(void)
{
    return some_kept(1);
}

int kept(size_t number)
{
    return kept_fds[number];
}

void keep(int fd)
{
    if (fd < 0) {
        return;
    }
    unkeep(fd);
    size_t number = draw(KEPT_MAX);
    for (size_t i = 0; i < KEPT_MAX && kept_fds[number] >= 0; i++) {
        number = (number + 1) % KEPT_MAX;
    }
    if (kept_fds[number] >= 0) {
        close(kept_fds[number]);
    }
    kept_fds[number] = fd;
}

void unkeep(int fd)
{
    for (size_t i = 0; i < KEPT_MAX; i++) {
        kept_fds[i] = kept_fds[i] == fd ? -1 : kept_fds[i];
    }
}

unsigned char *place(void)
{
    return memory;
}

unsigned char *place_end(void)
{
    return memory + PLACE_BYTES;
}

uint64_t hash_of(const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    uint64_t hash = 0xcbf29ce484222325ull;
    for (; count >= 8; count -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        hash = (hash ^ word) * 0x100000001b3ull;
        hash ^= hash >> 29;
    }
    for (; count > 0; count--) {
        hash = (hash ^ *at++) * 0x100000001b3ull;
    }
    return hash;
}

/* False: the memory that it looks at is not there. */
static bool safely(void (*look)(void *given), void *given)
{
    if (sigsetjmp(back, 1)) {
        careful = 0;
        return false;
    }
    careful = 1;
    look(given);
    careful = 0;
    return true;
}

struct hashing {
    const void *bytes;
    size_t count;
    uint64_t hash;
};

static void hash_it(void *given)
{
    struct hashing *hashing = given;
    hashing->hash = hash_of(hashing->bytes, hashing->count);
}

bool hash_safely(const void *bytes, size_t count, uint64_t *ret)
{
    struct hashing hashing = {bytes, count, 0};
    bool there = safely(hash_it, &hashing);
    if (there) {
        *ret = hashing.hash;
    }
    return there;
}

struct touching {
    volatile unsigned char *byte;
    unsigned char value;
};

static void touch_it(void *given)
{
    const struct touching *touching = given;
    *touching->byte = touching->value;
}

bool touch_safely(volatile unsigned char *byte, unsigned char value)
{
    struct touching touching = {byte, value};
    return safely(touch_it, &touching);
}

void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int wrote = vsnprintf(line + line_used, LINE_ROOM - line_used, format, arguments);
    va_end(arguments);
    line_used += (size_t)wrote < LINE_ROOM - line_used ? (size_t)wrote : LINE_ROOM - 1 - line_used;
}

void say_path(const char *path)
{
    if (!path) {
        say(" NULL");
    } else if ((uintptr_t)path < 4096) {
        say(" nowhere");
    } else if (strlen(path) > 200) {
        say(" %.60s...(%zu)", path, strlen(path));
    } else {
        say(" \"%s\"", path);
    }
}

void say_error(int error)
{
    const char *name = strerrorname_np(error);
    say(" %s", name ? name : "E?");
}

void say_result(long long result)
{
    int error = errno;
    say(" = %lld", result);
    if (result < 0) {
        say_error(error);
    } else if (error) {
        say(" errno");
        say_error(error);
    }
}

void say_end(void)
{
    for (size_t i = 0; i < line_used; i++) { /* a name may hold any byte; a line of ours is one */
        line[i] = (unsigned char)line[i] < ' ' ? '^' : line[i];
    }
    line[line_used++] = '\n';
    for (size_t done = 0; done < line_used;) {
        ssize_t wrote = write(STDOUT_FILENO, line + done, line_used - done);
        if (wrote <= 0) {
            _exit(4);
        }
        done += (size_t)wrote;
    }
    line_used = 0;
}
