/* `headrace completion bash|zsh`: shell completion out of the commands' table and the settings'. */
#include "fetch/cmd/cmd.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "config/settings.h"

/* Each option in a usage line once ("--map", "-R"), a blank before it. */
static void print_options(const char *usage)
{
    for (const char *at = usage; (at = strchr(at, '-')); at++) {
        bool begins = at > usage && (at[-1] == '[' || at[-1] == ' ');
        size_t len = strspn(at, "-");
        while (isalpha((unsigned char)at[len]) || (len > 1 && at[len] == '-')) {
            len++;
        }
        if (begins && len > 1 && strncmp(at, "--]", 3) != 0 && isalpha((unsigned char)at[len - 1])) {
            printf(" %.*s", (int)len, at);
            at += len - 1;
        }
    }
}

static void print_names(const char *before, bool with_internal)
{
    for (const struct hr_command *command = hr_commands; command->name; command++) {
        if (with_internal || !command->internal) {
            printf("%s%s", before, command->name);
        }
    }
}

static void print_settings(const char *behind)
{
    for (int id = 0; id < HR_SETTING_COUNT; id++) {
        printf(" %s%s", hr_setting_name(id), behind);
    }
}

static void print_cases(const char *format_end)
{
    for (const struct hr_command *command = hr_commands; command->name; command++) {
        if (!command->internal) {
            printf("    %s) options='", command->name);
            print_options(command->usage);
            printf("'%s", format_end);
        }
    }
}

static void print_bash(void)
{
    puts("# bash completion of headrace: source <(headrace completion bash)\n"
         "_headrace() {\n"
         "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options= i\n"
         "    COMPREPLY=()\n"
         "    if [ \"$COMP_CWORD\" -eq 1 ]; then");
    printf("        COMPREPLY=($(compgen -W '");
    print_names(" ", false);
    puts("' -- \"$current\"))\n"
         "        return\n"
         "    fi\n"
         "    case $before in");
    printf("    --set)\n        COMPREPLY=($(compgen -W '");
    print_settings("=");
    puts("' -- \"$current\"))\n"
         "        [[ ${COMPREPLY-} != *= ]] || compopt -o nospace 2>/dev/null\n"
         "        return ;;");
    printf("    help)\n        [ \"$COMP_CWORD\" -ne 2 ] || COMPREPLY=($(compgen -W '");
    print_names(" ", false);
    puts(" settings' -- \"$current\"))\n"
         "        return ;;\n"
         "    completion)\n"
         "        [ \"$COMP_CWORD\" -ne 2 ] || COMPREPLY=($(compgen -W 'bash zsh' -- \"$current\"))\n"
         "        return ;;\n"
         "    --record | --replay | --to | --map)\n"
         "        return ;;\n"
         "    esac\n"
         "    # What COMMAND of `run` gets is not ours.\n"
         "    if [ \"${COMP_WORDS[1]}\" = run ]; then\n"
         "        for ((i = 2; i < COMP_CWORD; i++)); do\n"
         "            case ${COMP_WORDS[i]} in\n"
         "            --map | --set | --record | --replay) i=$((i + 1)) ;;\n"
         "            --init) ;;\n"
         "            --) if [ $((i + 1)) -eq \"$COMP_CWORD\" ]; then COMPREPLY=($(compgen -c -- "
         "\"$current\")); fi; return ;;\n"
         "            -*) ;;\n"
         "            *) return ;;\n"
         "            esac\n"
         "        done\n"
         "    fi\n"
         "    case ${COMP_WORDS[1]} in");
    print_cases(" ;;\n");
    puts("    esac\n"
         "    case $current in\n"
         "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$current\")) ;;\n"
         "    esac\n"
         "}\n"
         "complete -o default -F _headrace headrace");
}

/* The first sentence, as zsh shows it beside the name; it may hold no quote. */
static void print_sentence(const char *help)
{
    for (const char *at = help; *at && !(at[0] == '.' && (at[1] == ' ' || !at[1])); at++) {
        if (*at == '\'') {
            printf("'\\''");
        } else if (*at == ':') {
            printf("\\:");
        } else {
            putchar(*at);
        }
    }
}

static void print_zsh(void)
{
    puts("#compdef headrace\n"
         "# zsh completion of headrace: headrace completion zsh > a directory of $fpath, as _headrace\n"
         "_headrace() {\n"
         "    local options\n"
         "    local -a commands settings\n"
         "    commands=(");
    for (const struct hr_command *command = hr_commands; command->name; command++) {
        if (!command->internal) {
            printf("        '%s:", command->name);
            print_sentence(command->help);
            puts("'");
        }
    }
    printf("    )\n    settings=(");
    print_settings("=");
    puts(" )\n"
         "    if (( CURRENT == 2 )); then\n"
         "        _describe command commands\n"
         "        return\n"
         "    fi\n"
         "    case $words[CURRENT-1] in\n"
         "    --set) compadd -S '' -a settings; return ;;\n"
         "    help) (( CURRENT != 3 )) || { compadd settings; _describe command commands }; return ;;\n"
         "    completion) (( CURRENT != 3 )) || compadd bash zsh; return ;;\n"
         "    --) [[ $words[2] != run ]] || { _command_names -e; return } ;;\n"
         "    esac\n"
         "    case $words[2] in");
    print_cases(" ;;\n");
    puts("    esac\n"
         "    if [[ $PREFIX == -* ]]; then\n"
         "        compadd -- ${=options}\n"
         "    else\n"
         "        _files\n"
         "    fi\n"
         "}\n"
         "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n"
         "    _headrace \"$@\"\n"
         "else\n"
         "    compdef _headrace headrace\n"
         "fi");
}

int hr_cmd_completion(int argc, char **argv)
{
    if (argc == 1 && strcmp(argv[0], "bash") == 0) {
        print_bash();
    } else if (argc == 1 && strcmp(argv[0], "zsh") == 0) {
        print_zsh();
    } else {
        return hr_usage("completion");
    }
    return 0;
}
