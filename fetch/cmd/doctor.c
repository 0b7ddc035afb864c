#include "fetch/cmd/doctor.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fetch/cmd/cmd.h"
#include "fetch/cmd/program.h"
#include "interpose/obstacle.h"

extern char **environ;

void hr_doctor_say(struct hr_doctor *doctor, enum hr_finding finding, const char *what, const char *format,
                   ...)
{
    static const char *const words[] = {"ok", "note", "WRONG"};
    va_list args;
    va_start(args, format);
    printf("%-5s %-12s ", words[finding], what);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    doctor->wrong |= finding == HR_FINDING_WRONG;
}

/* As the entrypoint does it: this very program under the preload. */
static void check_preload(struct hr_doctor *doctor)
{
    char self[PATH_MAX], line[HR_MESSAGE_BYTES] = "";
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    int fds[2];
    if (len < 0 || pipe(fds) < 0) {
        return;
    }
    self[len] = '\0';
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(fds[1], STDERR_FILENO);
        close(fds[0]);
        close(fds[1]);
        execl(self, "headrace", "run", "--", self, "probe", (char *)NULL);
        _exit(HR_EXIT_CANNOT_EXEC);
    }
    close(fds[1]);
    FILE *said = fdopen(fds[0], "r");
    while (said && fgets(line, sizeof line, said)) { /* the last line is the reason */
        line[strcspn(line, "\n")] = '\0';
    }
    if (said) {
        fclose(said);
    }
    int status = -1;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        hr_doctor_say(doctor, HR_FINDING_OK, "preload", "a program starts under it and sees the maps");
    } else {
        const char *text = strncmp(line, "headrace: ", 10) == 0 ? line + 10 : line;
        hr_doctor_say(doctor, HR_FINDING_WRONG, "preload", "%s", *text ? text : "the probe ended at once");
    }
}

static const char *advice(const char *obstacle)
{
    if (obstacle == hr_obstacle_static) {
        return "it has no loader, so LD_PRELOAD does nothing; use a dynamically linked build. What it starts "
               "does "
               "see the maps";
    }
    if (obstacle == hr_obstacle_foreign) {
        return "use a build for this machine, 64-bit";
    }
    if (obstacle == hr_obstacle_libc) {
        return "its loader belongs to another libc (musl?); use a glibc build, or a glibc image";
    }
    return "the loader drops preloads where a program changes its user or group; put `headrace run` behind "
           "it "
           "(sudo headrace run ...)";
}

static int examine(const char *name)
{
    struct hr_program program;
    int error = hr_program_look(name, getenv("PATH"), &program);
    if (error == 0 && access(program.path, X_OK) < 0) {
        error = -errno;
    }
    if (error < 0) {
        hr_complain_of(name, strerror(-error));
        return HR_EXIT_FAILED;
    }
    printf("%s", program.path);
    if (program.interpreter[0]) {
        printf(", a script for %s", program.interpreter);
    }
    if (program.obstacle) {
        printf(": cannot be preloaded (%s%s): %s\n", program.obstacle, program.go ? ", made by Go" : "",
               program.go
                   ? "Go makes its system calls itself; `headrace cat` and a pipe, or a program in another "
                     "language, reach the maps"
                   : advice(program.obstacle));
        return HR_EXIT_FAILED;
    }
    if (program.go) {
        puts(": is preloaded, and sees no map all the same (made by Go): it makes its system calls itself");
        return HR_EXIT_FAILED;
    }
    puts(": can be preloaded");
    return 0;
}

int hr_cmd_doctor(int argc, char **argv)
{
    if (argc > 1 || (argc == 1 && argv[0][0] == '-')) {
        return hr_usage("doctor");
    }
    if (argc == 1) {
        return examine(argv[0]);
    }
    struct hr_doctor doctor = {.wrong = false};
    char message[HR_MESSAGE_BYTES] = "";
    if (hr_job_load(&doctor.job, environ, NULL, 0, false, message) < 0) {
        hr_doctor_say(&doctor, HR_FINDING_WRONG, "settings", "%s", message);
        return HR_EXIT_FAILED;
    }
    for (unsigned i = 0; hr_settings_warning(doctor.job.settings, i); i++) {
        hr_doctor_say(&doctor, HR_FINDING_NOTE, "settings", "%s",
                      hr_settings_warning(doctor.job.settings, i));
    }
    hr_doctor_limits(&doctor);
    for (unsigned i = 0; i < doctor.job.maps->count; i++) {
        if (hr_job_check_point(&doctor.job, &doctor.job.maps->map[i], message) < 0) {
            hr_doctor_say(&doctor, HR_FINDING_WRONG, "map point", "%s; choose another path, or add ?hide=yes",
                          message);
        }
    }
    hr_doctor_stores(&doctor);
    if (doctor.job.maps->count == 0) {
        hr_doctor_say(&doctor, HR_FINDING_WRONG, "map", "nothing is mapped: set HEADRACE_MAP=PATH=URL");
    } else {
        check_preload(&doctor);
    }
    hr_job_free(&doctor.job);
    return doctor.wrong ? HR_EXIT_FAILED : 0;
}
