#include "fetch/list/lanes.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/list/lanes_inside.h"
#include "interpose/index.h"

#define SURPLUS_GROWTH 6.0 /* what comes unexpectedly goes on for so many times as long */
#define FIRST_PAGES 2u     /* of so few pages all is unexpected but what they tell themselves: */
#define FIRST_TIMES 8.0    /* of at most so many times as much */
#define END_PART 8u        /* the last of so many parts of a page tells where it ends, */
#define END_TIMES 4.0      /* when it has so many times as much as it may: it is few keys */
#define FORK_PART 16u      /* and of so many, how its keys branch there */
#define LEARN_PAGES 128u   /* pages that are learned from whole; then one in LEARN_EVERY */
#define PLACE_PAGES 2.0    /* so many pages tell by place how much is left, */
#define PLACE_MOST 4.0     /* at most so many times as much as came */
#define LEARN_EVERY 4u
#define PAGE_KEYS_GUESS 1000.0 /* S3's page, until one has come */

/* ---- beginning and end ---- */

int hr_list_lanes_new(uint32_t prefix_len, unsigned width, bool hurry, struct hr_list_lanes **ret)
{
    struct hr_list_lanes *lanes = calloc(1, sizeof(*lanes));
    if (lanes == NULL) {
        return -ENOMEM;
    }
    hr_ladder_init(&lanes->ladder, prefix_len);
    lanes->hurry = hurry;
    lanes->answers = 1;
    lanes->width_max = width > 0 ? width : 1;
    lanes->width = lanes->width_max;
    lanes->lane_room = lanes->width_max;
    lanes->probe_room = lanes->width_max > 1 ? PROBES_FIRST + PROBES_A_LANE * lanes->width_max : 1;
    lanes->lanes = calloc(lanes->lane_room, sizeof(*lanes->lanes));
    lanes->probes = calloc(lanes->probe_room, sizeof(*lanes->probes));
    lanes->page_keys = PAGE_KEYS_GUESS;
    struct lane *first = lanes->lanes;
    if (first != NULL) {
        first->gaps = calloc(4, sizeof(*first->gaps));
        first->gap_room = 4;
        first->gap_count = 1;
        first->used = true;
        first->left = INFINITY;
        first->seam_before = first->seam_behind = UINT32_MAX;
    }
    lanes->lane_count = 1;
    if (first == NULL || first->gaps == NULL || lanes->probes == NULL) {
        if (first != NULL && first->gaps == NULL) {
            first->gap_count = 0;
        }
        hr_list_lanes_free(lanes);
        return -ENOMEM;
    }
    *ret = lanes;
    return 0;
}

void hr_list_lanes_free(struct hr_list_lanes *lanes)
{
    if (lanes == NULL) {
        return;
    }
    for (uint32_t i = 0; lanes->lanes != NULL && i < lanes->lane_room; i++) {
        hr_lane_release(&lanes->lanes[i]);
    }
    for (uint32_t i = 0; lanes->probes != NULL && i < lanes->probe_room; i++) {
        free(lanes->probes[i].cut.at);
    }
    hr_folders_release(&lanes->folders);
    free(lanes->lanes);
    free(lanes->probes);
    free(lanes->seams);
    free(lanes);
}

bool hr_list_lanes_done(const struct hr_list_lanes *lanes)
{
    return lanes->lane_count == 0;
}

void hr_list_lanes_progress(const struct hr_list_lanes *lanes, struct hr_list_lanes_progress *ret)
{
    *ret = lanes->progress;
}

void hr_list_lanes_throttled(struct hr_list_lanes *lanes)
{
    lanes->clean = 0;
    if (lanes->deaf == 0) {
        lanes->deaf = (unsigned)lanes->width;
        lanes->width = lanes->width > 2 ? lanes->width / 2 : 1;
    }
}

/* ---- asking ---- */

/* As far as is known the lane stands at its end. A page would tell that, too, and bring the next lane's keys
 * once more. */
static bool at_its_end(struct hr_list_lanes *lanes, const struct lane *lane)
{
    return lanes->pages_in > EARLY_PAGES && lane->begun && !lane->tail && lane->upto.at != NULL &&
           lanes->probe_count < lanes->probe_room && hr_lane_keys(lanes, lane) < TAIL_PART * lanes->page_keys;
}

static int ask_page(struct hr_list_lanes *lanes, struct hr_list_lanes_ask *ret)
{
    if (lanes->progress.listing >= (unsigned)lanes->width) {
        return 0;
    }
    for (uint32_t i = 0; i < lanes->lane_room; i++) {
        struct lane *lane = &lanes->lanes[i];
        if (lane->used && !lane->asked) {
            lane->asked = true;
            if (at_its_end(lanes, lane)) {
                lane->tail = true;
                return hr_lanes_send_probe(lanes, hr_lane_view(lane->gaps[0].cut), i, ret);
            }
            lanes->progress.pages++;
            if (++lanes->progress.listing > lanes->progress.listing_max) {
                lanes->progress.listing_max = lanes->progress.listing;
            }
            *ret = (struct hr_list_lanes_ask){
                .lane = i, .turn = lane->turn, .after = hr_lane_view(lane->gaps[0].cut)};
            return 1;
        }
    }
    return 0;
}

int hr_list_lanes_next(struct hr_list_lanes *lanes, struct hr_list_lanes_ask *ret)
{
    int rc = hr_lanes_guess(lanes);
    rc = rc < 0 ? rc : ask_page(lanes, ret);
    if (rc != 0) {
        return rc;
    }
    if (hr_folders_next(lanes, ret)) {
        return 1;
    }
    rc = hr_folders_cut(lanes);
    while (rc == 0 && lanes->pages_in > 0 && lanes->lane_count < (unsigned)lanes->width &&
           lanes->lane_count > 0) {
        rc = hr_lanes_steal(lanes);
        if (rc <= 0) {
            break;
        }
        rc = ask_page(lanes, ret);
    }
    return rc != 0 ? rc : hr_lanes_next_probe(lanes, ret);
}

/* ---- answers ---- */

static int see(struct hr_list_lanes *lanes, uint32_t number, int side, struct hr_key key)
{
    if (number == UINT32_MAX) {
        return 0;
    }
    struct seam *seam = &lanes->seams[number];
    seam->seen[side] = key.at != NULL ? hr_index_hash_seeded(1, key.at, key.len) : 0;
    seam->known[side] = true;
    return seam->known[0] && seam->known[1] && seam->seen[0] != seam->seen[1] ? -EPROTO : 0;
}

static struct hr_key listed_key(const struct hr_listed *listed)
{
    return (struct hr_key){listed->key, listed->key_len};
}

static void learn(struct hr_list_lanes *lanes, const struct lane *lane, const struct hr_listed *listed,
                  uint32_t count)
{
    if (lanes->pages_in > LEARN_PAGES && lanes->pages_in % LEARN_EVERY != 0) {
        return;
    }
    struct hr_key before = lane->begun ? hr_lane_view(lane->gaps[0].first) : (struct hr_key){NULL, 0};
    for (uint32_t i = 0; i < count; i++) {
        struct hr_key key = listed_key(&listed[i]);
        if (before.at != NULL) {
            hr_ladder_neighbours(&lanes->ladder, before, key);
        } else {
            hr_ladder_seen(&lanes->ladder, before, key);
        }
        hr_folders_learn(lanes, before, key);
        before = key;
    }
}

static void finish_lane(struct hr_list_lanes *lanes, struct lane *lane)
{
    hr_lane_release(lane);
    lanes->lane_count--;
}

static void widen(struct hr_list_lanes *lanes)
{
    lanes->deaf -= lanes->deaf > 0;
    if (lanes->width < lanes->width_max && ++lanes->clean >= (unsigned)lanes->width) {
        lanes->clean = 0;
        lanes->width += 1;
    }
}

/* Keys that the picture did not know of, on the way of a page and at its end. */
static double unexpected(struct hr_list_lanes *lanes, const struct lane *lane, const struct hr_listed *listed,
                         uint32_t take)
{
    struct hr_key last = listed_key(&listed[take - 1]);
    struct hr_key from = lane->begun ? hr_lane_view(lane->gaps[0].first) : listed_key(&listed[0]);
    struct hr_key near = listed_key(&listed[take - take / END_PART - 1]);
    double factor = 2 * hr_lane_correction(lanes, lane);
    double whole = take - factor * hr_lanes_between(lanes, from, last);
    double end = take / END_PART - END_TIMES * factor * hr_lanes_between(lanes, near, last);
    return whole > END_PART * end ? whole : END_PART * end;
}

/* What was expected of the way that a page took, against what came. The lane goes on like that at most as
 * far as its place in the range allows; where that was too little once, so much further. */
static void compare_guess(struct hr_list_lanes *lanes, struct lane *lane, const struct hr_listed *listed,
                          uint32_t take)
{
    struct hr_key first = listed_key(&listed[0]);
    struct hr_key last = listed_key(&listed[take - 1]);
    struct hr_key upto = hr_lane_view(lane->upto);
    double over = unexpected(lanes, lane, listed, take);
    double by_page = take * hr_ladder_way(&lanes->ladder, first, last, upto);

    lane->came += take;
    double by_lane = lane->came * hr_ladder_way(&lanes->ladder, hr_lane_view(lane->start), last, upto);
    lane->beyond += take > lane->left ? take - lane->left : 0;
    lane->left = by_page > by_lane ? by_page : by_lane;
    double most = lane->left + SURPLUS_GROWTH * lane->beyond;
    double idle = lanes->width / lanes->lane_count;
    double surplus = over > 0 ? lane->surplus + SURPLUS_GROWTH * idle * over : lane->surplus / 2;
    double told = FIRST_TIMES * lanes->page_keys * (double)lanes->pages_in;
    most = lanes->pages_in <= FIRST_PAGES && told < most ? told : most;
    lane->surplus = surplus < most ? surplus : most;
    lane->guessed += hr_lanes_between(lanes, lane->begun ? hr_lane_view(lane->gaps[0].first) : first, last);
    lane->listed += take;
}

/* In the end place counts as much as the picture: a lane that is thought to be done is helped by nobody.
 * */
static void compare_place(struct hr_list_lanes *lanes, struct lane *lane)
{
    if (!lanes->late || lane->came < PLACE_PAGES * lanes->page_keys) {
        return;
    }
    double by_lane = lane->came * hr_ladder_way(&lanes->ladder, hr_lane_view(lane->start),
                                                hr_lane_view(lane->gaps[0].first), hr_lane_view(lane->upto));
    double most = PLACE_MOST * lane->came;
    double missing = (by_lane < most ? by_lane : most) - hr_lane_keys(lanes, lane);
    lane->surplus += missing > 0 ? missing : 0;
}

/* A page that does not end the lane. */
static int move_lane(struct hr_list_lanes *lanes, struct lane *lane, const struct hr_listed *listed,
                     uint32_t take)
{
    struct hr_key last = listed_key(&listed[take - 1]);
    int rc = lane->start.at == NULL ? hr_lane_copy(listed_key(&listed[0]), &lane->start) : 0;
    if (rc < 0) {
        return rc;
    }
    lane->fork = hr_key_shared(listed_key(&listed[take - take / FORK_PART - 1]), last);
    hr_ladder_seen(&lanes->ladder, (struct hr_key){NULL, 0}, last);
    bool first = lanes->pages_in <= FIRST_PAGES;
    if (first) {
        learn(lanes, lane, listed, take);
    }
    compare_guess(lanes, lane, listed, take);
    if (!first) {
        learn(lanes, lane, listed, take);
    }
    rc = hr_lane_advance(lane, last);
    lanes->answers++;
    if (rc == 0) {
        compare_place(lanes, lane);
    }
    return rc;
}

bool hr_list_lanes_waits(const struct hr_list_lanes *lanes, const struct hr_list_lanes_ask *ask)
{
    const struct lane *lane = &lanes->lanes[ask->lane];
    return ask->probe || ask->folders || (lane->used && lane->asked && lane->turn == ask->turn);
}

/* The lane whose range begins at `border` and of which nothing came yet; NULL: none. */
static struct lane *not_begun(struct hr_list_lanes *lanes, struct hr_key border)
{
    for (uint32_t i = 0; i < lanes->lane_room && border.at != NULL; i++) {
        struct lane *lane = &lanes->lanes[i];
        if (lane->used && !lane->begun && hr_key_compare(hr_lane_view(lane->gaps[0].cut), border) == 0) {
            return lane;
        }
    }
    return NULL;
}

/* Keys up to the end of the range, of those that came. */
static uint32_t upto_end(struct hr_key upto, const struct hr_listed *listed, uint32_t count)
{
    while (count > 0 && upto.at != NULL && hr_key_compare(listed_key(&listed[count - 1]), upto) > 0) {
        count--;
    }
    return count;
}

/* A page that goes on through all of the next range has done its lane's work: whose answer is late, or whose
 * range is small, is waited for no more. */
static void take_over(struct hr_list_lanes *lanes, struct lane *lane, const struct hr_listed *listed,
                      uint32_t count, bool truncated, uint32_t *take)
{
    struct lane *next;
    while ((next = not_begun(lanes, hr_lane_view(lane->upto))) != NULL) {
        uint32_t more = upto_end(hr_lane_view(next->upto), listed, count);
        if (more == count && truncated) {
            return;
        }
        *take = more;
        free(lane->upto.at);
        lane->upto = next->upto;
        lane->seam_behind = next->seam_behind;
        next->upto = (struct text){NULL, 0};
        lanes->progress.listing -= next->asked;
        finish_lane(lanes, next);
    }
}

int hr_list_lanes_page(struct hr_list_lanes *lanes, uint32_t number, const struct hr_listed *listed,
                       uint32_t count, bool truncated, uint32_t *ret_take)
{
    struct lane *lane = &lanes->lanes[number];
    uint32_t take;
    int rc = 0;

    lane->asked = false;
    lanes->answers++;
    lanes->progress.listing--;
    lanes->pages_in++;
    widen(lanes);
    if (lanes->pages_in == 1 ? count > 0 : count > lanes->page_keys) {
        lanes->page_keys = count;
    }
    take = upto_end(hr_lane_view(lane->upto), listed, count);
    if (!lane->begun) {
        rc = see(lanes, lane->seam_before, 1, count > 0 ? listed_key(&listed[0]) : (struct hr_key){NULL, 0});
    }
    bool over = take < count || !truncated;
    lanes->folders.fresh = true;
    if (rc == 0 && over) {
        take_over(lanes, lane, listed, count, truncated, &take);
        rc = see(lanes, lane->seam_behind, 0,
                 take < count ? listed_key(&listed[take]) : (struct hr_key){NULL, 0});
    }
    if (rc < 0) {
        return rc;
    }
    *ret_take = take;
    lanes->wasted += take < lanes->page_keys ? 1 - take / lanes->page_keys : 0;
    if (over) {
        learn(lanes, lane, listed, take);
        finish_lane(lanes, lane);
        return 0;
    }
    rc = take > 0 ? move_lane(lanes, lane, listed, take) : 0;
    if (rc == 0 && take > 0) {
        rc = hr_folders_wanted(lanes, listed_key(&listed[take - 1]));
    }
    lane->begun = true;
    lane->tail = false;
    return rc;
}

int hr_lane_tail(struct hr_list_lanes *lanes, uint32_t number, struct hr_key key)
{
    struct lane *lane = &lanes->lanes[number];

    lane->asked = false;
    if (key.at != NULL && hr_key_compare(key, hr_lane_view(lane->upto)) <= 0) {
        return 0;
    }
    int rc = see(lanes, lane->seam_behind, 0, key);
    if (rc == 0) {
        finish_lane(lanes, lane);
    }
    return rc;
}
