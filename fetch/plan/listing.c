/* From "the names are wanted" to a published index: one listing a tree at a time.
 *
 * Revalidation: an index on disk is used when its listing began less than `revalidate` ago (never with
 * `start`). An older one is listed again: by a fresh daemon before anybody sees names, by a living one in the
 * background, the old names standing until the new ones are whole. */
#include "fetch/plan/names.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/settings.h"
#include "fetch/base/clock.h"
#include "fetch/plan/adopting.h"
#include "fetch/plan/dirs.h"
#include "fetch/plan/ranks.h"
#include "fetch/plan/replay.h"

#define HR_LIST_AGAIN_MS 2000    /* after a failed listing: a loader's retry, not a storm */
#define HR_DENIED_AGAIN_MS 30000 /* after a refusal: credentials do not heal in seconds */
#define HR_LIST_AFTER_NAMES 64   /* distinct names before a whole listing is cheaper than asking one by one */

bool hr_listing_stale(const struct hr_plan_tree *tree)
{
    if (tree->list_file) {
        return hr_adopting_stale(tree);
    }
    if (tree->settings.revalidate_s == HR_SECONDS_FOREVER ||
        tree->settings.revalidate_s == HR_SECONDS_START) {
        return false;
    }
    int64_t age_ns = hr_clock_wall_ns() - tree->index.names->listed_ns;
    return age_ns < 0 || age_ns / 1000000000 >= tree->settings.revalidate_s;
}

static void adopt_cached(void *owner, const struct hr_cached *cached)
{
    (void)hr_tree_resident(owner, cached);
}

/* What a file of names gave without size and time. Nobody has the states yet: no waking. */
static void doubt_unknown(struct hr_plan_tree *tree)
{
    const struct hr_names *names = tree->index.names;
    uint32_t left = (uint32_t)names->unknown_count;
    atomic_store_explicit(&tree->states->by_name, left, memory_order_relaxed);
    for (uint32_t i = 0; i < names->entry_count && left > 0; i++) {
        if (tree->index.entries[i].etag_kind == HR_ETAG_UNKNOWN) {
            atomic_store_explicit(&tree->states->states[i].word,
                                  HR_STATE_NEXT(0, HR_STATE_FAILED, HR_STATE_BY_NAME_ERRNO),
                                  memory_order_relaxed);
            left--;
        }
    }
}

void hr_listing_retire(struct hr_plan_tree *tree)
{
    hr_tree_recheck_end(tree);
    atomic_store_explicit(&tree->states->retired, 1, memory_order_release);
    hr_states_unmap(tree->states, tree->uses);
    hr_index_unmap(&tree->index);
    free(tree->marks);
    hr_ranks_free(tree->ranks);
    tree->states = NULL;
    tree->uses = NULL;
    tree->marks = NULL;
    tree->ranks = NULL;
}

/* Makes `index` (taken over) the tree's generation: states filled from the cache, then the word that
 * announces it. */
static int publish(struct hr_plan_tree *tree, struct hr_index *index)
{
    struct hr_plan *plan = tree->plan;
    struct hr_states *states = NULL;
    struct hr_uses *uses = NULL;
    uint32_t gen = index->names->gen;
    uint8_t *marks = calloc(index->names->entry_count, 1);
    int error = marks ? hr_states_create(plan->index_dir, tree->id, gen, plan->options.boot,
                                         index->names->entry_count, &states, &uses)
                      : -ENOMEM;
    if (error < 0) {
        free(marks);
        hr_index_unmap(index);
        return error;
    }
    if (tree->index.names) {
        hr_tree_drain_uses(tree);
        hr_replay_relist(tree, index);
        hr_listing_retire(tree);
    }
    tree->index = *index;
    tree->states = states;
    tree->uses = uses;
    tree->uses_seen = 0;
    tree->marks = marks;
    tree->next_gen = gen >= tree->next_gen ? gen + 1 : tree->next_gen; /* a sealer may have the one behind */
    tree->sweep_first = tree->sweep_cursor = 0;
    tree->swept_bytes = tree->swept_used_bytes; /* the new marks know of none */
    tree->guessed_bytes = 0;
    tree->sweep_done = false;
    doubt_unknown(tree);
    hr_cache_each(plan->cache, &tree->source, adopt_cached, tree);
    atomic_store_explicit(&tree->shared->gen, gen, memory_order_release);
    syscall(SYS_futex, &tree->shared->gen, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    hr_overlay_clear(tree);
    hr_dirs_listed(tree);
    return 0;
}

static int publish_and_sweep(struct hr_plan_tree *tree, struct hr_index *index)
{
    hr_tree_say_empty(tree, index); /* before anybody can read that */
    int error = publish(tree, index);
    if (error == 0 && !hr_adopting_sealing(tree)) { /* else what is sealed sweeps when it is published */
        hr_index_sweep(tree->plan->index_dir, tree->id, tree->index.names->gen, tree->plan->options.boot);
    }
    return error;
}

int hr_listing_replace(struct hr_plan_tree *tree, struct hr_index *index)
{
    bool running = tree->lister != NULL;
    hr_listing_stop(tree);
    int error = publish_and_sweep(tree, index);
    if (error < 0 && running) {
        hr_listing_want(tree, NULL); /* for who waits for the one that ended */
    }
    return error;
}

int hr_listing_adopt(struct hr_plan_tree *tree)
{
    struct hr_index index = {0};
    int error = hr_index_load(tree->plan->index_dir, tree->id, &index);
    if (error < 0) {
        return error;
    }
    tree->next_gen = index.names->gen + 1;
    struct hr_plan_tree probe = {.index = index, .settings = tree->settings, .list_file = tree->list_file};
    bool each_start = tree->settings.revalidate_s == HR_SECONDS_START && !tree->list_file;
    if (each_start || hr_listing_stale(&probe)) {
        hr_index_unmap(&index);
        return -ESTALE;
    }
    hr_log(HR_LOG_INFO, "index adopted bucket=%s prefix=%s objects=%llu", hr_store_bucket(tree->store),
           tree->shared->prefix, (unsigned long long)index.names->file_count);
    error = publish(tree, &index);
    if (error == 0) {
        hr_tree_recheck(tree); /* and sweeps: to remove large files takes longer than to map one */
    }
    return error;
}

void hr_listing_report_hidden(struct hr_plan_tree *tree, const struct hr_index_builder *builder)
{
    static const char *const why[HR_HIDDEN_COUNT] = {
        [HR_HIDDEN_EMPTY_PART] = "has an empty part",
        [HR_HIDDEN_DOT_PART] = "has a part '.' or '..'",
        [HR_HIDDEN_LONG_PART] = "has a part over 255 bytes",
        [HR_HIDDEN_SHADOWED] = "is an object beside a directory of its name",
        [HR_HIDDEN_MARKER] = "ends in '/' and has bytes",
    };
    for (unsigned i = 0; i < HR_HIDDEN_COUNT; i++) {
        const char *example = NULL;
        uint64_t count = hr_builder_hidden(builder, (enum hr_hidden)i, &example);
        if (count) {
            hr_log(HR_LOG_WARNING, "keys that are no paths bucket=%s count=%llu: the first, '%s', %s",
                   hr_store_bucket(tree->store), (unsigned long long)count, example ? example : "", why[i]);
        }
    }
}

/* For who waits for its end without a slot or a ticket. */
static void note_end(struct hr_plan_tree *tree, int error, const char *message)
{
    tree->list_end.count++;
    tree->list_end.error = error;
    snprintf(tree->list_end.message, sizeof tree->list_end.message, "%s", message);
    if (tree->list_again && !tree->plan->ending) {
        tree->list_again = false;
        tree->list_error_until_ms = 0;
        hr_listing_want(tree, NULL);
    }
}

void hr_listing_failed(struct hr_plan_tree *tree, int error, bool denied, const char *message)
{
    struct hr_answer answer = {.error = error};
    tree->list_error = error;
    tree->list_error_until_ms = hr_clock_ms() + (error == -EACCES ? HR_DENIED_AGAIN_MS : HR_LIST_AGAIN_MS);
    if (denied) {
        hr_tree_list_refused(tree, message);
    } else if (error != -ECANCELED) {
        hr_tree_say(tree, error, message);
    }
    hr_waiters_answer(&tree->list_waiters, &answer);
    hr_dirs_unlisted(tree, error);
    note_end(tree, error, message);
}

void hr_listing_ended(struct hr_plan_tree *tree)
{
    hr_log(HR_LOG_INFO, "listed bucket=%s prefix=%s objects=%llu hidden=%llu", hr_store_bucket(tree->store),
           tree->shared->prefix, (unsigned long long)tree->index.names->file_count,
           (unsigned long long)tree->index.names->hidden_count);
    tree->denied = 0;
    tree->list_error_until_ms = 0;
    struct hr_answer answer = {.kind = HR_KIND_DIR};
    hr_waiters_answer(&tree->list_waiters, &answer);
    note_end(tree, 0, "");
    hr_plan_pump(tree->plan);
}

static void listing_goes_on(void *owner, struct hr_lister *lister)
{
    (void)lister;
    hr_dirs_more(owner);
}

/* How it was listed: what tells a slow listing from a slow store. */
static void report_listing(struct hr_plan_tree *tree, const struct hr_lister *lister)
{
    struct hr_lister_progress progress;
    const char *note = hr_lister_note(lister);
    hr_lister_progress(lister, &progress);
    hr_log(HR_LOG_INFO, "listing ended bucket=%s prefix=%s keys=%llu pages=%llu probes=%llu lanes=%u",
           hr_store_bucket(tree->store), tree->shared->prefix, (unsigned long long)progress.keys,
           (unsigned long long)progress.pages, (unsigned long long)progress.probes, progress.lanes_max);
    tree->list_plain = tree->list_plain || hr_lister_plain(lister);
    if (note[0] && strncmp(note, tree->list_note, sizeof tree->list_note - 1) != 0) {
        hr_log(HR_LOG_WARNING, "listed page by page bucket=%s: %s", hr_store_bucket(tree->store), note);
        snprintf(tree->list_note, sizeof tree->list_note, "%s", note);
    }
}

void hr_listing_stop(struct hr_plan_tree *tree)
{
    hr_sealer_free(tree->sealer);
    hr_lister_free(tree->lister);
    tree->sealer = NULL;
    tree->lister = NULL;
}

static void listing_failed(struct hr_plan_tree *tree, int error, const char *message)
{
    bool denied = hr_lister_denied(tree->lister);
    hr_listing_stop(tree);
    tree->plan->stats.listings++;
    hr_listing_failed(tree, error, denied, message);
}

static void not_written(struct hr_plan_tree *tree, int error)
{
    char text[HR_MESSAGE_MAX];
    snprintf(text, sizeof text, "cannot write the index under %.200s: %s", tree->plan->index_dir,
             strerror(-error));
    listing_failed(tree, error, text);
}

static void sealed(void *owner, int error, struct hr_index *index, const struct hr_index_builder *builder)
{
    struct hr_plan_tree *tree = owner;
    hr_listing_report_hidden(tree, builder);
    error = error == 0 ? publish_and_sweep(tree, index) : error;
    if (error < 0) {
        not_written(tree, error);
        return;
    }
    hr_listing_stop(tree);
    tree->plan->stats.listings++;
    tree->listed = true;
    hr_listing_ended(tree);
}

int hr_listing_seal(struct hr_plan_tree *tree, struct hr_index_builder *builder, int64_t listed_ns,
                    hr_sealed_fn done, void *owner, struct hr_sealer **ret)
{
    struct hr_sealer_options options = {
        .loop = tree->plan->options.loop,
        .builder = builder,
        .index_dir = tree->plan->index_dir,
        .tree_id = tree->id,
        .gen = tree->next_gen++,
        .listed_ns = listed_ns,
        .done = done,
        .owner = owner,
    };
    return hr_sealer_start(&options, ret);
}

/* The lister stays until its names are published: to everybody else the tree is being listed until then. */
static void listing_done(void *owner, struct hr_lister *lister, int error, const char *message)
{
    struct hr_plan_tree *tree = owner;
    report_listing(tree, lister);
    if (error < 0) {
        char text[HR_MESSAGE_MAX]; /* the lister's goes with it */
        snprintf(text, sizeof text, "%s", message);
        listing_failed(tree, error, text);
        return;
    }
    struct hr_index_builder *builder = hr_lister_take(lister);
    error = hr_listing_seal(tree, builder, hr_lister_began_ns(lister), sealed, tree, &tree->sealer);
    if (error < 0) {
        hr_builder_free(builder);
        not_written(tree, error);
    }
}

int64_t hr_tree_until_ms(const struct hr_plan_tree *tree, int64_t told_ms)
{
    int64_t keep_s = tree->settings.revalidate_s;
    return keep_s < 0 || keep_s > INT32_MAX ? INT64_MAX : told_ms + keep_s * 1000;
}

/* Only who waits for it has all listed where directories are read one by one. */
static bool may_list(struct hr_plan_tree *tree, const struct hr_asker *asker)
{
    enum hr_list_mode mode = hr_tree_list_mode(tree);
    if (mode == HR_LIST_NONE && asker) {
        hr_tree_say_unlisted(tree);
    }
    return mode == HR_LIST_DIRS ? asker != NULL : mode != HR_LIST_NONE;
}

void hr_listing_want(struct hr_plan_tree *tree, const struct hr_asker *asker)
{
    if (tree->list_file) {
        hr_adopting_want(tree, asker);
        return;
    }
    if (!tree->lister && !may_list(tree, asker)) {
        hr_answer_error(asker, -EACCES);
        return;
    }
    if (!tree->lister) {
        if (hr_clock_ms() < tree->list_error_until_ms) {
            hr_answer_error(asker, tree->list_error);
            return;
        }
        struct hr_lister_options options = {
            .store = tree->store,
            .prefix = tree->shared->prefix,
            .prefix_len = tree->shared->prefix_len,
            .filter = tree->filter,
            .scratch_dir = tree->plan->index_dir,
            .lanes = tree->list_plain ? 1 : tree->plan->options.list_lanes,
            .hurry = atomic_load_explicit(&tree->shared->gen, memory_order_relaxed) == 0,
            .done = listing_done,
            .more = listing_goes_on,
            .owner = tree,
        };
        tree->list_long = false;
        tree->list_beside = 0;
        int error = hr_lister_start(&options, &tree->lister);
        if (error < 0) {
            hr_answer_error(asker, error);
            return;
        }
    }
    if (asker) {
        hr_waiters_add(&tree->list_waiters, asker);
    }
}

uint64_t hr_listing_again(struct hr_plan_tree *tree)
{
    bool running = tree->lister || (tree->list_file && tree->adopting);
    uint64_t ends = tree->list_end.count + 1 + running; /* what runs began before now */
    tree->list_again = running;
    tree->list_error_until_ms = 0;
    if (!running) {
        struct hr_asker nobody = hr_asker_nobody();
        hr_listing_want(tree, &nobody);
    }
    return ends;
}

void hr_listing_by_names(struct hr_plan_tree *tree)
{
    enum hr_list_mode mode = hr_tree_list_mode(tree);
    if (tree->distinct_names >= HR_LIST_AFTER_NAMES && !tree->index.names && !tree->plan->ending &&
        (mode == HR_LIST_AUTO || mode == HR_LIST_ALL)) {
        hr_listing_want(tree, NULL);
    }
}
