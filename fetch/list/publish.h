/* Index writer: keys of a listing in -> one sealed names file (interpose/abi.h), with the rules for keys that
 * are no paths. Runs on the caller's thread; CPU only until it writes. */
#ifndef HR_LIST_PUBLISH_H
#define HR_LIST_PUBLISH_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/abi.h"
#include "interpose/index.h"

struct hr_index_builder;

/* Why a key cannot be a path (docs/design.md, names). Each is counted; the first of each kind is kept for a
 * message. The first fault from the left counts; a hidden key makes no directories, a marker makes its own.
 * Not hidden: a marker of no bytes, which is its directory. The key "" (the prefix itself) is the root's
 * marker. */
enum hr_hidden {
    HR_HIDDEN_EMPTY_PART, /* "a//b", leading '/' */
    HR_HIDDEN_DOT_PART,   /* a part "." or ".." */
    HR_HIDDEN_LONG_PART,  /* a part over 255 bytes, or a key over HR_KEY_MAX */
    HR_HIDDEN_SHADOWED,   /* object "a" beside "a/b": the directory wins */
    HR_HIDDEN_MARKER, /* key ends in '/' and has bytes: the directory is there, its bytes are not reachable */
    HR_HIDDEN_COUNT
};

int hr_builder_new(struct hr_index_builder **ret);      /* 0 or -ENOMEM */
void hr_builder_free(struct hr_index_builder *builder); /* accepts NULL */
/* From some MiB on keys lie in files without a name in `dir` (mapped, so that the kernel can write out what a
 * large listing holds), and not in memory. Before the first key. 0 or -ENOMEM. */
int hr_builder_scratch(struct hr_index_builder *builder, const char *dir);
/* key is relative to the tree's prefix. Any order; a key given twice keeps the later one. etag without
 * quotes, NULL or "" for none; one over HR_INDEX_ETAG_MAX counts as none. 0, -ENOMEM, -EINVAL (a zero byte in
 * the key, a size over INT64_MAX), -EFBIG (over 2^32 names or 2^40 bytes of names), -ENOSPC (no room for
 * scratch) or what else hr_scratch_grow says. After an error the builder is good for hr_builder_free only. */
int hr_builder_add(struct hr_index_builder *builder, const char *key, uint32_t key_len, uint64_t size,
                   int64_t mtime_ns, const char *etag);
/* As an ETag: nobody knows size, time and ETag (HR_ETAG_UNKNOWN); size and mtime_ns are not looked at. */
extern const char hr_builder_unknown[];
/* Objects added so far that a path can reach; publishing drops duplicates and what a directory shadows. */
uint64_t hr_builder_count(const struct hr_index_builder *builder);
/* Writes dir/TREE-GEN.names (0400) by a private name, posix_fallocate, fsync and rename; then maps it
 * read-only. 0, -ENOSPC (also a quota), -EIO, -ENOMEM, or what the kernel said of index_dir; on failure
 * nothing is left there. The builder has no keys afterwards either way, but still tells what was hidden. A
 * directory's mtime is the newest below it; a root with nothing in it has listed_ns. */
int hr_builder_publish(struct hr_index_builder *builder, const char *index_dir, uint64_t tree_id,
                       uint32_t gen, int64_t listed_ns, struct hr_index *ret_index);
/* The same for the names of one directory, the root of the file: index/TREE-NUMBER-BOOT.dir, gen is the
 * number. It does not outlive the machine. */
int hr_builder_publish_dir(struct hr_index_builder *builder, const char *index_dir, uint64_t tree_id,
                           uint32_t number, uint64_t boot, int64_t listed_ns, struct hr_index *ret_index);
/* Removes such a file; its mappings stay. */
void hr_index_remove_dir(const char *index_dir, uint64_t tree_id, uint32_t number, uint64_t boot);
/* Removes those of all trees and boots, and what was begun. */
void hr_index_sweep_dirs(const char *index_dir);
/* How many so far (HR_HIDDEN_SHADOWED: once published). *ret_example is a key, as bytes, the builder's, or
 * NULL. */
uint64_t hr_builder_hidden(const struct hr_index_builder *builder, enum hr_hidden why,
                           const char **ret_example);

/* Newest sealed generation on disk for a tree: maps it after a look at the header (checksum, version,
 * identity, sizes), O(1); what fails that is removed. The rest is to be checked behind
 * (fetch/list/recheck.h). 0, -ENOENT; -ENOMEM, -EMFILE and the like: could not tell, nothing was removed. */
int hr_index_load(const char *index_dir, uint64_t tree_id, struct hr_index *ret_index);
/* All of a generation on disk: checksums, bounds, order, links. O(n). Stops with -ECANCELED when *stop
 * becomes true. 0; -EBADMSG: damaged; else could not tell. Any thread. */
int hr_index_verify(const char *index_dir, uint64_t tree_id, uint32_t gen, const _Atomic bool *stop);
void hr_index_remove(const char *index_dir, uint64_t tree_id, uint32_t gen);
/* A names file that another daemon made, from `offset` of fd to its end: copied under this tree's name and
 * generation, checked as hr_index_load does, mapped. 0, -EBADMSG (damaged), -EPROTONOSUPPORT (another
 * version's layout), or what the system said; on failure nothing is left. */
int hr_index_import(const char *index_dir, int fd, uint64_t offset, uint64_t tree_id, uint32_t gen,
                    struct hr_index *ret_index);
void hr_index_unmap(struct hr_index *index);
/* Removes all files of a tree except generation `keep` of this boot (states and uses of other boots too,
 * and what an interrupted publish left). Not while another thread publishes this tree. */
void hr_index_sweep(const char *index_dir, uint64_t tree_id, uint32_t keep, uint64_t boot);

/* States and uses of a generation, for one boot: created (posix_fallocate) and mapped read-write by the
 * daemon; all words 0. 0, -ENOSPC, -ENOMEM, or what the kernel said; on failure nothing is left. */
int hr_states_create(const char *index_dir, uint64_t tree_id, uint32_t gen, uint64_t boot,
                     uint64_t entry_count, struct hr_states **ret_states, struct hr_uses **ret_uses);
void hr_states_unmap(struct hr_states *states, struct hr_uses *uses);

#endif
