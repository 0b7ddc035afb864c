/* What the plan knows of names: listings and the indexes that come of them, names that were asked for one by
 * one, directories that were read. Main loop. */
#ifndef HR_PLAN_NAMES_H
#define HR_PLAN_NAMES_H

#include "fetch/plan/inner.h"

/* What is known of a name. */
struct hr_name {
    int error; /* 0 or -errno; the rest is of a name that is there */
    uint32_t kind;
    uint64_t size;
    int64_t mtime_ns;
    char etag[136];
};

/* A name that was asked for before there is an index. */
struct hr_overlay {
    UT_hash_handle hh;
    int error; /* 0 or -errno */
    uint32_t kind;
    uint64_t size;
    int64_t mtime_ns;
    uint64_t file_id; /* 0: not fetched */
    int64_t told_ms, until_ms;
    char etag[136];
    uint32_t path_len;
    char path[];
};

/* listing.c */
int64_t hr_tree_until_ms(const struct hr_plan_tree *tree, int64_t told_ms); /* by `revalidate` */
void hr_listing_report_hidden(struct hr_plan_tree *tree, const struct hr_index_builder *builder);
/* Names of the tree become its next generation's index, beside the loop: as hr_sealer_start. */
int hr_listing_seal(struct hr_plan_tree *tree, struct hr_index_builder *builder, int64_t listed_ns,
                    hr_sealed_fn done, void *owner, struct hr_sealer **ret);
void hr_listing_want(struct hr_plan_tree *tree, const struct hr_asker *asker); /* asker NULL: nobody waits */
/* Gives up what is being listed or sealed. */
void hr_listing_stop(struct hr_plan_tree *tree);
/* Lists anew, from now on, whatever is there. Which end of a listing (list_end.count) it will be. */
uint64_t hr_listing_again(struct hr_plan_tree *tree);
/* Makes index (taken over) the tree's generation, in the place of what is being listed or sealed, which ends
 * without a word. */
int hr_listing_replace(struct hr_plan_tree *tree, struct hr_index *index);
/* The tree has new names, or could not get them: tells who waits. denied: LIST is not allowed. */
void hr_listing_ended(struct hr_plan_tree *tree);
void hr_listing_failed(struct hr_plan_tree *tree, int error, bool denied, const char *message);
/* Enough names were asked for one by one: the whole listing is cheaper. */
void hr_listing_by_names(struct hr_plan_tree *tree);
/* Programs have left this generation, or never had it: forgets it. */
void hr_listing_retire(struct hr_plan_tree *tree);
int hr_listing_adopt(struct hr_plan_tree *tree); /* the index of an earlier life, when it is fresh enough */
bool hr_listing_stale(const struct hr_plan_tree *tree);
/* rechecking.c: all of the index file that was adopted, behind; a damaged one is dropped and listed again. */
void hr_tree_recheck(struct hr_plan_tree *tree);
void hr_tree_recheck_end(struct hr_plan_tree *tree);

/* unlisted.c */
/* What the tree's setting and the store's permissions allow now. */
enum hr_list_mode hr_tree_list_mode(const struct hr_plan_tree *tree);
/* The store does not allow LIST: list=none for a while, with one line. */
void hr_tree_list_refused(struct hr_plan_tree *tree, const char *message);
void hr_tree_say_unlisted(struct hr_plan_tree *tree); /* once: why a directory cannot be read */
/* Its index, or the names of its root, are none: who reads the map's root is told, once for each job. */
void hr_tree_say_empty(struct hr_plan_tree *tree, const struct hr_index *index);

/* look.c */
void hr_look_ask(struct hr_plan_tree *tree, const char *path, uint32_t path_len,
                 const struct hr_asker *asker);
/* later.c: an asker that asks this again once it is answered without an error. It must be answered. 0 or
 * -ENOMEM. */
int hr_later(const struct hr_plan_tree *tree, enum hr_op op, const char *path, uint32_t path_len,
             const struct hr_asker *asker, struct hr_asker *ret);

/* filtered.c: true: answered, or will be. */
bool hr_filtered_ask(struct hr_plan_tree *tree, enum hr_op op, const char *path, uint32_t path_len,
                     const struct hr_asker *asker);
/* True: answers of the store or a directory that was read tell, and are fresh. */
bool hr_name_known(struct hr_plan_tree *tree, const char *path, uint32_t path_len, struct hr_name *ret);
/* It is not what is known of it: asked for anew. */
void hr_name_doubt(struct hr_plan_tree *tree, const char *path, uint32_t path_len);
/* It is not there (any more). */
void hr_name_gone(struct hr_plan_tree *tree, const char *path, uint32_t path_len);
/* The directories that lead to an object which is there: all that list=none knows of directories. */
void hr_name_parents(struct hr_plan_tree *tree, const char *path, uint32_t path_len);
struct hr_overlay *hr_overlay_find(struct hr_plan_tree *tree, const char *path, uint32_t path_len);
struct hr_overlay *hr_overlay_put(struct hr_plan_tree *tree, const char *path, uint32_t path_len);
void hr_overlay_clear(struct hr_plan_tree *tree);
void hr_look_cancel_all(struct hr_plan_tree *tree);

#endif
