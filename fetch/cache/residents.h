/* The shared table of struct hr_resident (interpose/abi.h): which inode of the cache is which object.
 *
 * Owned by the loop's thread; clients read it without locks while it changes. A record of an evicted file
 * stays (flag HR_RESIDENT_EVICTED) because the file may still be open somewhere: until its inode comes again,
 * or until HR_EVICTED_KEPT later evictions (file systems that never reuse an inode number would fill memory).
 */
#ifndef HR_CACHE_RESIDENTS_H
#define HR_CACHE_RESIDENTS_H

#include <stdint.h>

/* More than the descriptors of a big node that are open at once; 4 MiB of records. */
#define HR_EVICTED_KEPT 65536u

struct hr_residents_table;

struct hr_resident_fields {
    uint64_t ino;
    uint64_t size;
    int64_t mtime_ns;
    uint64_t object_ino;
    uint64_t file_id;
    uint32_t object_dev;
    uint32_t nonce;
    uint32_t flags; /* HR_RESIDENT_FACE or 0 */
};

struct hr_residents_options {
    const char *dir; /* must outlive the table */
    uint64_t boot;
    uint64_t expected; /* records to make room for at once */
    /* A new generation is whole and has its name; the old one is marked retired and unlinked after this
     * returns. Not called for the first one. May be NULL. */
    void (*grown)(void *owner, uint32_t gen);
    void *owner;
};

/* Removes every residents file of earlier lives. 0 or -errno. */
int hr_residents_open(const struct hr_residents_options *options, struct hr_residents_table **ret);
void hr_residents_close(
    struct hr_residents_table *table); /* the file stays for living clients; accepts NULL */
/* Makes sure that `more` records can be put; grows when the table gets full. 0, or -errno when it can
 * neither. */
int hr_residents_reserve(struct hr_residents_table *table, uint64_t more);
/* Adds or replaces the record of fields->ino. Room was reserved. */
void hr_residents_put(struct hr_residents_table *table, const struct hr_resident_fields *fields);
void hr_residents_evict(struct hr_residents_table *table, uint64_t ino, uint64_t file_id);
/* Writes the table again under a new generation (its file was removed), with room for `more`. 0 or -errno. */
int hr_residents_renew(struct hr_residents_table *table, uint64_t more);
uint32_t hr_residents_gen(const struct hr_residents_table *table);

#endif
