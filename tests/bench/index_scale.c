/* The index alone, at any number of ImageNet-like keys of 45 bytes: CPU a key, memory while it is built,
 * bytes an object, time to adopt and to check a file, time of a look-up that hits and of one that misses.
 * index_scale KEYS DIR: one JSON line a figure: name, value, unit, and aim with the better side where there
 * is one.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fetch/list/publish.h"

#define CLASSES 1000
#define TREE_ID 1
#define LOOKUPS 1000000u
#define SAMPLE_MS 5

static uint64_t keys;

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void row(const char *name, double value, const char *unit, const char *better, double aim)
{
    printf("{\"name\": \"index of %" PRIu64 " keys: %s\", \"value\": %.6g, \"unit\": \"%s\"", keys, name,
           value, unit);
    if (better != NULL) {
        printf(", \"aim\": \"%s %.0f\"", better, aim);
    }
    printf("}\n");
    fflush(stdout);
}

static void must(int rc, const char *what)
{
    if (rc < 0) {
        fprintf(stderr, "index_scale: %s: %s\n", what, strerror(-rc));
        exit(1);
    }
}

/* ---- what it holds in memory ---- */

static _Atomic uint64_t anon_most;
static atomic_bool sampled;

static uint64_t anon_kib(void)
{
    char line[128];
    uint64_t kib = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file != NULL && fgets(line, sizeof(line), file)) {
        if (sscanf(line, "RssAnon: %" SCNu64, &kib) == 1) {
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return kib;
}

static void *sample(void *unused)
{
    (void)unused;
    while (!atomic_load(&sampled)) {
        uint64_t kib = anon_kib();
        if (kib > atomic_load(&anon_most)) {
            atomic_store(&anon_most, kib);
        }
        nanosleep(&(struct timespec){.tv_nsec = SAMPLE_MS * 1000000}, NULL);
    }
    return NULL;
}

/* ---- keys, as a listing gives them ---- */

static int key_of(uint64_t n, char key[64], const char *ending)
{
    uint64_t each = (keys + CLASSES - 1) / CLASSES;
    return snprintf(key, 64, "train/n%08" PRIu64 "/ILSVRC12_train_%08" PRIu64 "%s", 1440764 + n / each * 7, n,
                    ending);
}

static void build(const char *dir)
{
    struct hr_index_builder *builder;
    struct hr_index index;
    char key[64];
    char etag[33];

    must(hr_builder_new(&builder), "builder");
    must(hr_builder_scratch(builder, dir), "scratch");
    double began = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (uint64_t n = 0; n < keys; n++) {
        int len = key_of(n, key, ".JPEG");
        /* Its digits cost a third of the loop when they are printed. */
        for (unsigned i = 0; i < 32; i++) {
            etag[i] = "0123456789abcdef"[(n * 0x9e3779b97f4a7c15ull >> (i % 16 * 4)) & 15];
        }
        etag[32] = '\0';
        must(hr_builder_add(builder, key, (uint32_t)len, 100000 + n % 1000, (int64_t)n * 1000000000, etag),
             "add");
    }
    double added = seconds(CLOCK_PROCESS_CPUTIME_ID);
    double wall = seconds(CLOCK_MONOTONIC);
    must(hr_builder_publish(builder, dir, TREE_ID, 1, 1, &index), "publish");
    double ended = seconds(CLOCK_PROCESS_CPUTIME_ID);
    row("CPU a key, added", (added - began) * 1e6 / (double)keys, "us", NULL, 0);
    row("CPU a key, published", (ended - added) * 1e6 / (double)keys, "us", NULL, 0);
    row("published in", seconds(CLOCK_MONOTONIC) - wall, "s", NULL, 0);
    row("built and published", (double)keys / (ended - began), "keys/CPU s", ">=", 1e6);
    double objects = (double)index.names->file_count;
    double file = (double)index.names->file_bytes;
    double entries = (double)index.names->entry_count;
    row("names file, an object", file / objects, "bytes", NULL, 0);
    /* And the state, the clients' note, the plan's mark, and one bit and a 16th of a rank. */
    row("all files, an object with a 45-byte key", (file + entries * (sizeof(struct hr_state) + 1)) / objects,
        "bytes", "<=", 100);
    row("mapped memory, an object with a 45-byte key",
        (file + entries * (sizeof(struct hr_state) + 2.2)) / objects, "bytes", "<=", 100);
    hr_index_unmap(&index);
    hr_builder_free(builder);
}

static double lookups_ns(const struct hr_index *index, const char *ending, int expected)
{
    char key[64];
    uint32_t entry;
    uint64_t random = 1;
    double took = 0;

    for (unsigned i = 0; i < LOOKUPS; i++) {
        random = hr_mix64(random + 0x9e3779b97f4a7c15ull);
        int len = key_of(random % keys, key, ending);
        double began = seconds(CLOCK_MONOTONIC);
        int rc = hr_index_lookup(index, key, (size_t)len, &entry);
        took += seconds(CLOCK_MONOTONIC) - began;
        if (rc != expected) {
            fprintf(stderr, "index_scale: '%s': %d\n", key, rc);
            exit(1);
        }
    }
    return took * 1e9 / LOOKUPS;
}

int main(int argc, char **argv)
{
    pthread_t sampler;
    struct hr_index index;
    struct hr_states *states;
    struct hr_uses *uses;

    keys = argc > 2 ? strtoull(argv[1], NULL, 10) : 0;

    if (keys == 0) {
        fprintf(stderr, "usage: index_scale KEYS DIR\n");
        return 2;
    }
    pthread_create(&sampler, NULL, sample, NULL);
    build(argv[2]);
    atomic_store(&sampled, true);
    pthread_join(sampler, NULL);
    row("RssAnon of the builder at its most", (double)atomic_load(&anon_most) / 1024, "MiB", "<=", 512);

    double began = seconds(CLOCK_MONOTONIC);
    must(hr_index_load(argv[2], TREE_ID, &index), "load");
    row("adopted in", (seconds(CLOCK_MONOTONIC) - began) * 1e3, "ms", NULL, 0);
    began = seconds(CLOCK_MONOTONIC);
    must(hr_states_create(argv[2], TREE_ID, 1, 1, index.names->entry_count, &states, &uses), "states");
    row("states made in", (seconds(CLOCK_MONOTONIC) - began) * 1e3, "ms", NULL, 0);
    double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    must(hr_index_verify(argv[2], TREE_ID, 1, NULL), "verify");
    row("CPU of a check of the file", seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu, "s", NULL, 0);
    must(hr_index_check(&index, NULL), "check"); /* its pages are there from here on */
    row("look-up of a key that is there", lookups_ns(&index, ".JPEG", 0), "ns", NULL, 0);
    row("look-up of a key that is not there", lookups_ns(&index, ".jpeg", -2), "ns", NULL, 0);
    hr_states_unmap(states, uses);
    hr_index_unmap(&index);
    return 0;
}
