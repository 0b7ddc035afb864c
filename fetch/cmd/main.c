/* The table of commands, `help` and `version`. */
#include "fetch/cmd/cmd.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "config/settings.h"
#include "fetch/cmd/manual.h"

#define HR_COMPLAINT_BYTES 16384 /* a path and a message are far less; what is longer is cut */

const struct hr_command hr_commands[] = {
    {"run", hr_cmd_run,
     "run [--map PATH=URL]... [--set NAME=VALUE]... [--record FILE] [--replay FILE] [--init] [--] COMMAND "
     "[ARG...]",
     "Runs COMMAND so that each PATH is its URL (s3://bucket/prefix). Without --map the maps of HEADRACE_MAP "
     "are "
     "used. The exit status is COMMAND's; 125 when headrace itself fails, 126 and 127 when COMMAND cannot be "
     "run or "
     "found. --record writes the order of first opens to FILE when COMMAND ends; --replay fetches along such "
     "an order. --init stays as its parent, forwards signals and reaps children (the default as PID 1).",
     false},
    {"ls", hr_cmd_ls, "ls [-R] [-l] PATH|URL...", "Names below a mapped path or a URL, from the index.",
     false},
    {"du", hr_cmd_du, "du [-h] PATH|URL...", "Bytes and number of the objects below each, from the index.",
     false},
    {"count", hr_cmd_count, "count PATH|URL...", "Number of the objects below each, from the index.", false},
    {"refresh", hr_cmd_refresh, "refresh [PATH|URL]...",
     "Lists again now, waits until the new names are there, and says how many objects were added, removed "
     "and "
     "changed. Running jobs see them, too. Without PATH: all maps of HEADRACE_MAP.",
     false},
    {"index", hr_cmd_index,
     "index export FILE [PATH|URL] | index import FILE [--to PATH|URL] [--other-endpoint]",
     "Takes the names of a map to other nodes, so that they need not list. `import` also reads S3 Inventory "
     "(manifest.json, or a CSV file of it) and lists of names (`key` or `key,size,mtime,etag` a line), plain "
     "or "
     "gzip. --other-endpoint: the other node reaches the same bucket at another address.",
     false},
    {"stat", hr_cmd_stat, "stat PATH|URL...", "Bucket, key, type, size, time and ETag of a name.", false},
    {"cat", hr_cmd_cat, "cat PATH|URL...", "Bytes of objects, through the cache.", false},
    {"warm", hr_cmd_warm, "warm [--to DIR] PATH...|-",
     "Brings files, and all below directories, into the cache and waits until they are there; `-` reads "
     "paths "
     "from stdin, one a line. Stops when the cache is full, before it pushes out what it brought. --to "
     "copies "
     "them into DIR as plain files, by their paths below the map, for programs that cannot be preloaded; "
     "files "
     "of the same size and time are left alone.",
     false},
    {"status", hr_cmd_status, "status [--json]", "What the daemon of this cache directory did and is doing.",
     false},
    {"top", hr_cmd_top, "top [--count N]",
     "What the daemon does, each second, N times or until it is interrupted: in place on a terminal, else a "
     "line each.",
     false},
    {"report", hr_cmd_report, "report [--json]",
     "Sums up the last job: what its threads waited for and how long, requests, bytes, what came ahead and "
     "was "
     "used, and what to change. Reports outlive the daemon.",
     false},
    {"stall", hr_cmd_stall, "stall [PID]",
     "Threads that wait for headrace (of PID and of the processes below it): for what, how long, in which "
     "state, "
     "and their native stacks where ptrace is allowed.",
     false},
    {"stop", hr_cmd_stop, "stop", "Ends the daemon; the cache stays.", false},
    {"config", hr_cmd_config, "config", "Every setting, its value and where it came from.", false},
    {"doctor", hr_cmd_doctor, "doctor [PROGRAM]",
     "Checks settings, cache place, limits, and for each map of HEADRACE_MAP endpoint, credentials, "
     "permissions "
     "and clock; prints what to do and ends with 1 when something is wrong. With PROGRAM: whether that "
     "program "
     "can be preloaded, and why not.",
     false},
    {"bench", hr_cmd_bench, "bench [--json] [--connections N[,N...]] [--requests N] URL",
     "How fast this machine gets whole objects under URL with nothing in between: the raw ceiling.", false},
    {"version", hr_cmd_version, "version", "The version.", false},
    {"completion", hr_cmd_completion, "completion bash|zsh",
     "Completion for that shell, to be sourced, or put where it looks.", false},
    {"help", hr_cmd_help, "help [COMMAND|settings|--man]",
     "This text; one command; the settings; all of it as a manual page.", false},
    {"daemon", hr_cmd_daemon, "daemon --cache-dir DIR [--ready-fd N]",
     "The daemon itself; started by the others.", true},
    {"probe", hr_cmd_probe, "probe", "Does a program start under the preload and see its maps? For `run`.",
     true},
    {"attach", hr_cmd_attach, "attach [--fd N [--find]]",
     "Makes this environment's maps known to the daemon. --find only tells where its cache is.", true},
    {NULL, NULL, NULL, NULL, false},
};

void hr_complain(const char *format, ...)
{
    char text[HR_COMPLAINT_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fputs("headrace: ", stderr);
    for (const char *at = text; *at; at++) {
        if ((unsigned char)*at < ' ' || *at == '\177') {
            fprintf(stderr, "\\x%02x", (unsigned)(unsigned char)*at);
        } else {
            fputc(*at, stderr);
        }
    }
    fputc('\n', stderr);
}

void hr_complain_of(const char *arg, const char *message)
{
    size_t len = strlen(arg);
    bool named = len > 0 && strncmp(message, arg, len) == 0 && message[len] == ' ';
    hr_complain("%s%s%s", named ? "" : arg[0] ? arg : "''", named ? "" : ": ", message);
}

static const struct hr_command *find(const char *name)
{
    for (const struct hr_command *command = hr_commands; command->name; command++) {
        if (strcmp(command->name, name) == 0) {
            return command;
        }
    }
    return NULL;
}

int hr_usage(const char *name)
{
    hr_complain("usage: headrace %s", find(name)->usage);
    return HR_EXIT_USAGE;
}

int hr_cmd_version(int argc, char **argv)
{
    (void)argv;
    if (argc != 0) {
        return hr_usage("version");
    }
    puts("headrace " HR_VERSION);
    return 0;
}

static void help_settings(void)
{
    for (int id = 0; id < HR_SETTING_COUNT; id++) {
        const char *standard = hr_setting_default(id);
        printf("%s%s (default: %s)\n    %s\n", hr_setting_name(id),
               hr_setting_per_map(id) ? " [per map]" : "", standard[0] ? standard : "none",
               hr_setting_help(id));
    }
}

int hr_cmd_help(int argc, char **argv)
{
    if (argc > 1) {
        return hr_usage("help");
    }
    if (argc > 0 && strcmp(argv[0], "settings") == 0) {
        help_settings();
        return 0;
    }
    if (argc > 0 && strcmp(argv[0], "--man") == 0) {
        hr_manual_print();
        return 0;
    }
    if (argc > 0) {
        const struct hr_command *command = find(argv[0]);
        if (!command) {
            hr_complain("no command '%s'; `headrace help` lists them", argv[0]);
            return HR_EXIT_USAGE;
        }
        printf("headrace %s\n\n%s\n", command->usage, command->help);
        return 0;
    }
    puts("headrace: an object store as a directory, for unmodified programs.\n");
    for (const struct hr_command *command = hr_commands; command->name; command++) {
        if (!command->internal) {
            printf("  headrace %s\n", command->usage);
        }
    }
    puts("\n  headrace run --map /data=s3://bucket/prefix -- python train.py");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        int status = hr_cmd_help(argc > 2 ? argc - 2 : 0, argv + 2);
        return argc < 2 ? HR_EXIT_USAGE : status;
    }
    if (strcmp(argv[1], "--version") == 0) {
        return hr_cmd_version(argc - 2, argv + 2);
    }
    const struct hr_command *command = find(argv[1]);
    if (!command) {
        hr_complain("no command '%s'; `headrace help` lists them", argv[1]);
        return HR_EXIT_USAGE;
    }
    return command->fn(argc - 2, argv + 2);
}
