#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "fetch/base/limits.h"

static char root[64];

static void write_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *slash = strchr(path + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0755);
        *slash = '/';
    }
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static uint64_t limit_of(uint64_t (*look)(const char *cgroup_file, const char *root), const char *cgroup)
{
    char path[256];
    write_file("cgroup", cgroup);
    snprintf(path, sizeof path, "%s/cgroup", root);
    return look(path, root);
}

static uint64_t limit(const char *cgroup)
{
    return limit_of(hr_limit_memory, cgroup);
}

static uint64_t cores(const char *cgroup)
{
    return limit_of(hr_limit_cores, cgroup);
}

static int make_root(void **state)
{
    (void)state;
    strcpy(root, "/tmp/headrace-limits-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static void nothing_limits(void **state)
{
    (void)state;
    assert_true(hr_limit_memory("/nonexistent/cgroup", root) == UINT64_MAX);
    assert_true(limit("0::/\n") == UINT64_MAX);
    write_file("memory.max", "max\n");
    assert_true(limit("0::/\n") == UINT64_MAX);
    write_file("memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_true(limit("5:memory:/\n") == UINT64_MAX);
    assert_true(limit("no colons\n::\n7:cpu,memoryless:/\n") == UINT64_MAX);
}

static void the_least_on_the_way_up_counts(void **state)
{
    (void)state;
    write_file("pods/a/memory.max", "500000000\n");
    write_file("pods/memory.max", "300000000\n");
    assert_int_equal(limit("0::/pods/a\n"), 300000000);
    write_file("pods/memory.max", "max\n");
    assert_int_equal(limit("0::/pods/a\n"), 500000000);
    assert_int_equal(limit("0::/pods/a/not/shown/here\n"), 500000000);
}

static void a_container_that_sees_its_hosts_path(void **state)
{
    (void)state;
    write_file("memory.max", "70000000\n");
    assert_int_equal(limit("0::/kubepods/burstable/pod1/abc\n"), 70000000);
    write_file("memory.max", "max\n");
}

static void the_first_version(void **state)
{
    (void)state;
    write_file("memory/docker/x/memory.limit_in_bytes", "268435456\n");
    assert_int_equal(limit("12:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n1:name=systemd:/docker/x\n0::/\n"),
                     268435456);
}

static void cores_of_the_second_version(void **state)
{
    (void)state;
    assert_true(hr_limit_cores("/nonexistent/cgroup", root) == UINT64_MAX);
    write_file("job/step/cpu.max", "max 100000\n");
    assert_true(cores("0::/job/step\n") == UINT64_MAX);
    write_file("job/step/cpu.max", "800000 100000\n");
    assert_int_equal(cores("0::/job/step\n"), 8);
    write_file("job/cpu.max", "250000 100000\n"); /* of the group above; a part counts as one */
    assert_int_equal(cores("0::/job/step\n"), 3);
    write_file("job/cpu.max", "20000 100000\n");
    assert_int_equal(cores("0::/job/step\n"), 1);
    write_file("job/cpu.max", "250000 0\n"); /* what no kernel writes */
    assert_int_equal(cores("0::/job/step\n"), 8);
    write_file("job/cpu.max", "250000");
    assert_int_equal(cores("0::/job/step\n"), 8);
}

static void cores_of_the_first_version(void **state)
{
    (void)state;
    write_file("cpu,cpuacct/job/cpu.cfs_period_us", "50000\n");
    write_file("cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    assert_true(cores("4:cpu,cpuacct:/job\n3:cpuset:/job\n") == UINT64_MAX);
    write_file("cpu,cpuacct/job/cpu.cfs_quota_us", "200000\n");
    assert_int_equal(cores("4:cpu,cpuacct:/job\n"), 4);
    assert_true(cores("3:cpuset:/job\n5:memory:/job\n") == UINT64_MAX);
    write_file("cpu/job/cpu.cfs_period_us", "100000\n"); /* the same, mounted by its name */
    write_file("cpu/job/cpu.cfs_quota_us", "150000\n");
    assert_int_equal(cores("4:cpu,cpuacct:/job\n"), 2);
    assert_int_equal(cores("1:cpu:/job\n"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_limits),
        cmocka_unit_test(the_least_on_the_way_up_counts),
        cmocka_unit_test(a_container_that_sees_its_hosts_path),
        cmocka_unit_test(the_first_version),
        cmocka_unit_test(cores_of_the_second_version),
        cmocka_unit_test(cores_of_the_first_version),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
