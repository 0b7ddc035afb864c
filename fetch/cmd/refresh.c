/* `headrace refresh`: lists again, waits, and says what is other than before. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fetch/cmd/cmd.h"
#include "fetch/cmd/named.h"

#define WAIT_MS 50 /* between a listing that was under way already and ours */

extern char **environ;

/* ---- what is other ---- */

struct difference {
    uint64_t added, removed, changed;
};

static uint64_t files_of(const struct hr_index *index, uint32_t entry)
{
    if (index->entries[entry].kind == HR_KIND_FILE) {
        return 1;
    }
    uint64_t files = 0;
    uint32_t end = hr_index_end(index, entry);
    for (uint32_t at = hr_index_child(index, entry, 0); at > 0 && at < end; at++) {
        files += index->entries[at].kind == HR_KIND_FILE;
    }
    return files;
}

static bool same_object(const struct hr_index *old, uint32_t a, const struct hr_index *fresh, uint32_t b)
{
    char was[HR_INDEX_ETAG_MAX + 1], is[HR_INDEX_ETAG_MAX + 1];
    const struct hr_entry *before = &old->entries[a], *after = &fresh->entries[b];
    if (before->size != after->size) {
        return false;
    }
    if (hr_index_etag(old, a, was, sizeof was) > 0 && hr_index_etag(fresh, b, is, sizeof is) > 0) {
        return strcmp(was, is) == 0;
    }
    return before->mtime_ns == after->mtime_ns;
}

static int compare_names(const struct hr_index *old, uint32_t a, const struct hr_index *fresh, uint32_t b)
{
    uint32_t a_len, b_len;
    const char *a_name = hr_index_name(old, a, &a_len), *b_name = hr_index_name(fresh, b, &b_len);
    int order = memcmp(a_name, b_name, a_len < b_len ? a_len : b_len);
    return order ? order : (a_len > b_len) - (a_len < b_len);
}

/* Children are sorted in both; a key of 1024 bytes bounds the depth. */
static void compare_dirs(const struct hr_index *old, uint32_t a_dir, const struct hr_index *fresh,
                         uint32_t b_dir, struct difference *sum)
{
    uint32_t a_count = hr_index_child_count(old, a_dir), b_count = hr_index_child_count(fresh, b_dir);
    for (uint32_t i = 0, j = 0; i < a_count || j < b_count;) {
        uint32_t a = i < a_count ? hr_index_child(old, a_dir, i) : 0;
        uint32_t b = j < b_count ? hr_index_child(fresh, b_dir, j) : 0;
        int order = !a ? 1 : !b ? -1 : compare_names(old, a, fresh, b);
        bool same_kind = order == 0 && old->entries[a].kind == fresh->entries[b].kind;
        if (same_kind && old->entries[a].kind == HR_KIND_DIR) {
            compare_dirs(old, a, fresh, b, sum);
        } else if (same_kind) {
            sum->changed += !same_object(old, a, fresh, b);
        } else {
            sum->removed += order <= 0 ? files_of(old, a) : 0;
            sum->added += order >= 0 ? files_of(fresh, b) : 0;
        }
        i += order <= 0;
        j += order >= 0;
    }
}

/* ---- the command ---- */

struct refreshed {
    const struct hr_job *job;
    uint32_t tree;
    const char *what; /* for people */
    uint64_t ends;
    struct named_index old;
};

static int begin(struct refreshed *refreshed, char message[HR_MESSAGE_BYTES])
{
    json_t *state = NULL, *answer = NULL;
    int error = named_state(refreshed->job, refreshed->tree, false, &state, message);
    if (error == 0) { /* gone since: then there is nothing to compare with */
        (void)named_index_map(json_string_value(json_object_get(state, "index")), &refreshed->old);
    }
    json_decref(state);
    if (error == 0) {
        error = hr_client_ask(refreshed->job, true,
                              json_pack("{s:s, s:I}", "op", "refresh", "tree", (json_int_t)refreshed->tree),
                              &answer, message);
        refreshed->ends = (uint64_t)json_integer_value(json_object_get(answer, "ends"));
    }
    json_decref(answer);
    return error;
}

static void tell(const struct refreshed *refreshed, const struct named_index *fresh)
{
    struct difference sum = {0};
    unsigned long long objects = fresh->index.names->file_count;
    if (!refreshed->old.index.names) {
        printf("%s: %llu objects, listed for the first time\n", refreshed->what, objects);
        return;
    }
    compare_dirs(&refreshed->old.index, 0, &fresh->index, 0, &sum);
    printf("%s: %llu added, %llu removed, %llu changed; %llu objects\n", refreshed->what,
           (unsigned long long)sum.added, (unsigned long long)sum.removed, (unsigned long long)sum.changed,
           objects);
}

static int end(struct refreshed *refreshed, char message[HR_MESSAGE_BYTES])
{
    uint64_t expected = refreshed->old.index.names ? refreshed->old.index.names->file_count : 0;
    uint64_t ends = 0;
    json_t *state = NULL;
    int error = 0;
    for (;;) {
        error = named_wait(refreshed->job, refreshed->tree, "listing", expected, &state, message);
        ends = (uint64_t)json_integer_value(json_object_get(state, "list_ends"));
        if (error < 0 || ends >= refreshed->ends) {
            break;
        }
        json_decref(state);
        state = NULL;
        usleep(WAIT_MS * 1000);
    }
    if (error == 0) {
        error = -(int)json_integer_value(json_object_get(state, "list_error"));
        snprintf(message, HR_MESSAGE_BYTES, "%s", json_string_value(json_object_get(state, "list_message")));
    }
    struct named_index fresh = {.base = NULL};
    if (error == 0) {
        error = named_index_map(json_string_value(json_object_get(state, "index")), &fresh);
        snprintf(message, HR_MESSAGE_BYTES, "%s", strerror(-error));
    }
    if (error == 0 && fresh.index.names) {
        tell(refreshed, &fresh);
    }
    named_index_unmap(&fresh);
    json_decref(state);
    return error;
}

/* All begin before the first is waited for. */
static int refresh(struct refreshed *all, unsigned count)
{
    int failed = 0, begun[HR_MAPS_MAX] = {0};
    char message[HR_MESSAGE_BYTES];
    for (unsigned i = 0; i < count; i++) {
        begun[i] = begin(&all[i], message);
        if (begun[i] < 0) {
            hr_complain("%s: %s", all[i].what, message);
            failed = begun[i];
        }
    }
    for (unsigned i = 0; i < count; i++) {
        int error = begun[i] < 0 ? 0 : end(&all[i], message);
        if (error < 0) {
            hr_complain("%s: %s", all[i].what, message);
            failed = error;
        }
        named_index_unmap(&all[i].old);
    }
    return failed;
}

static int refresh_all(void)
{
    char message[HR_MESSAGE_BYTES];
    struct hr_job job;
    uint32_t trees[HR_MAPS_MAX];
    struct refreshed all[HR_MAPS_MAX];
    int error = hr_job_load(&job, environ, NULL, 0, false, message);
    if (error == 0 && job.maps->count == 0) {
        snprintf(message, sizeof message, "HEADRACE_MAP is not set");
        error = -ENOENT;
    }
    error = error == 0 ? hr_client_attach(&job, trees, NULL, message) : error;
    if (error < 0) {
        hr_complain("%s", message);
    }
    unsigned count = error == 0 ? job.maps->count : 0;
    for (unsigned i = 0; i < count; i++) {
        all[i] = (struct refreshed){.job = &job, .tree = trees[i], .what = job.maps->map[i].path};
    }
    error = count > 0 ? refresh(all, count) : error;
    hr_job_free(&job);
    return error;
}

static int refresh_one(const char *arg)
{
    char message[HR_MESSAGE_BYTES];
    struct target target;
    int error = target_load(&target, arg, false, message);
    if (error < 0) {
        hr_complain_of(arg, message);
    } else {
        struct refreshed one = {.job = &target.job, .tree = target.tree, .what = arg};
        error = refresh(&one, 1);
    }
    target_release(&target);
    return error;
}

int hr_cmd_refresh(int argc, char **argv)
{
    int failed = 0;
    if (argc > 0 && argv[0][0] == '-') {
        return hr_usage("refresh");
    }
    if (argc == 0) {
        failed = refresh_all() < 0;
    }
    for (int i = 0; i < argc; i++) {
        failed |= refresh_one(argv[i]) < 0;
    }
    return failed ? HR_EXIT_FAILED : 0;
}
