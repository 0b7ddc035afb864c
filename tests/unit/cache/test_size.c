/* What an object takes of memory: there are millions. Through the real code, put and adopted. */
#include "tests/unit/cache/lab.h"

#include <malloc.h>

#include "fetch/cache/inside.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_HEAP false /* of the sanitizer: nothing is counted */
#else
#define OWN_HEAP true
#endif

#define KEY_BYTES 45         /* as ImageNet's names below a prefix have */
#define OBJECT_BYTES_MAX 240 /* with malloc's head, and what the tables take */
#define CHUNK_HEAD_BYTES 8   /* of malloc, each */

enum { WARM = 1000, PUTS = 10000, AT_ONCE = 64 };

struct batch {
    struct lab *lab;
    unsigned flying;
};

static void on_done(void *owner, struct hr_put *put, int error, const struct hr_cached *cached)
{
    struct batch *batch = owner;
    (void)put;
    assert_int_equal(error, 0);
    assert_int_equal(cached->key_len, KEY_BYTES);
    batch->flying--;
    hr_loop_stop(batch->lab->loop);
}

static void put_some(struct lab *lab, unsigned from, unsigned count)
{
    struct batch batch = {.lab = lab};
    for (unsigned i = from; i < from + count; i++) {
        char key[KEY_BYTES + 1];
        char etag[33];
        struct hr_put *put = NULL;
        (void)snprintf(key, sizeof(key), "datasets/imagenet/train/n%08u/%06u.JPEG", i / 1000, i);
        (void)snprintf(etag, sizeof(etag), "%016" PRIx64 "%016" PRIx64, hr_mix64(i), hr_mix64(~i));
        struct hr_put_options options = lab_options(NULL, key, etag, 0);
        options.done = on_done;
        options.owner = &batch;
        assert_int_equal(hr_put_begin(lab->cache, &options, &put), 0);
        batch.flying++;
        hr_put_finish(put, NULL);
        while (batch.flying >= AT_ONCE) {
            assert_int_equal(hr_loop_run(lab->loop), 0);
        }
    }
    while (batch.flying) {
        assert_int_equal(hr_loop_run(lab->loop), 0);
    }
}

struct sum {
    uint64_t bytes, count;
};

static void add_bytes(void *owner, const struct hr_cached *cached)
{
    struct sum *sum = owner;
    const struct hr_object *object =
        (const struct hr_object *)((const char *)cached - offsetof(struct hr_object, cached));
    sum->bytes += malloc_usable_size((void *)object) + CHUNK_HEAD_BYTES;
    sum->count++;
}

/* The objects, and what the tables have for heads of chains. */
static void check_bytes(struct lab *lab, uint64_t count)
{
    struct sum sum = {0};
    hr_cache_each(lab->cache, &lab_source, add_bytes, &sum);
    assert_int_equal(sum.count, count);
    uint64_t heads = (uint64_t)lab->cache->by_key.heads + lab->cache->by_id.heads;
    uint64_t bytes = sum.bytes + heads * sizeof(void *);
    print_message("%.1f bytes an object\n", (double)bytes / (double)count);
    assert_true(bytes <= count * OBJECT_BYTES_MAX);
}

static void bytes_of_an_object(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    put_some(lab, 0, WARM); /* what there is once: buffers, lists, a page of heads */
    size_t before = mallinfo2().uordblks;
    put_some(lab, WARM, PUTS);
    size_t after = mallinfo2().uordblks;
    if (OWN_HEAP) {
        print_message("%.1f bytes of heap an object\n", (double)(after - before) / PUTS);
        assert_in_range(after - before, PUTS * sizeof(struct hr_object), PUTS * (OBJECT_BYTES_MAX + 16));
    }
    check_bytes(lab, WARM + PUTS);
    lab_close(lab);
    lab_open(lab);
    assert_int_equal(lab_stats(lab).adopted, WARM + PUTS);
    check_bytes(lab, WARM + PUTS);
}

/* Kinds that have more of their own are larger, and tell the same texts. */
static void each_kind_has_its_own(void **state)
{
    (void)state;
    struct hr_cache cache = {.seed = 5};
    const struct hr_source_id other = {{9}};
    static const enum hr_cached_kind kinds[] = {HR_CACHED_WHOLE, HR_CACHED_FACE, HR_CACHED_SEGMENT};
    uint32_t ids[3];
    for (unsigned i = 0; i < 3; i++) {
        const struct hr_identity identity = {kinds[i], &lab_source, "key", 3, "etag", 4};
        const struct hr_object_facts facts = {.size = 7, .salt = 3, .dev = 4, .face_id = 5, .offset = 8192};
        struct hr_object *object = hr_object_new(&cache, &identity, &facts);
        const struct hr_cached *cached = &object->cached;
        bool segment = kinds[i] == HR_CACHED_SEGMENT;
        assert_string_equal(hr_cached_key(cached), "key");
        assert_string_equal(hr_cached_etag(cached), "etag");
        assert_int_equal(hr_cached_offset(cached), segment ? 8192 : 0);
        assert_int_equal(hr_cached_face_id(cached), segment ? 5 : 0);
        assert_memory_equal(cached->source, &lab_source, sizeof(lab_source));
        assert_true(hr_object_source(object)->salt == 3 && hr_object_source(object)->dev == 4);
        assert_ptr_equal(hr_object_cache(object), &cache);
        ids[i] = object->policy.id;
        free(object);
    }
    assert_true(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
    assert_null(cache.sources->next); /* one for all of them */
    const struct hr_identity foreign = {HR_CACHED_WHOLE, &other, "key", 3, "etag", 4};
    free(hr_object_new(&cache, &foreign, &(struct hr_object_facts){0}));
    const struct hr_identity salted = {HR_CACHED_WHOLE, &lab_source, "key", 3, "etag", 4};
    free(hr_object_new(&cache, &salted, &(struct hr_object_facts){.salt = 4, .dev = 4}));
    assert_non_null(cache.sources->next->next);
    assert_null(cache.sources->next->next->next);
    hr_sources_release(&cache);
    assert_null(cache.sources);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bytes_of_an_object, lab_set_up, lab_tear_down),
        cmocka_unit_test(each_kind_has_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
