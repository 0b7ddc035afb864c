#include "fetch/plan/order_torch.h"

#include <string.h>

#include "fetch/plan/order_others.h"

#define MOVED_SLOTS (4 * HR_TORCH_PREFIX_MAX) /* open addressing, at most a quarter full */
#define NOTHING UINT32_MAX

void hr_mt_seed(struct hr_mt *mt, uint64_t seed)
{
    mt->words[0] = (uint32_t)seed;
    for (unsigned i = 1; i < HR_MT_WORDS; i++) {
        uint32_t last = mt->words[i - 1];
        mt->words[i] = HR_MT_STEP * (last ^ last >> 30) + i;
    }
    mt->at = HR_MT_WORDS;
}

static uint32_t twisted(uint32_t upper, uint32_t lower, uint32_t middle)
{
    uint32_t both = (upper & HR_MT_UPPER) | (lower & ~HR_MT_UPPER);
    return middle ^ both >> 1 ^ (both & 1 ? HR_MT_MATRIX : 0);
}

static void refill(struct hr_mt *mt)
{
    uint32_t *words = mt->words;
    unsigned i = 0;
    for (; i < HR_MT_WORDS - HR_MT_MIDDLE; i++) {
        words[i] = twisted(words[i], words[i + 1], words[i + HR_MT_MIDDLE]);
    }
    for (; i < HR_MT_WORDS - 1; i++) {
        words[i] = twisted(words[i], words[i + 1], words[i + HR_MT_MIDDLE - HR_MT_WORDS]);
    }
    words[i] = twisted(words[i], words[0], words[HR_MT_MIDDLE - 1]);
    mt->at = 0;
}

uint32_t hr_mt_next(struct hr_mt *mt)
{
    if (mt->at == HR_MT_WORDS) {
        refill(mt);
    }
    uint32_t word = mt->words[mt->at++];
    word ^= word >> 11;
    word ^= word << 7 & 0x9d2c5680u;
    word ^= word << 15 & 0xefc60000u;
    return word ^ word >> 18;
}

void hr_mt_skip(struct hr_mt *mt, uint64_t outputs)
{
    while (outputs > HR_MT_WORDS - mt->at) {
        outputs -= HR_MT_WORDS - mt->at;
        refill(mt);
    }
    mt->at += (unsigned)outputs;
}

static uint64_t next_64(struct hr_mt *mt)
{
    uint64_t high = hr_mt_next(mt);
    return high << 32 | hr_mt_next(mt);
}

uint64_t hr_torch_draw(struct hr_mt *mt)
{
    return next_64(mt) & INT64_MAX;
}

/* randperm(n), every torch's below HR_TORCH_SMALL_MAX. */
static void permute(struct hr_mt *mt, uint32_t n, uint32_t *ret)
{
    for (uint32_t i = 0; i < n; i++) {
        ret[i] = i;
    }
    for (uint32_t i = 0; i + 1 < n; i++) {
        uint32_t other = i + hr_mt_next(mt) % (n - i);
        uint32_t value = ret[i];
        ret[i] = ret[other];
        ret[other] = value;
    }
}

/* Numbers that are not where they began: of a prefix, few. */
struct moved {
    uint32_t places[MOVED_SLOTS];
    uint32_t values[MOVED_SLOTS];
};

static unsigned slot_of(const struct moved *moved, uint32_t place)
{
    unsigned slot = place * 2654435761u >> 16 & (MOVED_SLOTS - 1); /* Knuth's multiplier */
    while (moved->places[slot] != NOTHING && moved->places[slot] != place) {
        slot = (slot + 1) & (MOVED_SLOTS - 1);
    }
    return slot;
}

void hr_torch_prefix(struct hr_mt *mt, uint32_t n, unsigned count, uint32_t *ret)
{
    struct moved moved;
    memset(moved.places, 0xff, sizeof moved.places);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t other = i + 1 < n ? i + hr_mt_next(mt) % (n - i) : i;
        unsigned here = slot_of(&moved, i), there = slot_of(&moved, other);
        uint32_t value = moved.places[here] == i ? moved.values[here] : i;
        ret[i] = moved.places[there] == other ? moved.values[there] : other;
        moved.places[there] = other;
        moved.values[there] = value;
    }
}

bool hr_order_same_epoch(const struct hr_order *one, const struct hr_order *other)
{
    struct hr_order its = *one;
    its.rank = other->rank;
    return memcmp(&its, other, sizeof its) == 0;
}

uint32_t hr_order_length(const struct hr_order *order)
{
    uint32_t batch = order->batch ? order->batch : 1;
    uint64_t turn = (uint64_t)batch * order->replicas;
    return (uint32_t)(order->n / turn + (order->n % turn > 0)) * batch;
}

uint64_t hr_order_place(const struct hr_order *order, uint32_t position)
{
    uint32_t batch = order->batch ? order->batch : 1;
    return ((uint64_t)(position / batch) * order->replicas + order->rank) * batch + position % batch;
}

void hr_order_make(const struct hr_order *order, uint32_t *ret)
{
    struct hr_mt mt;
    if (order->generator != HR_ORDER_TORCH) {
        hr_other_permutation(order->generator, order->seed, order->n, ret);
        return;
    }
    hr_mt_seed(&mt, order->seed);
    hr_mt_skip(&mt, order->skip);
    permute(&mt, order->n, ret);
}

uint32_t hr_order_at(const struct hr_order *order, const uint32_t *permutation, uint32_t position)
{
    return permutation[hr_order_place(order, position) % order->n];
}

static unsigned reach_of(uint32_t n)
{
    return n < HR_TORCH_PREFIX_MAX ? n : HR_TORCH_PREFIX_MAX;
}

/* Seen ones that lie in a prefix of `reach`, all of them right; how many. */
static unsigned right_ones(const struct hr_order *order, const uint32_t *prefix, unsigned reach,
                           const struct hr_order_seen *seen, unsigned count)
{
    unsigned right = 0;
    for (unsigned i = 0; i < count; i++) {
        uint64_t at = hr_order_place(order, seen[i].position);
        if (seen[i].position >= hr_order_length(order)) {
            return 0;
        }
        at %= order->n;
        if (at < reach) {
            if (prefix[at] != seen[i].index) {
                return 0;
            }
            right++;
        }
    }
    return right;
}

static unsigned farthest(const struct hr_order *order, const struct hr_order_seen *seen, unsigned count)
{
    uint64_t reach = 0;
    for (unsigned i = 0; i < count; i++) {
        uint64_t at = hr_order_place(order, seen[i].position) + 1;
        reach = at > reach ? at : reach;
    }
    unsigned most = reach_of(order->n);
    return reach < most ? (unsigned)reach : most;
}

unsigned hr_order_fits(const struct hr_mt *start, const struct hr_order *order,
                       const struct hr_order_seen *seen, unsigned count)
{
    uint32_t prefix[HR_TORCH_PREFIX_MAX];
    struct hr_mt mt = *start;
    unsigned reach = farthest(order, seen, count);
    hr_torch_prefix(&mt, order->n, reach, prefix);
    return right_ones(order, prefix, reach, seen, count);
}

static unsigned find(const uint32_t *prefix, unsigned from, unsigned end, uint32_t index)
{
    while (from < end && prefix[from] != index) {
        from++;
    }
    return from;
}

unsigned hr_order_fits_rank(const struct hr_mt *start, struct hr_order *order, uint32_t replicas_max,
                            const struct hr_order_seen *seen, unsigned count)
{
    uint32_t prefix[HR_TORCH_PREFIX_MAX];
    struct hr_mt mt = *start;
    unsigned most = reach_of(order->n);
    unsigned near = 2 * replicas_max < most ? 2 * replicas_max : most;
    if (count < 2 || seen[0].position != 0 || seen[1].position != 1) {
        return 0;
    }
    hr_torch_prefix(&mt, order->n, near, prefix);
    unsigned rank = find(prefix, 0, near < replicas_max ? near : replicas_max, seen[0].index);
    unsigned second = find(prefix, rank + 1, near, seen[1].index);
    uint32_t replicas = second - rank;
    if (second >= near || rank >= replicas || replicas > replicas_max) {
        return 0;
    }
    order->replicas = replicas;
    order->rank = rank;
    unsigned reach = farthest(order, seen, count);
    mt = *start;
    hr_torch_prefix(&mt, order->n, reach, prefix);
    return right_ones(order, prefix, reach, seen, count);
}

unsigned hr_order_needed(uint32_t n, double candidates)
{
    double ways = 1, enough = candidates * (1u << HR_ORDER_SPARE_BITS);
    unsigned needed = 0;
    while (ways < enough && n >= 2) {
        ways *= n--;
        needed++;
    }
    return ways < enough ? UINT32_MAX : needed;
}

const char *hr_order_generator_name(enum hr_order_generator generator)
{
    static const char *const names[HR_ORDER_GENERATORS] = {"torch", "python", "numpy-legacy", "numpy"};
    return generator < HR_ORDER_GENERATORS ? names[generator] : "";
}
