/* The small parts: extents, replacement order, budget arithmetic. */
#include "tests/unit/cache/lab.h"

#include "fetch/cache/budget.h"
#include "fetch/cache/extents.h"
#include "fetch/cache/policy.h"

static void extents_any_order(void **state)
{
    (void)state;
    enum { PARTS = 64 };
    for (unsigned seed = 1; seed < 200; seed++) {
        struct hr_extents extents = {0};
        unsigned order[PARTS];
        srand(seed);
        for (unsigned i = 0; i < PARTS; i++) {
            order[i] = i;
        }
        for (unsigned i = PARTS - 1; i > 0; i--) {
            unsigned j = (unsigned)rand() % (i + 1);
            unsigned swap = order[i];
            order[i] = order[j];
            order[j] = swap;
        }
        for (unsigned i = 0; i < PARTS; i++) {
            assert_false(hr_extents_cover(&extents, PARTS * 10));
            assert_int_equal(hr_extents_add(&extents, order[i] * 10, order[i] * 10 + 10), 0);
            assert_int_equal(hr_extents_add(&extents, order[i] * 10 + 5, order[i] * 10 + 6), -EINVAL);
        }
        assert_true(hr_extents_cover(&extents, PARTS * 10));
        assert_false(hr_extents_cover(&extents, PARTS * 10 + 1));
        assert_false(hr_extents_cover(&extents, PARTS * 10 - 1));
        assert_int_equal(extents.count, 1);
        hr_extents_release(&extents);
    }
}

static void extents_bounds(void **state)
{
    (void)state;
    struct hr_extents extents = {0};
    assert_true(hr_extents_cover(&extents, 0));
    assert_int_equal(hr_extents_add(&extents, 5, 5), -EINVAL);
    assert_int_equal(hr_extents_add(&extents, 10, 20), 0);
    static const struct {
        uint64_t from, to;
    } overlaps[] = {{0, 11}, {19, 21}, {10, 20}, {12, 14}, {0, 100}};
    for (size_t i = 0; i < sizeof(overlaps) / sizeof(overlaps[0]); i++) {
        assert_int_equal(hr_extents_add(&extents, overlaps[i].from, overlaps[i].to), -EINVAL);
    }
    assert_int_equal(hr_extents_add(&extents, 30, 40), 0);
    assert_int_equal(hr_extents_add(&extents, 15, 35), -EINVAL);
    assert_int_equal(hr_extents_add(&extents, 20, 30), 0);
    assert_int_equal(hr_extents_add(&extents, 0, 10), 0);
    assert_true(hr_extents_cover(&extents, 40));
    hr_extents_release(&extents);
}

static void policy_is_lru(void **state)
{
    (void)state;
    struct hr_policy policy;
    struct hr_policy_node node[4];
    hr_policy_init(&policy);
    assert_null(hr_policy_victim(&policy));
    hr_policy_full(&policy, 4 * 4096);
    for (int i = 0; i < 4; i++) {
        hr_policy_admit(&policy, &node[i], (uint32_t)i, 4096, HR_POLICY_ASKED);
        hr_policy_used(&policy, &node[i]);
    }
    hr_policy_used(&policy, &node[0]);
    hr_policy_used(&policy, &node[2]);
    static const int order[] = {1, 3, 0, 2};
    for (int i = 0; i < 4; i++) {
        assert_ptr_equal(hr_policy_victim(&policy), &node[order[i]]);
        hr_policy_forget(&policy, &node[order[i]]);
    }
    assert_null(hr_policy_victim(&policy));
    hr_policy_release(&policy);
}

static void budget_rules(void **state)
{
    (void)state;
    static const struct {
        uint64_t size, charge;
    } charges[] = {{0, 4096}, {1, 4096}, {4096, 4096}, {4097, 8192}, {UINT64_MAX, UINT64_MAX}};
    for (size_t i = 0; i < sizeof(charges) / sizeof(charges[0]); i++) {
        assert_true(hr_budget_charge(charges[i].size) == charges[i].charge);
    }
    struct hr_budget budget = {.limit_bytes = 100, .floor_bytes = 10, .free_bytes = 1000};
    assert_int_equal(hr_budget_lacks(&budget, 100), 0);
    assert_int_equal(hr_budget_lacks(&budget, 101), 1);
    hr_budget_reserve(&budget, 60);
    assert_int_equal(hr_budget_lacks(&budget, 50), 10);
    assert_false(hr_budget_possible(&budget, 50));
    hr_budget_settle(&budget, 60, 0, true);
    assert_int_equal(hr_budget_lacks(&budget, 50), 10);
    assert_true(hr_budget_possible(&budget, 50));
    budget.free_bytes = 40;
    assert_int_equal(hr_budget_lacks(&budget, 50), 20);
    hr_budget_give_up(&budget, 60);
    assert_int_equal(budget.free_bytes, 100);
    assert_int_equal(hr_budget_lacks(&budget, 90), 0);
    hr_budget_unlinked(&budget, 60);
    assert_true(!budget.used_bytes && !budget.reserved_bytes && !budget.leaving_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extents_any_order),
        cmocka_unit_test(extents_bounds),
        cmocka_unit_test(policy_is_lru),
        cmocka_unit_test(budget_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
