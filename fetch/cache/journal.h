/* The journal: which objects the cache holds, in append-only segment files cache_dir/records/NNNNNNNN.log.
 *
 * A record is appended after its file has its name; there are no records of removal: at the next start a
 * record whose file is missing or does not match is forgotten, a file without a record is unlinked. A segment
 * ends at the first record that does not decode. So kill -9 at any point loses at most the newest objects,
 * never shows a wrong one.
 *
 * Nothing here or in the object files is fsynced. After a crash of the machine a file may have its name and
 * length and not its bytes, so a record is believed only when it is proven: written since the kernel started
 * (its segment carries the kernel's boot id), or of an epoch whose end was followed by a syncfs
 * (hr_journal_synced). Others are dropped.
 *
 * When more than half of the bytes are of objects that left, the emptiest segment is read, its living records
 * are appended again and it is unlinked: bounded work at each flush. An object knows its segment, a segment
 * does not know its objects: lists of millions would be memory for nothing else. Owned by the loop's thread.
 */
#ifndef HR_CACHE_JOURNAL_H
#define HR_CACHE_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

struct hr_cache;
struct hr_journal;
struct hr_object;
struct hr_record;
struct hr_segment;

/* Takes a record over at start: attaches the object it makes with hr_journal_attach, or leaves it. */
typedef int (*hr_journal_replay_fn)(void *owner, struct hr_journal *journal, struct hr_segment *segment,
                                    const struct hr_record *record, bool other_boot);

/* Reads all segments of the cache's directory, oldest first. The cache must outlive the journal: what its
 * tables hold is what lives. 0, -errno, or replay's first error. */
int hr_journal_open(struct hr_cache *cache, hr_journal_replay_fn replay, void *owner,
                    struct hr_journal **ret);
void hr_journal_close(struct hr_journal *journal); /* flushes; objects may stay attached; accepts NULL */
void hr_journal_attach(struct hr_journal *journal, struct hr_segment *segment, struct hr_object *object);
bool hr_journal_proven(const struct hr_journal *journal, const struct hr_object *object);

/* Records an object at the next flush, in the running epoch. */
void hr_journal_add(struct hr_journal *journal, struct hr_object *object);
void hr_journal_forget(struct hr_journal *journal,
                       struct hr_object *object); /* it left; or was never recorded */
/* Writes what was added. A disk that refuses is tried again at the next flush; after a MiB the records are
 * dropped: then those objects are forgotten at the next start. */
void hr_journal_flush(struct hr_journal *journal);
/* Appends every living record to new segments and unlinks the others (their files may be gone already). */
void hr_journal_rewrite(struct hr_journal *journal);
bool hr_journal_wants_rewrite(
    const struct hr_journal *journal); /* at start: mostly dead, or many small segments */

/* Ends the running epoch and returns its number; false: nothing was recorded in it. The caller then runs
 * syncfs, and when that succeeded tells hr_journal_synced. */
bool hr_journal_epoch_end(struct hr_journal *journal, uint32_t *ret_epoch);
void hr_journal_synced(struct hr_journal *journal, uint32_t epoch);

#endif
