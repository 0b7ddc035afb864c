#include "fetch/net/ca_bundle.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Debian, Ubuntu, Arch, Alpine; Fedora, RHEL; openSUSE; older Fedora. */
static const char *const places[] = {
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
};

static bool take(const char *path, char ret[PATH_MAX])
{
    if (!path || strlen(path) >= PATH_MAX || access(path, R_OK) < 0) {
        return false;
    }
    strcpy(ret, path);
    return true;
}

bool hr_ca_bundle(const char *compiled, char ret[PATH_MAX])
{
    if (take(compiled, ret)) {
        return true;
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (take(places[i], ret)) {
            return true;
        }
    }
    char self[PATH_MAX], beside[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len <= 0) {
        return false;
    }
    self[len] = '\0';
    *strrchr(self, '/') = '\0';
    int wrote = snprintf(beside, sizeof beside, "%s/lib/ca-certificates.crt", self);
    return wrote > 0 && wrote < PATH_MAX && take(beside, ret);
}
