/* Open waits as a document: who, for what, since when, and what is being done about it. */
#include "fetch/serve/waits_inside.h"

#include <string.h>

#include "fetch/base/buf.h"
#include "fetch/base/clock.h"
#include "fetch/base/text.h"
#include "fetch/plan/doing.h"

#define HR_WAIT_KEY_BYTES (8 * HR_KEY_MAX) /* prefix and path, percent-encoded */

static const char *const op_names[HR_OP_COUNT] = {
    [HR_OP_FETCH] = "open",  [HR_OP_LOOK] = "stat",    [HR_OP_OPEN] = "open",        [HR_OP_LIST] = "readdir",
    [HR_OP_DIR] = "readdir", [HR_OP_SEGMENT] = "read", [HR_OP_WHOLE] = "open whole",
};

static const char *const state_names[HR_DOING_STATES] = {
    [HR_DOING_NOTHING] = "done",    [HR_DOING_CONNECTION] = "connections",
    [HR_DOING_WIDTH] = "width",     [HR_DOING_MEMORY] = "memory",
    [HR_DOING_ROOM] = "room",       [HR_DOING_CALL] = "request",
    [HR_DOING_WRITING] = "writing", [HR_DOING_LISTING] = "listing",
};

static const char *const call_names[] = {
    [HR_CALL_ASKED] = "asked",
    [HR_CALL_COMING] = "coming",
    [HR_CALL_RETRYING] = "retrying",
    [HR_CALL_KEYS] = "credentials",
};

static void set(json_t *object, const char *name, uint64_t value)
{
    json_object_set_new(object, name, json_integer((json_int_t)value));
}

static void set_text(json_t *object, const char *name, const char *text)
{
    json_t *value = json_string(text); /* NULL: not UTF-8 */
    json_object_set_new(object, name, value ? value : json_string("?"));
}

static void set_key(json_t *object, const char *prefix, uint32_t prefix_len, const char *path,
                    uint32_t path_len)
{
    struct hr_buf text = HR_BUF_INIT(HR_WAIT_KEY_BYTES);
    if (hr_percent_encode(prefix, prefix_len, true, &text) == 0 &&
        hr_percent_encode(path, path_len, true, &text) == 0) {
        set_text(object, "key", text.data ? text.data : "");
    }
    hr_buf_release(&text);
}

static void set_call(json_t *object, const struct hr_call_doing *call)
{
    set_text(object, "call", call_names[call->state]);
    set(object, "requests", call->requests);
    if (call->state == HR_CALL_ASKED || call->state == HR_CALL_COMING) {
        set_text(object, "address", call->address);
        set(object, "sent_ms", (uint64_t)(call->sent_ms > 0 ? call->sent_ms : 0));
    } else if (call->state == HR_CALL_RETRYING) {
        set(object, "next_ms", (uint64_t)call->next_ms);
    }
    if (call->error[0]) {
        set_text(object, "error", call->error);
    }
}

static void set_doing(json_t *object, const struct hr_doing *doing)
{
    set_text(object, "state", state_names[doing->state]);
    set_text(object, "bucket", doing->bucket);
    if (doing->state == HR_DOING_CALL || doing->call.requests > 0) {
        set_call(object, &doing->call);
    }
    if (doing->state == HR_DOING_LISTING) {
        set(object, "pages", doing->pages);
        set(object, "keys", doing->keys);
    }
    if (doing->range_bytes) {
        set(object, "range_first", doing->range_first);
        set(object, "range_bytes", doing->range_bytes);
    }
}

/* What its request is about; false: it is not known any more. */
static bool describe(const struct hr_waits *waits, const struct wait *wait, json_t *object)
{
    struct hr_doing doing;
    char path[2 * HR_KEY_MAX + 1];
    uint32_t path_len = 0;
    if (wait->op == HR_OP_SEGMENT || wait->op == HR_OP_WHOLE) {
        bool whole = wait->op == HR_OP_WHOLE;
        if (!hr_plan_doing_bytes(waits->plan, &wait->ask, whole, &doing, path, &path_len)) {
            return false;
        }
        set(object, "offset", wait->ask.offset);
        set(object, "bytes", wait->ask.bytes);
        set_key(object, "", 0, path, path_len);
        set_doing(object, &doing);
        return true;
    }
    if (wait->op == HR_OP_FETCH) {
        int len = hr_plan_entry_path(waits->plan, wait->tree, wait->gen, wait->entry, path, sizeof path);
        if (len < 0) {
            return false;
        }
        path_len = (uint32_t)len;
    } else {
        path_len = wait->path_len;
        memcpy(path, wait->path, path_len);
    }
    if (!hr_plan_doing(waits->plan, (enum hr_op)wait->op, wait->tree, path, path_len, &doing)) {
        return false;
    }
    set_key(object, doing.prefix, doing.prefix_len, path, path_len);
    set_doing(object, &doing);
    return true;
}

json_t *hr_waits_json(const struct hr_waits *waits)
{
    json_t *list = json_array();
    int64_t now_us = hr_clock_us();
    for (unsigned i = 0; i < HR_WAIT_BUCKETS; i++) {
        for (const struct wait *wait = waits->by_target[i]; wait; wait = wait->next) {
            json_t *object = json_object();
            set(object, "pid", wait->pid);
            set(object, "tid", wait->tid);
            set(object, "context", wait->context);
            set_text(object, "op", op_names[wait->op]);
            set(object, "ms", (uint64_t)(now_us - wait->since_us) / 1000);
            if (!describe(waits, wait, object)) {
                set_text(object, "state", "done");
            }
            json_array_append_new(list, object);
        }
    }
    return list;
}
