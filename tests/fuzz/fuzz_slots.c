/* A hostile client with the slots and the notes mapped: whatever it writes there, in whatever order, the
 * daemon reads nothing outside, answers or drops, and gives every slot back. */
#include "fetch/serve/slots.h"

#include "tests/fuzz/daemon.h"

#define STANDINS_KEPT 2000 /* directories made before all are removed */
#define TURNS_MAX 5000

static struct hr_intake *intake;
static unsigned standins;
static uint32_t announced; /* hr_batch_tag of the last batch */
static struct hr_timer turn;
static unsigned turns;

static void next_turn(void *owner)
{
    (void)owner;
    (void)hr_plan_tick(fuzz.plan);
    (void)hr_loop_arm(fuzz.loop, &turn, 1);
}

static void until_quiet(void *owner)
{
    struct hr_plan_stats stats;
    struct hr_cache_stats cache;
    (void)owner;
    hr_plan_stats(fuzz.plan, &stats);
    hr_cache_stats(fuzz.cache, &cache);
    bool quiet = !stats.in_flight && !stats.memory_bytes && !stats.queued && !cache.writes_in_flight;
    if (quiet || ++turns > TURNS_MAX) {
        hr_loop_stop(fuzz.loop);
    }
}

static uint64_t number_of(const uint8_t *data, size_t size, size_t at, size_t len)
{
    uint64_t value = 0;
    for (size_t i = 0; i < len && at + i < size; i++) {
        value = value << 8 | data[at + i];
    }
    return value;
}

/* A request that is right in form: its fields come from the input. */
static void put_request(const uint8_t *data, size_t size, size_t at, unsigned number)
{
    struct hr_slot *slot = &fuzz.shm.slots->slots[number];
    memset(slot, 0, sizeof *slot);
    slot->op = (uint32_t)number_of(data, size, at, 1) % (HR_OP_COUNT + 1);
    slot->tree = at + 1 < size && data[at + 1] < 200 ? fuzz.tree : (uint32_t)number_of(data, size, at + 1, 4);
    slot->gen = at + 5 < size && data[at + 5] < 200 ? 1 : (uint32_t)number_of(data, size, at + 5, 4);
    slot->entry = (uint32_t)number_of(data, size, at + 9, 4) >> (at < size ? data[at] % 32 : 0);
    slot->ticket = (uint32_t)number_of(data, size, at + 13, 4);
    slot->map_hash = number_of(data, size, at + 13, 8);
    size_t path = at + 21 < size ? size - at - 21 : 0;
    path = path < HR_KEY_MAX ? path : HR_KEY_MAX;
    slot->path_len = (uint32_t)path;
    if (path) {
        memcpy(slot->path, data + at + 21, path);
    }
    slot->checksum = hr_slot_checksum(slot, slot->path_len);
    if (slot->op == HR_OP_ANNOUNCE) {
        uint32_t indices[HR_KEY_MAX / sizeof(uint32_t)];
        memcpy(indices, slot->path, slot->path_len);
        announced = hr_batch_tag(slot->entry, indices, slot->path_len / (uint32_t)sizeof indices[0]);
    }
    standins += slot->op == HR_OP_STANDIN;
}

static void note(const uint8_t *data, size_t size, size_t at)
{
    struct hr_uses *uses = hr_tree_get(fuzz.plan, fuzz.tree)->uses;
    atomic_store(&uses->head, (uint32_t)number_of(data, size, at, 4));
    for (uint32_t i = 0; at + 4 + i < size && i < 64; i++) {
        atomic_store(&uses->ring[((uint32_t)number_of(data, size, at, 4) - i) & (HR_USES_RING - 1)],
                     data[at + 4 + i] < 128 ? HR_USE(data[at + 4 + i] % 8, announced)
                                            : number_of(data, size, at + 4 + i, 8));
    }
    uses->entry_count = number_of(data, size, at, 8); /* theirs to overwrite */
    uses->magic = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!fuzz.loop) {
        fuzz_start();
        turn = (struct hr_timer)HR_TIMER_INIT(next_turn, NULL);
        fuzz_check(hr_intake_start(fuzz.loop, &fuzz.shm, fuzz.plan, fuzz.cache, &intake));
    }
    struct hr_slots *slots = fuzz.shm.slots;
    for (size_t at = 0; at + 4 <= size; at += 4 + data[at + 3]) {
        unsigned number = (data[at + 1] << 8 | data[at + 2]) % HR_SLOTS;
        size_t len = size - at - 4 < data[at + 3] ? size - at - 4 : data[at + 3];
        const uint8_t *bytes = data + at + 4;
        switch (data[at] % 6) {
        case 0: /* bytes as they are into a slot */
            memcpy((uint8_t *)&slots->slots[number] + data[at] % 64, bytes, len);
            break;
        case 1:
            atomic_store(&slots->claims[number], number_of(data, size, at + 4, 8));
            break;
        case 2: /* announced */
            atomic_store(&slots->claims[number], HR_CLAIM_MAKE(HR_CLAIM_FULL, 1, hr_clock_ms()));
            break;
        case 3:
            put_request(bytes, len, 0, number);
            atomic_store(&slots->claims[number], HR_CLAIM_MAKE(HR_CLAIM_FULL, 1, hr_clock_ms()));
            break;
        case 4:
            note(bytes, len, 0);
            break;
        default:
            (void)hr_intake_tick(intake);
            (void)hr_plan_tick(fuzz.plan);
        }
    }
    /* Everything announced is taken; what is half claimed is taken back by its age. */
    (void)hr_intake_tick(intake);
    (void)hr_plan_tick(fuzz.plan);
    for (unsigned i = 0; i < HR_SLOTS; i++) {
        if (HR_CLAIM_STATE(atomic_load(&slots->claims[i])) == HR_CLAIM_FULL) {
            abort();
        }
        atomic_store(&slots->claims[i], 0);
    }
    /* Nothing could be sent; what had taken its place in the cache gives it back. */
    turns = 0;
    hr_loop_each_turn(fuzz.loop, until_quiet, NULL);
    (void)hr_loop_arm(fuzz.loop, &turn, 0);
    (void)hr_loop_run(fuzz.loop);
    if (turns > TURNS_MAX) {
        abort();
    }
    if (standins > STANDINS_KEPT) {
        char command[128];
        snprintf(command, sizeof command, "rm -rf %s/dirs/*", scratch);
        (void)!system(command);
        standins = 0;
    }
    return 0;
}
