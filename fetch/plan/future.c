#include "fetch/plan/future.h"

#include <errno.h>
#include <stdlib.h>

#define WORD_BITS 64u
#define LOOK_POSITIONS 65536u  /* in one go: a millisecond */
#define BESIDE_POSITIONS 1024u /* workers beside each other read so far out of order: 64 of 16 files */

static bool get(const struct hr_future *future, uint32_t index)
{
    return future->needed[index / WORD_BITS] >> index % WORD_BITS & 1;
}

static uint32_t index_at(const struct hr_future *future, uint32_t position)
{
    return future->at(future->order, position);
}

int hr_future_begin(struct hr_future *future)
{
    future->needed = calloc((size_t)future->n / WORD_BITS + 1, sizeof *future->needed);
    if (!future->needed) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < future->length; i++) {
        uint32_t index = index_at(future, i);
        future->needed[index / WORD_BITS] |= UINT64_C(1) << index % WORD_BITS;
    }
    future->read = 0;
    future->near = 0;
    future->far = future->length;
    return 0;
}

void hr_future_end(struct hr_future *future)
{
    free(future->needed);
    future->needed = NULL;
}

void hr_future_read(struct hr_future *future, uint32_t index)
{
    if (index < future->n && get(future, index)) {
        future->needed[index / WORD_BITS] &= ~(UINT64_C(1) << index % WORD_BITS);
        future->read++;
    }
}

bool hr_future_needs(const struct hr_future *future, uint32_t index)
{
    return index < future->n && get(future, index);
}

uint32_t hr_future_distance(const struct hr_future *future)
{
    return future->far > future->read ? future->far - future->read : 0;
}

bool hr_future_find_read(struct hr_future *future, hr_future_there *there, void *owner, uint32_t *ret_index)
{
    uint64_t end = (uint64_t)future->read + BESIDE_POSITIONS;
    uint32_t at = future->near, behind = 0; /* positions from the first on that is not read */
    for (unsigned i = 0; i < LOOK_POSITIONS && at < future->length && at < end; i++, at++) {
        uint32_t index = index_at(future, at);
        bool needed = get(future, index);
        if (!needed && there(owner, index)) {
            *ret_index = index;
            return true;
        }
        behind += needed || behind > 0;
        future->near = behind ? future->near : at + 1;
    }
    if (behind > 0 && future->read > (uint64_t)future->near + BESIDE_POSITIONS) {
        future->near++; /* nobody reads that one: a worker that was left */
    }
    return false;
}

bool hr_future_find_last(struct hr_future *future, hr_future_there *there, void *owner, uint32_t *ret_index)
{
    for (unsigned i = 0; i < LOOK_POSITIONS && future->far > 0; i++) {
        uint32_t index = index_at(future, future->far - 1);
        if (there(owner, index)) {
            *ret_index = index;
            return true;
        }
        future->far--;
    }
    return false;
}
