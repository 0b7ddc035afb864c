/* The table of chains: growth one chain at a time, collisions by choice, removal while walking, no memory. */
#include "tests/unit/cache/lab.h"

static bool no_memory;

/* The table itself, with the memory of this test. */
#define calloc(count, bytes) (no_memory ? NULL : calloc(count, bytes))
#define reallocarray(old, count, bytes) (no_memory ? NULL : reallocarray(old, count, bytes))
#include "fetch/cache/chains.c"
#undef calloc
#undef reallocarray

struct item {
    struct hr_chained link;
    uint32_t hash;
    bool in;
    bool seen;
};

enum { ITEMS = 300000, LONGEST = 24 };

static struct item items[ITEMS];
static unsigned hashes; /* asked for */

static uint32_t hash_of(const struct hr_chained *link)
{
    hashes++;
    return ((const struct item *)(const void *)link)->hash;
}

static bool is_in(const struct hr_chains *chains, const struct item *item)
{
    const struct hr_chained *link = hr_chains_of(chains, item->hash);
    while (link && link != &item->link) {
        link = link->next;
    }
    return link != NULL;
}

/* Every item that is in is in one chain, and nothing else is. Returns the longest chain's length. */
static unsigned check_all(const struct hr_chains *chains)
{
    uint64_t count = 0;
    unsigned longest = 0;
    for (uint32_t number = 0; number < chains->heads; number++) {
        unsigned length = 0;
        for (struct hr_chained *link = hr_chains_at(chains, number); link; link = link->next) {
            struct item *item = (struct item *)(void *)link;
            assert_true(item->in && !item->seen);
            assert_ptr_equal(hr_chains_at(chains, number), hr_chains_of(chains, item->hash));
            item->seen = true;
            length++;
        }
        count += length;
        longest = length > longest ? length : longest;
    }
    for (size_t i = 0; i < ITEMS; i++) {
        assert_true(items[i].seen == items[i].in);
        items[i].seen = false;
    }
    assert_int_equal(chains->count, count);
    return longest;
}

static void begin(struct hr_chains *chains, bool same_hash)
{
    no_memory = false;
    assert_int_equal(hr_chains_init(chains, hash_of), 0);
    for (size_t i = 0; i < ITEMS; i++) {
        items[i] = (struct item){.hash = same_hash ? 12345 : (uint32_t)hr_mix64(i)};
    }
}

static void add(struct hr_chains *chains, struct item *item)
{
    item->in = true;
    hr_chains_add(chains, &item->link);
}

static void drop(struct hr_chains *chains, struct item *item)
{
    item->in = false;
    hr_chains_remove(chains, &item->link);
}

static void grows_a_chain_at_a_time(void **state)
{
    (void)state;
    struct hr_chains chains;
    begin(&chains, false);
    for (size_t i = 0; i < ITEMS; i++) {
        uint32_t heads = chains.heads;
        hashes = 0;
        add(&chains, &items[i]);
        assert_true(chains.heads - heads <= 1);
        assert_true(hashes <= 1 + LONGEST); /* its own, and those of the chain that was split */
        assert_true(chains.count <= (uint64_t)chains.heads * HR_CHAIN_LOAD);
    }
    assert_true(check_all(&chains) <= LONGEST);
    assert_int_equal(chains.heads, ITEMS / HR_CHAIN_LOAD);
    for (size_t i = 0; i < ITEMS; i++) {
        assert_true(is_in(&chains, &items[i]));
        if (i % 3) {
            drop(&chains, &items[i]);
            assert_false(is_in(&chains, &items[i]));
        }
    }
    (void)check_all(&chains);
    for (size_t i = 0; i < ITEMS; i++) {
        if (i % 3) {
            add(&chains, &items[i]);
        }
    }
    (void)check_all(&chains);
    assert_int_equal(chains.heads, ITEMS / HR_CHAIN_LOAD); /* as many as before: no head more */
    hr_chains_release(&chains);
}

static void one_hash_for_all(void **state)
{
    (void)state;
    enum { SAME = 6000 };
    struct hr_chains chains;
    begin(&chains, true);
    for (size_t i = 0; i < SAME; i++) {
        add(&chains, &items[i]);
    }
    assert_int_equal(check_all(&chains), SAME);
    for (size_t i = 0; i < SAME; i += 2) {
        drop(&chains, &items[i]);
    }
    for (size_t i = 0; i < SAME; i++) {
        assert_true(is_in(&chains, &items[i]) == (i % 2 == 1));
    }
    assert_int_equal(check_all(&chains), SAME / 2);
    hr_chains_release(&chains);
}

static void removal_while_walking(void **state)
{
    (void)state;
    enum { SOME = 50000 };
    struct hr_chains chains;
    begin(&chains, false);
    for (size_t i = 0; i < SOME; i++) {
        add(&chains, &items[i]);
    }
    unsigned met = 0;
    for (uint32_t number = 0; number < chains.heads; number++) {
        for (struct hr_chained *link = hr_chains_at(&chains, number), *next; link; link = next) {
            next = link->next;
            met++;
            if (met % 2) {
                drop(&chains, (struct item *)(void *)link);
            }
        }
    }
    assert_int_equal(met, SOME); /* each once, whatever was removed before it */
    assert_int_equal(chains.count, SOME / 2);
    (void)check_all(&chains);
    hr_chains_release(&chains);
}

static void without_memory_chains_get_longer(void **state)
{
    (void)state;
    enum { SOME = 20000 };
    struct hr_chains chains;
    no_memory = true;
    assert_int_equal(hr_chains_init(&chains, hash_of), -ENOMEM);
    begin(&chains, false);
    uint32_t heads = chains.heads;
    no_memory = true;
    for (size_t i = 0; i < SOME; i++) {
        add(&chains, &items[i]);
    }
    assert_int_equal(chains.heads, heads);
    (void)check_all(&chains);
    no_memory = false;
    for (size_t i = SOME; i < ITEMS; i++) {
        add(&chains, &items[i]);
    }
    assert_true(check_all(&chains) <= LONGEST);
    hr_chains_release(&chains);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_a_chain_at_a_time),
        cmocka_unit_test(one_hash_for_all),
        cmocka_unit_test(removal_while_walking),
        cmocka_unit_test(without_memory_chains_get_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
