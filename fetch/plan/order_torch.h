/* The orders that torch's samplers hand out: its CPU generator (a 32-bit Mersenne twister), randperm on it,
 * and what RandomSampler and DistributedSampler make of that. Pure: no allocation but the caller's arrays,
 * any thread. */
#ifndef HR_PLAN_ORDER_TORCH_H
#define HR_PLAN_ORDER_TORCH_H

#include <stdbool.h>
#include <stdint.h>

#define HR_MT_WORDS 624u       /* of mt19937's state */
#define HR_MT_MIDDLE 397u      /* between the words that are mixed */
#define HR_MT_STEP 1812433253u /* of the seeding, the three are Matsumoto's and Nishimura's */
#define HR_MT_MATRIX 0x9908b0dfu
#define HR_MT_UPPER 0x80000000u

/* From so many objects on (UINT32_MAX / 20) torch 2 draws 64 bits a step and goes the other way round; torch
 * 1 does not. Such orders are not searched for. */
#define HR_TORCH_SMALL_MAX 214748364u
#define HR_TORCH_PREFIX_MAX 1024u

struct hr_mt {
    uint32_t words[HR_MT_WORDS];
    unsigned at; /* next word; HR_MT_WORDS: all are drawn */
};

/* manual_seed: torch takes the low half of the seed only. */
void hr_mt_seed(struct hr_mt *mt, uint64_t seed);
uint32_t hr_mt_next(struct hr_mt *mt);
void hr_mt_skip(struct hr_mt *mt, uint64_t outputs);

/* The first `count` numbers of randperm(n) (at most n and HR_TORCH_PREFIX_MAX); n below HR_TORCH_SMALL_MAX.
 */
void hr_torch_prefix(struct hr_mt *mt, uint32_t n, unsigned count, uint32_t *ret);
/* The int64 that RandomSampler (and each DataLoader iterator, before it) draws from the default generator. */
uint64_t hr_torch_draw(struct hr_mt *mt);

/* Whose shuffle it is; the others are in order_others.h. */
enum hr_order_generator {
    HR_ORDER_TORCH,        /* randperm */
    HR_ORDER_PYTHON,       /* random.Random(seed).shuffle */
    HR_ORDER_NUMPY_LEGACY, /* RandomState(seed).permutation, .shuffle; numpy.random.seed */
    HR_ORDER_NUMPY,        /* default_rng(seed).permutation, .shuffle */
    HR_ORDER_GENERATORS
};
const char *hr_order_generator_name(enum hr_order_generator generator);

/* One epoch of one rank: n objects, shuffled by a generator seeded with `seed`, after `skip` outputs
 * (torch's). DistributedSampler repeats its start until `replicas` divides it, and gives each rank every
 * replicas-th; accelerate's BatchSamplerShard does the same with batches of `batch` indices. Others have 1
 * and 0. */
struct hr_order {
    uint64_t skip;
    uint32_t seed;
    uint32_t n;
    uint32_t replicas, rank;
    enum hr_order_generator generator;
    uint32_t batch; /* indices that a rank takes side by side; 0: one */
};

/* An index as it was handed out: the position-th of its rank's epoch. */
struct hr_order_seen {
    uint32_t position, index;
};

/* Of one epoch, whichever ranks they are of? */
bool hr_order_same_epoch(const struct hr_order *one, const struct hr_order *other);
uint32_t hr_order_length(const struct hr_order *order); /* of the rank's epoch, without drop_last */
/* Where in the epoch of all ranks the rank's position-th index stands; from n on: at the start once more. */
uint64_t hr_order_place(const struct hr_order *order, uint32_t position);
/* The whole permutation of order->n, whatever its generator. */
void hr_order_make(const struct hr_order *order, uint32_t *ret);
/* The rank's position-th index, out of what hr_order_make gave. */
uint32_t hr_order_at(const struct hr_order *order, const uint32_t *permutation, uint32_t position);

/* How many of those seen fit torch's order, as far as HR_TORCH_PREFIX_MAX reaches; 0 when one does not.
 * start: its generator after `skip` outputs. */
unsigned hr_order_fits(const struct hr_mt *start, const struct hr_order *order,
                       const struct hr_order_seen *seen, unsigned count);
/* The same for whichever replicas (1 to replicas_max) and rank; seen begins with positions 0 and 1. Sets them
 * in the order. */
unsigned hr_order_fits_rank(const struct hr_mt *start, struct hr_order *order, uint32_t replicas_max,
                            const struct hr_order_seen *seen, unsigned count);
/* A search among so many candidates is wrong with a chance of one in 2^this at most. */
#define HR_ORDER_SPARE_BITS 12
/* So many indices of n must fit for that; UINT32_MAX where none are enough. */
unsigned hr_order_needed(uint32_t n, double candidates);

#endif
