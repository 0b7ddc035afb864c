/* One directory at a time: a LIST with a delimiter, page by page. Where the whole prefix is listed too, its
 * first page goes first: a small prefix costs no request more, and a large one's directories are read beside
 * it. */
#include "fetch/plan/dirs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "config/settings.h"
#include "fetch/base/clock.h"
#include "fetch/list/page.h"
#include "fetch/plan/known_dirs.h"
#include "fetch/plan/names.h"

#define HR_BESIDE_FIRST 2u /* LISTs */
#define HR_BESIDE_PART 4u

struct hr_dir_read {
    struct hr_dir_read *prev, *next;
    struct hr_plan_tree *tree;
    struct hr_waiter *waiters;
    struct hr_call *call; /* NULL: it waits for the first page of the whole prefix */
    struct hr_index_builder *builder;
    struct hr_page_watch watch;
    uint64_t pages;
    int64_t began_ns, began_ms;
    bool anything; /* a key came */
    bool deep;     /* one that lies below another directory: the store ignores the delimiter */
    uint32_t path_len;
    char path[HR_KEY_MAX + 1];
};

/* ---- reading one ---- */

/* The waiters are answered last: whoever asks again from inside gets a read of its own. */
static void end_read(struct hr_dir_read *read, const struct hr_answer *answer)
{
    struct hr_waiter *waiters = read->waiters;
    DL_DELETE(read->tree->dir_reads, read);
    hr_builder_free(read->builder);
    free(read);
    hr_waiters_answer(&waiters, answer);
}

static void end_with_error(struct hr_dir_read *read, int error)
{
    struct hr_answer answer = {.error = error};
    end_read(read, &answer);
}

/* What whole listings bring, it will bring too. */
static void leave_to_listing(struct hr_dir_read *read)
{
    struct hr_waiter **end = &read->tree->list_waiters;
    while (*end) {
        end = &(*end)->next;
    }
    *end = read->waiters;
    read->waiters = NULL;
    end_with_error(read, 0);
}

static void fail(struct hr_dir_read *read, int error, bool denied, const char *message)
{
    struct hr_plan_tree *tree = read->tree;
    if (error == -ECANCELED) {
        end_with_error(read, error);
    } else if (denied) {
        hr_tree_list_refused(tree, message);
        end_with_error(read, -EACCES);
    } else if (tree->lister) {
        leave_to_listing(read);
    } else {
        hr_tree_say(tree, error, message);
        end_with_error(read, error);
    }
}

/* Nothing is below it: an object of that name, or nothing at all. */
static void looked(void *owner, uint32_t ticket, const struct hr_answer *answer)
{
    struct hr_dir_read *read = owner;
    (void)ticket;
    end_with_error(read, answer->error < 0              ? answer->error
                         : answer->kind == HR_KIND_FILE ? -ENOTDIR
                                                        : -ENOENT);
}

static void publish(struct hr_dir_read *read)
{
    struct hr_plan_tree *tree = read->tree;
    struct hr_plan *plan = tree->plan;
    struct hr_index index = {0};
    char text[HR_MESSAGE_MAX];
    uint32_t number = ++plan->dirs.last_number ? plan->dirs.last_number : ++plan->dirs.last_number;
    int error = hr_builder_publish_dir(read->builder, plan->index_dir, tree->id, number, plan->options.boot,
                                       read->began_ns, &index);
    if (error == 0) {
        if (tree->settings.list == HR_LIST_DIRS) { /* else the whole listing tells */
            hr_listing_report_hidden(tree, read->builder);
        }
        if (read->path_len == 0) {
            hr_tree_say_empty(tree, &index);
        }
        error = hr_known_dir_add(tree, read->path, read->path_len, &index, number, read->began_ms);
        if (error < 0) {
            hr_index_remove_dir(plan->index_dir, tree->id, number, plan->options.boot);
            hr_index_unmap(&index);
        }
    }
    if (error < 0) {
        snprintf(text, sizeof text, "cannot write the names of a directory under %.200s: %s", plan->index_dir,
                 strerror(-error));
        fail(read, error, false, text);
        return;
    }
    struct hr_answer answer = {.kind = HR_KIND_DIR, .file_id = number};
    end_read(read, &answer);
}

static void complete(struct hr_dir_read *read)
{
    read->tree->listed = true;
    if (read->anything || read->path_len == 0) {
        publish(read);
        return;
    }
    struct hr_asker asker = {.fn = looked, .owner = read};
    hr_look_ask(read->tree, read->path, read->path_len, &asker);
}

/* A rolled-up prefix is a directory, which a marker makes. */
static int take_names(struct hr_dir_read *read, const struct hr_call *call)
{
    const struct hr_plan_tree *tree = read->tree;
    uint32_t skip = tree->shared->prefix_len;
    int error = 0;
    read->anything = read->anything || call->listed_count + call->prefix_count > 0;
    for (uint32_t i = 0; i < call->listed_count && error == 0; i++) {
        const struct hr_listed *listed = &call->listed[i];
        read->deep =
            read->deep || memchr(listed->key + call->key_len, '/', listed->key_len - call->key_len) != NULL;
        if (hr_filter_admits(tree->filter, listed->key + skip, listed->key_len - skip)) {
            error =
                hr_builder_add(read->builder, listed->key + call->key_len, listed->key_len - call->key_len,
                               listed->size, listed->mtime_ns, listed->etag);
        }
    }
    for (uint32_t i = 0; i < call->prefix_count && error == 0; i++) {
        const struct hr_listed *below = &call->prefixes[i];
        if (below->key_len > call->key_len + 1 && below->key[below->key_len - 1] == '/' &&
            (!tree->filter ||
             hr_filter_admits_below(tree->filter, below->key + skip, below->key_len - skip - 1))) {
            error = hr_builder_add(read->builder, below->key + call->key_len, below->key_len - call->key_len,
                                   0, tree->shared->start_ns, NULL);
        }
    }
    return error;
}

static int send_page(struct hr_dir_read *read, const char *token);

static void page_done(struct hr_call *call)
{
    struct hr_dir_read *read = call->owner;
    char message[HR_PAGE_MESSAGE_BYTES];
    bool more = hr_page_has_more(call);
    int error = call->error;
    bool denied = call->denied;
    read->call = NULL;
    read->pages++;
    snprintf(message, sizeof message, "%s", call->message);
    if (error == 0) {
        error = hr_page_judge_progress(&read->watch, call, read->pages, message);
        read->watch.empty_pages = call->prefix_count > 0 ? 0 : read->watch.empty_pages;
    }
    if (error == 0 && (error = take_names(read, call)) < 0) {
        (void)hr_page_fault(message, read->pages, "%s", strerror(-error));
    }
    if (error == 0 && more && !hr_page_has_token(call)) {
        error = hr_page_fault(message, read->pages,
                              "a directory has more names, but the store gives no continuation token");
    }
    if (error == 0 && more && read->deep && read->tree->lister) {
        error = hr_page_fault(message, read->pages, "the store does not honour the delimiter");
    }
    if (error == 0 && more && (error = send_page(read, call->next_token)) < 0) {
        (void)hr_page_fault(message, read->pages + 1, "cannot ask for it: %s", strerror(-error));
    }
    hr_call_free(call);
    if (read->tree->index.names && !read->call) {
        end_with_error(read, 0); /* the listing was faster, and has answered */
    } else if (error < 0) {
        fail(read, error, denied, message);
    } else if (!more) {
        complete(read);
    }
}

static int send_page(struct hr_dir_read *read, const char *token)
{
    char key[2 * HR_KEY_MAX + 1];
    uint32_t len = hr_tree_key(read->tree, read->path, read->path_len, key);
    if (read->path_len > 0) {
        key[len++] = '/';
    }
    struct hr_call *call = hr_call_new(HR_CALL_LIST, read->tree->store, key, len);
    if (!call) {
        return -ENOMEM;
    }
    call->delimiter = "/";
    call->token = token ? strdup(token) : NULL;
    call->done = page_done;
    call->owner = read;
    call->awaited = true;
    int error = token && !call->token ? -ENOMEM : hr_call_start(call);
    if (error < 0) {
        hr_call_free(call);
        return error;
    }
    read->call = call;
    read->tree->list_beside++;
    return 0;
}

static void start(struct hr_dir_read *read)
{
    int error = hr_builder_new(&read->builder);
    read->began_ns = hr_clock_wall_ns();
    read->began_ms = hr_clock_ms();
    read->watch.seed = hr_random_u64();
    if (error == 0) {
        error = send_page(read, NULL);
    }
    if (error < 0) {
        end_with_error(read, error);
    }
}

/* Beside a listing directories cost at most a quarter of its pages more, and the first two at once. Where all
 * keys so far lie in this directory, the listing is the directory's, by many lanes. */
static bool listing_is_better(const struct hr_dir_read *read)
{
    const struct hr_plan_tree *tree = read->tree;
    struct hr_lister_progress progress;
    if (!tree->lister) {
        return false;
    }
    hr_lister_progress(tree->lister, &progress);
    return !tree->list_long || tree->list_beside >= HR_BESIDE_FIRST + progress.pages / HR_BESIDE_PART ||
           hr_lister_all_in(tree->lister, read->path, read->path_len);
}

/* ---- asking ---- */

static void wait_for(struct hr_plan_tree *tree, const char *path, uint32_t path_len,
                     const struct hr_asker *asker)
{
    struct hr_dir_read *read;
    DL_FOREACH(tree->dir_reads, read)
    {
        if (read->path_len == path_len && memcmp(read->path, path, path_len) == 0) {
            hr_waiters_add(&read->waiters, asker);
            return;
        }
    }
    read = calloc(1, sizeof *read);
    if (!read) {
        hr_answer_error(asker, -ENOMEM);
        return;
    }
    read->tree = tree;
    read->path_len = path_len;
    memcpy(read->path, path, path_len);
    hr_waiters_add(&read->waiters, asker);
    DL_APPEND(tree->dir_reads, read);
    if (!listing_is_better(read)) {
        start(read);
    }
}

void hr_dir_ask(struct hr_plan_tree *tree, const char *path, uint32_t path_len, const struct hr_asker *asker)
{
    enum hr_list_mode mode = hr_tree_list_mode(tree);
    struct hr_known_dir *dir = hr_known_dir_find(tree, path, path_len);
    struct hr_answer answer = {.kind = HR_KIND_DIR};
    struct hr_name name;
    int64_t told_ms;
    if (tree->index.names || dir) {
        if (dir && !tree->index.names) {
            answer.file_id = hr_known_dir_use(dir);
            if (path_len == 0) {
                hr_tree_say_empty(tree, hr_known_dir_index(dir));
            }
        }
        asker->fn(asker->owner, asker->ticket, &answer);
        return;
    }
    if (tree->list_file) {
        hr_listing_want(tree, asker);
        return;
    }
    if (hr_known_dirs_tell(tree, path, path_len, &name, &told_ms) &&
        (name.error < 0 || name.kind == HR_KIND_FILE)) {
        hr_answer_error(asker, name.error < 0 ? name.error : -ENOTDIR);
        return;
    }
    if (mode == HR_LIST_NONE) {
        hr_tree_say_unlisted(tree);
        hr_answer_error(asker, -EACCES);
        return;
    }
    if (mode == HR_LIST_DIRS) {
        wait_for(tree, path, path_len, asker);
        return;
    }
    if (tree->filter) { /* which directories have anything in them only the whole listing tells */
        hr_listing_want(tree, asker);
        return;
    }
    hr_listing_want(tree, NULL);
    bool held_off = !tree->lister && hr_clock_ms() < tree->list_error_until_ms;
    if (held_off && !tree->list_long) {
        hr_answer_error(asker, tree->list_error);
    } else {
        wait_for(tree, path, path_len, asker);
    }
}

void hr_dirs_more(struct hr_plan_tree *tree)
{
    struct hr_dir_read *read, *next;
    tree->list_long = true;
    DL_FOREACH_SAFE(tree->dir_reads, read, next)
    {
        if (!read->call && !read->builder && !listing_is_better(read)) {
            start(read);
        }
    }
}

/* Reads under way come back by themselves: nobody waits for them any more. */
void hr_dirs_listed(struct hr_plan_tree *tree)
{
    struct hr_dir_read *read, *next;
    struct hr_answer answer = {.kind = HR_KIND_DIR};
    hr_known_dirs_forget(tree);
    DL_FOREACH_SAFE(tree->dir_reads, read, next)
    {
        if (read->call) {
            hr_call_cancel(read->call);
        }
        if (read->builder) {
            hr_waiters_answer(&read->waiters, &answer);
        } else {
            end_read(read, &answer);
        }
    }
}

void hr_dirs_unlisted(struct hr_plan_tree *tree, int error)
{
    struct hr_dir_read *read, *next;
    DL_FOREACH_SAFE(tree->dir_reads, read, next)
    {
        if (!read->builder) {
            end_with_error(read, error);
        }
    }
}

void hr_dirs_free(struct hr_plan_tree *tree)
{
    struct hr_dir_read *read, *next;
    DL_FOREACH_SAFE(tree->dir_reads, read, next)
    {
        end_with_error(read, -ECANCELED);
    }
    hr_known_dirs_forget(tree);
}
