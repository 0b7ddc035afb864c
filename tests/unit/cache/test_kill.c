/* kill -9 in the middle of puts, fifty times; and the whole cache directory taken away under a living cache.
 */
#include "tests/unit/cache/faces.h"

#include <signal.h>

#include "fetch/cache/inside.h"

#define LIVES 50
#define KEYS 200
#define IN_FLIGHT 16

static size_t size_of_key(int i)
{
    return (size_t)(i * 7919) % 150000;
}

struct stream {
    struct lab *lab;
    struct lab_put puts[IN_FLIGHT];
    uint64_t faces[IN_FLIGHT]; /* the put before was this face: a segment of it comes next */
    int next;
    int ready_fd; /* a byte is written here when the first put is done */
};

static void start_next(struct stream *stream, struct lab_put *put);

static void on_done(void *owner, struct hr_put *put, int error, const struct hr_cached *cached)
{
    struct lab_put *state = owner;
    struct stream *stream = (struct stream *)state->lab;
    (void)put;
    if (error || !cached) {
        _exit(3);
    }
    stream->faces[state - stream->puts] = cached->kind == HR_CACHED_FACE ? cached->file_id : 0;
    if (stream->ready_fd >= 0) {
        (void)!write(stream->ready_fd, "r", 1);
        stream->ready_fd = -1;
    }
    start_next(stream, state);
}

/* Every fourth key is a large object: its face, then one of its segments. */
static void start_next(struct stream *stream, struct lab_put *state)
{
    char key[32];
    uint64_t face = stream->faces[state - stream->puts];
    int i = (face ? stream->next : stream->next++) % KEYS;
    state->lab = (struct lab *)stream;
    struct hr_put_options options = {.source = lab_source, .etag = "e", .done = on_done, .owner = state};
    if (face) {
        const struct hr_cached *cached = hr_cache_by_id(stream->lab->cache, face);
        (void)snprintf(key, sizeof(key), "%s", hr_cached_key(cached));
        options.kind = HR_CACHED_SEGMENT;
        options.face_id = face;
        options.offset = (uint64_t)(i % 16) * CELL;
        options.size = (1 + (uint64_t)i % 20) * 4096;
    } else {
        (void)snprintf(key, sizeof(key), "key%d", i);
        options.kind = i % 4 ? HR_CACHED_WHOLE : HR_CACHED_FACE;
        options.size = i % 4 ? size_of_key(i) : 16 * CELL;
    }
    options.key = key;
    options.key_len = (uint32_t)strlen(key);
    if (hr_put_begin(stream->lab->cache, &options, &state->put) < 0) {
        _exit(4);
    }
    size_t size = options.kind == HR_CACHED_FACE ? 0 : options.size;
    for (size_t from = 0; from < size; from += 60000) {
        struct hr_buf part;
        size_t len = size - from < 60000 ? size - from : 60000;
        lab_fill(&part, key, options.offset + from, len);
        if (hr_put_part(state->put, from, &part, NULL, NULL) < 0) {
            _exit(5);
        }
    }
    hr_put_finish(state->put, NULL);
}

static void child_main(struct lab *lab, int seed, int ready_fd)
{
    struct stream *stream = calloc(1, sizeof(*stream));
    if (hr_loop_new(&lab->loop) < 0 || lab_try_open(lab) < 0) {
        _exit(2);
    }
    stream->lab = lab;
    stream->ready_fd = ready_fd;
    stream->next = seed * 37;
    for (int i = 0; i < IN_FLIGHT; i++) {
        start_next(stream, &stream->puts[i]);
    }
    (void)hr_loop_run(lab->loop);
    _exit(6);
}

static uint64_t highest_id;
static unsigned segments_right;

static void check_one(void *owner, const struct hr_cached *cached)
{
    struct lab *lab = owner;
    int i = atoi(hr_cached_key(cached) + 3);
    highest_id = cached->file_id > highest_id ? cached->file_id : highest_id;
    if (cached->kind == HR_CACHED_WHOLE) {
        assert_int_equal(cached->size, size_of_key(i));
        assert_true(lab_file_right(lab, cached->file_id, hr_cached_key(cached), cached->size));
        return;
    }
    assert_true(cached->kind == HR_CACHED_FACE && i % 4 == 0 && cached->size == 16 * CELL);
    assert_true(lab_file_there(lab, cached->file_id));
    for (uint64_t cell = 0; cell < 16; cell++) {
        const struct hr_cached *segment = hr_cache_segment(lab->cache, cached->file_id, cell * CELL);
        if (segment) {
            assert_true(segment_right(lab, segment));
            highest_id = segment->file_id > highest_id ? segment->file_id : highest_id;
            segments_right++;
        }
    }
}

static void kill_in_the_middle(void **state)
{
    struct lab *lab = *state;
    unsigned found_in_all = 0;
    unsigned segments_in_all = 0;
    unsigned unknown_in_all = 0;
    hr_loop_free(lab->loop); /* each child makes its own */
    lab->loop = NULL;
    lab->size_bytes = 8 * MIB; /* about half of the keys: evictions go on too */
    srand(20);
    for (int life = 0; life < LIVES; life++) {
        struct hr_cache_stats stats;
        int ready[2];
        char byte;
        assert_int_equal(pipe(ready), 0);
        (void)fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child) {
            child_main(lab, life, ready[1]);
        }
        (void)close(ready[1]);
        if (life % 5) { /* every fifth is killed while it opens */
            assert_int_equal(read(ready[0], &byte, 1), 1);
        }
        (void)close(ready[0]);
        (void)usleep((unsigned)(rand() % 50000));
        int status = 0;
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_true(waitpid(child, &status, 0) == child);
        assert_true(WIFSIGNALED(status)); /* not one of the exits above */

        assert_int_equal(hr_loop_new(&lab->loop), 0);
        uint64_t before = highest_id;
        unsigned files = lab_count(lab, "objects");
        lab_open(lab);
        hr_cache_stats(lab->cache, &stats);
        unknown_in_all += files - (unsigned)stats.adopted;
        segments_right = 0;
        hr_cache_each(lab->cache, &lab_source, check_one, lab);
        assert_int_equal(segments_right, stats.segments);
        segments_in_all += segments_right;
        hr_writers_drain(lab->cache->writers); /* what had no room is unlinked by them */
        assert_int_equal(lab_count(lab, "objects"), stats.objects + stats.faces + stats.segments);
        assert_int_equal(lab_count(lab, "spool"), 0);
        found_in_all += (unsigned)stats.objects;
        uint64_t id = 0;
        assert_int_equal(lab_put_whole(lab, "key1", "e", size_of_key(1), NULL, &id), 0);
        assert_true(id > before && id > highest_id);
        highest_id = id;
        lab_close(lab);
        hr_loop_free(lab->loop);
        lab->loop = NULL;
    }
    assert_true(segments_in_all > LIVES);
    assert_true(found_in_all > LIVES); /* the children did put */
    assert_true(unknown_in_all > 0);   /* with files that no record tells of */
    assert_int_equal(hr_loop_new(&lab->loop), 0);
}

static void directory_removed(void **state)
{
    struct lab *lab = *state;
    char command[1024];
    uint64_t id = 0;
    lab_open(lab);
    for (int i = 0; i < 20; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        assert_int_equal(lab_put_whole(lab, key, "e", 5000, NULL, NULL), 0);
    }
    uint32_t gen = lab->grown_gen;
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", lab->dir);
    lab_run_command(command);
    assert_int_equal(lab_put_whole(lab, "after", "e", 5000, NULL, &id), 0);
    lab_linger(lab, 20);
    assert_true(lab_file_right(lab, id, "after", 5000));
    assert_int_equal(lab->evicted_count, 20); /* the owner was told that the others are gone */
    assert_null(lab_find(lab, "k3", "e"));
    assert_true(lab->grown_gen > gen);
    struct stat st;
    assert_int_equal(stat(lab->dir, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    struct hr_cache_stats stats;
    hr_cache_stats(lab->cache, &stats);
    assert_int_equal(stats.objects, 1);
    assert_int_equal(stats.bytes, 8192);
    lab_close(lab);
    lab_open(lab);
    assert_non_null(lab_find(lab, "after", "e"));
}

/* Parts of it, in the middle of a put in several parts. */
static void removed_between_parts(void **state)
{
    struct lab *lab = *state;
    static const char *const whats[] = {"", "/objects", "/spool", "/records", "/dirs"};
    for (size_t i = 0; i < sizeof(whats) / sizeof(whats[0]); i++) {
        struct lab_put put;
        char command[1024];
        char key[16];
        (void)snprintf(key, sizeof(key), "k%zu", i);
        lab_open(lab);
        assert_int_equal(lab_begin(lab, &put, key, "e", 200000), 0);
        assert_int_equal(lab_part(&put, key, 0, 100000), 0);
        while (put.written_count < 1) {
            assert_int_equal(hr_loop_run(lab->loop), 0);
        }
        (void)snprintf(command, sizeof(command), "rm -rf '%s%s'", lab->dir, whats[i]);
        lab_run_command(command);
        assert_int_equal(lab_part(&put, key, 100000, 100000), 0);
        hr_put_finish(put.put, NULL);
        lab_wait(&put);
        if (put.error) {
            assert_int_equal(put.error, -EIO);
            assert_null(lab_find(lab, key, "e"));
            assert_int_equal(lab_count(lab, "spool"), 0);
        } else {
            assert_true(lab_file_right(lab, put.file_id, key, 200000));
        }
        uint64_t id = 0;
        assert_int_equal(lab_put_whole(lab, "next", "e", 3000, NULL, &id), 0);
        assert_true(lab_file_right(lab, id, "next", 3000));
        assert_int_equal(hr_cache_standin(lab->cache, 1, "a/b", 3), 0);
        lab_close(lab);
    }
}

/* Where nothing can be made again, it is an error and nothing else. */
static void removed_for_good(void **state)
{
    struct lab *lab = *state;
    char command[2048];
    lab_open(lab);
    (void)snprintf(command, sizeof(command), "rm -rf '%s' && touch '%s'", lab->dir, lab->dir);
    lab_run_command(command);
    int r = lab_put_whole(lab, "k", "e", 3000, NULL, NULL);
    assert_true(r == -ENOTDIR || r == -EIO);
    assert_true(hr_cache_standin(lab->cache, 1, "a", 1) < 0);
    lab_close(lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kill_in_the_middle, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(directory_removed, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(removed_between_parts, lab_setup, lab_teardown),
        cmocka_unit_test_setup_teardown(removed_for_good, lab_setup, lab_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
