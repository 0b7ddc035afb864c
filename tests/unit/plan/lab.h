/* What the plan's tests share: a whole fetching side (loop, transport, stores, cache, plan) against the
 * server of s3.h, in a directory of its own. */
#ifndef TESTS_PLAN_LAB_H
#define TESTS_PLAN_LAB_H

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <cmocka.h>

#include "config/settings.h"
#include "fetch/base/clock.h"
#include "fetch/base/log.h"
#include "fetch/plan/inner.h"
#include "tests/unit/plan/s3.h"

#define LAB_FN static __attribute__((unused))
#define LAB_ANSWERS 4096
#define LAB_WAIT_MS 60000 /* sanitizers on a loaded machine */
#define LAB_BEAT_MS 20
#define KIB 1024ull
#define MIB (1024ull * KIB)

struct lab_answer {
    unsigned times;
    struct hr_answer answer;
};

struct lab {
    char dir[64];
    struct s3 *s3;
    struct hr_loop *loop;
    struct hr_http *http;
    struct hr_stores *stores;
    struct hr_store *store;
    struct hr_control *control;
    struct hr_cache *cache;
    struct hr_plan *plan;
    struct hr_timer beat;
    uint32_t tree;
    struct lab_answer answers[LAB_ANSWERS];
    bool (*until)(struct lab *lab);
    int64_t deadline_ms;
    unsigned beats, over_beats; /* heartbeats; lab_run_ms: until so many */
    int64_t over_ms;            /* ...and this time */
    bool ended;
};

struct lab_options {
    uint64_t cache_bytes, memory_bytes, small_max_bytes;
    unsigned connections, timeout_ms, list_lanes;
    bool prefetch, follow, list_all;
    enum hr_list_mode list;
    const char *prefix;
};

static const char *lab_env(void *owner, const char *name)
{
    static char endpoint[64];
    struct lab *lab = owner;
    if (strcmp(name, "AWS_ENDPOINT_URL") == 0) {
        snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%u", lab->s3->port);
        return endpoint;
    }
    if (strcmp(name, "HOME") == 0) {
        return lab->dir;
    }
    return strcmp(name, "AWS_EC2_METADATA_DISABLED") == 0 ? "true" : NULL;
}

static void lab_look(void *owner)
{
    struct lab *lab = owner;
    if (!lab->until || lab->until(lab) || hr_clock_ms() > lab->deadline_ms) {
        hr_loop_stop(lab->loop);
    }
}

static void lab_beat(void *owner)
{
    struct lab *lab = owner;
    (void)hr_plan_tick(lab->plan);
    lab->beats++;
    (void)hr_loop_arm(lab->loop, &lab->beat, LAB_BEAT_MS);
}

/* Runs the loop until it is so. */
LAB_FN void lab_until(struct lab *lab, bool (*until)(struct lab *lab))
{
    lab->until = until;
    lab->deadline_ms = hr_clock_ms() + LAB_WAIT_MS;
    if (!until(lab)) {
        assert_int_equal(hr_loop_run(lab->loop), 0);
        assert_true(until(lab));
    }
    lab->until = NULL;
}

static bool lab_is_over(struct lab *lab)
{
    return lab->beats >= lab->over_beats && hr_clock_ms() >= lab->over_ms;
}

/* So long at the least, and as many heartbeats as that has: on a loaded machine they come late. */
LAB_FN void lab_run_ms(struct lab *lab, int64_t ms)
{
    lab->over_beats = lab->beats + (unsigned)(ms / LAB_BEAT_MS);
    lab->over_ms = hr_clock_ms() + ms;
    lab_until(lab, lab_is_over);
}

LAB_FN uint32_t lab_tree(struct lab *lab, const struct lab_options *options, const char *prefix)
{
    uint32_t number = UINT32_MAX;
    struct hr_tree_settings settings = {.prefetch = options->prefetch,
                                        .follow = options->follow,
                                        .list = options->list_all ? HR_LIST_ALL : options->list,
                                        .revalidate_s = 3600};
    assert_int_equal(
        hr_plan_tree(lab->plan, lab->store, prefix, (uint32_t)strlen(prefix), &settings, &number), 0);
    return number;
}

LAB_FN struct hr_store *lab_store(struct lab *lab)
{
    char message[256];
    struct hr_store *store = NULL;
    struct hr_store_options options = {.url = "s3://bucket/", .env = lab_env, .env_owner = lab};
    assert_int_equal(hr_store_new(lab->stores, &options, message, &store), 0);
    return store;
}

LAB_FN void lab_open(struct lab *lab, const struct lab_options *options)
{
    char message[256] = "";
    assert_int_equal(hr_loop_new(&lab->loop), 0);
    struct hr_http_options http = {.threads = 1, .max_connections = 256, .user_agent = "test"};
    assert_int_equal(hr_http_new(&http, lab->loop, &lab->http), 0);
    struct hr_stores_options stores = {.loop = lab->loop,
                                       .http = lab->http,
                                       .timeout_ms = options->timeout_ms ? options->timeout_ms : 10000};
    assert_int_equal(hr_stores_new(&stores, &lab->stores), 0);
    lab->store = lab_store(lab);
    lab->control = calloc(1, sizeof *lab->control);
    assert_non_null(lab->control);
    uint64_t boot = hr_random_u64();
    struct hr_plan_options plan = {
        .loop = lab->loop,
        .control = lab->control,
        .cache_dir = lab->dir,
        .boot = boot,
        .connections = options->connections ? options->connections : 256,
        .list_lanes = options->list_lanes,
        .memory_bytes = options->memory_bytes ? options->memory_bytes : 64 * MIB,
        .small_max_bytes = options->small_max_bytes ? options->small_max_bytes : 8 * MIB,
    };
    assert_int_equal(hr_plan_new(&plan, &lab->plan), 0);
    struct hr_cache_options cache = {
        .dir = lab->dir,
        .size_bytes = options->cache_bytes ? options->cache_bytes : 256 * MIB,
        .writer_threads = 2,
        .boot = boot,
        .loop = lab->loop,
        .evicted = hr_plan_evicted,
        .needed_later = hr_plan_needed_later,
        .residents_grown = hr_plan_residents_grown,
        .owner = lab->plan,
    };
    assert_int_equal(hr_cache_open(&cache, message, &lab->cache), 0);
    hr_plan_set_cache(lab->plan, lab->cache);
    lab->beat = (struct hr_timer)HR_TIMER_INIT(lab_beat, lab);
    assert_int_equal(hr_loop_arm(lab->loop, &lab->beat, LAB_BEAT_MS), 0);
    hr_loop_each_turn(lab->loop, lab_look, lab);
    lab->ended = false;
    lab->tree = lab_tree(lab, options, options->prefix ? options->prefix : "");
}

/* In the daemon's order. */
LAB_FN void lab_close(struct lab *lab)
{
    hr_plan_stop(lab->plan);
    hr_http_free(lab->http);
    hr_stores_free(lab->stores);
    hr_cache_close(lab->cache);
    struct hr_plan_stats stats;
    hr_plan_stats(lab->plan, &stats);
    assert_int_equal(stats.in_flight, 0);
    assert_int_equal(stats.memory_bytes, 0);
    hr_plan_free(lab->plan);
    hr_store_unref(lab->store);
    hr_loop_free(lab->loop);
    free(lab->control);
    lab->ended = true;
}

/* The daemon is told to end while requests are under way: what is answered has its answer. */
LAB_FN void lab_cut_off(struct lab *lab)
{
    lab_run_ms(lab, 50);
    hr_plan_stop(lab->plan);
    hr_http_free(lab->http);
    lab->http = NULL;
}

/* Tickets 1 to `count` wait, and are canceled, once. */
LAB_FN void lab_close_cancels(struct lab *lab, uint32_t count)
{
    lab_close(lab);
    for (uint32_t i = 1; i <= count; i++) {
        assert_int_equal(lab->answers[i].times, 1);
        assert_int_equal(lab->answers[i].answer.error, -ECANCELED);
    }
}

LAB_FN int lab_set_up(void **state)
{
    struct lab *lab = calloc(1, sizeof *lab);
    (void)hr_log_open("/dev/null", HR_LOG_ERROR);
    struct statvfs shm; /* closing a cache syncs, which a busy disk makes slow */
    bool in_memory = statvfs("/dev/shm", &shm) == 0 && (uint64_t)shm.f_bavail * shm.f_frsize > 256 * MIB;
    snprintf(lab->dir, sizeof lab->dir, "%s/hr-plan-XXXXXX", in_memory ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(lab->dir));
    lab->s3 = s3_start();
    *state = lab;
    return 0;
}

LAB_FN int lab_tear_down(void **state)
{
    struct lab *lab = *state;
    char command[128];
    if (lab->plan && !lab->ended) {
        s3_hold(lab->s3, false, false);
        lab_close(lab);
    }
    s3_stop(lab->s3);
    snprintf(command, sizeof command, "rm -rf %s", lab->dir);
    int status = system(command);
    free(lab);
    return status;
}

/* ---- asking ---- */

static void lab_answered(void *owner, uint32_t ticket, const struct hr_answer *answer)
{
    struct lab *lab = owner;
    lab->answers[ticket].times++;
    memcpy(&lab->answers[ticket].answer, answer, sizeof *answer);
}

LAB_FN void lab_ask_in(struct lab *lab, uint32_t tree, enum hr_op op, const char *path, uint32_t ticket)
{
    struct hr_asker asker = {.fn = lab_answered, .owner = lab, .ticket = ticket};
    lab->answers[ticket] = (struct lab_answer){0};
    hr_plan_ask(lab->plan, op, tree, path, (uint32_t)strlen(path), &asker);
}

LAB_FN void lab_ask(struct lab *lab, enum hr_op op, const char *path, uint32_t ticket)
{
    lab_ask_in(lab, lab->tree, op, path, ticket);
}

static uint32_t lab_awaited;

static bool lab_is_answered(struct lab *lab)
{
    return lab->answers[lab_awaited].times > 0;
}

/* Asks and waits. The answer's error. */
LAB_FN int lab_get(struct lab *lab, enum hr_op op, const char *path, struct hr_answer *ret)
{
    lab_ask(lab, op, path, 0);
    lab_awaited = 0;
    lab_until(lab, lab_is_answered);
    assert_int_equal(lab->answers[0].times, 1);
    if (ret) {
        memcpy(ret, &lab->answers[0].answer, sizeof *ret);
    }
    return lab->answers[0].answer.error;
}

LAB_FN void lab_list(struct lab *lab)
{
    assert_int_equal(lab_get(lab, HR_OP_LIST, "", NULL), 0);
}

/* SEGMENT or WHOLE, as thread `tid` of one process. */
LAB_FN void lab_ask_bytes(struct lab *lab, uint32_t tid, uint64_t face, uint64_t offset, uint64_t bytes,
                          bool whole, uint32_t ticket)
{
    struct hr_asker asker = {.fn = lab_answered, .owner = lab, .ticket = ticket};
    struct hr_reader reader = {.context = UINT32_MAX, .tree = lab->tree, .pid = 1, .tid = tid};
    struct hr_segment_ask ask = {.face_id = face, .offset = offset, .bytes = bytes};
    lab->answers[ticket] = (struct lab_answer){0};
    hr_plan_segment(lab->plan, &reader, &ask, whole, &asker);
}

LAB_FN int lab_get_bytes(struct lab *lab, uint64_t face, uint64_t offset, uint64_t bytes, bool whole,
                         struct hr_answer *ret)
{
    lab_ask_bytes(lab, 1, face, offset, bytes, whole, 0);
    lab_awaited = 0;
    lab_until(lab, lab_is_answered);
    assert_int_equal(lab->answers[0].times, 1);
    if (ret) {
        memcpy(ret, &lab->answers[0].answer, sizeof *ret);
    }
    return lab->answers[0].answer.error;
}

LAB_FN struct hr_plan_stats lab_stats(struct lab *lab)
{
    struct hr_plan_stats stats;
    hr_plan_stats(lab->plan, &stats);
    return stats;
}

/* What the store was asked for beside one request a cell. */
LAB_FN unsigned lab_extra_parts(struct lab *lab)
{
    return 3 * (unsigned)lab_stats(lab).cells_in_parts;
}

/* ---- as a client sees it ---- */

LAB_FN uint32_t lab_entry_in(struct lab *lab, uint32_t number, const char *path)
{
    struct hr_plan_tree *tree = hr_tree_get(lab->plan, number);
    uint32_t entry = 0;
    assert_non_null(tree->index.names);
    assert_int_equal(hr_index_lookup(&tree->index, path, strlen(path), &entry), 0);
    return entry;
}

LAB_FN uint32_t lab_word_in(struct lab *lab, uint32_t number, const char *path)
{
    struct hr_plan_tree *tree = hr_tree_get(lab->plan, number);
    return atomic_load(&tree->states->states[lab_entry_in(lab, number, path)].word);
}

LAB_FN uint32_t lab_word(struct lab *lab, const char *path)
{
    return lab_word_in(lab, lab->tree, path);
}

LAB_FN uint64_t lab_file_id(struct lab *lab, const char *path)
{
    struct hr_plan_tree *tree = hr_tree_get(lab->plan, lab->tree);
    return atomic_load(&tree->states->states[lab_entry_in(lab, lab->tree, path)].file_id);
}

LAB_FN void lab_fetch_in(struct lab *lab, uint32_t number, const char *path)
{
    hr_plan_fetch(lab->plan, number, hr_tree_get(lab->plan, number)->index.names->gen,
                  lab_entry_in(lab, number, path));
}

LAB_FN void lab_fetch(struct lab *lab, const char *path)
{
    lab_fetch_in(lab, lab->tree, path);
}

#define LAB_OPEN_TRIES 100u /* as HR_VIEW_TRIES has it */

static char lab_path[64];
static uint32_t lab_seen;

static bool lab_word_changed(struct lab *lab)
{
    return lab_word(lab, lab_path) != lab_seen;
}

static bool lab_is_there(uint32_t word)
{
    return HR_STATE_KIND(word) == HR_STATE_RESIDENT || HR_STATE_KIND(word) == HR_STATE_FACE;
}

/* As a client does: asks, waits for another word, and asks again where the object has come and gone between
 * two looks. 0 or -errno. */
LAB_FN int lab_open_entry(struct lab *lab, const char *path)
{
    uint32_t word = lab_word(lab, path);
    snprintf(lab_path, sizeof lab_path, "%s", path);
    for (unsigned i = 0; i < LAB_OPEN_TRIES && !lab_is_there(word); i++) {
        lab_seen = word;
        lab_fetch(lab, path);
        lab_until(lab, lab_word_changed);
        word = lab_word(lab, path);
        if (HR_STATE_KIND(word) == HR_STATE_FAILED) {
            return -(int)HR_STATE_ERRNO(word);
        }
    }
    return lab_is_there(word) ? 0 : -EIO;
}

#define LAB_CONTEXT 3u
#define LAB_LOADER 4711ull

/* A loader's batch of that number goes to one of its two workers. */
LAB_FN void lab_announce(struct lab *lab, const uint32_t *order, uint32_t batch, uint32_t number)
{
    struct hr_announcement part = {.context = LAB_CONTEXT,
                                   .stream = LAB_LOADER << 32 | (7 + number % 2),
                                   .batch = number,
                                   .parts = 1,
                                   .indices = order + (size_t)number * batch,
                                   .count = batch};
    hr_plan_announce(lab->plan, &part);
}

/* Leaves the note that a client leaves when it opened the file for a batch. */
LAB_FN void lab_note_for(struct lab *lab, const char *path, uint32_t tag)
{
    struct hr_uses *uses = hr_tree_get(lab->plan, lab->tree)->uses;
    uint32_t at = atomic_fetch_add(&uses->head, 1);
    atomic_store(&uses->ring[at % HR_USES_RING], HR_USE(lab_entry_in(lab, lab->tree, path), tag));
}

LAB_FN void lab_note(struct lab *lab, const char *path)
{
    lab_note_for(lab, path, 0);
}

/* The file has [offset, offset + bytes) of the object, and no byte more. */
LAB_FN void lab_check_bytes(struct lab *lab, uint64_t file_id, const struct s3_object *object,
                            uint64_t offset, uint64_t bytes)
{
    char path[128];
    char piece[65536], want[65536];
    snprintf(path, sizeof path, "%s/objects/%02x/%016llx", lab->dir, (unsigned)(file_id & 0xff),
             (unsigned long long)file_id);
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    uint64_t at = 0;
    ssize_t got;
    while ((got = read(fd, piece, sizeof piece)) > 0) {
        s3_body(object->version, offset + at, (size_t)got, want);
        assert_memory_equal(piece, want, (size_t)got);
        at += (uint64_t)got;
    }
    close(fd);
    assert_int_equal(at, bytes);
}

LAB_FN void lab_check_file(struct lab *lab, uint64_t file_id, const struct s3_object *object)
{
    lab_check_bytes(lab, file_id, object, 0, object->size);
}

/* Reads as a client does, file by file; what it gets is checked. */
LAB_FN void lab_read(struct lab *lab, uint64_t face, const struct s3_object *object, uint64_t offset,
                     uint64_t bytes)
{
    for (uint64_t at = offset; at < offset + bytes;) {
        struct hr_answer answer;
        assert_int_equal(lab_get_bytes(lab, face, at, offset + bytes - at, false, &answer), 0);
        assert_true(answer.offset <= at && at < answer.offset + answer.size);
        lab_check_bytes(lab, answer.file_id, object, answer.offset, answer.size);
        at = answer.offset + answer.size;
    }
}

/* Opens a listed large object. */
LAB_FN uint64_t lab_face(struct lab *lab, const char *path)
{
    assert_int_equal(lab_open_entry(lab, path), 0);
    assert_int_equal(HR_STATE_KIND(lab_word(lab, path)), HR_STATE_FACE);
    return lab_file_id(lab, path);
}

LAB_FN void lab_check_entry(struct lab *lab, const char *path)
{
    assert_int_equal(HR_STATE_KIND(lab_word(lab, path)), HR_STATE_RESIDENT);
    lab_check_file(lab, lab_file_id(lab, path), s3_find(lab->s3, path));
}

static bool lab_is_quiet(struct lab *lab)
{
    struct hr_plan_stats stats = lab_stats(lab);
    struct hr_cache_stats cache;
    hr_cache_stats(lab->cache, &cache);
    return stats.in_flight == 0 && stats.queued == 0 && stats.memory_bytes == 0 &&
           cache.writes_in_flight == 0 && HASH_COUNT(lab->plan->wants) == 0;
}

/* Everything has come to its end, and nothing is left on any account. */
LAB_FN void lab_settle(struct lab *lab)
{
    lab_until(lab, lab_is_quiet);
}

#endif
