/* Calls made before any library's constructor ran (.preinit_array): the hooks must work with nothing
 * prepared. */
#include "tests/preload/probe.h"

static struct {
    int opened, read, stated, accessed;
    bool allocated, stream, directory, here, real;
} early;

static void before_everything(int argc, char **argv, char **envp)
{
    char buffer[PATH_MAX];
    struct stat st;
    (void)argc, (void)argv, (void)envp;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    early.opened = fd >= 0;
    early.read = read(fd, buffer, 4) == 4 && memcmp(buffer, "\177ELF", 4) == 0;
    early.stated = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && stat("/", &st) == 0 && S_ISDIR(st.st_mode);
    close(fd);
    early.accessed = access("/", F_OK) == 0 && access("/no-such-name", F_OK) == -1 && errno == ENOENT;
    void *memory = malloc(100000);
    early.allocated = memory != NULL;
    free(memory);
    FILE *stream = fopen("/proc/self/exe", "rb");
    early.stream = stream && fread(buffer, 1, 4, stream) == 4 && fclose(stream) == 0;
    DIR *dir = opendir("/");
    early.directory = dir && readdir(dir) && closedir(dir) == 0;
    early.here = getcwd(buffer, sizeof(buffer)) != NULL;
    early.real = realpath("/.", buffer) && strcmp(buffer, "/") == 0;
}

__attribute__((section(".preinit_array"),
               used)) static void (*const early_entry)(int, char **, char **) = before_everything;

int main(int argc, char **argv)
{
    struct stat st;
    probe_begin(argc, argv);
    printf("early: open %d read %d stat %d access %d malloc %d fopen %d opendir %d getcwd %d realpath %d\n",
           early.opened, early.read, early.stated, early.accessed, early.allocated, early.stream,
           early.directory, early.here, early.real);
    probe_say("and then the directory", stat(probe_root, &st) == 0 && S_ISDIR(st.st_mode));
    return probe_wrong;
}
