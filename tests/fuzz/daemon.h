/* The daemon's inside for fuzzers: plan, cache and one listed tree on shared memory, with no transport, so
 * that whatever is asked for leaves no machine. */
#ifndef TESTS_FUZZ_DAEMON_H
#define TESTS_FUZZ_DAEMON_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/base/clock.h"
#include "fetch/base/log.h"
#include "fetch/cache/cache.h"
#include "fetch/list/builder.h"
#include "fetch/list/publish.h"
#include "fetch/net/loop.h"
#include "fetch/plan/inner.h"
#include "fetch/serve/shm.h"
#include "tests/fuzz/scratch.h"

struct fuzz_daemon {
    struct hr_loop *loop;
    struct hr_shm shm;
    struct hr_stores *stores;
    struct hr_store *store;
    struct hr_plan *plan;
    struct hr_cache *cache;
    uint32_t tree;
};

static struct fuzz_daemon fuzz;

static void fuzz_check(int error)
{
    if (error < 0) {
        fprintf(stderr, "setting up: %s\n", strerror(-error));
        abort();
    }
}

static const char *fuzz_env(void *owner, const char *name)
{
    (void)owner;
    return strcmp(name, "AWS_ENDPOINT_URL") == 0 ? "http://127.0.0.1:9"
           : strcmp(name, "HOME") == 0           ? scratch
                                                 : NULL;
}

static void fuzz_new_plan(uint64_t boot)
{
    struct hr_plan_options options = {.loop = fuzz.loop,
                                      .control = fuzz.shm.control,
                                      .cache_dir = scratch,
                                      .boot = boot,
                                      .connections = 16,
                                      .memory_bytes = 32 << 20,
                                      .small_max_bytes = 8 << 20};
    fuzz_check(hr_plan_new(&options, &fuzz.plan));
    hr_plan_set_cache(fuzz.plan, fuzz.cache);
    struct hr_tree_settings settings = {.prefetch = true, .revalidate_s = INT64_MAX};
    fuzz_check(hr_plan_tree(fuzz.plan, fuzz.store, "p/", 2, &settings, &fuzz.tree));
}

/* Twice the plan: the first one tells the tree's id, the second finds an index there. */
static void fuzz_start(void)
{
    static const char *const keys[] = {"a", "d/x", "d/y", "d/e/z", "l"};
    char message[256];
    struct hr_index_builder *builder = NULL;
    struct hr_index index;
    scratch_make("/tmp");
    (void)hr_log_open("/dev/null", HR_LOG_ERROR);
    fuzz_check(hr_loop_new(&fuzz.loop));
    fuzz_check(hr_shm_create(scratch, 7, -1, &fuzz.shm));
    struct hr_stores_options stores = {.loop = fuzz.loop, .timeout_ms = 1000};
    fuzz_check(hr_stores_new(&stores, &fuzz.stores));
    struct hr_store_options store = {.url = "s3://bucket/", .env = fuzz_env};
    fuzz_check(hr_store_new(fuzz.stores, &store, message, &fuzz.store));
    struct hr_cache_options cache = {
        .dir = scratch, .size_bytes = 1 << 30, .writer_threads = 1, .boot = 7, .loop = fuzz.loop};
    fuzz_check(hr_cache_open(&cache, message, &fuzz.cache));
    fuzz_new_plan(7);
    uint64_t tree_id = fuzz.shm.control->trees[fuzz.tree].id;
    hr_plan_free(fuzz.plan);
    fuzz_check(hr_builder_new(&builder));
    for (unsigned i = 0; i < sizeof keys / sizeof *keys; i++) {
        fuzz_check(hr_builder_add(builder, keys[i], (uint32_t)strlen(keys[i]), i == 4 ? 100 << 20 : i * 1000,
                                  1, "0123456789abcdef0123456789abcdef"));
    }
    char index_dir[80];
    snprintf(index_dir, sizeof index_dir, "%s/index", scratch);
    fuzz_check(hr_builder_publish(builder, index_dir, tree_id, 1, hr_clock_wall_ns(), &index));
    hr_index_unmap(&index);
    hr_builder_free(builder);
    fuzz_new_plan(8);
    MUST(hr_tree_get(fuzz.plan, fuzz.tree)->index.names);
}

#endif
