/* The socket's other end, and the birth of a daemon. */
#include "fetch/cmd/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/key.h"
#include "fetch/base/buf.h"
#include "fetch/base/cleanup.h"
#include "fetch/base/text.h"
#include "fetch/serve/socket.h"

#ifndef SYS_close_range
#define SYS_close_range 436 /* Linux 5.9; the same on every architecture */
#endif

/* A daemon may end between our look and our question, and takes its time for it. */
#define HR_START_TRIES 60
#define HR_READY_MS 30000 /* a daemon with a large cache reads its records before it serves */
/* Who holds the lock is on its way to its socket, or to its end: then we try again. */
#define HR_LISTEN_WAIT_MS 500
#define HR_LISTEN_STEP_MS 20
#define HR_SILENCE_MS 5000              /* as for programs: store/run.h */
#define HR_PATIENCE_MS 10000            /* for what a daemon that runs answers at once */
#define HR_ANSWER_MAX_BYTES (64u << 20) /* as the daemon's */

static int dial(const char *cache_dir)
{
    hr_cleanup_fd int dir_fd = open(cache_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0) {
        return -errno;
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" HR_SOCKET_NAME, dir_fd);
    hr_cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        return -errno;
    }
    return hr_steal_fd(fd);
}

struct env_list {
    char **envp; /* NULL-terminated; has room for what daemon_env adds */
    size_t count;
};

static int add_env(void *owner, const char *name, const char *value)
{
    struct env_list *list = owner;
    if (asprintf(&list->envp[list->count], "%s=%s", name, value) < 0) {
        list->envp[list->count] = NULL;
        return -ENOMEM;
    }
    list->count++;
    return 0;
}

/* The daemon gets its settings, HOME and little else: it outlives this job and serves others. */
static char **daemon_env(const struct hr_job *job)
{
    static const char *const kept[] = {"HOME",          "PATH",         "TZ",    "USER",
                                       "SSL_CERT_FILE", "SSL_CERT_DIR", "TMPDIR"};
    struct env_list list = {.envp =
                                calloc(sizeof kept / sizeof *kept + HR_SETTING_COUNT + 1, sizeof(char *))};
    for (size_t i = 0; list.envp && i < sizeof kept / sizeof *kept; i++) {
        const char *value = hr_job_getenv(job, kept[i]);
        if (value) {
            (void)add_env(&list, kept[i], value);
        }
    }
    if (list.envp) {
        (void)hr_settings_export(job->settings, add_env, &list);
    }
    return list.envp;
}

static void become_daemon(const char *self, const struct hr_job *job, int ready_fd)
{
    sigset_t none;
    sigemptyset(&none);
    setsid();
    ready_fd = fcntl(ready_fd, F_DUPFD_CLOEXEC, 10); /* whatever of 0 to 3 our starter had closed */
    int null_fd = open("/dev/null", O_RDWR);
    dup2(null_fd, 0);
    dup2(null_fd, 1);
    dup2(null_fd, 2);
    dup2(ready_fd, 3);
    if (syscall(SYS_close_range, 4u, ~0u, 0u) < 0) { /* an older kernel */
        struct rlimit limit = {.rlim_cur = 1024};
        (void)getrlimit(RLIMIT_NOFILE, &limit);
        for (int fd = 4; (rlim_t)fd < limit.rlim_cur && fd < 65536; fd++) {
            close(fd);
        }
    }
    for (int number = 1; number < NSIG; number++) {
        signal(number, SIG_DFL);
    }
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (chdir("/") < 0) {
        _exit(127);
    }
    const char *argv[] = {"headrace", "daemon", "--cache-dir", job->cache_dir, "--ready-fd", "3", NULL};
    char **envp = daemon_env(job);
    if (envp) {
        execve(self, (char *const *)(uintptr_t)argv, envp);
    }
    dprintf(3, "error cannot run %s: %s\n", self, strerror(errno));
    _exit(127);
}

/* One line, "ok" or "error MESSAGE", within HR_READY_MS. */
static int read_ready(int fd, char message[HR_MESSAGE_BYTES])
{
    char line[512];
    size_t len = 0;
    for (;;) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        int ready = poll(&wait, 1, HR_READY_MS);
        if (ready < 0 && errno == EINTR) {
            continue;
        }
        ssize_t got = ready > 0 ? read(fd, line + len, sizeof line - 1 - len) : 0;
        if (got <= 0) {
            snprintf(message, HR_MESSAGE_BYTES, "the daemon %s; its log may say why",
                     ready == 0 ? "does not get ready" : "ended at once");
            return -EIO;
        }
        len += (size_t)got;
        line[len] = '\0';
        if (strchr(line, '\n') || len == sizeof line - 1) {
            break;
        }
    }
    line[strcspn(line, "\n")] = '\0';
    if (strcmp(line, "ok") == 0) {
        return 0;
    }
    snprintf(message, HR_MESSAGE_BYTES, "%s", strncmp(line, "error ", 6) == 0 ? line + 6 : line);
    return -EIO;
}

static int start_daemon(const struct hr_job *job, char message[HR_MESSAGE_BYTES])
{
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    int pipe_fds[2];
    if (len < 0 || pipe2(pipe_fds, O_CLOEXEC) < 0) {
        snprintf(message, HR_MESSAGE_BYTES, "cannot start the daemon: %s", strerror(errno));
        return -errno;
    }
    self[len] = '\0';
    /* Twice, so that the daemon is nobody's child: `run` becomes the user's command, which must not reap it.
     */
    pid_t middle = fork();
    if (middle == 0) {
        if (fork() == 0) {
            become_daemon(self, job, pipe_fds[1]);
        }
        _exit(0);
    }
    close(pipe_fds[1]);
    hr_cleanup_fd int ready_fd = pipe_fds[0];
    if (middle < 0) {
        snprintf(message, HR_MESSAGE_BYTES, "cannot start the daemon: %s", strerror(errno));
        return -EAGAIN;
    }
    while (waitpid(middle, NULL, 0) < 0 && errno == EINTR) {
    }
    return read_ready(ready_fd, message);
}

/* The daemon that got the lock first may still be on its way to its socket: dials for a while. */
static int dial_patiently(const char *cache_dir)
{
    int fd = dial(cache_dir);
    for (int waited_ms = 0; fd < 0 && waited_ms < HR_LISTEN_WAIT_MS; waited_ms += HR_LISTEN_STEP_MS) {
        usleep(HR_LISTEN_STEP_MS * 1000);
        fd = dial(cache_dir);
    }
    return fd;
}

/* One question: its line, and the tree that it is about (-1: none). */
struct question {
    const struct hr_job *job;
    const char *text;
    json_int_t tree;
    bool at_once; /* its answer needs nothing but the daemon */
};

/* Who was to answer, in words. True: it is stopped, by a signal or a debugger. */
static bool describe_peer(int fd, const char *cache_dir, char message[HR_MESSAGE_BYTES])
{
    struct ucred peer = {0};
    socklen_t len = sizeof peer;
    char path[64], text[512] = "";
    (void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
    snprintf(path, sizeof path, "/proc/%d/stat", (int)peer.pid);
    hr_cleanup_fd int stat_fd = open(path, O_RDONLY | O_CLOEXEC);
    if (stat_fd < 0 || read(stat_fd, text, sizeof text - 1) < 0) {
        text[0] = '\0';
    }
    const char *end = strrchr(text, ')');
    bool stopped = end && end[1] == ' ' && (end[2] == 'T' || end[2] == 't');
    snprintf(message, HR_MESSAGE_BYTES, "the daemon of %.500s, process %d, %s", cache_dir, (int)peer.pid,
             stopped ? "is stopped: SIGCONT lets it go on" : "does not answer");
    return stopped;
}

/* 0: something came, or the end. -ETIMEDOUT with message: nothing will. */
static int await(int fd, const struct question *question, char message[HR_MESSAGE_BYTES])
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    for (int ms = HR_SILENCE_MS; poll(&wait, 1, HR_SILENCE_MS) == 0; ms += HR_SILENCE_MS) {
        bool stopped = describe_peer(fd, question->job->cache_dir, message);
        if (ms >= HR_PATIENCE_MS && (stopped || question->at_once)) {
            return -ETIMEDOUT;
        }
        if (!stopped && question->job->silent && question->tree >= 0) {
            question->job->silent(question->job, (uint32_t)question->tree);
        }
    }
    return 0;
}

static int converse(int fd, const struct question *question, struct hr_buf *answer,
                    char message[HR_MESSAGE_BYTES])
{
    const char *text = question->text;
    size_t len = strlen(text);
    while (len > 0) {
        ssize_t sent = send(fd, text, len, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0) {
            return -errno;
        }
        text += sent;
        len -= (size_t)sent;
    }
    for (;;) {
        char chunk[16384];
        int error = await(fd, question, message);
        ssize_t got = error < 0 ? 0 : recv(fd, chunk, sizeof chunk, 0);
        if (error < 0) {
            return error;
        }
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return -errno;
        }
        if (got == 0) {
            return answer->len > 0 ? 0 : -ECONNRESET;
        }
        error = hr_buf_append(answer, chunk, (size_t)got);
        if (error < 0) {
            return error;
        }
    }
}

static int parse_answer(const struct hr_buf *answer, json_t **ret, char message[HR_MESSAGE_BYTES])
{
    json_t *document = json_loadb(answer->data, answer->len, 0, NULL);
    if (!document) {
        snprintf(message, HR_MESSAGE_BYTES,
                 "the daemon's answer is malformed: is it of another version? `headrace stop` ends it");
        return -EPROTO;
    }
    const char *error_line = json_string_value(json_object_get(document, "error"));
    if (error_line) {
        int error = (int)json_integer_value(json_object_get(document, "errno"));
        snprintf(message, HR_MESSAGE_BYTES, "%s", error_line);
        json_decref(document);
        return error > 0 ? -error : -EIO;
    }
    *ret = document;
    return 0;
}

int hr_client_ask(const struct hr_job *job, bool start, json_t *request, json_t **ret_answer,
                  char message[HR_MESSAGE_BYTES])
{
    char *text = json_dumps(request, JSON_COMPACT);
    const json_t *tree = json_object_get(request, "tree");
    struct question question = {.job = job, .tree = tree ? json_integer_value(tree) : -1, .at_once = !start};
    json_decref(request);
    struct hr_buf line = HR_BUF_INIT(HR_ANSWER_MAX_BYTES);
    struct hr_buf answer = HR_BUF_INIT(HR_ANSWER_MAX_BYTES);
    bool answered = false; /* -EAGAIN may be the answer */
    int error = text && hr_buf_puts(&line, text) == 0 && hr_buf_puts(&line, "\n") == 0 ? -EAGAIN : -ENOMEM;
    snprintf(message, HR_MESSAGE_BYTES, "%s", strerror(-error));
    question.text = line.data;
    bool starting = false;
    for (int i = 0; i < HR_START_TRIES && error == -EAGAIN && !answered; i++) {
        hr_cleanup_fd int fd = starting ? dial_patiently(job->cache_dir) : dial(job->cache_dir);
        starting = false;
        if (fd < 0 && !start) {
            error = -ENOENT;
            snprintf(message, HR_MESSAGE_BYTES, "no daemon serves %.500s: nothing uses a map there now",
                     job->cache_dir);
        } else if (fd < 0) {
            int started = start_daemon(job, message);
            error = started < 0 ? started : -EAGAIN;
            starting = true;
        } else if ((error = converse(fd, &question, &answer, message)) == -ETIMEDOUT) {
            break;
        } else if (error < 0) {
            error = -EAGAIN;
            hr_buf_reset(&answer);
            snprintf(message, HR_MESSAGE_BYTES, "the daemon of %.500s ended in mid-answer", job->cache_dir);
            usleep(HR_LISTEN_STEP_MS * 1000);
        } else {
            error = parse_answer(&answer, ret_answer, message);
            answered = true;
        }
    }
    if (text) {
        explicit_bzero(text, strlen(text));
        free(text);
    }
    if (line.data) {
        explicit_bzero(line.data, line.len);
    }
    hr_buf_release(&line);
    hr_buf_release(&answer);
    return error == -EAGAIN && !answered ? -EIO : error;
}

static bool goes_along(const char *var)
{
    return strncmp(var, "AWS_", 4) == 0 || strncmp(var, "HOME=", 5) == 0;
}

static int export_setting(void *owner, const char *variable, const char *value)
{
    char *text;
    if (asprintf(&text, "%s=%s", variable, value) < 0) {
        return -ENOMEM;
    }
    json_t *item = json_string(text);
    free(text);
    return item && json_array_append_new(owner, item) == 0 ? 0 : -EILSEQ;
}

int hr_client_attach(const struct hr_job *job, uint32_t *ret_trees, char ret_warning[HR_MESSAGE_BYTES],
                     char message[HR_MESSAGE_BYTES])
{
    uint8_t key[HR_CONTEXT_KEY_BYTES];
    char hex[2 * sizeof key + 1];
    int error = hr_client_check_version(job->cache_dir, message);
    if (error < 0) {
        return error;
    }
    hr_context_key(job->envp, (uint32_t)geteuid(), key);
    hr_hex_encode(key, sizeof key, hex);
    json_t *env = json_array();
    for (char *const *var = job->envp; *var; var++) {
        json_t *item = goes_along(*var) || strncmp(*var, "HEADRACE_MAP=", 13) == 0 ? json_string(*var) : NULL;
        if (item) {
            json_array_append_new(env, item);
        }
    }
    if (hr_settings_export(job->settings, export_setting, env) < 0) {
        json_decref(env);
        snprintf(message, HR_MESSAGE_BYTES,
                 "a setting, map or AWS_ variable is not valid UTF-8; write odd bytes of a map as %%XX");
        return -EILSEQ;
    }
    json_t *answer = NULL;
    json_t *request = json_pack("{s:s, s:s, s:o}", "op", "attach", "key", hex, "env", env);
    if (job->program) {
        json_object_set_new(request, "program", json_string(job->program)); /* left out: not UTF-8 */
    }
    error = hr_client_ask(job, true, request, &answer, message);
    if (error < 0) {
        return error;
    }
    const char *warning = json_string_value(json_object_get(answer, "warning"));
    if (ret_warning) {
        snprintf(ret_warning, HR_MESSAGE_BYTES, "%s", warning ? warning : "");
    }
    const json_t *trees = json_object_get(answer, "trees");
    for (size_t i = 0; ret_trees && i < json_array_size(trees) && i < HR_MAPS_MAX; i++) {
        ret_trees[i] = (uint32_t)json_integer_value(json_array_get(trees, i));
    }
    json_decref(answer);
    return 0;
}
