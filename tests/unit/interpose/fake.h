/* A daemon inside the test: the same files, the same protocol, no network. One tree, one context, two maps of
 * it. Content of an entry is "content of NAME\n". Header-only: each test is one program. */
#ifndef HR_TESTS_FAKE_H
#define HR_TESTS_FAKE_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "config/key.h"
#include "interpose/abi.h"
#include "interpose/index.h"

#define FAKE_MAP "/hr-unit"
#define FAKE_DEEP_MAP "/hr-unit/deep/er/map"
#define FAKE_MAP_TEXT FAKE_MAP "=s3://bucket/p/;" FAKE_DEEP_MAP "=s3://bucket/p/"
#define FAKE_TREE 3u
#define FAKE_DEV 0x12345u
#define FAKE_SALT 77u
#define FAKE_PREFIX "p/"
#define FAKE_TREE_ID 0x1122334455667788ull
#define FAKE_MTIME_NS 1600000000123456789ll
#define FAKE_RESIDENTS 1024u

/* The names of the tree. Children of a directory are contiguous and sorted. */
static const struct {
    const char *name;
    unsigned parent; /* number of the directory */
    unsigned dir;    /* its own number as a directory, or 0 */
} fake_names[] = {
    {"", 0, 0},      {"a", 0, 1},     {"b.txt", 0, 0}, {"denied", 0, 0},
    {"stuck", 0, 0}, {"x.jpg", 1, 0}, {"y.jpg", 1, 0},
};
enum { FAKE_ENTRIES = sizeof(fake_names) / sizeof(fake_names[0]) };
enum { FAKE_ROOT, FAKE_A, FAKE_B, FAKE_DENIED, FAKE_STUCK, FAKE_X, FAKE_Y };
static const struct hr_dir fake_dirs[] = {{0, 1, 4, 0}, {1, 5, 2, 0}};

struct fake {
    char dir[256];
    uint64_t boot;
    int lock_fd;
    struct hr_control *control;
    struct hr_slots *slots;
    struct hr_residents *residents;
    struct hr_states *_Atomic states;
    struct hr_uses *_Atomic uses;
    pthread_t thread;
    _Atomic uint64_t next_file_id;
    _Atomic unsigned requests[HR_OP_COUNT];
    _Atomic unsigned hints[HR_HINTS]; /* of SEGMENT: its entry */
    _Atomic bool stop;
    _Atomic bool deaf;         /* beats, but does not answer */
    _Atomic unsigned lose;     /* drops that many requests */
    _Atomic unsigned delay_ms; /* before each answer */
    _Atomic bool publish_on_list;
    /* Answers SEGMENT and WHOLE (fake_face.h); NULL: nobody may ask. */
    void (*_Atomic large)(struct fake *fake, const struct hr_slot *slot, struct hr_answer *answer);
};

#define FAKE_MUST(condition)                                                                                 \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "fake daemon: %s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);   \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

__attribute__((format(printf, 2, 3), unused)) static const char *fake_path(struct fake *fake,
                                                                           const char *format, ...)
{
    static _Thread_local char path[PATH_MAX];
    va_list list;
    int len = snprintf(path, sizeof(path), "%s/", fake->dir);
    va_start(list, format);
    vsnprintf(path + len, sizeof(path) - (size_t)len, format, list);
    va_end(list);
    return path;
}

static uint64_t fake_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* A new file of that size under a private name, then its own: clients never see half of it. */
static void *fake_map(struct fake *fake, const char *name, size_t bytes)
{
    char private_name[PATH_MAX], last_name[PATH_MAX];
    snprintf(private_name, sizeof(private_name), "%s/new", fake->dir);
    snprintf(last_name, sizeof(last_name), "%s/%s", fake->dir, name);
    unlink(private_name);
    int fd = open(private_name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FAKE_MUST(fd >= 0 && posix_fallocate(fd, 0, (off_t)bytes) == 0);
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    FAKE_MUST(base != MAP_FAILED);
    close(fd);
    FAKE_MUST(rename(private_name, last_name) == 0);
    return base;
}

static void fake_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

__attribute__((unused)) static uint64_t fake_size(uint32_t entry)
{
    return strlen("content of ") + strlen(fake_names[entry].name) + 1;
}

/* Writes the whole cache file of an entry, as the cache does, and its record. */
static uint64_t fake_fetch(struct fake *fake, uint32_t entry)
{
    char text[64];
    struct stat st;
    uint64_t id = ++fake->next_file_id;
    int len = snprintf(text, sizeof(text), "content of %s\n", fake_names[entry].name);
    mkdir(fake_path(fake, "objects/%02x", (unsigned)(id & 0xff)), 0700);
    const char *path = fake_path(fake, "objects/%02x/%016llx", (unsigned)(id & 0xff), (unsigned long long)id);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
    FAKE_MUST(fd >= 0 && write(fd, text, (size_t)len) == len);
    uint32_t nonce = (uint32_t)(hr_mix64(id) % 1000000000u);
    struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = 1, .tv_nsec = nonce}};
    FAKE_MUST(futimens(fd, times) == 0);
    FAKE_MUST(syscall(SYS_fstat, fd, &st) == 0);
    close(fd);

    uint64_t at = hr_ino_slot(st.st_ino, FAKE_RESIDENTS);
    while (fake->residents->records[at].ino != 0) {
        at = (at + 1) % FAKE_RESIDENTS;
    }
    struct hr_resident *record = &fake->residents->records[at];
    const char *folder = fake_names[entry].parent ? "p/a/" : "p/";
    atomic_fetch_add(&record->seq, 1);
    record->nonce = nonce;
    record->size = (uint64_t)len;
    record->mtime_ns = FAKE_MTIME_NS;
    record->object_dev = FAKE_DEV;
    record->object_ino = hr_object_ino(FAKE_SALT, folder, strlen(folder), fake_names[entry].name,
                                       strlen(fake_names[entry].name));
    record->file_id = id;
    atomic_store(&record->ino, st.st_ino);
    atomic_fetch_add(&record->seq, 1);
    return id;
}

static void fake_set_state(struct fake *fake, uint32_t entry, unsigned kind, int error)
{
    _Atomic uint32_t *word = &fake->states->states[entry].word;
    atomic_store(word, HR_STATE_NEXT(atomic_load(word), kind, error));
    fake_wake(word);
}

/* The cache file of an entry goes away, as an eviction does; or as somebody's rm does, and no word of it. */
__attribute__((unused)) static void fake_evict(struct fake *fake, uint32_t entry, bool tell)
{
    uint64_t id = atomic_load(&fake->states->states[entry].file_id);
    unlink(fake_path(fake, "objects/%02x/%016llx", (unsigned)(id & 0xff), (unsigned long long)id));
    if (tell) {
        fake_set_state(fake, entry, HR_STATE_ABSENT, 0);
    }
}

__attribute__((unused)) static void fake_say(struct fake *fake, const char *message)
{
    struct hr_tree *tree = &fake->control->trees[FAKE_TREE];
    uint32_t sequence = atomic_load(&tree->message_seq);
    atomic_store(&tree->message_seq, sequence + 1);
    snprintf(tree->message, sizeof(tree->message), "%s", message);
    atomic_store(&tree->message_seq, sequence + 2);
}

static uint64_t fake_align(uint64_t at)
{
    return (at + 63) & ~(uint64_t)63;
}

/* Publishes generation `gen` of the index, with new states and uses. */
__attribute__((unused)) static void fake_publish(struct fake *fake, uint32_t gen)
{
    enum { HASH_SLOTS = 16, TEXT = 64 };
    char name[128];
    struct hr_names header = {.magic = HR_MAGIC_NAMES,
                              .abi_version = HR_ABI_VERSION,
                              .gen = gen,
                              .tree_id = FAKE_TREE_ID,
                              .entry_count = FAKE_ENTRIES,
                              .dir_count = 2,
                              .hash_slots = HASH_SLOTS,
                              .text_bytes = TEXT};
    header.entries_offset = sizeof(header);
    header.dirs_offset = fake_align(header.entries_offset + sizeof(struct hr_entry) * FAKE_ENTRIES);
    header.hash_offset = fake_align(header.dirs_offset + sizeof(fake_dirs));
    header.text_offset = fake_align(header.hash_offset + sizeof(uint32_t) * HASH_SLOTS);
    header.file_bytes = header.text_offset + TEXT;
    snprintf(name, sizeof(name), "index/%016llx-%08x.names", (unsigned long long)FAKE_TREE_ID, gen);
    char *base = fake_map(fake, name, header.file_bytes);
    memcpy(base, &header, sizeof(header));
    memcpy(base + header.dirs_offset, fake_dirs, sizeof(fake_dirs));
    struct hr_entry *entries = (struct hr_entry *)(base + header.entries_offset);
    uint32_t *hash = (uint32_t *)(base + header.hash_offset);
    uint32_t text = 0;
    for (uint32_t i = 0; i < FAKE_ENTRIES; i++) {
        size_t len = strlen(fake_names[i].name);
        bool dir = i == FAKE_ROOT || fake_names[i].dir;
        entries[i] = (struct hr_entry){.name_low = text,
                                       .name_len = (uint8_t)len,
                                       .kind = dir ? HR_KIND_DIR : HR_KIND_FILE,
                                       .size = dir ? fake_names[i].dir : fake_size(i),
                                       .mtime_ns = FAKE_MTIME_NS};
        memcpy(base + header.text_offset + text, fake_names[i].name, len);
        text += (uint32_t)len;
        if (i > 0) {
            uint64_t at =
                hr_index_slot(hr_index_hash(fake_names[i].parent, fake_names[i].name, len), HASH_SLOTS);
            while (hash[at % HASH_SLOTS]) {
                at++;
            }
            hash[at % HASH_SLOTS] = i;
        }
    }
    struct hr_states *old = fake->states;
    snprintf(name, sizeof(name), "index/%016llx-%08x-%016llx.states", (unsigned long long)FAKE_TREE_ID, gen,
             (unsigned long long)fake->boot);
    struct hr_states *states = fake_map(fake, name, sizeof(*states) + sizeof(struct hr_state) * FAKE_ENTRIES);
    states->magic = HR_MAGIC_STATES;
    states->abi_version = HR_ABI_VERSION;
    states->boot = fake->boot;
    states->entry_count = FAKE_ENTRIES;
    snprintf(name, sizeof(name), "index/%016llx-%08x-%016llx.uses", (unsigned long long)FAKE_TREE_ID, gen,
             (unsigned long long)fake->boot);
    struct hr_uses *uses = fake_map(fake, name, sizeof(*uses) + FAKE_ENTRIES);
    uses->magic = HR_MAGIC_USES;
    uses->abi_version = HR_ABI_VERSION;
    uses->entry_count = FAKE_ENTRIES;
    fake->states = states;
    fake->uses = uses;
    atomic_store(&fake->control->trees[FAKE_TREE].gen, gen);
    if (old) {
        atomic_store(&old->retired, 1);
        for (uint32_t i = 0; i < FAKE_ENTRIES; i++) {
            fake_wake(&old->states[i].word);
        }
    }
}

static uint32_t fake_find(const char *path)
{
    for (uint32_t i = 1; i < FAKE_ENTRIES; i++) {
        char full[64];
        snprintf(full, sizeof(full), "%s%s", fake_names[i].parent ? "a/" : "", fake_names[i].name);
        if (strcmp(full, path) == 0) {
            return i;
        }
    }
    return 0;
}

static void fake_answer(struct fake *fake, const struct hr_slot *slot)
{
    struct hr_answer *answer = &fake->control->answers[slot->ticket % HR_ANSWERS];
    char path[HR_KEY_MAX + 1] = "";
    memcpy(path, slot->path, slot->path_len);
    uint32_t entry = fake_find(path);
    atomic_store(&answer->word, slot->ticket - 1);
    answer->error = 0;
    if (slot->op == HR_OP_SEGMENT || slot->op == HR_OP_WHOLE) {
        void (*large)(struct fake *, const struct hr_slot *, struct hr_answer *) = atomic_load(&fake->large);
        FAKE_MUST(large);
        large(fake, slot, answer);
    } else if (slot->op == HR_OP_STANDIN) {
        char full[PATH_MAX];
        int len = snprintf(full, sizeof(full), "%s/dirs/%016llx/%s/", fake->dir,
                           (unsigned long long)slot->map_hash, path);
        for (int i = (int)strlen(fake->dir) + 1; i < len; i++) {
            if (full[i] == '/') {
                full[i] = '\0';
                mkdir(full, 0700);
                full[i] = '/';
            }
        }
    } else if (slot->op == HR_OP_DIR) {
        if (atomic_load(&fake->publish_on_list)) {
            fake_publish(fake, 1);
        } else {
            answer->error = -EACCES;
        }
    } else if (entry == 0) {
        answer->error = -ENOENT;
    } else if (entry == FAKE_DENIED && slot->op == HR_OP_OPEN) {
        answer->error = -EACCES;
    } else {
        answer->kind = fake_names[entry].dir ? HR_KIND_DIR : HR_KIND_FILE;
        answer->size = fake_size(entry);
        answer->mtime_ns = FAKE_MTIME_NS;
        if (slot->op == HR_OP_OPEN && answer->kind == HR_KIND_FILE) {
            answer->file_id = fake_fetch(fake, entry);
        }
    }
    atomic_store(&answer->word, slot->ticket);
    fake_wake(&answer->word);
}

static void fake_serve(struct fake *fake, const struct hr_slot *slot)
{
    FAKE_MUST(slot->path_len <= HR_KEY_MAX && slot->checksum == hr_slot_checksum(slot, slot->path_len));
    FAKE_MUST(slot->op > HR_OP_NONE && slot->op < HR_OP_COUNT);
    FAKE_MUST(slot->tree == FAKE_TREE || slot->op == HR_OP_SEGMENT || slot->op == HR_OP_WHOLE ||
              slot->op == HR_OP_ANNOUNCE);
    atomic_fetch_add(&fake->requests[slot->op], 1);
    FAKE_MUST(slot->op != HR_OP_SEGMENT || slot->entry < HR_HINTS);
    atomic_fetch_add(&fake->hints[hr_slot_hint(slot)], slot->op == HR_OP_SEGMENT);
    if (slot->op == HR_OP_ANNOUNCE) {
        return; /* has no answer */
    }
    if (atomic_load(&fake->lose)) {
        atomic_fetch_sub(&fake->lose, 1);
        return;
    }
    usleep(atomic_load(&fake->delay_ms) * 1000);
    if (slot->op != HR_OP_FETCH) {
        fake_answer(fake, slot);
    } else if (slot->gen == atomic_load(&fake->control->trees[FAKE_TREE].gen) && slot->entry != FAKE_STUCK) {
        FAKE_MUST(slot->entry < FAKE_ENTRIES);
        if (slot->entry == FAKE_DENIED) {
            fake_say(fake, "GET of p/denied: 403, the key may not read it");
            fake_set_state(fake, slot->entry, HR_STATE_FAILED, EACCES);
        } else {
            atomic_store(&fake->states->states[slot->entry].file_id, fake_fetch(fake, slot->entry));
            fake_set_state(fake, slot->entry, HR_STATE_RESIDENT, 0);
        }
    }
}

static void *fake_run(void *pointer)
{
    struct fake *fake = pointer;
    while (!atomic_load(&fake->stop)) {
        uint32_t bell = atomic_load(&fake->slots->doorbell);
        atomic_store(&fake->control->heartbeat_ms, fake_now_ms());
        for (uint32_t i = 0; i < HR_SLOTS && !atomic_load(&fake->deaf); i++) {
            uint64_t claim = atomic_load(&fake->slots->claims[i]);
            if (HR_CLAIM_STATE(claim) == HR_CLAIM_FULL) {
                struct hr_slot slot = fake->slots->slots[i];
                atomic_store(&fake->slots->claims[i], 0);
                fake_serve(fake, &slot);
            } else if (HR_CLAIM_STATE(claim) == HR_CLAIM_CLAIMED &&
                       (uint32_t)fake_now_ms() - (uint32_t)(claim >> 32) > HR_CLAIM_STALE_MS) {
                atomic_compare_exchange_strong(&fake->slots->claims[i], &claim, 0);
            }
        }
        struct timespec beat = {.tv_nsec = HR_HEARTBEAT_MS / 4 * 1000000L};
        atomic_store(&fake->slots->sleeping, 1);
        syscall(SYS_futex, &fake->slots->doorbell, FUTEX_WAIT, bell, &beat, NULL, 0);
        atomic_store(&fake->slots->sleeping, 0);
    }
    return NULL;
}

/* Takes the lock, makes the files anew and starts beating. */
__attribute__((unused)) static void fake_start(struct fake *fake, const char *dir)
{
    static uint64_t boots = 0x1000;
    static uint64_t last_file_id;
    memset(fake, 0, sizeof(*fake));
    snprintf(fake->dir, sizeof(fake->dir), "%s", dir);
    fake->boot = ++boots;
    fake->next_file_id = last_file_id += 1000;
    mkdir(fake->dir, 0700);
    mkdir(fake_path(fake, "index"), 0700);
    mkdir(fake_path(fake, "objects"), 0700);
    mkdir(fake_path(fake, "dirs"), 0700);
    fake->lock_fd = open(fake_path(fake, "lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    FAKE_MUST(fake->lock_fd >= 0 && fcntl(fake->lock_fd, F_OFD_SETLK, &lock) == 0);

    char name[64];
    struct stat st;
    fake->slots = fake_map(fake, "slots", sizeof(*fake->slots));
    fake->slots->magic = HR_MAGIC_SLOTS;
    fake->slots->abi_version = HR_ABI_VERSION;
    fake->slots->boot = fake->boot;
    snprintf(name, sizeof(name), "residents-%016llx-%08x", (unsigned long long)fake->boot, 1u);
    fake->residents =
        fake_map(fake, name, sizeof(*fake->residents) + FAKE_RESIDENTS * sizeof(struct hr_resident));
    fake->residents->magic = HR_MAGIC_RESIDENTS;
    fake->residents->abi_version = HR_ABI_VERSION;
    fake->residents->capacity = FAKE_RESIDENTS;
    FAKE_MUST(stat(fake_path(fake, "lock"), &st) == 0);

    /* Filled before it has its name. */
    struct hr_control *control = fake_map(fake, "control.filling", sizeof(*control));
    fake->control = control;
    control->magic = HR_MAGIC_CONTROL;
    control->abi_version = HR_ABI_VERSION;
    control->uid = geteuid();
    control->boot = fake->boot;
    control->cache_dev = st.st_dev;
    atomic_store(&control->residents_gen, 1);
    atomic_store(&control->use_clock, 9);
    struct hr_tree *tree = &control->trees[FAKE_TREE];
    tree->id = FAKE_TREE_ID;
    tree->dev = FAKE_DEV;
    tree->salt = FAKE_SALT;
    tree->start_ns = FAKE_MTIME_NS;
    tree->prefix_len = strlen(FAKE_PREFIX);
    memcpy(tree->prefix, FAKE_PREFIX, strlen(FAKE_PREFIX));
    struct hr_context *context = &control->contexts[0];
    hr_context_key(environ, geteuid(), context->key);
    context->map_count = 2;
    context->tree[0] = FAKE_TREE;
    context->tree[1] = FAKE_TREE;
    atomic_store(&context->ready, 1);
    atomic_store(&control->context_count, 1);
    atomic_store(&control->tree_count, FAKE_TREE + 1);
    atomic_store(&control->heartbeat_ms, fake_now_ms());
    char from[PATH_MAX];
    snprintf(from, sizeof(from), "%s/control.filling", fake->dir);
    FAKE_MUST(rename(from, fake_path(fake, "control")) == 0);
    FAKE_MUST(pthread_create(&fake->thread, NULL, fake_run, fake) == 0);
}

/* As kill -9 does: the lock is free, nothing is tidied. Or a proper end: the control file says so. */
__attribute__((unused)) static void fake_die(struct fake *fake, bool retire)
{
    atomic_store(&fake->stop, true);
    pthread_join(fake->thread, NULL);
    if (retire) {
        atomic_store(&fake->control->retired, 1);
    }
    close(fake->lock_fd);
}

/* The constructor reads the environment, so a test that needs maps starts itself again with them, as a copy
 * in a directory of its own where a script plays the headrace command. Returns in the second run: that
 * directory. */
__attribute__((unused)) static const char *fake_reexec(char **argv, const char *maps)
{
    static char home[128];
    const char *known = getenv("HR_TEST_HOME");
    if (known) {
        snprintf(home, sizeof(home), "%s", known);
        return home;
    }
    char copy[256], buffer[65536];
    snprintf(home, sizeof(home), "%s/hr-unit-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    FAKE_MUST(mkdtemp(home) != NULL);
    snprintf(copy, sizeof(copy), "%s/test", home);
    int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int out = open(copy, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    FAKE_MUST(in >= 0 && out >= 0);
    for (ssize_t got; (got = read(in, buffer, sizeof(buffer))) > 0;) {
        FAKE_MUST(write(out, buffer, (size_t)got) == got);
    }
    close(in);
    close(out);
    setenv("HR_TEST_HOME", home, 1);
    setenv("HEADRACE_MAP", maps, 1);
    execv(copy, argv);
    FAKE_MUST(false);
    return NULL;
}

/* The script that stands for `headrace`: $1 attach, $2 --fd, $3 the descriptor. */
__attribute__((unused)) static void fake_command(const char *home, const char *body)
{
    char path[256], text[2048];
    snprintf(path, sizeof(path), "%s/headrace", home);
    int len = snprintf(
        text, sizeof(text),
        "#!/bin/sh\necho run >> %s/attaches\nfd=$3\nsay() { eval \"echo \\\"\\$1\\\" >&$fd\"; }\n%s\n", home,
        body);
    FAKE_MUST(len > 0 && (size_t)len < sizeof(text));
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    FAKE_MUST(fd >= 0 && write(fd, text, (size_t)len) == len);
    close(fd);
}

/* Starts the test again with one map and a daemon in cache_dir HOME/cache (220 bytes), which attaching finds.
 * Returns in the second run: HOME. */
__attribute__((unused)) static const char *fake_begin(struct fake *fake, char **argv, char cache[220])
{
    char body[400];
    const char *home = fake_reexec(argv, FAKE_MAP_TEXT);
    snprintf(cache, 220, "%s/cache", home);
    fake_start(fake, cache);
    snprintf(body, sizeof(body), "say 'ok %s'", cache);
    fake_command(home, body);
    return home;
}

/* How often that script ran. */
__attribute__((unused)) static unsigned fake_attaches(const char *home)
{
    char path[256], c;
    unsigned count = 0;
    snprintf(path, sizeof(path), "%s/attaches", home);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && read(fd, &c, 1) == 1) {
        count += c == '\n';
    }
    if (fd >= 0) {
        close(fd);
    }
    return count;
}

__attribute__((unused)) static void fake_tidy(const char *home)
{
    char command[300];
    snprintf(command, sizeof(command), "chmod -R u+rwX %s && rm -rf %s", home, home);
    unsetenv("HEADRACE_MAP");
    FAKE_MUST(strstr(home, "/hr-unit-") != NULL && system(command) == 0);
}

#endif
