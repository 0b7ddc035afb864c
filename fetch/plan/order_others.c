#include "fetch/plan/order_others.h"

#include <stdbool.h>

__extension__ typedef unsigned __int128 wide;

/* ---- Mersenne twister, as Python seeds it ---- */

#define ARRAY_SEED 19650218u /* init_by_array's, by Matsumoto and Nishimura, like its two multipliers */
#define ARRAY_FIRST 1664525u
#define ARRAY_SECOND 1566083941u

/* init_by_array of the one word that a seed of 32 bits is. */
static void seed_by_array(struct hr_mt *mt, uint32_t seed)
{
    uint32_t *words = mt->words;
    unsigned i = 1;
    hr_mt_seed(mt, ARRAY_SEED);
    for (unsigned left = HR_MT_WORDS; left > 0; left--) {
        words[i] = (words[i] ^ (words[i - 1] ^ words[i - 1] >> 30) * ARRAY_FIRST) + seed;
        if (++i == HR_MT_WORDS) {
            words[0] = words[HR_MT_WORDS - 1];
            i = 1;
        }
    }
    for (unsigned left = HR_MT_WORDS - 1; left > 0; left--) {
        words[i] = (words[i] ^ (words[i - 1] ^ words[i - 1] >> 30) * ARRAY_SECOND) - i;
        if (++i == HR_MT_WORDS) {
            words[0] = words[HR_MT_WORDS - 1];
            i = 1;
        }
    }
    words[0] = HR_MT_UPPER;
}

/* randbelow(most + 1): the upper bits of outputs until one is not above. */
static uint32_t python_interval(struct hr_mt *mt, uint32_t most)
{
    unsigned bits = most + 1 == 0 ? 32 : 32 - (unsigned)__builtin_clz(most + 1);
    uint32_t value;
    do {
        value = hr_mt_next(mt) >> (32 - bits);
    } while (value > most);
    return value;
}

/* numpy's random_interval: the lower bits until one is not above. */
static uint32_t legacy_interval(struct hr_mt *mt, uint32_t most)
{
    uint32_t mask = UINT32_MAX >> __builtin_clz(most), value;
    do {
        value = hr_mt_next(mt) & mask;
    } while (value > most);
    return value;
}

/* ---- PCG64 (XSL-RR) behind numpy's SeedSequence ---- */

#define POOL 4 /* words, as numpy has it */

struct pcg {
    wide state, step;
    uint32_t kept; /* upper half of the last output */
    bool has_kept;
};

static uint32_t hash_mix(uint32_t value, uint32_t *constant, uint32_t multiplier)
{
    value ^= *constant;
    *constant *= multiplier;
    value *= *constant;
    return value ^ value >> 16;
}

static uint32_t mix(uint32_t one, uint32_t other)
{
    uint32_t mixed = 0xca01f9ddu * one - 0x4973f715u * other;
    return mixed ^ mixed >> 16;
}

/* SeedSequence(seed).generate_state(4, uint64); its constants are O'Neill's seed_seq_fe. */
static void seed_sequence(uint32_t seed, uint64_t ret[4])
{
    uint32_t pool[POOL], constant = 0x43b0d7e5u, words[8];
    for (unsigned i = 0; i < POOL; i++) {
        pool[i] = hash_mix(i == 0 ? seed : 0, &constant, 0x931e8875u);
    }
    for (unsigned from = 0; from < POOL; from++) {
        for (unsigned to = 0; to < POOL; to++) {
            if (from != to) {
                pool[to] = mix(pool[to], hash_mix(pool[from], &constant, 0x931e8875u));
            }
        }
    }
    constant = 0x8b51f9ddu;
    for (unsigned i = 0; i < 8; i++) {
        words[i] = hash_mix(pool[i % POOL], &constant, 0x58f38dedu);
    }
    for (unsigned i = 0; i < 4; i++) {
        ret[i] = words[2 * i] | (uint64_t)words[2 * i + 1] << 32;
    }
}

static void pcg_step(struct pcg *pcg)
{
    const wide multiplier = (wide)2549297995355413924ull << 64 | 4865540595714422341ull;
    pcg->state = pcg->state * multiplier + pcg->step;
}

static void pcg_seed(struct pcg *pcg, uint32_t seed)
{
    uint64_t words[4];
    seed_sequence(seed, words);
    *pcg = (struct pcg){.step = ((wide)words[2] << 64 | words[3]) << 1 | 1};
    pcg_step(pcg);
    pcg->state += (wide)words[0] << 64 | words[1];
    pcg_step(pcg);
}

static uint32_t pcg_next(struct pcg *pcg)
{
    if (pcg->has_kept) {
        pcg->has_kept = false;
        return pcg->kept;
    }
    pcg_step(pcg);
    uint64_t word = (uint64_t)(pcg->state >> 64) ^ (uint64_t)pcg->state;
    unsigned turn = (unsigned)(pcg->state >> 122);
    word = word >> turn | word << (-turn & 63);
    pcg->kept = (uint32_t)(word >> 32);
    pcg->has_kept = true;
    return (uint32_t)word;
}

static uint32_t pcg_interval(struct pcg *pcg, uint32_t most)
{
    uint32_t mask = UINT32_MAX >> __builtin_clz(most), value;
    do {
        value = pcg_next(pcg) & mask;
    } while (value > most);
    return value;
}

/* ---- */

static void swap(uint32_t *ret, uint32_t one, uint32_t other)
{
    uint32_t value = ret[one];
    ret[one] = ret[other];
    ret[other] = value;
}

void hr_other_permutation(enum hr_order_generator generator, uint32_t seed, uint32_t n, uint32_t *ret)
{
    struct hr_mt mt;
    struct pcg pcg;
    for (uint32_t i = 0; i < n; i++) {
        ret[i] = i;
    }
    if (generator == HR_ORDER_PYTHON) {
        seed_by_array(&mt, seed);
        for (uint32_t i = n; i-- > 1;) {
            swap(ret, i, python_interval(&mt, i));
        }
    } else if (generator == HR_ORDER_NUMPY_LEGACY) {
        hr_mt_seed(&mt, seed);
        for (uint32_t i = n; i-- > 1;) {
            swap(ret, i, legacy_interval(&mt, i));
        }
    } else {
        pcg_seed(&pcg, seed);
        for (uint32_t i = n; i-- > 1;) {
            swap(ret, i, pcg_interval(&pcg, i));
        }
    }
}
