/* Names asked for before there is an index: one LIST a name, remembered for a while.
 *
 * LIST prefix=name, two keys: the name itself comes first if it is an object; "name/..." shows a directory,
 * which wins over an object of the same name. Only when both keys sort between the two ("name-1", "name.txt")
 * is a second LIST of "name/" needed.
 *
 * Where there may be no LIST (list=none, or the store refuses it): one HEAD a name. A HEAD that is refused
 * says not why; one byte by GET does. */
#include "fetch/plan/names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "config/settings.h"
#include "fetch/base/clock.h"
#include "fetch/plan/known_dirs.h"

#define HR_NEGATIVE_MS 2000  /* a name that is not there: short, because it may be put there any moment */
#define HR_OVERLAY_MAX 65536 /* names remembered; then all are forgotten */

/* Requests for one name: LIST of two keys, LIST below it; HEAD, one byte. */
enum look_by { LOOK_BY_FIRST, LOOK_BY_BELOW, LOOK_BY_HEAD, LOOK_BY_BYTE };

struct hr_look {
    struct hr_look *prev, *next;
    struct hr_plan_tree *tree;
    struct hr_call *call;
    enum look_by by; /* what the call asks */
    struct hr_waiter *waiters;
    bool is_file; /* the first LIST showed the object; a directory may still win */
    struct hr_answer file;
    char etag[136];
    uint32_t path_len;
    char path[HR_KEY_MAX + 1];
};

struct hr_overlay *hr_overlay_find(struct hr_plan_tree *tree, const char *path, uint32_t path_len)
{
    struct hr_overlay *overlay = NULL;
    HASH_FIND(hh, tree->overlay, path, path_len, overlay);
    return overlay;
}

void hr_overlay_clear(struct hr_plan_tree *tree)
{
    struct hr_overlay *overlay, *next;
    HASH_ITER(hh, tree->overlay, overlay, next)
    {
        HASH_DEL(tree->overlay, overlay);
        free(overlay);
    }
}

struct hr_overlay *hr_overlay_put(struct hr_plan_tree *tree, const char *path, uint32_t path_len)
{
    struct hr_overlay *overlay = hr_overlay_find(tree, path, path_len);
    if (!overlay) {
        if (HASH_COUNT(tree->overlay) >= HR_OVERLAY_MAX) {
            hr_overlay_clear(tree);
        }
        overlay = calloc(1, sizeof *overlay + path_len + 1);
        if (!overlay) {
            return NULL;
        }
        memcpy(overlay->path, path, path_len);
        overlay->path_len = path_len;
        HASH_ADD(hh, tree->overlay, path, path_len, overlay);
        if (!overlay->hh.tbl) {
            free(overlay);
            return NULL;
        }
        tree->distinct_names++;
    }
    overlay->told_ms = hr_clock_ms();
    overlay->until_ms = hr_tree_until_ms(tree, overlay->told_ms);
    return overlay;
}

bool hr_name_known(struct hr_plan_tree *tree, const char *path, uint32_t path_len, struct hr_name *ret)
{
    const struct hr_overlay *overlay = hr_overlay_find(tree, path, path_len);
    int64_t told_ms;
    bool in_dir = hr_known_dirs_tell(tree, path, path_len, ret, &told_ms);
    if (!overlay || overlay->until_ms <= hr_clock_ms() || (in_dir && told_ms > overlay->told_ms)) {
        return in_dir;
    }
    if (overlay->error == 0 && overlay->kind == HR_KIND_NONE) {
        return false;
    }
    *ret = (struct hr_name){
        .error = overlay->error, .kind = overlay->kind, .size = overlay->size, .mtime_ns = overlay->mtime_ns};
    snprintf(ret->etag, sizeof ret->etag, "%s", overlay->etag);
    return true;
}

void hr_name_doubt(struct hr_plan_tree *tree, const char *path, uint32_t path_len)
{
    struct hr_overlay *overlay = hr_overlay_put(tree, path, path_len);
    if (overlay) {
        overlay->error = 0;
        overlay->kind = HR_KIND_NONE;
        overlay->etag[0] = '\0';
    }
}

void hr_name_gone(struct hr_plan_tree *tree, const char *path, uint32_t path_len)
{
    struct hr_overlay *overlay = hr_overlay_put(tree, path, path_len);
    if (overlay) {
        overlay->error = -ENOENT;
        overlay->file_id = 0;
        overlay->until_ms = overlay->told_ms + HR_NEGATIVE_MS;
    }
}

void hr_name_parents(struct hr_plan_tree *tree, const char *path, uint32_t path_len)
{
    const char *slash = memrchr(path, '/', path_len);
    while (slash) {
        uint32_t len = (uint32_t)(slash - path);
        struct hr_overlay *overlay = hr_overlay_put(tree, path, len);
        if (overlay) {
            overlay->error = 0;
            overlay->kind = HR_KIND_DIR;
            overlay->size = 0;
            overlay->mtime_ns = tree->shared->start_ns;
            overlay->etag[0] = '\0';
        }
        slash = memrchr(path, '/', len);
    }
}

static void remember(struct hr_look *look, const struct hr_answer *answer)
{
    struct hr_overlay *overlay = hr_overlay_put(look->tree, look->path, look->path_len);
    if (!overlay) {
        return;
    }
    overlay->error = answer->error;
    overlay->kind = answer->kind;
    overlay->size = answer->size;
    overlay->mtime_ns = answer->mtime_ns;
    snprintf(overlay->etag, sizeof overlay->etag, "%s", answer->kind == HR_KIND_FILE ? look->etag : "");
    if (answer->error < 0) {
        overlay->until_ms = hr_clock_ms() + HR_NEGATIVE_MS;
    }
}

static void finish(struct hr_look *look, const struct hr_answer *answer, const char *message)
{
    struct hr_plan_tree *tree = look->tree;
    if (answer->error == 0 || answer->error == -ENOENT) {
        remember(look, answer);
    } else if (answer->error != -ECANCELED) {
        hr_tree_say(tree, answer->error, message);
    }
    DL_DELETE(tree->looks, look);
    hr_waiters_answer(&look->waiters, answer);
    free(look);
    hr_listing_by_names(tree);
}

static int send(struct hr_look *look, enum look_by by);

/* The next request. *error is untouched when it was sent. */
static bool go_on(struct hr_look *look, enum look_by by, int *error)
{
    int sent = send(look, by);
    *error = sent < 0 ? sent : *error;
    return sent == 0;
}

/* What two keys say: 1 decided (answer filled), 0 "name/" must be asked for. */
static int judge(struct hr_look *look, const struct hr_call *call, uint32_t prefix_len,
                 struct hr_answer *answer)
{
    uint32_t key_len = prefix_len + look->path_len;
    bool passed = !call->truncated; /* nothing behind these keys */
    for (uint32_t i = 0; i < call->listed_count; i++) {
        const struct hr_listed *listed = &call->listed[i];
        if (listed->key_len == key_len) {
            look->is_file = true;
            look->file =
                (struct hr_answer){.kind = HR_KIND_FILE, .size = listed->size, .mtime_ns = listed->mtime_ns};
            snprintf(look->etag, sizeof look->etag, "%s", listed->etag);
        } else if (listed->key_len > key_len && listed->key[key_len] == '/') {
            *answer = (struct hr_answer){.kind = HR_KIND_DIR, .mtime_ns = listed->mtime_ns};
            return 1;
        } else if (listed->key_len > key_len && (unsigned char)listed->key[key_len] > '/') {
            passed = true;
        }
    }
    if (!passed) {
        return 0;
    }
    *answer = look->is_file ? look->file : (struct hr_answer){.error = -ENOENT};
    return 1;
}

/* A LIST came back. True: another request has gone out. */
static bool listed(struct hr_look *look, enum look_by by, const struct hr_call *call,
                   struct hr_answer *answer)
{
    if (call->error == 0) {
        look->tree->listed = true;
    } else if (call->denied) {
        hr_tree_list_refused(look->tree, call->message);
        return go_on(look, LOOK_BY_HEAD, &answer->error);
    } else {
        return false;
    }
    if (by == LOOK_BY_FIRST) {
        return judge(look, call, look->tree->shared->prefix_len, answer) == 0 &&
               go_on(look, LOOK_BY_BELOW, &answer->error);
    }
    if (call->listed_count > 0) {
        *answer = (struct hr_answer){.kind = HR_KIND_DIR, .mtime_ns = call->listed[0].mtime_ns};
    } else {
        *answer = look->is_file ? look->file : (struct hr_answer){.error = -ENOENT};
    }
    return false;
}

/* A HEAD or one byte came back. True: another request has gone out. */
static bool asked_alone(struct hr_look *look, enum look_by by, const struct hr_call *call,
                        struct hr_answer *answer)
{
    bool empty = by == LOOK_BY_BYTE && call->error == -EMSGSIZE && call->object_bytes == 0;
    if (by == LOOK_BY_HEAD && call->error == -EACCES) {
        return go_on(look, LOOK_BY_BYTE, &answer->error);
    }
    if (call->error == 0 || empty) {
        *answer =
            (struct hr_answer){.kind = HR_KIND_FILE, .size = call->object_bytes, .mtime_ns = call->mtime_ns};
        snprintf(look->etag, sizeof look->etag, "%s", empty ? "" : call->etag);
        hr_name_parents(look->tree, look->path, look->path_len);
    } else if (call->denied && look->tree->welcome) {
        answer->error = -ENOENT; /* outcome.c, missing_by_refusal */
    }
    if (!call->refused_alone && call->error != -ECANCELED) {
        hr_tree_judge(look->tree, answer->error);
    }
    return false;
}

static void look_done(struct hr_call *call)
{
    struct hr_look *look = call->owner;
    enum look_by by = look->by;
    struct hr_answer answer = {.error = call->error};
    char message[sizeof call->message + 80];
    look->call = NULL;
    bool goes_on = by == LOOK_BY_FIRST || by == LOOK_BY_BELOW ? listed(look, by, call, &answer)
                                                              : asked_alone(look, by, call, &answer);
    snprintf(message, sizeof message, "%s%s", call->message,
             call->denied && by == LOOK_BY_BYTE ? " (it may be missing: who may not list is told so, too)"
                                                : "");
    hr_call_free(call);
    if (!goes_on) {
        finish(look, &answer, message);
    }
}

static struct hr_call *make_call(const struct hr_look *look, enum look_by by)
{
    char key[2 * HR_KEY_MAX + 2];
    uint32_t len = hr_tree_key(look->tree, look->path, look->path_len, key);
    if (by == LOOK_BY_BELOW) {
        key[len++] = '/';
    }
    enum hr_call_kind kind = by == LOOK_BY_HEAD   ? HR_CALL_HEAD
                             : by == LOOK_BY_BYTE ? HR_CALL_GET
                                                  : HR_CALL_LIST;
    struct hr_call *call = hr_call_new(kind, look->tree->store, key, len);
    if (call && by == LOOK_BY_BYTE) {
        call->range_bytes = 1;
    } else if (call && kind == HR_CALL_LIST) {
        call->max_keys = by == LOOK_BY_BELOW ? 1 : 2;
    }
    return call;
}

static int send(struct hr_look *look, enum look_by by)
{
    struct hr_call *call = make_call(look, by);
    if (!call) {
        return -ENOMEM;
    }
    call->done = look_done;
    call->owner = look;
    call->awaited = true;
    int error = hr_call_start(call);
    if (error < 0) {
        hr_call_free(call);
        return error;
    }
    look->call = call;
    look->by = by;
    return 0;
}

static bool answer_known(struct hr_plan_tree *tree, const char *path, uint32_t path_len,
                         const struct hr_asker *asker)
{
    struct hr_answer answer = {0};
    uint32_t entry;
    if (!hr_tree_unlisted(tree, path, path_len)) {
        answer.error = hr_index_lookup(&tree->index, path, path_len, &entry);
        if (answer.error == 0) {
            const struct hr_entry *found = &tree->index.entries[entry];
            answer.kind = found->kind;
            answer.size = found->kind == HR_KIND_FILE ? found->size : 0;
            answer.mtime_ns = found->mtime_ns;
        }
    } else {
        struct hr_name name;
        if (!hr_name_known(tree, path, path_len, &name)) {
            return false;
        }
        answer = (struct hr_answer){
            .error = name.error, .kind = name.kind, .size = name.size, .mtime_ns = name.mtime_ns};
    }
    asker->fn(asker->owner, asker->ticket, &answer);
    return true;
}

void hr_look_ask(struct hr_plan_tree *tree, const char *path, uint32_t path_len, const struct hr_asker *asker)
{
    if (answer_known(tree, path, path_len, asker)) {
        return;
    }
    bool alone = hr_tree_list_mode(tree) == HR_LIST_NONE;
    if (!alone && tree->list_error == -EACCES && hr_clock_ms() < tree->list_error_until_ms) {
        hr_answer_error(asker, -EACCES); /* a LIST of one name is refused like that of all */
        return;
    }
    struct hr_look *look;
    DL_FOREACH(tree->looks, look)
    {
        if (look->path_len == path_len && memcmp(look->path, path, path_len) == 0) {
            hr_waiters_add(&look->waiters, asker);
            return;
        }
    }
    look = calloc(1, sizeof *look);
    if (!look) {
        hr_answer_error(asker, -ENOMEM);
        return;
    }
    look->tree = tree;
    look->path_len = path_len;
    memcpy(look->path, path, path_len);
    int error = send(look, alone ? LOOK_BY_HEAD : LOOK_BY_FIRST);
    if (error < 0) {
        free(look);
        hr_answer_error(asker, error);
        return;
    }
    DL_APPEND(tree->looks, look);
    hr_waiters_add(&look->waiters, asker);
}

void hr_look_cancel_all(struct hr_plan_tree *tree)
{
    struct hr_look *look, *next;
    DL_FOREACH_SAFE(tree->looks, look, next)
    {
        hr_call_cancel(look->call);
    }
}
