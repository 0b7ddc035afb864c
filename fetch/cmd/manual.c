/* `headrace help --man`: the manual page, out of the commands' table and the settings'. */
#include "fetch/cmd/manual.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "config/settings.h"
#include "fetch/cmd/cmd.h"

/* Running text: what roff would take for its own is escaped; `code` is bold. */
static void text(const char *from)
{
    bool bold = false;
    for (const char *at = from; *at; at++) {
        bool first = at == from || at[-1] == '\n';
        if (first && (*at == '.' || *at == '\'')) {
            printf("\\&");
        }
        if (*at == '`') {
            bold = !bold;
            printf(bold ? "\\fB" : "\\fR");
        } else if (*at == '\\') {
            printf("\\e");
        } else if (*at == '-') {
            printf("\\-");
        } else if (*at == '\'') {
            printf("\\(aq");
        } else if (*at == '^' || *at == '~') {
            printf(*at == '^' ? "\\(ha" : "\\(ti");
        } else {
            putchar(*at);
        }
    }
}

/* A usage line: words in capitals are what the reader puts in. */
static void usage(const char *from)
{
    printf("\\fBheadrace\\fR ");
    bool command = true;
    for (const char *at = from; *at;) {
        size_t len = strcspn(at, " []|=.,");
        char word[128];
        snprintf(word, sizeof word, "%.*s", (int)len, at);
        if (len > 0 && isupper((unsigned char)*at) && !command) {
            printf("\\fI");
            text(word);
            printf("\\fR");
        } else if (len > 0) {
            printf("\\fB");
            text(word);
            printf("\\fR");
        }
        command = false;
        at += len;
        for (; *at && strchr(" []|=.,", *at); at++) {
            putchar(*at);
        }
    }
    putchar('\n');
}

static void paragraph(const char *tag, const char *body)
{
    printf(".TP\n\\fB");
    text(tag);
    printf("\\fR\n");
    text(body);
    putchar('\n');
}

static void commands(void)
{
    puts(".SH COMMANDS");
    for (const struct hr_command *command = hr_commands; command->name; command++) {
        if (!command->internal) {
            printf(".TP\n");
            usage(command->usage);
            text(command->help);
            putchar('\n');
        }
    }
}

static void settings(void)
{
    puts(".SH SETTINGS");
    text("Each is `HEADRACE_NAME` in the environment (in capitals), `name = value` in the file, and `--set "
         "name=value` of `run`; a later one of these wins. Those marked \"per map\" may also stand in a map, "
         "behind a question mark.");
    putchar('\n');
    for (int id = 0; id < HR_SETTING_COUNT; id++) {
        const char *standard = hr_setting_default(id);
        printf(".TP\n\\fB");
        text(hr_setting_name(id));
        printf("\\fR (");
        text(standard[0] ? standard : "none");
        printf("%s)\n", hr_setting_per_map(id) ? ", per map" : "");
        text(hr_setting_help(id));
        putchar('\n');
    }
}

void hr_manual_print(void)
{
    puts(".TH HEADRACE 1 \"\" \"headrace " HR_VERSION "\" \"User Commands\"\n"
         ".SH NAME\n"
         "headrace \\- an object store as a directory, for unmodified programs\n"
         ".SH SYNOPSIS");
    printf("%s\n", ".nf");
    for (const struct hr_command *command = hr_commands; command->name; command++) {
        if (!command->internal) {
            usage(command->usage);
        }
    }
    puts(".fi\n.SH DESCRIPTION");
    text("`headrace run --map /data=s3://bucket/prefix -- python train.py` runs the program so that /data is "
         "that prefix of an S3 store, read-only, at the speed of a local disk: no mount, no root, no change "
         "of "
         "the program. A daemon, started when it is needed and one for each cache directory, lists, fetches "
         "ahead and keeps what it fetched; it ends by itself.\n");
    commands();
    settings();
    puts(".SH EXIT STATUS");
    text("0, or 1 when something failed, 2 for wrong arguments or settings. `run` ends with its command's: "
         "125 "
         "when headrace itself failed, 126 and 127 when the command cannot be run or found.\n");
    puts(".SH FILES");
    paragraph("~/.config/headrace/config, /etc/headrace.conf",
              "Settings; `HEADRACE_CONFIG` names another file.");
    paragraph("cache_dir/daemon.log", "What the daemon met. `headrace config` prints where that is.");
    paragraph("cache_dir/reports/", "Reports of the last jobs, for `headrace report`.");
    puts(".SH ENVIRONMENT");
    paragraph("HEADRACE_MAP", "PATH=URL[?option=value&...], several separated by `;` or newlines.");
    paragraph("AWS_*", "Credentials, endpoint and region, as the AWS tools take them.");
}
