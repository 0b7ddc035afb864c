/* A data set of 600 objects in six directories, in an order that may become known. */
#ifndef HR_TESTS_PLAN_KNOWN_H
#define HR_TESTS_PLAN_KNOWN_H

#include "tests/unit/plan/lab.h"

#include "fetch/plan/order_thread.h"

#define OBJECTS 600u
#define BATCH 16u

static uint32_t order[OBJECTS]; /* what make_order made */
static unsigned awaited;        /* so many that is_known, or has_missed, waits for */

/* Until the next call. */
static inline const char *key_of(uint32_t rank)
{
    static char key[24];
    snprintf(key, sizeof key, "train/c%u/k%05u", rank / 100, rank);
    return key;
}

static inline void open_objects(struct lab *lab, uint64_t size, uint64_t cache_bytes, enum hr_order_mode mode)
{
    for (uint32_t i = 0; i < OBJECTS; i++) {
        s3_add(lab->s3, key_of(i), size);
    }
    s3_add(lab->s3, "a/other", size); /* before and behind the data set */
    s3_add(lab->s3, "val/other", size);
    lab_open(lab, &(struct lab_options){.prefetch = true, .cache_bytes = cache_bytes});
    lab->plan->options.lookahead = true;
    lab->plan->options.order_search = mode;
    lab_list(lab);
}

static inline void make_order(uint32_t seed, uint32_t n)
{
    struct hr_order known = {.seed = seed, .n = n, .replicas = 1};
    hr_order_make(&known, order);
}

/* A program opened the object, as the look-ahead hears of it. */
static inline void open_index(struct lab *lab, uint32_t index)
{
    hr_lookahead_opened(lab->plan, LAB_CONTEXT, lab->tree,
                        hr_tree_get(lab->plan, lab->tree)->index.names->gen,
                        lab_entry_in(lab, lab->tree, key_of(index)));
}

static inline void announce_batch(struct lab *lab, uint32_t number)
{
    lab_announce(lab, order, BATCH, number);
}

/* The first batches, and opens enough to know what their indices stand for. */
static inline void begin_announced(struct lab *lab)
{
    announce_batch(lab, 0);
    announce_batch(lab, 1);
    for (uint32_t i = 0; i < 3; i++) {
        open_index(lab, order[i]);
    }
    open_index(lab, order[BATCH]);
}

static inline bool is_known(struct lab *lab)
{
    return lab_stats(lab).known_orders >= awaited;
}

static inline bool has_missed(struct lab *lab)
{
    return lab_stats(lab).order_misses >= awaited;
}

#endif
