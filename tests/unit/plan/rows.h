/* A data set in an order of its own over 320 files, of which 128 fit the cache. */
#ifndef HR_TESTS_PLAN_ROWS_H
#define HR_TESTS_PLAN_ROWS_H

#include "tests/unit/plan/lab.h"

#include "fetch/plan/order_thread.h"

#define FILES 320u
#define FILE_BYTES 4096u
#define CACHED 128u /* files that a small cache has room for */
#define BATCH 8u
#define WORKERS 2u /* lab_announce deals batches out to so many */
#define AHEAD (2 * WORKERS)

/* A data set, and the way through it that the next epoch takes. */
struct set {
    uint32_t samples, files; /* files of a sample */
    uint32_t rows[FILES];    /* file of each index; of several a sample, one after the other */
    uint32_t order[FILES], length;
    uint32_t replicas; /* of the node's epoch; 0: one */
    uint32_t seed;     /* of the next epoch's order; 0: one that nobody searches for */
};

static uint32_t at;
static uint32_t drawn[FILES]; /* all files in a drawn order */
static struct set set;
static unsigned orders_awaited; /* known, when the first batch of an epoch was read */

static inline void shuffle(uint32_t *values, uint32_t count)
{
    for (uint32_t i = count - 1; i > 0; i--) { /* by a generator that nobody searches for */
        at = at * 1103515245u + 12345u;
        uint32_t with = (at >> 8) % (i + 1), kept = values[i];
        values[i] = values[with];
        values[with] = kept;
    }
}

/* Until the next call. */
static inline const char *key_of(uint32_t file)
{
    static char key[24];
    snprintf(key, sizeof key, "train/k%05u", file);
    return key;
}

/* Of what is drawn that from `first` on. */
static inline void make_set(struct set *made, uint32_t first, uint32_t samples, uint32_t files)
{
    *made = (struct set){.samples = samples, .files = files, .length = samples};
    for (uint32_t i = 0; i < samples; i++) {
        made->order[i] = i;
    }
    memcpy(made->rows, drawn + first, (size_t)samples * files * sizeof drawn[0]);
}

static inline void open_objects(struct lab *lab, enum hr_order_mode mode, uint32_t cached)
{
    at = 4;
    for (uint32_t i = 0; i < FILES; i++) {
        s3_add(lab->s3, key_of(i), FILE_BYTES);
        drawn[i] = i;
    }
    shuffle(drawn, FILES);
    lab_open(lab, &(struct lab_options){.prefetch = true, .cache_bytes = (uint64_t)cached * FILE_BYTES});
    lab->plan->options.lookahead = true;
    lab->plan->options.order_search = mode;
    lab_list(lab);
    hr_tree_get(lab->plan, lab->tree)->sweep_done = true; /* look-ahead alone */
}

/* As a worker does it. True: it was there before. */
static inline bool open_file(struct lab *lab, uint32_t file, uint32_t tag)
{
    const char *key = key_of(file);
    bool there = HR_STATE_KIND(lab_word(lab, key)) == HR_STATE_RESIDENT;
    if (!there) {
        hr_lookahead_opened(lab->plan, LAB_CONTEXT, lab->tree,
                            hr_tree_get(lab->plan, lab->tree)->index.names->gen,
                            lab_entry_in(lab, lab->tree, key));
        assert_int_equal(lab_open_entry(lab, key), 0);
    }
    lab_note_for(lab, key, tag);
    hr_plan_drain(lab->plan);
    hr_plan_pump(lab->plan);
    lab_settle(lab);
    return there;
}

static inline const uint32_t *batch_of(const struct set *read, uint32_t number)
{
    return read->order + (size_t)number * BATCH;
}

/* Files of the batch, but the first `lost`. How many were not there. */
static inline unsigned open_batch(struct lab *lab, const struct set *read, uint32_t number, uint32_t lost)
{
    const uint32_t *indices = batch_of(read, number);
    unsigned late = 0;
    for (uint32_t i = lost; i < BATCH * read->files; i++) {
        uint32_t file = read->rows[indices[i / read->files] * read->files + i % read->files];
        late += !open_file(lab, file, hr_batch_tag(number, indices, BATCH));
    }
    return late;
}

static inline void draw_order(struct set *read)
{
    static uint32_t whole[FILES];
    struct hr_order order = {
        .seed = read->seed, .n = read->samples, .replicas = read->replicas ? read->replicas : 1};
    if (read->seed == 0) {
        shuffle(read->order, read->samples);
        return;
    }
    hr_order_make(&order, whole);
    read->length = hr_order_length(&order);
    for (uint32_t i = 0; i < read->length; i++) {
        read->order[i] = hr_order_at(&order, whole, i);
    }
    read->seed++;
}

static inline bool is_known(struct lab *lab)
{
    return lab_stats(lab).known_orders >= orders_awaited;
}

/* So many batches of an epoch, in a new order, whose loader is two batches a worker ahead. How many files
 * were not there when they were opened. */
static inline unsigned read_batches(struct lab *lab, struct set *read, uint32_t batches)
{
    unsigned late = 0;
    draw_order(read);
    for (uint32_t batch = 0; batch < batches; batch++) {
        for (uint32_t number = batch ? batch + AHEAD - 1 : 0;
             number < batch + AHEAD && number < read->length / BATCH; number++) {
            lab_announce(lab, read->order, BATCH, number);
        }
        lab_settle(lab);
        late += open_batch(lab, read, batch, 0);
        lab_until(lab, is_known);
    }
    return late;
}

static inline unsigned read_epoch(struct lab *lab, struct set *read)
{
    return read_batches(lab, read, read->samples / BATCH / (read->replicas ? read->replicas : 1));
}

#endif
