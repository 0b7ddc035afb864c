/* The command's side: where the cache is, a living daemon, one question and its answer. Prints nothing. */
#ifndef HR_CMD_CLIENT_H
#define HR_CMD_CLIENT_H

#include <jansson.h>
#include <limits.h>
#include <stdint.h>

#include "config/maps.h"
#include "config/settings.h"

#define HR_MESSAGE_BYTES 640 /* one line with a path in it; longer ones are cut */

/* What a job's environment resolves to. */
struct hr_job {
    struct hr_settings *settings;
    struct hr_maps *maps;
    char **envp; /* the environment that the job's processes have; owned */
    char cache_dir[PATH_MAX];
    char cache_note[256]; /* one line for people, or "": why it is not where it would be */
    /* An answer about this tree takes long. NULL: then it is waited for in silence. */
    void (*silent)(const struct hr_job *job, uint32_t tree);
    const char *program; /* whose job it is, for its report; "" when not known yet; NULL: none, a command */
};

/* Settings and cache_dir from `envp` (copied) and --set; maps from HEADRACE_MAP in it, malformed ones dropped
 * when lenient, else an error. 0 or -errno with one line in message (then job is empty). */
int hr_job_load(struct hr_job *job, char *const *envp, const char *const *sets, size_t set_count,
                bool lenient, char message[HR_MESSAGE_BYTES]);
/* The same, lenient, of a cache_dir that is made by nobody: -ENOENT where the default one is not there. */
int hr_job_find(struct hr_job *job, char *const *envp, char message[HR_MESSAGE_BYTES]);
void hr_job_free(struct hr_job *job);
/* NAME=VALUE into job->envp, replacing. 0 or -ENOMEM. */
int hr_job_setenv(struct hr_job *job, const char *name, const char *value);
const char *hr_job_getenv(const struct hr_job *job, const char *name);

/* A map hides what lies under it. 0: nothing does, or hide=yes says so; -EEXIST (not a directory),
 * -ENOTEMPTY, with one line in message. */
int hr_job_check_point(const struct hr_job *job, const struct hr_map *map, char message[HR_MESSAGE_BYTES]);

/* Exactly one line to the daemon of cache_dir, one line back. *ret_answer is new. start: makes a daemon when
 * none lives. 0; -ENOENT (no daemon, start false); -ETIMEDOUT (it is stopped, or start is false and it does
 * not answer for 10 s); -errno with message. An answer with "error" gives -errno of it and its line in
 * message. */
int hr_client_ask(const struct hr_job *job, bool start, json_t *request /* stolen */, json_t **ret_answer,
                  char message[HR_MESSAGE_BYTES]);
/* 0; -EPROTO with message: a living daemon of cache_dir is of another version, which goes on serving its
 * jobs. */
int hr_client_check_version(const char *cache_dir, char message[HR_MESSAGE_BYTES]);
/* Makes the job's context known: key from job->envp; secrets and settings go over the socket. ret_trees (may
 * be NULL) has room for HR_MAPS_MAX numbers. ret_warning (may be NULL) gets one line or "": settings that the
 * daemon, started by another job, has otherwise. */
int hr_client_attach(const struct hr_job *job, uint32_t *ret_trees, char ret_warning[HR_MESSAGE_BYTES],
                     char message[HR_MESSAGE_BYTES]);

#endif
