#include "fetch/serve/indexes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fetch/base/buf.h"
#include "fetch/base/cleanup.h"
#include "fetch/base/text.h"
#include "fetch/plan/adopting.h"
#include "fetch/serve/documents.h"

#define FILES_MAX 4096 /* of one import */

static json_t *error_of(int error, const char *message)
{
    json_t *line = json_string(message);
    return json_pack("{s:i, s:o}", "errno", -error, "error", line ? line : json_string(strerror(-error)));
}

/* UTF-8 or nothing: messages may hold bytes of keys. */
static json_t *words(const char *text)
{
    json_t *value = json_string(text);
    return value ? value : json_string("");
}

/* "host:port" of a URL: nothing that could be a secret. */
static const char *host_of(const char *endpoint, char ret[256])
{
    const char *at = strstr(endpoint, "://");
    at = at ? at + 3 : endpoint;
    const char *user = strchr(at, '@');
    at = user ? user + 1 : at;
    snprintf(ret, 256, "%.*s", (int)strcspn(at, "/?#"), at);
    return ret;
}

static bool tree_of(const json_t *request, uint32_t *ret)
{
    json_int_t tree = json_integer_value(json_object_get(request, "tree"));
    *ret = (uint32_t)tree;
    return tree >= 0 && tree < HR_TREES_MAX;
}

json_t *hr_indexes_names(struct hr_plan *plan, const json_t *request)
{
    uint32_t tree;
    hr_cleanup_free struct hr_names_state *state = malloc(sizeof *state);
    char host[256];
    if (!state || !tree_of(request, &tree)) {
        return state ? error_of(-EINVAL, "malformed request") : error_of(-ENOMEM, strerror(ENOMEM));
    }
    int error = json_is_true(json_object_get(request, "want")) ? hr_plan_names_want(plan, tree) : 0;
    error = error == 0 ? hr_plan_names_state(plan, tree, state) : error;
    if (error < 0) {
        return error_of(error, strerror(-error));
    }
    struct hr_store *store = hr_plan_tree_store(plan, tree);
    const char *prefix;
    uint32_t prefix_len = hr_plan_tree_prefix(plan, tree, &prefix);
    json_t *answer =
        json_pack("{s:b, s:b, s:I, s:I, s:i, s:i, s:o, s:o, s:I, s:I, s:I, s:i, s:I}", "listing",
                  state->listing, "importing", state->importing, "list_ends", (json_int_t)state->list_ends,
                  "import_ends", (json_int_t)state->import_ends, "list_error", -state->list_error,
                  "import_error", -state->import_error, "list_message", words(state->list_message),
                  "import_message", words(state->import_message), "keys", (json_int_t)state->keys, "pages",
                  (json_int_t)state->pages, "probes", (json_int_t)state->probes, "lanes", (int)state->lanes,
                  "left_out", (json_int_t)(state->outside + state->gone));
    json_t *published = json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:o, s:s}", "index", state->path, "gen",
        (json_int_t)state->gen, "objects", (json_int_t)state->objects, "bytes", (json_int_t)state->bytes,
        "unknown", (json_int_t)state->unknown, "listed_ns", (json_int_t)state->listed_ns, "endpoint",
        host_of(hr_store_endpoint(store), host), "bucket", hr_store_bucket(store), "prefix",
        hr_documents_name(prefix, prefix_len), "filter", state->filter_id);
    if (!answer || !published || json_object_update(answer, published) < 0) {
        json_decref(answer);
        answer = NULL;
    }
    json_decref(published);
    return answer;
}

json_t *hr_indexes_refresh(struct hr_plan *plan, const json_t *request)
{
    uint32_t tree;
    uint64_t ends = 0;
    int error = tree_of(request, &tree) ? hr_plan_names_again(plan, tree, &ends) : -EINVAL;
    if (error < 0) {
        return error_of(error, error == -EACCES ? "this map is not listed (list=none, or LIST is not allowed)"
                                                : strerror(-error));
    }
    return json_pack("{s:I}", "ends", (json_int_t)ends);
}

/* ---- import ---- */

/* The first line of a file: 0 when it is that of an exported index (*ret_line is what it says, *ret_offset
 * where the names begin), -ENOMSG when it is something else. */
static int exported_line(int fd, json_t **ret_line, uint64_t *ret_offset)
{
    char head[HR_INDEX_LINE_MAX];
    static const char start[] = "{\"headrace_index\":";
    ssize_t got = pread(fd, head, sizeof head, 0);
    if (got < 0) {
        return -errno;
    }
    const char *end = memchr(head, '\n', (size_t)got);
    if ((size_t)got < sizeof start || memcmp(head, start, sizeof start - 1) != 0) {
        return -ENOMSG;
    }
    json_t *line = end ? json_loadb(head, (size_t)(end - head), 0, NULL) : NULL;
    if (!line) {
        return -EBADMSG;
    }
    *ret_line = line;
    *ret_offset = (uint64_t)(end - head) + 1;
    return 0;
}

static const char *said(const json_t *line, const char *name)
{
    const char *text = json_string_value(json_object_get(line, name));
    return text ? text : "";
}

/* Is what another node exported a listing of this tree? 0 or -EXDEV with one line. */
static int check_origin(struct hr_plan *plan, uint32_t tree, const json_t *line, bool other_endpoint,
                        char message[HR_MESSAGE_MAX])
{
    hr_cleanup_free struct hr_names_state *state = malloc(sizeof *state);
    struct hr_buf mine = HR_BUF_INIT(4 * HR_KEY_MAX);
    struct hr_store *store = hr_plan_tree_store(plan, tree);
    const char *prefix;
    char host[256];
    uint32_t prefix_len = hr_plan_tree_prefix(plan, tree, &prefix);
    int error = state ? hr_plan_names_state(plan, tree, state) : -ENOMEM;
    error = error == 0 ? hr_percent_encode(prefix, prefix_len, true, &mine) : error;
    snprintf(message, HR_MESSAGE_MAX, "%s", strerror(-error));
    host_of(store ? hr_store_endpoint(store) : "", host);
    if (error == 0 && json_integer_value(json_object_get(line, "headrace_index")) != HR_INDEX_FORMAT) {
        snprintf(message, HR_MESSAGE_MAX, HR_ADOPTING_OTHER_VERSION);
        error = -EPROTONOSUPPORT;
    } else if (error == 0 && (strcmp(said(line, "bucket"), hr_store_bucket(store)) != 0 ||
                              strcmp(said(line, "prefix"), mine.data ? mine.data : "") != 0)) {
        snprintf(message, HR_MESSAGE_MAX, "it is the index of s3://%.64s/%.64s, the map is s3://%.64s/%.64s",
                 said(line, "bucket"), said(line, "prefix"), hr_store_bucket(store),
                 mine.data ? mine.data : "");
        error = -EXDEV;
    } else if (error == 0 && strcmp(said(line, "filter"), state->filter_id) != 0) {
        snprintf(message, HR_MESSAGE_MAX, "it was made with another include or exclude than the map has");
        error = -EXDEV;
    } else if (error == 0 && !other_endpoint && strcmp(said(line, "endpoint"), host) != 0) {
        snprintf(message, HR_MESSAGE_MAX,
                 "it was listed at %.100s, the map is at %.100s (--other-endpoint: the bucket is the same)",
                 said(line, "endpoint"), host);
        error = -EXDEV;
    }
    hr_buf_release(&mine);
    return error;
}

/* -ENOMSG: it is no exported index. */
static int import_exported(struct hr_plan *plan, uint32_t tree, const char *file, bool other_endpoint,
                           char message[HR_MESSAGE_MAX])
{
    hr_cleanup_fd int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    json_t *line = NULL;
    uint64_t offset = 0;
    int error = fd < 0 || fstat(fd, &st) < 0 ? -errno : S_ISDIR(st.st_mode) ? -EISDIR : 0;
    error = error == 0 && !S_ISREG(st.st_mode) ? -EINVAL : error;
    error = error == 0 ? exported_line(fd, &line, &offset) : error;
    snprintf(message, HR_MESSAGE_MAX, "%s",
             error == -EBADMSG  ? "it is damaged or cut off"
             : error == -EINVAL ? "it is no regular file"
                                : strerror(-error));
    if (error == 0) {
        error = check_origin(plan, tree, line, other_endpoint, message);
    }
    if (error == 0) {
        error = hr_adopting_index(plan, tree, fd, offset, message);
    }
    json_decref(line);
    return error;
}

static int import_text(struct hr_plan *plan, uint32_t tree, const json_t *request, const char *const *files,
                       unsigned count, char message[HR_MESSAGE_MAX])
{
    const char *schema = said(request, "columns");
    struct hr_textlist_columns columns;
    if (schema[0] && hr_textlist_schema(schema, &columns) < 0) {
        snprintf(message, HR_MESSAGE_MAX, "the manifest names no column Key");
        return -EINVAL;
    }
    struct hr_import import = {.files = files,
                               .file_count = count,
                               .columns = schema[0] ? &columns : NULL,
                               .listed_ns = json_integer_value(json_object_get(request, "listed_ns"))};
    return hr_adopting_import(plan, tree, &import, message);
}

json_t *hr_indexes_import(struct hr_plan *plan, const json_t *request)
{
    const json_t *list = json_object_get(request, "files");
    size_t count = json_array_size(list);
    hr_cleanup_free const char **files = calloc(count + 1, sizeof *files);
    hr_cleanup_free struct hr_names_state *state = malloc(sizeof *state);
    char message[HR_MESSAGE_MAX] = "malformed request";
    uint32_t tree;
    if (!files || !state) {
        return error_of(-ENOMEM, strerror(ENOMEM));
    }
    bool good = tree_of(request, &tree) && count > 0 && count <= FILES_MAX &&
                hr_plan_tree_store(plan, tree) && hr_plan_names_state(plan, tree, state) == 0;
    for (size_t i = 0; i < count && good; i++) {
        files[i] = json_string_value(json_array_get(list, i));
        good = files[i] && files[i][0] == '/';
    }
    if (!good) {
        return error_of(-EINVAL, message);
    }
    int error = -ENOMSG;
    if (count == 1 && !said(request, "columns")[0]) {
        bool other = json_is_true(json_object_get(request, "other_endpoint"));
        error = import_exported(plan, tree, files[0], other, message);
    }
    if (error == -ENOMSG) {
        error = import_text(plan, tree, request, files, (unsigned)count, message);
    }
    if (error < 0) {
        return error_of(error, message);
    }
    return json_pack("{s:I}", "ends", (json_int_t)state->import_ends + 1);
}
