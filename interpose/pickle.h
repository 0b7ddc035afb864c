/* Is this a DataLoader's index batch? Reads the few pickle opcodes of (batch number, [indices]) and nothing
 * else.
 *
 * torch's main process sends each future batch to a worker as such a tuple through a multiprocessing queue:
 * pickle protocols 2 to 5, ints in any of their forms, numpy's (of samplers that hand out a permutation of
 * its) from protocol 3 on, long lists in several runs; torchdata's StatefulDataLoader sends (number,
 * ([indices], bool)). Pure, async-signal-safe.
 */
#ifndef HR_PICKLE_H
#define HR_PICKLE_H

#include <stddef.h>
#include <stdint.h>

/* How many indices (1..room), or 0: it is something else (also: more than room, a negative or too large
 * index). */
unsigned hr_pickle_batch(const uint8_t *bytes, size_t len, uint64_t *ret_batch, uint32_t *ret_indices,
                         unsigned room);

#endif
