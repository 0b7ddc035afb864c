/* open(): what an entry or a name stands for is in the cache, or is made to be. Small objects whole; of large
 * ones the face. */
#include "fetch/plan/inner.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fetch/base/clock.h"
#include "fetch/plan/names.h"
#include "fetch/plan/recording.h"
#include "fetch/plan/shards.h"

static unsigned word_kind(const struct hr_state *state)
{
    return HR_STATE_KIND(atomic_load_explicit(&state->word, memory_order_relaxed));
}

bool hr_open_file_is_there(const struct hr_plan *plan, const struct hr_cached *cached)
{
    char path[PATH_MAX];
    struct stat st;
    bool face = cached->kind == HR_CACHED_FACE;
    hr_object_path(plan->cache_dir, cached->file_id, path);
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
           (st.st_mode & 07777) == (face ? 0200 : 0400) && (uint64_t)st.st_size == (face ? 0 : cached->size);
}

/* What was looked at before says all: an error, a directory, an object that is in the cache. */
static bool answer_known(struct hr_plan_tree *tree, const struct hr_name *name, const char *key,
                         uint32_t key_len, const struct hr_asker *asker)
{
    struct hr_plan *plan = tree->plan;
    struct hr_answer answer = {
        .error = name->error, .kind = name->kind, .size = name->size, .mtime_ns = name->mtime_ns};
    bool known = name->error < 0 || name->kind == HR_KIND_DIR;
    const struct hr_cached *cached =
        !known && name->etag[0] ? hr_cache_find(plan->cache, &tree->source, key, key_len, name->etag) : NULL;
    if (cached && !hr_open_file_is_there(plan, cached)) {
        hr_cache_drop(plan->cache, cached->file_id);
        cached = NULL;
    }
    answer.file_id = cached ? cached->file_id : 0;
    if (cached) {
        hr_cache_handed(plan->cache, cached->file_id);
        hr_cache_touch(plan->cache, cached->file_id); /* without an index clients leave no note */
    }
    if (cached) {
        hr_tree_file_used(plan, cached->file_id);
        hr_recording_name(tree, key + tree->shared->prefix_len, key_len - tree->shared->prefix_len);
    }
    if (known || cached) {
        asker->fn(asker->owner, asker->ticket, &answer);
    }
    return known || cached;
}

/* open() of a name that no index knows: the cache, a face, else one GET. */
static void open_unlisted(struct hr_plan_tree *tree, const char *path, uint32_t path_len,
                          const struct hr_asker *asker)
{
    struct hr_name name;
    struct hr_plan *plan = tree->plan;
    uint64_t size = HR_UNKNOWN_BYTES;
    int64_t mtime_ns = 0;
    const char *etag = "";
    if (hr_name_known(tree, path, path_len, &name) || hr_shard_told(tree, path, path_len, &name)) {
        char key[2 * HR_KEY_MAX];
        uint32_t key_len = hr_tree_key(tree, path, path_len, key);
        if (answer_known(tree, &name, key, key_len, asker)) {
            return;
        }
        size = name.size;
        mtime_ns = name.mtime_ns;
        etag = name.etag;
        if (hr_face_fits(plan, size, etag)) {
            hr_recording_name(tree, path, path_len);
            plan->stats.misses += hr_face_want(tree, key, key_len, etag, size, mtime_ns, asker);
            return;
        }
    }
    struct hr_want *want = hr_want_add(tree, path, path_len, HR_REASON_DEMAND, size, mtime_ns, etag);
    if (!want) {
        hr_answer_error(asker, -ENOMEM);
        return;
    }
    plan->stats.misses++;
    if (!want->asked_us) {
        want->asked_us = hr_clock_us();
    }
    hr_waiters_add(&want->waiters, asker);
    hr_plan_pump(plan);
}

/* The asker of an open whose GET may say 404 for what is a directory, or 403 for what is missing where
 * nothing may be listed: then the name is looked at. */
struct second_look {
    struct hr_plan_tree *tree;
    struct hr_asker asker;
    bool refused; /* the GET was, and the look tells whether the object is there */
    uint32_t path_len;
    char path[];
};

static void opened_or_look(void *owner, uint32_t ticket, const struct hr_answer *answer);

/* True: the look's answer comes to the same asker, or to the program. */
static bool look_again(struct second_look *second, int error)
{
    struct hr_plan_tree *tree = second->tree;
    struct hr_asker asker = {.fn = opened_or_look, .owner = second};
    struct hr_name name;
    bool known = hr_name_known(tree, second->path, second->path_len, &name);
    bool unlisted = hr_tree_list_mode(tree) == HR_LIST_NONE;
    if (error == -EACCES && !known && !unlisted && !tree->listed && tree->welcome && !tree->index.names) {
        second->refused = true;
        hr_look_ask(tree, second->path, second->path_len, &asker);
        return true;
    }
    if (error != -ENOENT) {
        return false;
    }
    if (unlisted || (known && name.error == 0 && name.kind == HR_KIND_FILE)) {
        hr_name_gone(tree, second->path, second->path_len);
        return false;
    }
    hr_look_ask(tree, second->path, second->path_len, &second->asker);
    free(second);
    return true;
}

static void opened_or_look(void *owner, uint32_t ticket, const struct hr_answer *answer)
{
    struct second_look *second = owner;
    struct hr_answer told = *answer;
    (void)ticket;
    if (second->refused) {
        told = (struct hr_answer){.error = answer->error == 0 ? -EACCES : answer->error};
    } else if (!second->tree->plan->ending && look_again(second, answer->error)) {
        return;
    }
    second->asker.fn(second->asker.owner, second->asker.ticket, &told);
    free(second);
}

static void ask_open(struct hr_plan_tree *tree, const char *path, uint32_t path_len,
                     const struct hr_asker *asker)
{
    struct second_look *second = malloc(sizeof *second + path_len);
    if (!second) {
        hr_answer_error(asker, -ENOMEM);
        return;
    }
    second->tree = tree;
    second->asker = *asker;
    second->refused = false;
    second->path_len = path_len;
    memcpy(second->path, path, path_len);
    struct hr_asker wrapped = {.fn = opened_or_look, .owner = second};
    open_unlisted(tree, path, path_len, &wrapped);
}

/* Does the want bring what this entry names? One for another listing of the bucket may not. */
static bool wants_version(const struct hr_want *want, struct hr_plan_tree *tree, uint32_t entry)
{
    char etag[136];
    return !want->etag[0] || hr_index_etag(&tree->index, entry, etag, sizeof etag) <= 0 ||
           strcmp(want->etag, etag) == 0;
}

/* What the state word says now. False: nothing yet. */
static bool answer_by_word(struct hr_plan_tree *tree, uint32_t entry, const struct hr_asker *asker)
{
    const struct hr_entry *known = &tree->index.entries[entry];
    const struct hr_state *state = &tree->states->states[entry];
    unsigned kind = word_kind(state);
    struct hr_answer answer = {.kind = known->kind, .size = known->size, .mtime_ns = known->mtime_ns};
    if (known->kind == HR_KIND_FILE) {
        if (kind != HR_STATE_RESIDENT && kind != HR_STATE_FACE) {
            return false;
        }
        answer.file_id = atomic_load_explicit(&state->file_id, memory_order_relaxed);
        answer.flags = kind == HR_STATE_FACE ? HR_ANSWER_FACE : 0;
        hr_tree_file_used(tree->plan, answer.file_id);
        hr_cache_handed(tree->plan->cache, answer.file_id);
    }
    asker->fn(asker->owner, asker->ticket, &answer);
    return true;
}

/* open() through the index, for askers that hold no mapping of it (the command). */
static void ask_open_indexed(struct hr_plan_tree *tree, const char *path, uint32_t path_len,
                             const struct hr_asker *asker)
{
    uint32_t entry;
    int error = hr_index_lookup(&tree->index, path, path_len, &entry);
    if (error < 0) {
        hr_answer_error(asker, error);
        return;
    }
    if (tree->index.entries[entry].kind == HR_KIND_FILE) {
        hr_plan_fetch(tree->plan, tree->number, tree->index.names->gen, entry);
    }
    if (answer_by_word(tree, entry, asker)) {
        return;
    }
    char key[2 * HR_KEY_MAX], etag[136];
    uint32_t key_len = hr_tree_key(tree, path, path_len, key);
    if (hr_index_etag(&tree->index, entry, etag, sizeof etag) > 0 &&
        hr_face_join(tree, key, key_len, etag, asker)) {
        return;
    }
    struct hr_want *want = hr_want_find(tree, path, path_len);
    if (want && wants_version(want, tree, entry)) {
        hr_waiters_add(&want->waiters, asker);
        return;
    }
    /* Failed on the spot; or another version is on its way, for an older listing. */
    uint32_t word = atomic_load_explicit(&tree->states->states[entry].word, memory_order_relaxed);
    hr_answer_error(asker, HR_STATE_KIND(word) == HR_STATE_FAILED ? -(int)HR_STATE_ERRNO(word) : -EAGAIN);
}

void hr_open_ask(struct hr_plan_tree *tree, const char *path, uint32_t path_len, const struct hr_asker *asker)
{
    (hr_tree_unlisted(tree, path, path_len) ? ask_open : ask_open_indexed)(tree, path, path_len, asker);
}

/* Does the word promise a file that is there? One that is missing or foreign is dropped: a client that found
 * none asks again. */
static bool keeps_promise(struct hr_plan_tree *tree, uint32_t entry)
{
    struct hr_plan *plan = tree->plan;
    const struct hr_state *state = &tree->states->states[entry];
    /* Twice: behind a whole object that has gone its face may stand. */
    for (int i = 0; i < 2 && (word_kind(state) == HR_STATE_RESIDENT || word_kind(state) == HR_STATE_FACE);
         i++) {
        uint64_t file_id = atomic_load_explicit(&state->file_id, memory_order_relaxed);
        const struct hr_cached *cached = hr_cache_by_id(plan->cache, file_id);
        if (cached && hr_open_file_is_there(plan, cached)) {
            hr_cache_handed(plan->cache, file_id);
            return true;
        }
        hr_cache_drop(plan->cache, file_id);
        hr_tree_forget(tree, entry, file_id);
    }
    return false;
}

bool hr_plan_fetch(struct hr_plan *plan, uint32_t number, uint32_t gen, uint32_t entry)
{
    struct hr_plan_tree *tree = hr_tree_get(plan, number);
    if (!tree || plan->ending || !tree->index.names || tree->index.names->gen != gen ||
        entry >= tree->index.names->entry_count || tree->index.entries[entry].kind != HR_KIND_FILE) {
        return false;
    }
    if (keeps_promise(tree, entry)) {
        return false;
    }
    if (hr_tree_doubted(tree, entry)) {
        hr_tree_doubt(tree, entry); /* tells who waits on the word to ask by path */
        return false;
    }
    char path[HR_KEY_MAX + 1];
    char etag[136];
    int len = hr_index_path(&tree->index, entry, path, sizeof path);
    if (len < 0 || hr_index_etag(&tree->index, entry, etag, sizeof etag) < 0) {
        hr_tree_fail_entry(tree, entry, -EIO);
        return false;
    }
    if (hr_tree_denied(tree)) {
        hr_tree_fail_entry(tree, entry, -EACCES);
        return false;
    }
    const struct hr_entry *known = &tree->index.entries[entry];
    tree->sweep_rests = false;
    hr_sweep_late(tree, entry);
    hr_opened_asked(tree, entry);
    hr_sweep_used(tree, entry);
    if (hr_face_fits(plan, known->size, etag)) {
        char key[2 * HR_KEY_MAX];
        uint32_t key_len = hr_tree_key(tree, path, (uint32_t)len, key);
        bool made = hr_face_want(tree, key, key_len, etag, known->size, known->mtime_ns, NULL);
        plan->stats.misses += made;
        return made;
    }
    struct hr_want *want =
        hr_want_add(tree, path, (uint32_t)len, HR_REASON_DEMAND, known->size, known->mtime_ns, etag);
    if (!want) {
        return false; /* the client asks again */
    }
    if (!want->asked_us) {
        want->asked_us = hr_clock_us();
        plan->stats.misses++;
    }
    hr_plan_pump(plan);
    return true;
}
