/* The threads of the search for known orders, and where they may go through all seeds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fetch/plan/order_thread.h"
#include "tests/unit/plan/orders.h"

#define WAIT_MS 30000

static struct hr_order_result await(struct hr_order_searcher *searcher)
{
    struct hr_order_result result;
    struct pollfd ready = {.fd = hr_order_searcher_fd(searcher), .events = POLLIN};
    while (!hr_order_searcher_take(searcher, &result)) {
        assert_int_equal(poll(&ready, 1, WAIT_MS), 1);
    }
    assert_true(result.found == (result.permutation != NULL));
    if (result.found) {
        uint32_t *whole = make(&result.order);
        assert_memory_equal(whole, result.permutation, result.order.n * sizeof *whole);
        free(whole);
        free(result.permutation);
    }
    return result;
}

static void test_searcher(void **state)
{
    (void)state;
    struct hr_order_searcher *searcher = NULL;
    struct hr_order order = {.n = 4000, .seed = 31337, .replicas = 1};
    struct hr_order_ask ask = ask_of(4000), none = {0};
    look(&ask, &order, SEEN);
    assert_int_equal(hr_order_searcher_new(HR_ORDER_MODE_AUTO, true, &searcher), 0);
    assert_int_equal(hr_order_searcher_ask(searcher, 5, &ask), 0);
    struct hr_order_result result = await(searcher);
    assert_true(result.found && result.id == 5);
    assert_int_equal(result.order.seed, 31337);
    assert_int_equal(hr_order_searcher_ask(searcher, 6, &none), 0); /* an ask about nothing ends, too */
    result = await(searcher);
    assert_true(!result.found && result.id == 6 && result.tried == 0);
    hr_order_searcher_free(searcher);
    assert_int_equal(hr_order_searcher_new(HR_ORDER_MODE_OFF, true, &searcher), 0);
    assert_int_equal(hr_order_searcher_ask(searcher, 5, &ask), -EOPNOTSUPP);
    hr_order_searcher_free(searcher);
}

/* Orders that are known are made beside searches, one behind the other; nobody waits for what was cancelled,
 * and its place comes back. */
static void test_orders_are_made(void **state)
{
    (void)state;
    struct hr_order_searcher *searcher = NULL;
    struct hr_order_result result;
    struct hr_orders orders = {.count = 2,
                               .orders = {{.n = 500, .seed = 8, .replicas = 2, .rank = 1},
                                          {.n = 500, .seed = 9, .replicas = 2, .rank = 1}}};
    assert_int_equal(hr_order_searcher_new(HR_ORDER_MODE_AUTO, true, &searcher), 0);
    for (uint64_t id = 1; id <= 3 * HR_ORDER_JOBS_MAX; id++) {
        assert_int_equal(hr_order_searcher_make(searcher, id, &orders), 0);
        if (id % 3) {
            hr_order_searcher_cancel(searcher, id);
        }
        struct pollfd ready = {.fd = hr_order_searcher_fd(searcher), .events = POLLIN};
        while (id % 3 == 0 && !hr_order_searcher_take(searcher, &result)) {
            assert_int_equal(poll(&ready, 1, WAIT_MS), 1);
        }
        if (id % 3 == 0) {
            assert_true(result.id == id && result.permutation);
            for (unsigned i = 0; i < orders.count; i++) {
                uint32_t *whole = make(&orders.orders[i]);
                assert_memory_equal(whole, result.permutation + 500 * i, 500 * sizeof *whole);
                free(whole);
            }
            free(result.permutation);
        }
    }
    hr_order_searcher_free(searcher);
    assert_int_equal(hr_order_searcher_new(HR_ORDER_MODE_OFF, true, &searcher), 0);
    assert_int_equal(hr_order_searcher_make(searcher, 5, &orders), -EOPNOTSUPP);
    hr_order_searcher_free(searcher);
}

/* Searches through everything, for what is not there: likely candidates of others are not held up, places
 * come back, and the end does not wait for them. */
static void test_full_search_gives_way(void **state)
{
    (void)state;
    struct hr_order_searcher *searcher = NULL;
    struct hr_order_ask hopeless = ask_of(4000);
    struct hr_order order = {.n = 4000, .seed = 99, .replicas = 8, .rank = 5};
    struct hr_order_ask ask = ask_of(4000);
    hopeless.deep = true;
    hopeless.sets[0].seen_count = SEEN;
    for (uint32_t i = 0; i < SEEN; i++) {
        hopeless.sets[0].seen[i] = (struct hr_order_seen){i, 1000 + i};
    }
    look(&ask, &order, SEEN);
    assert_int_equal(hr_order_searcher_new(HR_ORDER_MODE_FULL, true, &searcher), 0);
    for (uint64_t id = 1; id < HR_ORDER_JOBS_MAX; id++) {
        assert_int_equal(hr_order_searcher_ask(searcher, id, &hopeless), 0);
    }
    for (unsigned round = 0; round < 3; round++) {
        assert_int_equal(hr_order_searcher_ask(searcher, 77, &ask), 0);
        struct hr_order_result result = await(searcher);
        assert_true(result.found && result.id == 77);
        assert_int_equal(result.order.rank, 5);
    }
    assert_int_equal(hr_order_searcher_ask(searcher, HR_ORDER_JOBS_MAX, &hopeless), 0);
    assert_int_equal(hr_order_searcher_ask(searcher, 78, &ask), -EBUSY);
    int error;
    hr_order_searcher_cancel(searcher, 2);
    while ((error = hr_order_searcher_ask(searcher, 78, &ask)) == -EBUSY) {
        (void)poll(NULL, 0, 1); /* its slices under way come to their end */
    }
    assert_int_equal(error, 0);
    struct hr_order_result result = await(searcher);
    assert_true(result.found && result.id == 78);
    hr_order_searcher_free(searcher);
}

/* ---- where all seeds may be gone through ---- */

static char folder[] = "/tmp/hr-orders-XXXXXX";

static void put(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void put_folder(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static bool has_quota(const char *cgroups)
{
    char path[512];
    put("cgroup", cgroups);
    snprintf(path, sizeof path, "%s/cgroup", folder);
    return hr_order_has_quota(path, folder);
}

static void test_quota(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_false(hr_order_has_quota("/nonexistent", folder));
    put_folder("a");
    put_folder("a/b");
    put("a/b/cpu.max", "max 100000\n");
    assert_false(has_quota("0::/a/b\n"));
    put("a/cpu.max", "200000 100000\n"); /* of the group above */
    assert_true(has_quota("0::/a/b\n"));
    assert_true(has_quota("0::/a\n"));
    assert_false(has_quota("0::/\n"));
    put("cpu.max",
        "50000 100000\n"); /* a container sees its own group at the top, maybe under the host's path */
    assert_true(has_quota("0::/\n"));
    assert_true(has_quota("0::/elsewhere/x\n"));
    put("cpu.max", "max 100000\n");
    put_folder("cpu,cpuacct");
    put_folder("cpu,cpuacct/job");
    put("cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    assert_false(has_quota("5:memory:/a\n4:cpu,cpuacct:/job\n3:cpuset:/a\n"));
    put("cpu,cpuacct/cpu.cfs_quota_us", "150000\n");
    assert_true(has_quota("5:memory:/\n4:cpu,cpuacct:/job\n"));
    assert_false(has_quota("broken\n"));
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_searcher),
        cmocka_unit_test(test_orders_are_made),
        cmocka_unit_test(test_full_search_gives_way),
        cmocka_unit_test(test_quota),
    };
    return cmocka_run_group_tests_name("order_thread", tests, NULL, NULL);
}
