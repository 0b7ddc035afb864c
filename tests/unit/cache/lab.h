/* What the cache's tests share: a directory of their own, a loop, a cache, puts that are waited for. */
#ifndef TESTS_UNIT_CACHE_LAB_H
#define TESTS_UNIT_CACHE_LAB_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "fetch/base/buf.h"
#include "fetch/base/clock.h"
#include "fetch/base/digest.h"
#include "fetch/base/text.h"
#include "fetch/cache/cache.h"
#include "fetch/net/loop.h"
#include "fetch/store/store.h"
#include "interpose/abi.h"

#define LAB_FN static __attribute__((unused))
#define MIB (1024ull * 1024)

static const struct hr_source_id lab_source = {{1, 2, 3}};

struct lab {
    char dir[512];  /* the cache directory */
    char home[256]; /* above it, removed at the end */
    struct hr_loop *loop;
    struct hr_cache *cache;
    uint64_t size_bytes;
    uint64_t boot;
    unsigned writers;
    uint64_t faces_max;
    bool awaited; /* puts wait for no others */
    /* evicted */
    unsigned evicted_count;
    unsigned evicted_kinds[3];
    uint64_t evicted_ids[4096];
    unsigned grown_count;
    uint32_t grown_gen;
};

struct lab_put {
    struct lab *lab;
    struct hr_put *put;
    bool done;
    int error;
    uint64_t file_id;
    uint64_t size;
    enum hr_cached_kind kind;
    char md5_hex[33];
    unsigned written_count;
    uint64_t written_bytes;
};

LAB_FN void lab_run_command(const char *command)
{
    assert_int_equal(system(command), 0);
}

LAB_FN void lab_evicted(void *owner, const struct hr_cached *cached)
{
    struct lab *lab = owner;
    assert_true(cached->key_len > 0 && strlen(hr_cached_key(cached)) == cached->key_len);
    if (lab->evicted_count < 4096) {
        lab->evicted_ids[lab->evicted_count] = cached->file_id;
    }
    lab->evicted_count++;
    lab->evicted_kinds[cached->kind]++;
}

LAB_FN void lab_grown(void *owner, uint32_t gen)
{
    struct lab *lab = owner;
    lab->grown_count++;
    lab->grown_gen = gen;
}

/* 0 or the error of hr_cache_open. */
LAB_FN int lab_try_open(struct lab *lab)
{
    char message[256] = "";
    lab->boot = hr_random_u64();
    const struct hr_cache_options options = {
        .dir = lab->dir,
        .size_bytes = lab->size_bytes,
        .free_bytes = 0,
        .writer_threads = lab->writers,
        .faces_max = lab->faces_max,
        .boot = lab->boot,
        .loop = lab->loop,
        .evicted = lab_evicted,
        .residents_grown = lab_grown,
        .owner = lab,
    };
    int r = hr_cache_open(&options, message, &lab->cache);
    if (r < 0) {
        print_message("hr_cache_open: %s\n", message);
    }
    return r;
}

LAB_FN void lab_open(struct lab *lab)
{
    assert_int_equal(lab_try_open(lab), 0);
}

LAB_FN void lab_close(struct lab *lab)
{
    hr_cache_close(lab->cache);
    lab->cache = NULL;
}

LAB_FN void lab_start_in(struct lab *lab, const char *home)
{
    char message[256] = "";
    *lab = (struct lab){.size_bytes = 256 * MIB, .writers = 2};
    (void)snprintf(lab->home, sizeof(lab->home), "%s", home);
    (void)snprintf(lab->dir, sizeof(lab->dir), "%.400s/cache", home);
    if (hr_cache_dir_check(lab->dir, message) < 0) {
        fail_msg("hr_cache_dir_check: %s", message);
    }
    assert_int_equal(hr_loop_new(&lab->loop), 0);
}

LAB_FN void lab_start(struct lab *lab)
{
    char home[256];
    (void)snprintf(home, sizeof(home), "%s/headrace-test-XXXXXX",
                   getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp");
    assert_non_null(mkdtemp(home));
    lab_start_in(lab, home);
}

LAB_FN void lab_end(struct lab *lab)
{
    char command[1024];
    hr_cache_close(lab->cache);
    hr_loop_free(lab->loop);
    (void)snprintf(command, sizeof(command), "chmod -R u+rwX '%s' && rm -rf '%s'", lab->home, lab->home);
    lab_run_command(command);
}

/* Bytes that depend on the key and on nothing else, so that any process can check a file. */
LAB_FN void lab_fill(struct hr_buf *buf, const char *key, uint64_t from, size_t len)
{
    uint64_t seed = 0;
    for (const char *at = key; *at; at++) {
        seed = hr_mix64(seed ^ (unsigned char)*at);
    }
    hr_buf_init(buf, SIZE_MAX / 2);
    assert_int_equal(hr_buf_reserve(buf, len + 8), 0);
    for (uint64_t at = from; at < from + len; at++) {
        buf->data[at - from] = (char)(hr_mix64(seed + at / 8) >> (8 * (at % 8)));
    }
    buf->len = len;
    buf->data[len] = '\0';
}

LAB_FN void lab_on_done(void *owner, struct hr_put *put, int error, const struct hr_cached *cached)
{
    struct lab_put *state = owner;
    assert_false(state->done);
    assert_ptr_equal(put, state->put);
    assert_true(error ? !cached : cached != NULL);
    state->done = true;
    state->error = error;
    state->file_id = cached ? cached->file_id : 0;
    state->size = cached ? cached->size : 0;
    state->kind = cached ? cached->kind : HR_CACHED_WHOLE;
    memcpy(state->md5_hex, hr_put_body_md5_hex(put), sizeof(state->md5_hex));
    hr_loop_stop(state->lab->loop);
}

LAB_FN void lab_on_written(void *owner, uint64_t bytes)
{
    struct lab_put *state = owner;
    state->written_count++;
    state->written_bytes += bytes;
    hr_loop_stop(state->lab->loop);
}

LAB_FN struct hr_put_options lab_options(struct lab_put *state, const char *key, const char *etag,
                                         uint64_t size)
{
    return (struct hr_put_options){
        .source = lab_source,
        .object_dev_salt = 77,
        .object_dev = 4242,
        .key = key,
        .key_len = (uint32_t)strlen(key),
        .etag = etag,
        .size = size,
        .mtime_ns = 1700000000123456789,
        .done = lab_on_done,
        .owner = state,
    };
}

LAB_FN int lab_begin(struct lab *lab, struct lab_put *state, const char *key, const char *etag, uint64_t size)
{
    *state = (struct lab_put){.lab = lab};
    struct hr_put_options options = lab_options(state, key, etag, size);
    options.awaited = lab->awaited;
    return hr_put_begin(lab->cache, &options, &state->put);
}

LAB_FN int lab_part(struct lab_put *state, const char *key, uint64_t from, size_t len)
{
    struct hr_buf part;
    lab_fill(&part, key, from, len);
    int r = hr_put_part(state->put, from, &part, lab_on_written, state);
    assert_true(r < 0 || (!part.data && !part.len));
    hr_buf_release(&part);
    return r;
}

LAB_FN void lab_wait(struct lab_put *state)
{
    while (!state->done) {
        assert_int_equal(hr_loop_run(state->lab->loop), 0);
    }
}

/* A whole put in one part. Returns the error; *ret_id (may be NULL) the file id. */
LAB_FN int lab_put_whole(struct lab *lab, const char *key, const char *etag, size_t size,
                         const struct hr_verify *verify, uint64_t *ret_id)
{
    struct lab_put state;
    int r = lab_begin(lab, &state, key, etag, size);
    if (r < 0) {
        return r;
    }
    if (size) {
        r = lab_part(&state, key, 0, size);
        assert_int_equal(r, 0);
    }
    hr_put_finish(state.put, verify);
    lab_wait(&state);
    assert_int_equal(state.written_bytes, size);
    if (ret_id) {
        *ret_id = state.file_id;
    }
    return state.error;
}

LAB_FN const struct hr_cached *lab_find(struct lab *lab, const char *key, const char *etag)
{
    return hr_cache_find(lab->cache, &lab_source, key, (uint32_t)strlen(key), etag);
}

LAB_FN void lab_path(const struct lab *lab, uint64_t id, char path[PATH_MAX])
{
    (void)snprintf(path, PATH_MAX, "%s/objects/%02x/%016" PRIx64, lab->dir, (unsigned)(id & 0xff), id);
}

/* Is the file of this object there, whole, right, 0400? */
LAB_FN bool lab_file_right(const struct lab *lab, uint64_t id, const char *key, uint64_t size)
{
    char path[PATH_MAX];
    struct stat st;
    struct hr_buf want;
    lab_path(lab, id, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    lab_fill(&want, key, 0, size);
    char *got = malloc(size + 1);
    bool right = !fstat(fd, &st) && (st.st_mode & 07777) == 0400 && (uint64_t)st.st_size == size &&
                 read(fd, got, size + 1) == (ssize_t)size && !memcmp(got, want.data, size);
    free(got);
    hr_buf_release(&want);
    (void)close(fd);
    return right;
}

LAB_FN bool lab_file_there(const struct lab *lab, uint64_t id)
{
    char path[PATH_MAX];
    lab_path(lab, id, path);
    return access(path, F_OK) == 0;
}

/* Files below a folder of the cache, at any depth. */
LAB_FN unsigned lab_count_files(const char *path)
{
    unsigned count = 0;
    DIR *stream = opendir(path);
    if (!stream) {
        return 0;
    }
    for (const struct dirent *entry = readdir(stream); entry; entry = readdir(stream)) {
        char below[PATH_MAX];
        struct stat st;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) {
            continue;
        }
        (void)snprintf(below, sizeof(below), "%.3000s/%s", path, entry->d_name);
        if (!lstat(below, &st) && S_ISDIR(st.st_mode)) {
            count += lab_count_files(below);
        } else {
            count++;
        }
    }
    (void)closedir(stream);
    return count;
}

LAB_FN unsigned lab_count(const struct lab *lab, const char *folder)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%.3000s/%s", lab->dir, folder);
    return lab_count_files(path);
}

LAB_FN struct hr_cache_stats lab_stats(const struct lab *lab)
{
    struct hr_cache_stats stats;
    hr_cache_stats(lab->cache, &stats);
    return stats;
}

/* Lets unlinks and everything else that is under way end. */
LAB_FN void lab_on_timer(void *owner)
{
    hr_loop_stop(owner);
}

LAB_FN void lab_linger(struct lab *lab, int64_t ms)
{
    struct hr_timer timer = HR_TIMER_INIT(lab_on_timer, lab->loop);
    assert_int_equal(hr_loop_arm(lab->loop, &timer, ms), 0);
    while (timer.heap_index >= 0) {
        assert_int_equal(hr_loop_run(lab->loop), 0);
    }
}

LAB_FN void lab_await_gone(struct lab *lab, uint64_t id)
{
    for (int i = 0; i < 500 && lab_file_there(lab, id); i++) {
        lab_linger(lab, 10);
    }
    assert_false(lab_file_there(lab, id));
}

/* cmocka's, of tests that open the cache themselves. */
LAB_FN int lab_set_up(void **state)
{
    struct lab *lab = malloc(sizeof(*lab));
    lab_start(lab);
    *state = lab;
    return 0;
}

LAB_FN int lab_tear_down(void **state)
{
    lab_end(*state);
    free(*state);
    return 0;
}

#endif
