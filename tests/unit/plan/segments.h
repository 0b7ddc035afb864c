/* A large object behind its face, and what ranges were asked for. */
#ifndef HR_TESTS_PLAN_SEGMENTS_H
#define HR_TESTS_PLAN_SEGMENTS_H

#include "tests/unit/plan/lab.h"

#define GIB (1024 * MIB)

static inline struct hr_cache_stats cache_stats(struct lab *lab)
{
    struct hr_cache_stats stats;
    hr_cache_stats(lab->cache, &stats);
    return stats;
}

/* What all ranges came to (the server counts what it sent only after a client may have it). */
static inline uint64_t asked_bytes(struct lab *lab)
{
    uint64_t bytes = 0;
    pthread_mutex_lock(&lab->s3->lock);
    for (unsigned i = 0; i < lab->s3->range_count; i++) {
        bytes += lab->s3->ranges[i].bytes;
    }
    pthread_mutex_unlock(&lab->s3->lock);
    return bytes;
}

static inline void check_range(struct lab *lab, unsigned number, uint64_t first, uint64_t bytes)
{
    assert_true(number < lab->s3->range_count);
    assert_int_equal(lab->s3->ranges[number].first, first);
    assert_int_equal(lab->s3->ranges[number].bytes, bytes);
}

/* A listed object behind its face. */
static inline uint64_t open_one(struct lab *lab, const struct lab_options *options, uint64_t size,
                                struct s3_object **ret_object)
{
    *ret_object = s3_add(lab->s3, "big", size);
    lab_open(lab, options);
    lab_list(lab);
    return lab_face(lab, "big");
}

static unsigned askers;

static inline bool all_told(struct lab *lab)
{
    unsigned count = 0;
    for (unsigned i = 1; i <= askers; i++) {
        count += lab->answers[i].times > 0;
    }
    return count == askers;
}

#endif
