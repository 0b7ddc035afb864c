#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fetch/net/ca_bundle.h"

static void the_compiled_place_goes_first(void **state)
{
    (void)state;
    char name[] = "/tmp/headrace-ca-XXXXXX", found[PATH_MAX] = "";
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    close(fd);
    assert_true(hr_ca_bundle(name, found));
    assert_string_equal(found, name);
    unlink(name);
    assert_true(!hr_ca_bundle(name, found) || strcmp(found, name) != 0);
}

/* The place beside the program comes last; here it is asked for alone, where no distribution's is. */
static void beside_the_program(void **state)
{
    (void)state;
    static const char *const known[] = {"/etc/ssl/certs/ca-certificates.crt",
                                        "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
                                        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"};
    const char *expected = NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known && !expected; i++) {
        expected = access(known[i], R_OK) == 0 ? known[i] : NULL;
    }
    char self[PATH_MAX], beside[PATH_MAX + 32], found[PATH_MAX] = "";
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(len > 0);
    self[len] = '\0';
    *strrchr(self, '/') = '\0';
    snprintf(beside, sizeof beside, "%s/lib", self);
    (void)mkdir(beside, 0755);
    snprintf(beside, sizeof beside, "%s/lib/ca-certificates.crt", self);
    FILE *file = fopen(beside, "we");
    assert_non_null(file);
    fclose(file);
    assert_true(hr_ca_bundle(NULL, found));
    assert_string_equal(found, expected ? expected : beside);
    unlink(beside);
    snprintf(beside, sizeof beside, "%s/lib", self);
    rmdir(beside);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_compiled_place_goes_first),
        cmocka_unit_test(beside_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
