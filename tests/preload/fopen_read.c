/* fopen and fopen64 in the reading modes: fread, fgets, getc, fseek, ftell, fstat, wide characters. */
#include <wchar.h>

#include "tests/preload/probe.h"

static uint64_t by_fread(FILE *stream, uint64_t *ret_size)
{
    char buffer[1000];
    uint64_t hash = PROBE_HASH;
    size_t got;
    *ret_size = 0;
    while ((got = fread(buffer, 1, sizeof(buffer), stream)) > 0) {
        hash = probe_hash(hash, buffer, got);
        *ret_size += got;
    }
    return ferror(stream) ? 0 : hash;
}

static uint64_t by_getc(FILE *stream)
{
    uint64_t hash = PROBE_HASH;
    int c;
    while ((c = getc(stream)) != EOF) {
        char byte = (char)c;
        hash = probe_hash(hash, &byte, 1);
    }
    return hash;
}

static void every_way(const char *relative)
{
    static const char *const modes[] = {"r", "rb", "re", "rbe", "rm", "rc"};
    char *path = probe_path(relative);
    uint64_t size = 0, hash = 0, other;
    FILE *stream = fopen(path, "r");
    if (stream) {
        hash = by_fread(stream, &size);
        probe_expect(fseek(stream, 0, SEEK_END) == 0 && ftell(stream) == (long)size, "%s: SEEK_END",
                     relative);
        rewind(stream);
        probe_expect(by_getc(stream) == hash, "%s: getc reads other bytes", relative);
        fclose(stream);
    }
    printf("%s %llu %016llx\n", relative, (unsigned long long)size, (unsigned long long)hash);
    for (unsigned i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        stream = fopen64(path, modes[i]);
        probe_expect(stream && by_fread(stream, &other) == hash, "%s: fopen64 \"%s\"", relative, modes[i]);
        if (stream) {
            bool close_on_exec = fcntl(fileno(stream), F_GETFD) & FD_CLOEXEC;
            probe_expect(close_on_exec == (strchr(modes[i], 'e') != NULL), "%s: close on exec \"%s\"",
                         relative, modes[i]);
            fclose(stream);
        }
    }
    free(path);
}

static void try_fopen(const char *what, const char *relative, const char *mode)
{
    char *path = probe_path(relative);
    FILE *stream = fopen(path, mode);
    probe_say(what, stream != NULL);
    if (stream) {
        fclose(stream);
    }
    free(path);
}

int main(int argc, char **argv)
{
    char name[PATH_MAX];
    probe_begin(argc, argv);
    probe_walk();
    for (size_t i = 0; i < probe_count; i++) {
        if (probe_entries[i].type == DT_REG) {
            every_way(probe_entries[i].path);
        }
    }
    const char *file = probe_some(DT_REG, 0);
    try_fopen("missing", "no-such-name", "r");
    try_fopen("bad mode", file, "q");
    try_fopen("charset", file, "r,ccs=UTF-8");
    try_fopen("directory", probe_some(DT_DIR, 0), "r");
    try_fopen("directory for writing", probe_some(DT_DIR, 0), "w");
    snprintf(name, sizeof(name), "%s/below", file);
    try_fopen("below a file", name, "r");
    return probe_wrong;
}
