/* The commands' table and what they share. A command is one function: arguments after its name, an exit
 * status. */
#ifndef HR_CMD_CMD_H
#define HR_CMD_CMD_H

#include <stdbool.h>

#define HR_EXIT_USAGE 2 /* bad arguments or settings */
#define HR_EXIT_FAILED 1
#define HR_EXIT_OWN 125 /* `run`: headrace itself failed (as env, nohup and docker have it) */
#define HR_EXIT_CANNOT_EXEC 126
#define HR_EXIT_NOT_FOUND 127

typedef int (*hr_command_fn)(int argc, char **argv);

struct hr_command {
    const char *name;
    hr_command_fn fn;
    const char *usage; /* "run [--map PATH=URL]... COMMAND" */
    const char *help;  /* one paragraph */
    bool internal;
};
extern const struct hr_command hr_commands[]; /* ends with a NULL name */

/* "headrace: MESSAGE" on stderr: one line, whatever bytes names have (control bytes are written \xNN). */
void hr_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Of an argument: its name, quoted when it is empty, in front of a message that does not begin with it. */
void hr_complain_of(const char *arg, const char *message);
/* Complains with the command's usage line; HR_EXIT_USAGE. */
int hr_usage(const char *name);

int hr_cmd_run(int argc, char **argv);
int hr_cmd_ls(int argc, char **argv);
int hr_cmd_du(int argc, char **argv);
int hr_cmd_count(int argc, char **argv);
int hr_cmd_refresh(int argc, char **argv);
int hr_cmd_index(int argc, char **argv);
int hr_cmd_stat(int argc, char **argv);
int hr_cmd_cat(int argc, char **argv);
int hr_cmd_top(int argc, char **argv);
int hr_cmd_warm(int argc, char **argv);
int hr_cmd_report(int argc, char **argv);
int hr_cmd_stall(int argc, char **argv);
int hr_cmd_status(int argc, char **argv);
int hr_cmd_stop(int argc, char **argv);
int hr_cmd_attach(int argc, char **argv);
int hr_cmd_daemon(int argc, char **argv);
int hr_cmd_config(int argc, char **argv);
int hr_cmd_bench(int argc, char **argv);
int hr_cmd_doctor(int argc, char **argv);
int hr_cmd_probe(int argc, char **argv);
int hr_cmd_completion(int argc, char **argv);
int hr_cmd_version(int argc, char **argv);
int hr_cmd_help(int argc, char **argv);

#endif
