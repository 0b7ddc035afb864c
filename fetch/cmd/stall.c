/* `headrace stall`: which threads wait for headrace, for what, how long, in which state, and where in their
 * program. */
#include "fetch/cmd/cmd.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/base/buf.h"
#include "fetch/base/text.h"
#include "fetch/cmd/client.h"
#include "fetch/cmd/stall_stack.h"

#define HR_STALL_KEY_BYTES 8192 /* decoded: prefix and path are 2 KiB at most */

extern char **environ;

/* ---- processes ---- */

/* NULL: no such process here. */
static char *read_proc(pid_t pid, const char *name, char *text, size_t room)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    FILE *file = fopen(path, "re");
    size_t got = file ? fread(text, 1, room - 1, file) : 0;
    if (file) {
        fclose(file);
    }
    text[got] = '\0';
    return got > 0 ? text : NULL;
}

static pid_t parent_of(pid_t pid)
{
    char text[512];
    const char *end = read_proc(pid, "stat", text, sizeof text) ? strrchr(text, ')') : NULL;
    int parent = 0;
    return end && sscanf(end, ") %*c %d", &parent) == 1 ? (pid_t)parent : 0;
}

static bool is_below(pid_t pid, pid_t top)
{
    for (int depth = 0; pid > 1 && depth < 1024; depth++, pid = parent_of(pid)) {
        if (pid == top) {
            return true;
        }
    }
    return pid == top;
}

static void program_of(pid_t pid, char *ret, size_t room)
{
    if (!read_proc(pid, "comm", ret, room)) {
        snprintf(ret, room, "?");
    }
    ret[strcspn(ret, "\n")] = '\0';
}

/* ---- one wait ---- */

static const char *text_of(const json_t *wait, const char *name)
{
    const char *text = json_string_value(json_object_get(wait, name));
    return text ? text : "";
}

static long long number_of(const json_t *wait, const char *name)
{
    return (long long)json_integer_value(json_object_get(wait, name));
}

static double seconds_of(const json_t *wait, const char *name)
{
    return (double)number_of(wait, name) / 1000;
}

/* What a terminal may be told: names hold any byte. */
static void print_name(const char *encoded)
{
    struct hr_buf name = HR_BUF_INIT(HR_STALL_KEY_BYTES);
    if (hr_percent_decode(encoded, strlen(encoded), false, &name) == 0) {
        for (size_t i = 0; i < name.len; i++) {
            unsigned char c = (unsigned char)name.data[i];
            putchar(c < ' ' || c == 0x7f ? '?' : c);
        }
    }
    hr_buf_release(&name);
}

static void print_call(const json_t *wait)
{
    const char *call = text_of(wait, "call"), *error = text_of(wait, "error");
    long long requests = number_of(wait, "requests");
    if (strcmp(call, "credentials") == 0) {
        printf("waits for credentials");
    } else if (strcmp(call, "retrying") == 0) {
        printf("retries in %.1f s, after %lld request%s: %s", seconds_of(wait, "next_ms"), requests,
               requests == 1 ? "" : "s", error);
        return;
    } else {
        printf("request %lld %s %s since %.1f s", requests,
               strcmp(call, "coming") == 0 ? "is being answered by" : "in flight to",
               text_of(wait, "address"), seconds_of(wait, "sent_ms"));
    }
    if (error[0]) {
        printf("; before: %s", error);
    }
}

static void print_state(const json_t *wait)
{
    static const struct {
        const char *state, *text;
    } plain[] = {
        {"connections", "queued: as many requests are in flight as `connections` allows"},
        {"width", "queued: its endpoint gets no more requests at a time"},
        {"memory", "queued: bodies on their way to the cache fill `memory`"},
        {"room", "queued: the cache has no room until others have arrived (cache_size)"},
        {"writing", "all of it came: the cache writes it"},
        {"done", "answered: it is about to wake"},
    };
    const char *state = text_of(wait, "state");
    printf("    ");
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        if (strcmp(plain[i].state, state) == 0) {
            printf("%s", plain[i].text);
        }
    }
    if (strcmp(state, "listing") == 0) {
        printf("listing: %lld pages, %lld keys so far", number_of(wait, "pages"), number_of(wait, "keys"));
    } else if (strcmp(state, "request") == 0) {
        print_call(wait);
    }
    if (number_of(wait, "range_bytes") > 0) {
        printf(" (bytes %lld to %lld)", number_of(wait, "range_first"),
               number_of(wait, "range_first") + number_of(wait, "range_bytes"));
    }
    putchar('\n');
}

/* Frames inside the preloaded object but for the one that the program called. */
static int first_shown(const struct hr_frame *frames, int count)
{
    int first = 0;
    for (int i = 0; i < count && strcmp(frames[i].module, "libheadrace.so") == 0; i++) {
        first = i;
    }
    return first;
}

static void print_stack(pid_t pid, pid_t tid)
{
    static struct hr_frame frames[HR_STACK_FRAMES];
    char why[HR_STACK_WHY_BYTES] = "";
    int count = hr_stack_of(pid, tid, frames, why);
    if (count < 0) {
        printf("    stack: %s\n", why);
        return;
    }
    for (int i = first_shown(frames, count); i < count; i++) {
        printf("    %s+0x%llx (%s)\n", frames[i].name[0] ? frames[i].name : "?",
               (unsigned long long)frames[i].offset, frames[i].module[0] ? frames[i].module : "no file");
    }
}

/* True: it runs Python. */
static bool print_wait(const json_t *wait)
{
    char program[64];
    pid_t pid = (pid_t)number_of(wait, "pid"), tid = (pid_t)number_of(wait, "tid");
    program_of(pid, program, sizeof program);
    printf("pid %d tid %d %s: %s ", (int)pid, (int)tid, program, text_of(wait, "op"));
    if (text_of(wait, "bucket")[0]) {
        printf("s3://%s/", text_of(wait, "bucket"));
    }
    print_name(text_of(wait, "key"));
    if (number_of(wait, "bytes") > 0) {
        printf(" from %lld, %lld bytes,", number_of(wait, "offset"), number_of(wait, "bytes"));
    }
    printf(" for %.1f s\n", seconds_of(wait, "ms"));
    print_state(wait);
    print_stack(pid, tid);
    return strncmp(program, "python", 6) == 0 || strncmp(program, "pt_", 3) == 0;
}

int hr_cmd_stall(int argc, char **argv)
{
    char *end = NULL;
    long top = argc == 1 ? strtol(argv[0], &end, 10) : 0;
    if (argc > 1 || (argc == 1 && (!*argv[0] || *end || top <= 0))) {
        return hr_usage("stall");
    }
    if (top > INT_MAX || (top > 0 && kill((pid_t)top, 0) < 0 && errno == ESRCH)) {
        hr_complain("stall: there is no process %ld", top);
        return HR_EXIT_FAILED;
    }
    char message[HR_MESSAGE_BYTES] = "";
    struct hr_job job;
    json_t *answer = NULL;
    int error = hr_job_load(&job, environ, NULL, 0, true, message);
    if (error == 0) {
        error = hr_client_ask(&job, false, json_pack("{s:s}", "op", "waits"), &answer, message);
        hr_job_free(&job);
    }
    if (error < 0) {
        hr_complain("%s", message);
        return HR_EXIT_FAILED;
    }
    const json_t *waits = json_object_get(answer, "waits");
    unsigned shown = 0;
    bool python = false;
    for (size_t i = 0; i < json_array_size(waits); i++) {
        const json_t *wait = json_array_get(waits, i);
        if (top == 0 || is_below((pid_t)number_of(wait, "pid"), (pid_t)top)) {
            python |= print_wait(wait);
            fflush(stdout);
            shown++;
        }
    }
    printf("%u thread%s wait%s for headrace%s\n", shown, shown == 1 ? "" : "s", shown == 1 ? "s" : "",
           python ? " (Python's own frames: py-spy dump --pid PID)" : "");
    json_decref(answer);
    return 0;
}
