#include "fetch/auth/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fetch/auth/credentials.h"
#include "fetch/base/cleanup.h"

/* Ours: thousands of profiles fit, and a mistaken path does not fill the memory. */
#define FILE_MAX_BYTES (1024 * 1024)

int hr_auth_path(hr_env_fn env, void *env_owner, const char *variable, const char *fallback,
                 char ret_message[256], char ret_path[HR_AUTH_PATH_BYTES])
{
    const char *named = env(env_owner, variable);
    const char *home = env(env_owner, "HOME");
    const char *from = env(env_owner, "PWD");
    int len;

    if (named == NULL || named[0] == '\0') {
        bool at_home = home != NULL && home[0] == '/';
        len = snprintf(ret_path, HR_AUTH_PATH_BYTES, "%s%s%s", at_home ? home : "", at_home ? "/" : "",
                       at_home ? fallback : "");
    } else if (named[0] == '/') {
        len = snprintf(ret_path, HR_AUTH_PATH_BYTES, "%s", named);
    } else if (named[0] == '~' && named[1] == '/' && home != NULL) {
        len = snprintf(ret_path, HR_AUTH_PATH_BYTES, "%s/%s", home, named + 2);
    } else if (from != NULL && from[0] == '/') {
        len = snprintf(ret_path, HR_AUTH_PATH_BYTES, "%s/%s", from, named);
    } else {
        len = HR_AUTH_PATH_BYTES;
    }
    if (len >= HR_AUTH_PATH_BYTES) {
        (void)snprintf(ret_message, 256, "%s=%.150s cannot be used: give an absolute path", variable,
                       named ? named : "");
        return -EINVAL;
    }
    return 0;
}

int hr_auth_read(const char *path, char **ret_text, size_t *ret_len)
{
    hr_cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    size_t len = 0;

    if (fd < 0) {
        return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
    }
    if (fstat(fd, &st) < 0) {
        return -errno;
    }
    if (!S_ISREG(st.st_mode)) {
        return S_ISCHR(st.st_mode) ? 0 : -EINVAL; /* /dev/null is the usual way to say "none" */
    }
    if (st.st_size > FILE_MAX_BYTES) {
        return -EFBIG;
    }
    char *text = malloc((size_t)st.st_size + 1);
    if (text == NULL) {
        return -ENOMEM;
    }
    while (len < (size_t)st.st_size) {
        ssize_t got = read(fd, text + len, (size_t)st.st_size - len);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            int error = -errno;

            hr_secret_zero(text, len);
            free(text);
            return error;
        }
        if (got == 0) {
            break;
        }
        len += (size_t)got;
    }
    text[len] = '\0';
    *ret_text = text;
    *ret_len = len;
    return 0;
}
