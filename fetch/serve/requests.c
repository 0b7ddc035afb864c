#include "fetch/serve/requests.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/base/cleanup.h"
#include "fetch/base/text.h"

#define HR_ENV_MAX 4096 /* variables of one environment */

static int env_of(const json_t *list, char ***ret)
{
    size_t count = json_array_size(list);
    if (count > HR_ENV_MAX) {
        return -E2BIG;
    }
    char **envp = calloc(count + 1, sizeof *envp);
    if (!envp) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        envp[i] = (char *)(uintptr_t)json_string_value(json_array_get(list, i));
        if (!envp[i]) {
            free(envp);
            return -EINVAL;
        }
    }
    *ret = envp;
    return 0;
}

/* error: -EINVAL, -E2BIG, or the memory to look at the request was not there. */
static void reply_malformed(struct hr_connection *connection, int error, const char *message)
{
    hr_connection_reply_error(connection, error, error == -ENOMEM ? strerror(ENOMEM) : message);
}

static void op_attach(const struct hr_socket_options *options, struct hr_connection *connection,
                      const json_t *request)
{
    const char *hex = json_string_value(json_object_get(request, "key"));
    uint8_t key[16];
    hr_cleanup_free char **envp = NULL;
    int error = hex && strlen(hex) == 32 ? hr_hex_decode(hex, 32, key) : -EINVAL;
    if (error == 0) {
        error = env_of(json_object_get(request, "env"), &envp);
    }
    if (error < 0) {
        reply_malformed(connection, error, "attach: malformed request");
        return;
    }
    char message[512] = "";
    uint32_t number = 0;
    error = hr_contexts_attach(options->contexts, key, envp, message, &number);
    if (error < 0) {
        hr_connection_reply_error(connection, error, message);
        return;
    }
    const char *program = json_string_value(json_object_get(request, "program"));
    if (program && options->jobs) {
        hr_jobs_began(options->jobs, number, program, program[0] ? connection->pid : 0);
    }
    char warning[512];
    hr_contexts_compare(options->contexts, envp, warning);
    const struct hr_context *context = &options->control->contexts[number];
    json_t *trees = json_array();
    for (uint32_t i = 0; i < context->map_count; i++) {
        json_array_append_new(trees, json_integer(context->tree[i]));
    }
    hr_connection_reply_json(connection, json_pack("{s:I, s:o, s:s}", "context", (json_int_t)number, "trees",
                                                   trees, "warning", warning));
}

static void reply_failure(const struct hr_socket_options *options, struct hr_connection *connection,
                          uint32_t tree, int error)
{
    const char *said =
        error == -ENOENT || error == -ENOTDIR ? NULL : hr_plan_message(options->plan, tree, error);
    hr_connection_reply_error(connection, error, said ? said : strerror(-error));
}

struct question {
    const struct hr_socket_options *options;
    struct hr_connection *connection;
    enum hr_op op;
    uint32_t tree;
    uint32_t path_len;
    char path[HR_KEY_MAX];
};

static void answered(void *owner, uint32_t ticket, const struct hr_answer *answer)
{
    struct question *question = owner;
    struct hr_connection *connection = question->connection;
    const struct hr_socket_options *options = question->options;
    bool listens = hr_connection_answered(connection);
    (void)ticket;
    if (listens && answer->error < 0) {
        reply_failure(options, connection, question->tree, answer->error);
    } else if (listens) {
        char path[PATH_MAX] = "";
        bool face = answer->flags & HR_ANSWER_FACE; /* read by "segment" */
        if (question->op == HR_OP_LIST) {
            (void)hr_plan_index_path(options->plan, question->tree, path, sizeof path);
        } else if (answer->file_id && !face) {
            hr_object_path(options->cache_dir, answer->file_id, path);
        }
        char etag[136];
        hr_plan_etag(options->plan, question->tree, question->path, question->path_len, etag, sizeof etag);
        json_t *tag = json_string(etag); /* NULL: not UTF-8 */
        json_t *document = json_pack("{s:o, s:s, s:I, s:I, s:s}", "etag", tag ? tag : json_string(""), "kind",
                                     answer->kind == HR_KIND_DIR ? "dir" : "file", "size",
                                     (json_int_t)answer->size, "mtime_ns", (json_int_t)answer->mtime_ns,
                                     question->op == HR_OP_LIST ? "index" : "file", path);
        if (face) {
            json_object_set_new(document, "face", json_integer((json_int_t)answer->file_id));
        }
        hr_connection_reply_json(connection, document);
    }
    free(question);
}

static void op_ask(const struct hr_socket_options *options, struct hr_connection *connection,
                   const json_t *request, enum hr_op op)
{
    const char *encoded = json_string_value(json_object_get(request, "path"));
    json_int_t tree = json_integer_value(json_object_get(request, "tree"));
    struct hr_buf path = HR_BUF_INIT(HR_KEY_MAX);
    struct question *question = malloc(sizeof *question);
    int error = !question ? -ENOMEM : tree < 0 || tree >= HR_TREES_MAX || !encoded ? -EINVAL : 0;
    if (error == 0) {
        error = hr_percent_decode(encoded, strlen(encoded), false, &path);
    }
    if (error < 0) {
        reply_malformed(connection, error, "malformed request");
        free(question);
    } else {
        *question = (struct question){.options = options,
                                      .connection = connection,
                                      .op = op,
                                      .tree = (uint32_t)tree,
                                      .path_len = (uint32_t)path.len};
        memcpy(question->path, path.data ? path.data : "", path.len);
        struct hr_asker asker = {.fn = answered, .owner = question};
        connection->waiting++;
        hr_plan_ask(options->plan, op, (uint32_t)tree, path.data ? path.data : "", (uint32_t)path.len,
                    &asker);
    }
    hr_buf_release(&path);
}

struct reading {
    const struct hr_socket_options *options;
    struct hr_connection *connection;
    uint32_t tree;
};

static void segment_answered(void *owner, uint32_t ticket, const struct hr_answer *answer)
{
    struct reading *reading = owner;
    struct hr_connection *connection = reading->connection;
    bool listens = hr_connection_answered(connection);
    (void)ticket;
    if (listens && answer->error < 0) {
        reply_failure(reading->options, connection, reading->tree, answer->error);
    } else if (listens) {
        char path[PATH_MAX];
        hr_object_path(reading->options->cache_dir, answer->file_id, path);
        hr_connection_reply_json(connection,
                                 json_pack("{s:s, s:I, s:I}", "file", path, "offset",
                                           (json_int_t)answer->offset, "size", (json_int_t)answer->size));
    }
    free(reading);
}

/* Bytes of an object whose "open" was answered with a face: one file that holds `offset`. */
static void op_segment(const struct hr_socket_options *options, struct hr_connection *connection,
                       const json_t *request)
{
    json_int_t tree = json_integer_value(json_object_get(request, "tree"));
    json_int_t bytes = json_integer_value(json_object_get(request, "bytes"));
    json_int_t offset = json_integer_value(json_object_get(request, "offset"));
    struct hr_segment_ask ask = {
        .face_id = (uint64_t)json_integer_value(json_object_get(request, "face")),
        .offset = (uint64_t)offset,
        .bytes = (uint64_t)bytes,
    };
    struct reading *reading = malloc(sizeof *reading);
    if (!reading || tree < 0 || tree >= HR_TREES_MAX || offset < 0 || bytes <= 0) {
        reply_malformed(connection, reading ? -EINVAL : -ENOMEM, "malformed request");
        free(reading);
        return;
    }
    *reading = (struct reading){.options = options, .connection = connection, .tree = (uint32_t)tree};
    struct hr_reader reader = {
        .context = UINT32_MAX, .tree = (uint32_t)tree, .pid = connection->pid, .tid = connection->pid};
    struct hr_asker asker = {.fn = segment_answered, .owner = reading};
    connection->waiting++;
    hr_plan_segment(options->plan, &reader, &ask, false, &asker);
}

void hr_request_do(const struct hr_socket_options *options, struct hr_connection *connection,
                   const json_t *request, unsigned *activity)
{
    const char *op = json_string_value(json_object_get(request, "op"));
    op = op ? op : "";
    if (strcmp(op, "status") == 0) {
        char *text = options->status(options->owner);
        hr_connection_reply(connection, text ? text : "{\"error\":\"out of memory\",\"errno\":12}");
        free(text);
        return;
    }
    if (strcmp(op, "waits") == 0 && options->waits) {
        hr_connection_reply_json(connection, json_pack("{s:o}", "waits", hr_waits_json(options->waits)));
        return;
    }
    if (strcmp(op, "report") == 0 && options->jobs) {
        hr_connection_reply_json(connection, hr_jobs_json(options->jobs));
        return;
    }
    ++*activity;
    if (strcmp(op, "attach") == 0) {
        op_attach(options, connection, request);
    } else if (strcmp(op, "look") == 0) {
        op_ask(options, connection, request, HR_OP_LOOK);
    } else if (strcmp(op, "open") == 0) {
        op_ask(options, connection, request, HR_OP_OPEN);
    } else if (strcmp(op, "list") == 0) {
        op_ask(options, connection, request, HR_OP_LIST);
    } else if (strcmp(op, "segment") == 0) {
        op_segment(options, connection, request);
    } else if (strcmp(op, "stop") == 0) {
        hr_connection_reply(connection, "{}");
        options->stop(options->owner);
    } else {
        json_t *answer = hr_errands_do(options->errands, op, request, connection->pid);
        if (answer) {
            hr_connection_reply_json(connection, answer);
        } else {
            hr_connection_reply_error(connection, -EINVAL, "unknown operation");
        }
    }
}
