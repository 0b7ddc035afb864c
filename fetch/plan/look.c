/* Names asked for before there is an index: one LIST a name, remembered for a while.
 *
 * LIST prefix=name, two keys: the name itself comes first if it is an object; "name/..." shows a directory,
 * which wins over an object of the same name. Only when both keys sort between the two ("name-1", "name.txt")
 * is a second LIST of "name/" needed. */
#include "fetch/plan/inner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "config/settings.h"
#include "fetch/base/clock.h"

#define HR_NEGATIVE_MS 2000  /* a name that is not there: short, because it may be put there any moment */
#define HR_OVERLAY_MAX 65536 /* names remembered; then all are forgotten */
#define HR_REFUSED_AFTER 3   /* LISTs refused in a row before names are not looked at any more */
#define HR_REFUSED_MS 30000  /* then for so long: credentials do not heal in seconds */

struct hr_look {
    struct hr_look *prev, *next;
    struct hr_plan_tree *tree;
    struct hr_call *call;
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
    int64_t keep_s = tree->settings.revalidate_s;
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
    overlay->until_ms = keep_s < 0 || keep_s > INT32_MAX ? INT64_MAX : hr_clock_ms() + keep_s * 1000;
    return overlay;
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
        tree->list_refusals = 0;
    } else if (answer->error != -ECANCELED) {
        hr_tree_say(tree, answer->error, message);
    }
    if (answer->error == -EACCES && ++tree->list_refusals >= HR_REFUSED_AFTER) {
        tree->list_error = -EACCES;
        tree->list_error_until_ms = hr_clock_ms() + HR_REFUSED_MS;
    }
    DL_DELETE(tree->looks, look);
    hr_waiters_answer(&look->waiters, answer);
    free(look);
    hr_listing_by_names(tree);
}

static int send_list(struct hr_look *look, bool below);

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

static void first_done(struct hr_call *call)
{
    struct hr_look *look = call->owner;
    struct hr_answer answer = {.error = call->error};
    char message[sizeof call->message];
    snprintf(message, sizeof message, "%s", call->message);
    look->call = NULL;
    int decided = call->error < 0 ? 1 : judge(look, call, look->tree->shared->prefix_len, &answer);
    hr_call_free(call);
    if (!decided) {
        answer.error = send_list(look, true);
        decided = answer.error < 0;
    }
    if (decided) {
        finish(look, &answer, message);
    }
}

static void below_done(struct hr_call *call)
{
    struct hr_look *look = call->owner;
    struct hr_answer answer = {.error = call->error};
    char message[sizeof call->message];
    snprintf(message, sizeof message, "%s", call->message);
    look->call = NULL;
    if (call->error == 0 && call->listed_count > 0) {
        answer = (struct hr_answer){.kind = HR_KIND_DIR, .mtime_ns = call->listed[0].mtime_ns};
    } else if (call->error == 0) {
        answer = look->is_file ? look->file : (struct hr_answer){.error = -ENOENT};
    }
    hr_call_free(call);
    finish(look, &answer, message);
}

static int send_list(struct hr_look *look, bool below)
{
    const struct hr_tree *shared = look->tree->shared;
    char key[2 * HR_KEY_MAX + 2];
    uint32_t len = shared->prefix_len;
    memcpy(key, shared->prefix, len);
    memcpy(key + len, look->path, look->path_len);
    len += look->path_len;
    if (below) {
        key[len++] = '/';
    }
    look->call = hr_call_new(HR_CALL_LIST, look->tree->store, key, len);
    if (!look->call) {
        return -ENOMEM;
    }
    look->call->max_keys = below ? 1 : 2;
    look->call->done = below ? below_done : first_done;
    look->call->owner = look;
    int error = hr_call_start(look->call);
    if (error < 0) {
        hr_call_free(look->call);
        look->call = NULL;
    }
    return error;
}

static bool answer_known(struct hr_plan_tree *tree, const char *path, uint32_t path_len,
                         const struct hr_asker *asker)
{
    struct hr_answer answer = {0};
    uint32_t entry;
    if (tree->index.names) {
        answer.error = hr_index_lookup(&tree->index, path, path_len, &entry);
        if (answer.error == 0) {
            const struct hr_entry *found = &tree->index.entries[entry];
            answer.kind = found->kind;
            answer.size = found->kind == HR_KIND_FILE ? found->size : 0;
            answer.mtime_ns = found->mtime_ns;
        }
    } else {
        struct hr_overlay *overlay = hr_overlay_find(tree, path, path_len);
        if (!overlay || overlay->until_ms <= hr_clock_ms()) {
            return false;
        }
        answer.error = overlay->error;
        answer.kind = overlay->kind;
        answer.size = overlay->size;
        answer.mtime_ns = overlay->mtime_ns;
    }
    asker->fn(asker->owner, asker->ticket, &answer);
    return true;
}

void hr_look_ask(struct hr_plan_tree *tree, const char *path, uint32_t path_len, const struct hr_asker *asker)
{
    if (answer_known(tree, path, path_len, asker)) {
        return;
    }
    if (tree->list_error == -EACCES && hr_clock_ms() < tree->list_error_until_ms) {
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
    int error = send_list(look, false);
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
