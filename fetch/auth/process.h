/* A helper program that prints credentials: started without a shell, read through the loop, ended by force
 * when it takes too long. Main loop. */
#ifndef HR_AUTH_PROCESS_H
#define HR_AUTH_PROCESS_H

#include <stddef.h>

#include "fetch/net/loop.h"

struct hr_process;

/* The words of a command line, as Python's shlex splits it (what botocore does): blanks separate, '..' and
 * ".." quote, a backslash takes the next byte as it is. Nothing is expanded. The words and their vector are
 * one allocation, for the caller to free. -EINVAL: a quote is open, or no word; -ENOMEM. */
int hr_words(const char *line, char ***ret_words);

struct hr_process_result {
    int error;        /* 0: it ended by itself; -ETIMEDOUT; -EFBIG: wrote more than 64 KiB */
    int status;       /* of waitpid */
    const char *text; /* what it wrote, terminated; valid during done */
    size_t text_len;
};
typedef void (*hr_process_fn)(void *owner, const struct hr_process_result *result);

/* variables: "NAME=VALUE", then NULL: the job's, in place of the daemon's AWS_* and HOME. done comes once,
 * never from inside this call; free the process after it. -errno: not started. */
int hr_process_start(struct hr_loop *loop, char *const *words, char *const *variables, int64_t limit_ms,
                     hr_process_fn done, void *owner, struct hr_process **ret);
void hr_process_free(struct hr_process *process); /* ends it when it still runs, then no done; accepts NULL */

#endif
