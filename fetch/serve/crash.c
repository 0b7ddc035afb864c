#define UNW_LOCAL_ONLY
#include "fetch/serve/crash.h"

#include <libunwind.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HR_CRASH_FRAMES 64               /* ours; the innermost */
#define HR_CRASH_STACK_BYTES (64 * 1024) /* the handler's own: the crash may be a stack overflow */

static int crash_fd = -1;

static void say(const char *text)
{
    ssize_t wrote = write(crash_fd, text, strlen(text));
    (void)wrote;
}

static void say_hex(unsigned long value)
{
    char text[2 + 2 * sizeof value + 1] = "0x";
    for (unsigned i = 0; i < 2 * sizeof value; i++) {
        unsigned digit = (unsigned)(value >> (4 * (2 * sizeof value - 1 - i))) & 0xf;
        text[2 + i] = (char)(digit < 10 ? '0' + digit : 'a' + digit - 10);
    }
    text[sizeof text - 1] = '\0';
    say(text);
}

static void walk(int quiet)
{
    unw_context_t context;
    unw_cursor_t cursor;
    if (unw_getcontext(&context) != 0 || unw_init_local(&cursor, &context) != 0) {
        return;
    }
    for (int i = 0; i < HR_CRASH_FRAMES && unw_step(&cursor) > 0; i++) {
        unw_word_t ip = 0, offset = 0;
        char name[128] = "?";
        unw_get_reg(&cursor, UNW_REG_IP, &ip);
        (void)unw_get_proc_name(&cursor, name, sizeof name, &offset);
        if (!quiet) {
            say("  ");
            say_hex((unsigned long)ip);
            say(" ");
            say(name);
            say("\n");
        }
    }
}

static void on_crash(int number)
{
    say("<2>headrace daemon crashed, signal ");
    char digits[3] = {(char)('0' + number / 10 % 10), (char)('0' + number % 10), '\0'};
    say(digits);
    say("; stack:\n");
    walk(0);
    /* SA_RESETHAND put the default action back: the signal is still due and ends us with the right status. */
    raise(number);
}

void hr_crash_install(int fd)
{
    crash_fd = fd;
    walk(1);
    void *stack =
        mmap(NULL, HR_CRASH_STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack != MAP_FAILED) {
        stack_t alternate = {.ss_sp = stack, .ss_size = HR_CRASH_STACK_BYTES};
        (void)sigaltstack(&alternate, NULL);
    }
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = (int)(SA_RESETHAND | SA_ONSTACK)};
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        (void)sigaction(numbers[i], &action, NULL);
    }
}
