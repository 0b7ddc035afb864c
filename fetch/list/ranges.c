/* Ranges of the lanes: how much is left in them, and how they are split. */
#include "fetch/list/lanes_inside.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WASTE_PART 0.25  /* of a listing's pages may bring nothing; */
#define WASTE_A_LANE 0.5 /* so much of a page each lane more costs at its end; */
#define WASTE_FREE 12.0  /* pages that may bring nothing, whatever the size: a round takes longer */
#define TRUST_TIMES 1.5  /* what a lane ran into unexpectedly is believed up to so many times what came */
#define ALWAYS_PAGES 5.0 /* but a range that is pictured as longer is worth two lanes always */
#define SHORT_ROUNDS 8.0 /* a listing of fewer pages a lane is short: */
#define STEAL_SHORT 1.5  /* a range of fewer pages is left to its lane there */
#define GUESSES 16u      /* ranges that begin at guessed strings, */
#define GUESS_PAGES 0.6  /* so many pages each, as far as is known */
#define SPARE_PART 0.5   /* so much better must a cut halve that makes one page more, */
#define SPARE_PAGES 8.0  /* in a range of fewer pages: of more no guess is that good */

int hr_lane_copy(struct hr_key key, struct text *ret)
{
    struct text made = {.len = key.len};
    if (key.at != NULL) {
        made.at = malloc((size_t)key.len + 1);
        if (made.at == NULL) {
            return -ENOMEM;
        }
        memcpy(made.at, key.at, key.len);
        made.at[key.len] = '\0';
    }
    free(ret->at);
    *ret = made;
    return 0;
}

static void gap_release(struct gap *gap)
{
    free(gap->cut.at);
    free(gap->first.at);
    free(gap->empty.at);
    *gap = (struct gap){.probing = 0};
}

void hr_lane_release(struct lane *lane)
{
    for (uint32_t i = 0; i < lane->gap_count; i++) {
        gap_release(&lane->gaps[i]);
    }
    free(lane->gaps);
    free(lane->upto.at);
    free(lane->start.at);
    *lane = (struct lane){.used = false};
}

/* ---- how much is left ---- */

struct hr_key hr_lane_gap_end(const struct lane *lane, uint32_t number)
{
    if (lane->gaps[number].empty.at != NULL) {
        return hr_lane_view(lane->gaps[number].empty);
    }
    return number + 1 < lane->gap_count ? hr_lane_view(lane->gaps[number + 1].cut) : hr_lane_view(lane->upto);
}

/* How far off the guesses have been where this lane went. */
double hr_lane_correction(const struct hr_list_lanes *lanes, const struct lane *lane)
{
    double doubt = 2 * lanes->page_keys;
    double factor = (lane->listed + doubt) / (lane->guessed + doubt);
    return factor < 0.1 ? 0.1 : factor > 50 ? 50 : factor;
}

double hr_lane_gap_keys(struct hr_list_lanes *lanes, const struct lane *lane, uint32_t number)
{
    struct gap *gap = &lane->gaps[number];
    struct hr_key end = hr_lane_gap_end(lane, number);
    if (gap->first.at == NULL || (end.at != NULL && hr_key_compare(hr_lane_view(gap->first), end) >= 0)) {
        return 0;
    }
    if (gap->answers != lanes->answers) { /* only what comes changes the guess */
        gap->keys = hr_lanes_between(lanes, hr_lane_view(gap->first), end);
        gap->answers = lanes->answers;
    }
    return gap->keys * hr_lane_correction(lanes, lane) + lane->surplus / lane->gap_count;
}

double hr_lane_keys(struct hr_list_lanes *lanes, const struct lane *lane)
{
    double sum = 0;
    for (uint32_t i = 0; i < lane->gap_count; i++) {
        sum += hr_lane_gap_keys(lanes, lane, i);
    }
    return sum;
}

double hr_lanes_keys(struct hr_list_lanes *lanes)
{
    double sum = 0;
    for (uint32_t i = 0; i < lanes->lane_room; i++) {
        sum += lanes->lanes[i].used ? hr_lane_keys(lanes, &lanes->lanes[i]) : 0;
    }
    return sum;
}

/* ---- gaps ---- */

/* The lane and gap that a string lies in: behind the cut, up to the next. */
struct lane *hr_lane_find(struct hr_list_lanes *lanes, struct hr_key at, uint32_t *ret_gap)
{
    for (uint32_t i = 0; i < lanes->lane_room; i++) {
        struct lane *lane = &lanes->lanes[i];
        if (!lane->used ||
            (lane->gaps[0].cut.at != NULL && hr_key_compare(hr_lane_view(lane->gaps[0].cut), at) >= 0) ||
            (lane->upto.at != NULL && hr_key_compare(at, hr_lane_view(lane->upto)) >= 0)) {
            continue;
        }
        uint32_t gap = lane->gap_count - 1;
        while (gap > 0 && hr_key_compare(hr_lane_view(lane->gaps[gap].cut), at) >= 0) {
            gap--;
        }
        *ret_gap = gap;
        return lane;
    }
    return NULL;
}

int hr_lane_insert_gap(struct lane *lane, uint32_t at, struct hr_key cut, struct hr_key first)
{
    if (lane->gap_count == lane->gap_room) {
        uint32_t room = lane->gap_room * 2 + 4;
        void *grown = reallocarray(lane->gaps, room, sizeof(*lane->gaps));
        if (grown == NULL) {
            return -ENOMEM;
        }
        lane->gaps = grown;
        lane->gap_room = room;
    }
    struct gap made = {.probing = 0};
    if (hr_lane_copy(cut, &made.cut) < 0 || hr_lane_copy(first, &made.first) < 0) {
        gap_release(&made);
        return -ENOMEM;
    }
    made.empty = lane->gaps[at].empty;
    lane->gaps[at].empty = (struct text){NULL, 0};
    lane->gaps[at].answers = 0;
    memmove(lane->gaps + at + 2, lane->gaps + at + 1, (lane->gap_count - at - 1) * sizeof(*lane->gaps));
    lane->gaps[at + 1] = made;
    lane->gap_count++;
    return 0;
}

/* The lane stands behind `key` now. */
int hr_lane_advance(struct lane *lane, struct hr_key key)
{
    struct gap *gap = &lane->gaps[0];
    uint32_t passed = 0;

    while (passed + 1 < lane->gap_count &&
           hr_key_compare(hr_lane_view(lane->gaps[passed + 1].cut), key) <= 0) {
        passed++;
    }
    for (uint32_t i = 0; i < passed; i++) {
        gap_release(&lane->gaps[i]);
    }
    lane->gap_count -= passed;
    memmove(lane->gaps, lane->gaps + passed, lane->gap_count * sizeof(*lane->gaps));
    gap->solid = false;
    int rc = hr_lane_copy(key, &gap->cut);
    return rc < 0 ? rc : hr_lane_copy(key, &gap->first);
}

/* ---- stealing ---- */

static int new_seam(struct hr_list_lanes *lanes, uint32_t *ret)
{
    if (lanes->seam_count == lanes->seam_room) {
        uint32_t room = lanes->seam_room * 2 + 64;
        void *grown = reallocarray(lanes->seams, room, sizeof(*lanes->seams));
        if (grown == NULL) {
            return -ENOMEM;
        }
        lanes->seams = grown;
        lanes->seam_room = room;
    }
    lanes->seams[lanes->seam_count] = (struct seam){.known = {false}};
    *ret = lanes->seam_count++;
    return 0;
}

/* The cut that leaves about half of the lane's keys on each side, in pages that are full; 0: none is worth
 * it. */
static uint32_t middle_gap(struct hr_list_lanes *lanes, const struct lane *lane)
{
    double page = lanes->page_keys;
    double total = hr_lane_keys(lanes, lane);
    double before = 0;
    double best = 0;
    uint32_t pick = 0;
    for (uint32_t i = 1; i < lane->gap_count; i++) {
        before += hr_lane_gap_keys(lanes, lane, i - 1);
        double behind = total - before;
        double more =
            total < SPARE_PAGES * page ? ceil(before / page) + ceil(behind / page) - ceil(total / page) : 0;
        double least = (before < behind ? before : behind) * (1 - SPARE_PART * more);
        if (least > best) {
            best = least;
            pick = i;
        }
    }
    return pick;
}

/* Gives gaps[from..] of the victim to a free lane. */
static int split(struct hr_list_lanes *lanes, struct lane *victim, uint32_t from)
{
    struct lane *thief = lanes->lanes;
    while (thief->used) {
        thief++;
    }
    struct text border = {NULL, 0};
    uint32_t moved = victim->gap_count - from;
    uint32_t seam;
    struct gap *gaps = calloc(moved + 2, sizeof(*gaps));
    if (gaps == NULL || hr_lane_copy(hr_lane_view(victim->gaps[from].cut), &border) < 0 ||
        new_seam(lanes, &seam) < 0) {
        free(gaps);
        free(border.at);
        return -ENOMEM;
    }
    memcpy(gaps, victim->gaps + from, moved * sizeof(*gaps));
    double factor = hr_lane_correction(lanes, victim);
    *thief = (struct lane){.used = true,
                           .turn = ++lanes->turns,
                           .fork = border.len,
                           .gaps = gaps,
                           .gap_count = moved,
                           .gap_room = moved + 2,
                           .upto = victim->upto,
                           .seam_before = seam,
                           .seam_behind = victim->seam_behind,
                           .listed = factor * 2 * lanes->page_keys,
                           .guessed = 2 * lanes->page_keys,
                           .left = INFINITY,
                           .surplus = victim->surplus / 2};
    victim->surplus /= 2;
    victim->gap_count = from;
    victim->upto = border;
    victim->seam_behind = seam;
    lanes->lane_count++;
    return 0;
}

bool hr_lanes_room(struct hr_list_lanes *lanes, unsigned pages_ahead)
{
    double came = (double)lanes->pages_in + pages_ahead;
    double surplus = 0;
    for (uint32_t i = 0; i < lanes->lane_room; i++) {
        surplus += lanes->lanes[i].used ? lanes->lanes[i].surplus / lanes->page_keys : 0;
    }
    double pictured = hr_lanes_keys(lanes) / lanes->page_keys - surplus;
    double left = (pictured > 0 ? pictured : 0) + fmin(surplus, TRUST_TIMES * came);
    return lanes->wasted + WASTE_A_LANE * lanes->lane_count <= WASTE_FREE + WASTE_PART * (came + left);
}

/* Pages of which a range is worth two lanes. In a short listing every part of a page shows, and no range is
 * the last one for long. */
static double steal_pages(struct hr_list_lanes *lanes)
{
    if (lanes->pages_in <= EARLY_PAGES) {
        return STEAL_PAGES;
    }
    double pages = (double)lanes->pages_in + hr_lanes_keys(lanes) / lanes->page_keys;
    return pages < SHORT_ROUNDS * lanes->width_max ? STEAL_SHORT : STEAL_LATE;
}

/* An idle lane takes half of the largest range that is worth it. 1: one did, 0, -ENOMEM. */
int hr_lanes_steal(struct hr_list_lanes *lanes)
{
    struct lane *victim = NULL;
    uint32_t at = 0;

    bool room = hr_lanes_room(lanes, 0);
    double most = (room ? steal_pages(lanes) : ALWAYS_PAGES) * lanes->page_keys;
    for (uint32_t i = 0; i < lanes->lane_room; i++) {
        struct lane *lane = &lanes->lanes[i];
        if (!lane->used || lane->gap_count < 2) {
            continue;
        }
        double keys = hr_lane_keys(lanes, lane) - (room ? 0 : lane->surplus);
        uint32_t middle = keys > most ? middle_gap(lanes, lane) : 0;
        if (middle > 0) {
            most = keys;
            victim = lane;
            at = middle;
        }
    }
    if (victim == NULL) {
        return 0;
    }
    int rc = split(lanes, victim, at);
    return rc < 0 ? rc : 1;
}

/* ---- guesses ---- */

struct guesses {
    struct hr_list_lanes *lanes;
    unsigned left;
};

static int take_guess(void *owner, struct hr_key cut)
{
    struct guesses *guesses = owner;
    struct hr_list_lanes *lanes = guesses->lanes;
    uint32_t gap = 0;

    if (guesses->left == 0 || lanes->lane_count >= (unsigned)lanes->width) {
        return 1;
    }
    struct lane *lane = hr_lane_find(lanes, cut, &gap);
    if (lane == NULL || hr_key_compare(hr_lane_view(lane->gaps[gap].first), cut) >= 0) {
        return 0;
    }
    int rc = hr_lane_insert_gap(lane, gap, cut, cut);
    rc = rc < 0 ? rc : split(lanes, lane, gap + 1);
    guesses->left--;
    return rc;
}

int hr_lanes_guess(struct hr_list_lanes *lanes)
{
    struct lane *lane = &lanes->lanes[0];
    struct guesses guesses = {.lanes = lanes, .left = GUESSES};

    if (!lanes->hurry || lanes->guessed || lanes->pages_in == 0 || lanes->width_max < 2 || !lane->used) {
        return 0;
    }
    lanes->guessed = true;
    int rc = hr_ladder_steps(&lanes->ladder, hr_lane_view(lane->gaps[0].first), lane->fork,
                             GUESS_PAGES * lanes->page_keys, take_guess, &guesses);
    return rc < 0 ? rc : 0;
}
