#include "fetch/serve/errands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/base/buf.h"
#include "fetch/base/text.h"
#include "fetch/plan/warm.h"
#include "fetch/serve/documents.h"
#include "fetch/serve/indexes.h"
#include "fetch/serve/orders.h"
#include "fetch/store/calls.h"

struct hr_errands {
    struct hr_plan *plan;
    struct hr_orders *orders;
};

int hr_errands_new(struct hr_loop *loop, struct hr_plan *plan, struct hr_errands **ret)
{
    struct hr_errands *errands = calloc(1, sizeof *errands);
    if (!errands) {
        return -ENOMEM;
    }
    errands->plan = plan;
    int error = hr_orders_new(loop, plan, &errands->orders);
    if (error < 0) {
        free(errands);
        return error;
    }
    *ret = errands;
    return 0;
}

void hr_errands_free(struct hr_errands *errands)
{
    if (errands) {
        hr_orders_free(errands->orders);
    }
    free(errands);
}

bool hr_errands_tick(struct hr_errands *errands)
{
    return hr_orders_tick(errands->orders);
}

static json_t *error_of(int error)
{
    return json_pack("{s:i, s:s}", "errno", -error, "error", strerror(-error));
}

/* ---- warm ---- */

static int add_paths(struct hr_errands *errands, uint32_t tree, const json_t *paths, uint32_t *id)
{
    int error = json_array_size(paths) > 0 ? 0 : -EINVAL;
    for (size_t i = 0; i < json_array_size(paths) && error == 0; i++) {
        const char *text = json_string_value(json_array_get(paths, i));
        struct hr_buf path = HR_BUF_INIT(HR_KEY_MAX);
        error = text ? hr_percent_decode(text, strlen(text), false, &path) : -EINVAL;
        if (error == 0) {
            error = hr_warm_add(errands->plan, tree, path.data ? path.data : "", (uint32_t)path.len, id);
        }
        hr_buf_release(&path);
    }
    return error;
}

static json_t *do_warm(struct hr_errands *errands, const json_t *request, uint32_t pid)
{
    (void)pid;
    json_int_t tree = json_integer_value(json_object_get(request, "tree"));
    uint32_t id = (uint32_t)json_integer_value(json_object_get(request, "id"));
    int error = tree < 0 || tree >= HR_TREES_MAX
                    ? -EINVAL
                    : add_paths(errands, (uint32_t)tree, json_object_get(request, "paths"), &id);
    if (error < 0) {
        return error_of(error);
    }
    if (!json_is_true(json_object_get(request, "more"))) {
        hr_warm_close(errands->plan, id);
    }
    return json_pack("{s:I}", "id", (json_int_t)id);
}

static json_t *do_warming(struct hr_errands *errands, const json_t *request, uint32_t pid)
{
    uint32_t id = (uint32_t)json_integer_value(json_object_get(request, "id"));
    struct hr_warm_progress progress;
    (void)pid;
    int error = hr_warm_progress(errands->plan, id, &progress);
    if (error < 0) {
        return error_of(error);
    }
    json_t *answer =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:b, s:b}", "files", (json_int_t)progress.files, "bytes",
                  (json_int_t)progress.bytes, "there_files", (json_int_t)progress.there_files, "there_bytes",
                  (json_int_t)progress.there_bytes, "failed", (json_int_t)progress.failed, "full",
                  progress.full, "finished", progress.finished);
    if (progress.finished) {
        json_t *names = json_array();
        const char *path;
        for (unsigned i = 0; (path = hr_warm_failed(errands->plan, id, i, &error)); i++) {
            json_array_append_new(
                names, json_pack("[o, s]", hr_documents_name(path, strlen(path)), strerror(-error)));
        }
        json_object_set_new(answer, "names", names);
        hr_warm_forget(errands->plan, id);
    }
    return answer;
}

static json_t *do_record(struct hr_errands *errands, const json_t *request, uint32_t pid)
{
    return hr_orders_record(errands->orders, request, pid);
}

static json_t *do_replay(struct hr_errands *errands, const json_t *request, uint32_t pid)
{
    return hr_orders_replay(errands->orders, request, pid);
}

static json_t *do_names(struct hr_errands *errands, const json_t *request, uint32_t pid)
{
    (void)pid;
    return hr_indexes_names(errands->plan, request);
}

static json_t *do_refresh(struct hr_errands *errands, const json_t *request, uint32_t pid)
{
    (void)pid;
    return hr_indexes_refresh(errands->plan, request);
}

static json_t *do_import(struct hr_errands *errands, const json_t *request, uint32_t pid)
{
    (void)pid;
    return hr_indexes_import(errands->plan, request);
}

static json_t *do_trouble(struct hr_errands *errands, const json_t *request, uint32_t pid)
{
    json_int_t tree = json_integer_value(json_object_get(request, "tree"));
    struct hr_store *store =
        tree >= 0 && tree < HR_TREES_MAX ? hr_plan_tree_store(errands->plan, (uint32_t)tree) : NULL;
    char text[256];
    int64_t left_ms;
    (void)pid;
    if (!store) {
        return error_of(-EINVAL);
    }
    if (!hr_calls_trouble(store, text, &left_ms)) {
        return json_object();
    }
    json_t *line = json_string(text);
    if (!line) { /* bytes of a key that are no UTF-8 */
        snprintf(text, sizeof text, "s3://%.64s at %.128s", hr_store_bucket(store), hr_store_endpoint(store));
        line = json_string(text);
    }
    return json_pack("{s:o, s:I}", "text", line, "left_ms", (json_int_t)left_ms);
}

json_t *hr_errands_do(struct hr_errands *errands, const char *op, const json_t *request, uint32_t pid)
{
    static const struct {
        const char *op;
        json_t *(*fn)(struct hr_errands *errands, const json_t *request, uint32_t pid);
    } table[] = {{"warm", do_warm},     {"warming", do_warming}, {"record", do_record},
                 {"replay", do_replay}, {"names", do_names},     {"refresh", do_refresh},
                 {"import", do_import}, {"trouble", do_trouble}};
    for (size_t i = 0; errands && i < sizeof table / sizeof *table; i++) {
        if (strcmp(table[i].op, op) == 0) {
            json_t *answer = table[i].fn(errands, request, pid);
            return answer ? answer : error_of(-ENOMEM);
        }
    }
    return NULL;
}
