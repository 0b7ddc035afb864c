#include "fetch/plan/adopting.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fetch/base/clock.h"
#include "fetch/list/textfile.h"
#include "fetch/plan/inner.h"
#include "fetch/plan/names.h"

#define SLICE_BYTES (256u << 10) /* of text, a look at the clock each */
#define SLICE_MS 20              /* of reading, then the loop has its turn: far below a heartbeat */
#define FILES_MAX 4096           /* of one import: S3 Inventory writes one for some millions of keys */

struct hr_adopting {
    struct hr_plan_tree *tree;
    bool import;
    char **paths;
    unsigned path_count, at;
    struct hr_textlist_columns columns;
    bool columns_known;
    int64_t listed_ns;
    struct hr_textfile *file;         /* of paths[at] */
    struct hr_textlist *list;         /* NULL until the first bytes */
    struct hr_index_builder *builder; /* NULL: the sealer's */
    struct hr_sealer *sealer;         /* all is read; it writes the index */
    struct hr_timer timer;
    char *slice;
};

static void close_all(struct hr_adopting *adopting)
{
    hr_loop_disarm(adopting->tree->plan->options.loop, &adopting->timer);
    hr_textfile_close(adopting->file);
    hr_textlist_free(adopting->list);
    hr_sealer_free(adopting->sealer);
    hr_builder_free(adopting->builder);
    for (unsigned i = 0; i < adopting->path_count; i++) {
        free(adopting->paths[i]);
    }
    free(adopting->paths);
    free(adopting->slice);
    free(adopting);
}

void hr_adopting_free(struct hr_plan_tree *tree)
{
    if (tree->adopting) {
        close_all(tree->adopting);
    }
    tree->adopting = NULL;
}

/* ---- the end ---- */

static void note_import(struct hr_plan_tree *tree, int error, const char *message)
{
    tree->import_end.count++;
    tree->import_end.error = error;
    snprintf(tree->import_end.message, sizeof tree->import_end.message, "%s", message);
}

static void imported(struct hr_plan_tree *tree)
{
    note_import(tree, 0, "");
    hr_listing_ended(tree);
}

static void fail(struct hr_adopting *adopting, int error, const char *message)
{
    struct hr_plan_tree *tree = adopting->tree;
    bool import = adopting->import;
    char text[HR_MESSAGE_MAX];
    snprintf(text, sizeof text, "%s%.200s: %s", import ? "" : "list=", adopting->paths[adopting->at],
             message);
    hr_adopting_free(tree);
    hr_log(HR_LOG_ERROR, "%s", text);
    if (import) {
        note_import(tree, error, text);
    } else {
        hr_listing_failed(tree, -EIO, false, text);
    }
}

static void sealed(void *owner, int error, struct hr_index *index, const struct hr_index_builder *builder)
{
    struct hr_adopting *adopting = owner;
    struct hr_plan_tree *tree = adopting->tree;
    bool import = adopting->import;
    struct hr_index made = *index; /* the sealer's goes with it */
    hr_listing_report_hidden(tree, builder);
    hr_sealer_free(adopting->sealer);
    adopting->sealer = NULL;
    error = error == 0 ? hr_listing_replace(tree, &made) : error;
    if (error < 0) {
        fail(adopting, error, strerror(-error));
        return;
    }
    hr_adopting_free(tree);
    if (import) {
        imported(tree);
    } else {
        hr_listing_ended(tree);
    }
}

/* All is read: the names are sealed beside the loop. */
static void finish(struct hr_adopting *adopting)
{
    struct hr_plan_tree *tree = adopting->tree;
    struct hr_textlist_figures figures = {0};
    if (adopting->list) {
        hr_textlist_figures(adopting->list, &figures);
    }
    hr_log(HR_LOG_INFO, "names read file=%s rows=%llu keys=%llu outside=%llu old=%llu unknown=%llu",
           adopting->paths[0], (unsigned long long)figures.rows, (unsigned long long)figures.keys,
           (unsigned long long)figures.outside, (unsigned long long)figures.gone,
           (unsigned long long)figures.unknown);
    if (figures.keys == 0 && (figures.outside > 0 || (adopting->import && figures.rows == 0))) {
        char message[HR_MESSAGE_MAX] = "it holds no rows";
        if (figures.rows > 0) {
            snprintf(message, sizeof message, "none of its %llu rows is of this map, s3://%.64s/%.100s",
                     (unsigned long long)figures.rows, hr_store_bucket(tree->store), tree->shared->prefix);
        }
        fail(adopting, -EXDEV, message); /* the wrong file must not empty a map */
        return;
    }
    tree->read_outside = figures.outside;
    tree->read_gone = figures.gone;
    int error =
        hr_listing_seal(tree, adopting->builder, adopting->listed_ns, sealed, adopting, &adopting->sealer);
    if (error < 0) {
        fail(adopting, error, strerror(-error));
        return;
    }
    adopting->builder = NULL;
}

/* ---- reading ---- */

static int open_next(struct hr_adopting *adopting)
{
    int error = hr_textfile_open(adopting->paths[adopting->at], &adopting->file);
    if (error == 0 && (adopting->listed_ns == 0 ||
                       (adopting->import && hr_textfile_mtime_ns(adopting->file) < adopting->listed_ns))) {
        adopting->listed_ns = hr_textfile_mtime_ns(adopting->file);
    }
    if (error == 0 && !adopting->import) {
        adopting->tree->list_file_bytes = hr_textfile_size(adopting->file);
    }
    return error;
}

static int begin_list(struct hr_adopting *adopting, size_t len)
{
    struct hr_plan_tree *tree = adopting->tree;
    const char *bucket = hr_store_bucket(tree->store);
    if (!adopting->columns_known &&
        !hr_textlist_inventory(adopting->slice, len, bucket, &adopting->columns)) {
        adopting->columns = hr_textlist_plain;
    }
    struct hr_textlist_options options = {.columns = adopting->columns,
                                          .bucket = bucket,
                                          .prefix = tree->shared->prefix,
                                          .prefix_len = tree->shared->prefix_len,
                                          .filter = tree->filter,
                                          .builder = adopting->builder};
    return hr_textlist_new(&options, &adopting->list);
}

/* 1: go on; 0: all has been read; -errno with a message. */
static int read_slice(struct hr_adopting *adopting, char message[HR_TEXTLIST_MESSAGE_BYTES])
{
    int error = adopting->file ? 0 : open_next(adopting);
    int64_t got = error < 0 ? error : hr_textfile_read(adopting->file, adopting->slice, SLICE_BYTES);
    if (got < 0) {
        snprintf(message, HR_TEXTLIST_MESSAGE_BYTES, "%s",
                 got == -EBADMSG  ? "the compressed data is damaged or cut off"
                 : got == -EINVAL ? "it is no regular file"
                                  : strerror((int)-got));
        return (int)got;
    }
    if (got > 0 && !adopting->list) {
        const char *foreign = hr_textlist_foreign(adopting->slice, (size_t)got);
        if (foreign) {
            snprintf(message, HR_TEXTLIST_MESSAGE_BYTES, "%s", foreign);
            return -EOPNOTSUPP;
        }
        error = begin_list(adopting, (size_t)got);
    }
    if (error == 0 && got > 0) {
        error = hr_textlist_feed(adopting->list, adopting->slice, (size_t)got, message);
    }
    if (error == 0 && got < SLICE_BYTES) {
        error = adopting->list ? hr_textlist_end(adopting->list, message) : 0;
        hr_textfile_close(adopting->file);
        adopting->file = NULL;
        if (error == 0 && ++adopting->at == adopting->path_count) {
            adopting->at = 0;
            return 0;
        }
    }
    if (error == -ENOMEM) {
        snprintf(message, HR_TEXTLIST_MESSAGE_BYTES, "out of memory");
    }
    return error < 0 ? error : 1;
}

static void turn(void *owner)
{
    struct hr_adopting *adopting = owner;
    char message[HR_TEXTLIST_MESSAGE_BYTES] = "";
    int64_t until_ms = hr_clock_ms() + SLICE_MS;
    int more;
    do {
        more = read_slice(adopting, message);
    } while (more == 1 && hr_clock_ms() < until_ms);
    if (more == 0) {
        finish(adopting);
    } else if (more < 0) {
        fail(adopting, more, message);
    } else {
        (void)hr_loop_arm(adopting->tree->plan->options.loop, &adopting->timer, 0);
    }
}

static int start(struct hr_plan_tree *tree, const struct hr_import *import, bool is_import)
{
    struct hr_adopting *adopting = calloc(1, sizeof *adopting);
    if (!adopting) {
        return -ENOMEM;
    }
    adopting->tree = tree;
    adopting->import = is_import;
    adopting->timer = (struct hr_timer)HR_TIMER_INIT(turn, adopting);
    adopting->listed_ns = import->listed_ns;
    adopting->columns_known = import->columns != NULL;
    if (import->columns) {
        adopting->columns = *import->columns;
    }
    adopting->paths = calloc(import->file_count, sizeof *adopting->paths);
    adopting->slice = malloc(SLICE_BYTES);
    int error = adopting->paths && adopting->slice ? hr_builder_new(&adopting->builder) : -ENOMEM;
    error = error == 0 ? hr_builder_scratch(adopting->builder, tree->plan->index_dir) : error;
    for (unsigned i = 0; i < import->file_count && error == 0; i++) {
        adopting->paths[i] = strdup(import->files[i]);
        adopting->path_count++;
        error = adopting->paths[i] ? 0 : -ENOMEM;
    }
    if (error == 0) {
        error = hr_loop_arm(tree->plan->options.loop, &adopting->timer, 0);
    }
    if (error < 0) {
        close_all(adopting);
        return error;
    }
    tree->adopting = adopting;
    return 0;
}

bool hr_adopting_sealing(const struct hr_plan_tree *tree)
{
    return tree->adopting && tree->adopting->sealer;
}

/* ---- list=FILE ---- */

bool hr_adopting_stale(const struct hr_plan_tree *tree)
{
    struct stat st;
    if (stat(tree->list_file, &st) < 0) {
        return true; /* reading it will say why */
    }
    int64_t mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    return mtime_ns != tree->index.names->listed_ns ||
           (tree->list_file_bytes && tree->list_file_bytes != (uint64_t)st.st_size);
}

void hr_adopting_want(struct hr_plan_tree *tree, const struct hr_asker *asker)
{
    if (!tree->adopting) {
        const char *file = tree->list_file;
        struct hr_import import = {.files = &file, .file_count = 1};
        int error =
            hr_clock_ms() < tree->list_error_until_ms ? tree->list_error : start(tree, &import, false);
        if (error < 0) {
            hr_answer_error(asker, error);
            return;
        }
    }
    if (asker) {
        hr_waiters_add(&tree->list_waiters, asker);
    }
}

bool hr_adopting_ask(struct hr_plan_tree *tree, enum hr_op op, const char *path, uint32_t path_len,
                     const struct hr_asker *asker)
{
    if (!tree->list_file || tree->index.names || path_len == 0 || (op != HR_OP_LOOK && op != HR_OP_OPEN)) {
        return false;
    }
    struct hr_asker waits;
    int error = hr_later(tree, op, path, path_len, asker, &waits);
    if (error < 0) {
        hr_answer_error(asker, error);
        return true;
    }
    hr_adopting_want(tree, &waits);
    return true;
}

/* ---- imports ---- */

static int check_target(const struct hr_plan_tree *tree, char message[HR_MESSAGE_MAX])
{
    if (!tree) {
        snprintf(message, HR_MESSAGE_MAX, "no such map");
        return -EINVAL;
    }
    if (tree->list_file) {
        snprintf(message, HR_MESSAGE_MAX, "the names of this map come from list=%.200s", tree->list_file);
        return -EINVAL;
    }
    if (tree->adopting) {
        snprintf(message, HR_MESSAGE_MAX, "another import is under way");
        return -EBUSY;
    }
    return 0;
}

int hr_adopting_import(struct hr_plan *plan, uint32_t number, const struct hr_import *import,
                       char ret_message[HR_MESSAGE_MAX])
{
    struct hr_plan_tree *tree = hr_tree_get(plan, number);
    int error = check_target(tree, ret_message);
    if (error < 0) {
        return error;
    }
    error = import->file_count == 0 || import->file_count > FILES_MAX ? -EINVAL : start(tree, import, true);
    if (error < 0) {
        snprintf(ret_message, HR_MESSAGE_MAX, "%s", strerror(-error));
    }
    return error;
}

int hr_adopting_index(struct hr_plan *plan, uint32_t number, int fd, uint64_t offset,
                      char ret_message[HR_MESSAGE_MAX])
{
    struct hr_plan_tree *tree = hr_tree_get(plan, number);
    struct hr_index index = {0};
    int error = check_target(tree, ret_message);
    if (error < 0) {
        return error;
    }
    error = hr_index_import(plan->index_dir, fd, offset, tree->id, tree->next_gen, &index);
    if (error == 0) {
        tree->next_gen++;
        error = hr_listing_replace(tree, &index);
    }
    if (error < 0) {
        snprintf(ret_message, HR_MESSAGE_MAX, "%s",
                 error == -EBADMSG           ? "it is damaged or cut off"
                 : error == -EPROTONOSUPPORT ? HR_ADOPTING_OTHER_VERSION
                                             : strerror(-error));
        return error;
    }
    imported(tree);
    return 0;
}

/* ---- for commands ---- */

int hr_plan_names_state(struct hr_plan *plan, uint32_t number, struct hr_names_state *ret)
{
    const struct hr_plan_tree *tree = hr_tree_get(plan, number);
    if (!tree) {
        return -EINVAL;
    }
    *ret = (struct hr_names_state){
        .listing = tree->lister || (tree->adopting && !tree->adopting->import),
        .importing = tree->adopting && tree->adopting->import,
        .list_ends = tree->list_end.count,
        .list_error = tree->list_end.error,
        .list_message = tree->list_end.message,
        .import_ends = tree->import_end.count,
        .import_error = tree->import_end.error,
        .import_message = tree->import_end.message,
        .outside = tree->read_outside,
        .gone = tree->read_gone,
        .filter_id = tree->filter_id,
    };
    struct hr_textlist_figures figures;
    struct hr_lister_progress progress;
    if (tree->adopting && tree->adopting->list) {
        hr_textlist_figures(tree->adopting->list, &figures);
        ret->keys = figures.keys;
    } else if (tree->lister) {
        hr_lister_progress(tree->lister, &progress);
        ret->keys = progress.keys;
        ret->pages = progress.pages;
        ret->probes = progress.probes;
        ret->lanes = progress.lanes_max;
    }
    const struct hr_names *names = tree->index.names;
    if (names) {
        ret->gen = names->gen;
        ret->objects = names->file_count;
        ret->bytes = names->object_bytes;
        ret->unknown = names->unknown_count;
        ret->listed_ns = names->listed_ns;
        return hr_plan_index_path(plan, number, ret->path, sizeof ret->path);
    }
    return 0;
}

int hr_plan_names_want(struct hr_plan *plan, uint32_t number)
{
    struct hr_plan_tree *tree = hr_tree_get(plan, number);
    if (!tree || plan->ending) {
        return tree ? -ECANCELED : -EINVAL;
    }
    if (!tree->index.names) {
        struct hr_asker nobody = hr_asker_nobody(); /* with whom list=dirs lists all */
        hr_listing_want(tree, &nobody);
    }
    return 0;
}

int hr_plan_names_again(struct hr_plan *plan, uint32_t number, uint64_t *ret_ends)
{
    struct hr_plan_tree *tree = hr_tree_get(plan, number);
    if (!tree || plan->ending) {
        return tree ? -ECANCELED : -EINVAL;
    }
    uint64_t ends = hr_listing_again(tree);
    if (!tree->lister && !tree->adopting && tree->list_end.count < ends) {
        return -EACCES; /* list=none */
    }
    *ret_ends = ends;
    return 0;
}
