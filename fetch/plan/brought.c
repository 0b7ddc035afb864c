#include "fetch/plan/brought.h"

#include <stdbool.h>
#include <stdlib.h>

#include "interpose/abi.h"

#define HR_BROUGHT_LEAST 1024 /* places */
#define HR_REASON_BITS 3

static uint64_t home(const struct hr_brought *brought, uint64_t file_id)
{
    return hr_mix64(file_id << HR_REASON_BITS >> HR_REASON_BITS) & (brought->room - 1);
}

/* Where it is, or would be. */
static uint64_t seek(const struct hr_brought *brought, uint64_t file_id)
{
    uint64_t at = home(brought, file_id);
    while (brought->places[at] &&
           brought->places[at] >> HR_REASON_BITS != file_id << HR_REASON_BITS >> HR_REASON_BITS) {
        at = (at + 1) & (brought->room - 1);
    }
    return at;
}

static bool grow(struct hr_brought *brought)
{
    struct hr_brought grown = {.room = brought->room ? brought->room * 2 : HR_BROUGHT_LEAST};
    grown.places = calloc(grown.room, sizeof *grown.places);
    if (!grown.places) {
        return false;
    }
    for (uint64_t i = 0; i < brought->room; i++) {
        if (brought->places[i]) {
            grown.places[seek(&grown, brought->places[i] >> HR_REASON_BITS)] = brought->places[i];
        }
    }
    grown.count = brought->count;
    free(brought->places);
    *brought = grown;
    return true;
}

void hr_brought_add(struct hr_brought *brought, uint64_t file_id, unsigned reason)
{
    if (2 * (brought->count + 1) > brought->room && !grow(brought)) {
        return;
    }
    uint64_t at = seek(brought, file_id);
    brought->count += brought->places[at] == 0;
    brought->places[at] = file_id << HR_REASON_BITS | reason;
}

int hr_brought_take(struct hr_brought *brought, uint64_t file_id)
{
    uint64_t at = brought->room ? seek(brought, file_id) : 0;
    if (!brought->room || !brought->places[at]) {
        return -1;
    }
    int reason = (int)(brought->places[at] & ((1u << HR_REASON_BITS) - 1));
    uint64_t hole = at, mask = brought->room - 1;
    /* Those behind that would not be found over the hole move into it. */
    for (uint64_t next = (at + 1) & mask; brought->places[next]; next = (next + 1) & mask) {
        uint64_t wanted = home(brought, brought->places[next] >> HR_REASON_BITS);
        if (((next - wanted) & mask) >= ((next - hole) & mask)) {
            brought->places[hole] = brought->places[next];
            hole = next;
        }
    }
    brought->places[hole] = 0;
    brought->count--;
    return reason;
}

void hr_brought_release(struct hr_brought *brought)
{
    free(brought->places);
    *brought = (struct hr_brought){0};
}
