/* What lanes ask for, copied, so that a test answers it when it likes; and random numbers of the test's own.
 */
#ifndef HR_TEST_LIST_ASKS_H
#define HR_TEST_LIST_ASKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fetch/list/lanes.h"

#define ASKS_MAX 1024u

struct ask {
    struct hr_list_lanes_ask ask;
    char after[2048];
    char dir[2048];
};

static struct ask asks[ASKS_MAX];

static uint64_t random_state;

static inline uint64_t next_random(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

/* After it was copied. */
static inline void point_inside(struct ask *ask)
{
    ask->ask.after.at = ask->ask.after.at != NULL ? ask->after : NULL;
    ask->ask.dir.at = ask->ask.dir.at != NULL ? ask->dir : NULL;
}

static inline unsigned collect(struct hr_list_lanes *lanes)
{
    struct hr_list_lanes_ask ask;
    unsigned count = 0;
    int rc;

    while ((rc = hr_list_lanes_next(lanes, &ask)) > 0) {
        assert_true(count < ASKS_MAX);
        asks[count].ask = ask;
        if (ask.after.at != NULL) {
            assert_true(ask.after.len < sizeof(asks[count].after));
            memcpy(asks[count].after, ask.after.at, ask.after.len);
        }
        if (ask.dir.at != NULL) {
            assert_true(ask.dir.len < sizeof(asks[count].dir));
            memcpy(asks[count].dir, ask.dir.at, ask.dir.len);
        }
        point_inside(&asks[count]);
        count++;
    }
    assert_int_equal(rc, 0);
    return count;
}

#endif
