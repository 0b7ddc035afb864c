/* Runs the rows on an object and a directory, with hooks or without; makes the object; or starts a program
 * with descriptors of both by a system call that no hook sees.
 *   rows run OBJECT AT LEN DARK SCRATCH SECONDS [PART-OF-A-ROW'S-NAME]
 *   rows make FILE BYTES
 *   rows start OBJECT DARK PROGRAM ARG...    PROGRAM gets the two descriptors' numbers after its ARGs */
#include <sys/syscall.h>

#include "tests/e2e/poison/rows.h"

static int make(const char *path, uint64_t bytes)
{
    static char buffer[65536];
    FILE *file = fopen(path, "w");
    for (uint64_t at = 0; file && at < bytes;) {
        size_t some = bytes - at < sizeof(buffer) ? (size_t)(bytes - at) : sizeof(buffer);
        for (size_t i = 0; i < some; i++) {
            buffer[i] = (char)poison_byte(at + i);
        }
        if (fwrite(buffer, 1, some, file) != some) {
            return 1;
        }
        at += some;
    }
    return !file || fclose(file) != 0;
}

/* execve past every hook: an instruction of our own. */
static long raw_execve(const char *path, char *const argv[], char *const envp[])
{
#if defined(__x86_64__)
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"((long)SYS_execve), "D"(path), "S"(argv), "d"(envp)
                     : "rcx", "r11", "memory");
    return result;
#else
    register long number __asm__("x8") = SYS_execve;
    register long a __asm__("x0") = (long)path;
    register long b __asm__("x1") = (long)argv;
    register long c __asm__("x2") = (long)envp;
    __asm__ volatile("svc 0" : "+r"(a) : "r"(number), "r"(b), "r"(c) : "memory");
    return a;
#endif
}

extern char **environ;

static int start(const char *object, const char *dark, char **command)
{
    static char numbers[2][16];
    char *argv[16] = {NULL};
    int count = 0, fd = open(object, O_RDONLY), dir = open(dark, O_RDONLY | O_DIRECTORY);
    while (command[count] && count < 12) {
        argv[count] = command[count];
        count++;
    }
    if (fd < 0 || dir < 0) {
        perror("open");
        return 2;
    }
    snprintf(numbers[0], sizeof(numbers[0]), "%d", fd);
    snprintf(numbers[1], sizeof(numbers[1]), "%d", dir);
    argv[count++] = numbers[0];
    argv[count] = numbers[1];
    fprintf(stderr, "execve: %ld\n", raw_execve(argv[0], argv, environ));
    return 2;
}

int main(int argc, char **argv)
{
    static struct poison_row all[256];
    const struct poison_row *const tables[] = {rows_read, rows_move, rows_queue, rows_hand, rows_names};
    if (argc == 4 && strcmp(argv[1], "make") == 0) {
        return make(argv[2], strtoull(argv[3], NULL, 10));
    }
    if (argc >= 5 && strcmp(argv[1], "start") == 0) {
        return start(argv[2], argv[3], argv + 4);
    }
    if (argc < 8 || strcmp(argv[1], "run") != 0) {
        return 2;
    }
    poison_path = argv[2];
    poison_at = strtoull(argv[3], NULL, 10);
    poison_len = strtoull(argv[4], NULL, 10);
    poison_dark = argv[5];
    poison_scratch = argv[6];
    unsigned count = 0;
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        for (const struct poison_row *row = tables[i]; row->name; row++) {
            all[count++] = *row;
        }
    }
    poison_run(all, argc > 8 ? argv[8] : NULL, (unsigned)atoi(argv[7]));
    return 0;
}
