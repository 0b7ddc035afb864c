/* Known orders by hand, for the tests (against torch itself) and the bench:
 *   orders print N SEED [SKIP [REPLICAS RANK [GENERATOR [BATCH]]]]   the indices of one rank's epoch, 32-bit
 * words orders draw SEED COUNT                       what RandomSampler draws after manual_seed(SEED) orders
 * find N [all|STEPS [BATCH [SEED SKIP [REPLICAS]]]] < "POSITION INDEX" lines   found=0|1 phase seed skip
 * replicas rank batch generator tried cpu_ms; a line of progress each 2^29 candidates. SEED...: found before
 *   orders bench                                 seeds a second and core, for each width of this processor */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fetch/plan/order_search.h"

#define ALL_SEEDS 4294967296.0
#define PROGRESS_SEEDS (1ull << 29)
#define BENCH_S 1.0
#define BENCH_N 4000u /* objects of the bench's set */

static uint64_t number(char **argv, int argc, int at, uint64_t otherwise)
{
    return at < argc ? strtoull(argv[at], NULL, 0) : otherwise;
}

static int print(int argc, char **argv)
{
    struct hr_order order = {.n = (uint32_t)number(argv, argc, 2, 0),
                             .seed = (uint32_t)number(argv, argc, 3, 0),
                             .skip = number(argv, argc, 4, 0),
                             .replicas = (uint32_t)number(argv, argc, 5, 1),
                             .rank = (uint32_t)number(argv, argc, 6, 0),
                             .generator = (enum hr_order_generator)number(argv, argc, 7, 0),
                             .batch = (uint32_t)number(argv, argc, 8, 0)};
    uint32_t *whole = malloc((order.n + 1) * sizeof *whole);
    if (!whole || order.n == 0 || order.replicas == 0 || order.generator >= HR_ORDER_GENERATORS) {
        return 1;
    }
    hr_order_make(&order, whole);
    for (uint32_t i = 0; i < hr_order_length(&order); i++) {
        uint32_t index = hr_order_at(&order, whole, i);
        fwrite(&index, sizeof index, 1, stdout);
    }
    free(whole);
    return 0;
}

static int draw(int argc, char **argv)
{
    struct hr_mt mt;
    hr_mt_seed(&mt, number(argv, argc, 2, 0));
    for (uint64_t left = number(argv, argc, 3, 1); left > 0; left--) {
        printf("%" PRIu64 "\n", hr_torch_draw(&mt));
    }
    return 0;
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void read_seen(struct hr_order_set *set)
{
    while (set->seen_count < HR_ORDER_SEEN_MAX &&
           scanf("%" SCNu32 " %" SCNu32, &set->seen[set->seen_count].position,
                 &set->seen[set->seen_count].index) == 2) {
        set->seen_count++;
    }
}

static int find(int argc, char **argv)
{
    bool all = argc > 3 && strcmp(argv[3], "all") == 0;
    struct hr_order_ask ask = {.set_count = 1, .deep = true, .all = all};
    struct hr_order_search search;
    struct hr_order_slice slice = {0};
    double begin = now_s();
    ask.sets[0].n = (uint32_t)number(argv, argc, 2, 0);
    ask.steps = all ? 0 : number(argv, argc, 3, 0);
    ask.batch = (uint32_t)number(argv, argc, 4, 0);
    ask.recent_count = argc > 5;
    ask.recent[0] = (struct hr_order){.n = ask.sets[0].n,
                                      .seed = (uint32_t)number(argv, argc, 5, 0),
                                      .skip = number(argv, argc, 6, 0),
                                      .replicas = (uint32_t)number(argv, argc, 7, 1)};
    read_seen(&ask.sets[0]);
    hr_order_search_begin(&search, &ask);
    while (hr_order_search_claim(&search, &slice)) {
        struct hr_order order;
        uint64_t tried;
        bool found = hr_order_slice_run(&slice, &ask, hr_order_widest(), &order, &tried);
        hr_order_search_finish(&search, &slice, found ? &order : NULL, tried);
        if (slice.phase == HR_ORDER_ALL && slice.end % PROGRESS_SEEDS == 0) {
            fprintf(stderr, "orders: %.0f %% of all seeds after %.0f CPU seconds\n",
                    100.0 * (double)slice.end / ALL_SEEDS, now_s() - begin);
        }
    }
    printf("found=%d phase=%d seed=%" PRIu32 " skip=%" PRIu64 " replicas=%" PRIu32 " rank=%" PRIu32
           " batch=%" PRIu32 " generator=%d tried=%" PRIu64 " cpu_ms=%.0f\n",
           search.found, (int)slice.phase, search.order.seed, search.order.skip, search.order.replicas,
           search.order.rank, search.order.batch, (int)search.order.generator, search.tried,
           1e3 * (now_s() - begin));
    return 0;
}

static int bench(void)
{
    struct hr_order order = {.n = BENCH_N, .seed = UINT32_MAX, .replicas = 1};
    struct hr_order_ask ask = {.set_count = 1, .sets = {{.n = BENCH_N, .seen_count = 10}}, .all = true};
    uint32_t whole[BENCH_N];
    hr_order_make(&order, whole);
    for (unsigned i = 0; i < ask.sets[0].seen_count; i++) {
        ask.sets[0].seen[i] = (struct hr_order_seen){i, whole[i]};
    }
    for (enum hr_order_width width = 0; width < HR_ORDER_WIDTH_COUNT; width++) {
        struct hr_order_slice slice = {.phase = HR_ORDER_ALL};
        struct hr_order found;
        uint64_t all = 0, tried;
        double begin = now_s(), spent = 0;
        while (hr_order_width_here(width) && (spent = now_s() - begin) < BENCH_S) {
            slice.first = slice.end;
            slice.end += 1 << 14;
            (void)hr_order_slice_run(&slice, &ask, width, &found, &tried);
            all += tried;
        }
        if (spent > 0) {
            printf("orders width=%-7s seeds_per_s=%.0f all_s=%.0f\n", hr_order_width_name(width),
                   (double)all / spent, ALL_SEEDS * spent / (double)all);
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";
    return strcmp(verb, "print") == 0   ? print(argc, argv)
           : strcmp(verb, "draw") == 0  ? draw(argc, argv)
           : strcmp(verb, "find") == 0  ? find(argc, argv)
           : strcmp(verb, "bench") == 0 ? bench()
                                        : (fputs("usage: orders print|draw|find|bench\n", stderr), 2);
}
