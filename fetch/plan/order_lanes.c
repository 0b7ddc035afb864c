#include "fetch/plan/order_lanes.h"

#define HR_BLOCK block_base
#define HR_BLOCK_LANES 4
#define HR_BLOCK_TARGET
#include "fetch/plan/order_block.h"
#undef HR_BLOCK
#undef HR_BLOCK_LANES
#undef HR_BLOCK_TARGET

#ifdef __x86_64__
#define HR_BLOCK block_avx2
#define HR_BLOCK_LANES 8
#define HR_BLOCK_TARGET __attribute__((target("avx2")))
#include "fetch/plan/order_block.h"
#undef HR_BLOCK
#undef HR_BLOCK_LANES
#undef HR_BLOCK_TARGET

#define HR_BLOCK block_avx512
#define HR_BLOCK_LANES 16
#define HR_BLOCK_TARGET __attribute__((target("avx512f")))
#include "fetch/plan/order_block.h"
#undef HR_BLOCK
#undef HR_BLOCK_LANES
#undef HR_BLOCK_TARGET
#endif

bool hr_order_width_here(enum hr_order_width width)
{
    return width == HR_ORDER_SCALAR || hr_vectors_here((enum hr_vectors)(width - HR_ORDER_BASE));
}

enum hr_order_width hr_order_widest(void)
{
    return HR_ORDER_BASE + (unsigned)hr_vectors_widest();
}

const char *hr_order_width_name(enum hr_order_width width)
{
    static const char *const names[HR_ORDER_WIDTH_COUNT] = {"scalar", "base", "avx2", "avx512"};
    return names[width];
}

/* Newton's step doubles the right bits; the first five are right. */
static uint32_t inverse_of(uint32_t odd)
{
    uint32_t inverse = 3 * odd ^ 2;
    for (int i = 0; i < 3; i++) {
        inverse *= 2 - odd * inverse;
    }
    return inverse;
}

bool hr_order_sieve_add(struct hr_order_sieve *sieve, uint64_t skip, uint32_t n, uint32_t position,
                        uint32_t index)
{
    uint64_t output = skip + position;
    if (n >= HR_TORCH_SMALL_MAX || position + 1 >= n || index < position || index >= n ||
        output >= HR_ORDER_OUTPUTS_MAX || sieve->count == HR_ORDER_SIEVE_MAX ||
        (sieve->count > 0 && output != sieve->first + sieve->count)) {
        return false;
    }
    uint32_t left = n - position;
    unsigned at = sieve->count++;
    sieve->first = at == 0 ? (unsigned)output : sieve->first;
    sieve->shift[at] = (unsigned)__builtin_ctz(left);
    sieve->minus[at] = index - position;
    sieve->inverse[at] = inverse_of(left >> sieve->shift[at]);
    sieve->limit[at] = UINT32_MAX / left;
    return true;
}

static bool pass_one(const struct hr_order_sieve *sieve, uint32_t seed)
{
    struct hr_mt mt;
    hr_mt_seed(&mt, seed);
    hr_mt_skip(&mt, sieve->first);
    for (unsigned at = 0; at < sieve->count; at++) {
        uint32_t word = (hr_mt_next(&mt) - sieve->minus[at]) * sieve->inverse[at];
        word = word >> sieve->shift[at] | word << (-sieve->shift[at] & 31);
        if ((word <= sieve->limit[at]) == sieve->any) {
            return sieve->any;
        }
    }
    return !sieve->any;
}

bool hr_order_sieve_pass(enum hr_order_width width, const struct hr_order_sieve *sieve,
                         const uint32_t seeds[HR_ORDER_LANES], uint32_t pass[HR_ORDER_LANES])
{
    switch (width) {
#ifdef __x86_64__
    case HR_ORDER_AVX512:
        return block_avx512(sieve, seeds, pass);
    case HR_ORDER_AVX2:
        return block_avx2(sieve, seeds, pass);
#endif
    case HR_ORDER_BASE:
        return block_base(sieve, seeds, pass);
    default:
        break;
    }
    bool some = false;
    for (unsigned i = 0; i < HR_ORDER_LANES; i++) {
        pass[i] = pass_one(sieve, seeds[i]) ? UINT32_MAX : 0;
        some |= pass[i] != 0;
    }
    return some;
}
