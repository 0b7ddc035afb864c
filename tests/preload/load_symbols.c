/* Functions found by dlsym, and what dlopen says of a tree without libraries. */
#include "tests/preload/probe.h"

#include <dlfcn.h>

static void try_load(const char *what, const char *path, int flags)
{
    void *handle = dlopen(path, flags);
    const char *error = handle ? NULL : dlerror();
    printf("%s: %s\n", what, handle ? "loaded" : error ? "refused" : "refused without a word");
    if (handle) {
        dlclose(handle);
    }
}

static void by_address(const char *name, void *address)
{
    int (*found)(const char *, int, ...) = (int (*)(const char *, int, ...))address;
    char *path = probe_path("top.txt");
    int fd = found ? found(path, O_RDONLY) : -1;
    uint64_t size = 0;
    probe_say(name, fd >= 0);
    if (fd >= 0) {
        probe_digest(fd, &size);
        printf("  %llu bytes\n", (unsigned long long)size);
        close(fd);
    }
    free(path);
}

static void by_handle(const char *name, void *handle)
{
    by_address(name, dlsym(handle, name));
}

/* The version that libc has had since its first day, on each machine. */
#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#else
#define OLDEST "GLIBC_2.17"
#endif

int main(int argc, char **argv)
{
    struct stat st;
    probe_begin(argc, argv);
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    probe_expect(libc != NULL, "libc: %s", libc ? "" : dlerror());
    by_handle("open", libc);
    by_handle("open64", libc);
    by_handle("open", RTLD_DEFAULT);
    by_handle("open", dlopen(NULL, RTLD_LAZY));
    int (*by_stat)(const char *, struct stat *) = (int (*)(const char *, struct stat *))dlsym(libc, "lstat");
    char *path = probe_path("a");
    probe_say("lstat", by_stat && by_stat(path, &st) == 0);
    DIR *(*by_opendir)(const char *) = (DIR * (*)(const char *)) dlsym(libc, "opendir");
    DIR *dir = by_opendir ? by_opendir(path) : NULL;
    probe_say("opendir", dir && readdir(dir));
    by_address("open by version", dlvsym(libc, "open", OLDEST));
    by_address("open64 by version", dlvsym(libc, "open64", OLDEST));
    printf("no such version: %d\n", dlvsym(libc, "open", "GLIBC_1.0") == NULL);
    /* The next one behind the program. */
    by_handle("open", RTLD_NEXT);
    void *missing = dlsym(libc, "no_such_function");
    printf("missing: %d %d\n", missing == NULL, dlerror() != NULL);
    printf("not a hook: %d\n", dlsym(libc, "strlen") != NULL && dlsym(libc, "qsort") != NULL);
    try_load("no library", probe_path("top.txt"), RTLD_NOW);
    try_load("missing library", probe_path("no-such.so"), RTLD_NOW);
    try_load("directory", probe_path("a"), RTLD_NOW);
    try_load("by name", "libm.so.6", RTLD_NOW | RTLD_DEEPBIND);
    try_load("nowhere", "/no/such/library.so", RTLD_NOW);
    try_load("another name space", "libm.so.6", RTLD_LAZY);
    void *far = dlmopen(LM_ID_NEWLM, "libm.so.6", RTLD_NOW);
    printf("dlmopen: %d\n", far != NULL);
    return probe_wrong;
}
