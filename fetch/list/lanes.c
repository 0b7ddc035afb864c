#include "fetch/list/lanes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/base/cleanup.h"
#include "interpose/index.h"

/* All of these are ours, found with tests/unit/list/test_lanes.c's rounds. */
#define PROBES_A_LANE 2u   /* in flight, for each lane of the width */
#define PROBES_A_GAP 15u   /* in flight inside one gap */
#define PROBES_FIRST 64u   /* probes allowed before pages earn more */
#define LOOKS_A_LEVEL 4u   /* cuts tried at each byte of a key */
#define SURPLUS_PAGES 0.5  /* so many unexpected pages make a lane look up */
#define SURPLUS_GROWTH 3.0 /* what comes unexpectedly goes on for so many times as long */
#define STEAL_PAGES 1.4    /* a range of less is left to its lane */
#define GAPS_A_LANE 6.0    /* cuts known ahead, so that a thief need not wait */
#define LEARN_PAGES 128u   /* pages that are learned from whole; then one in LEARN_EVERY */
#define LEARN_EVERY 4u
#define PAGE_KEYS_GUESS 1000.0 /* S3's page, until one has come */

/* An owned string. at NULL: none. */
struct text {
    char *at;
    uint32_t len;
};

/* Between two cuts of a range. */
struct gap {
    struct text cut;   /* keys behind this; at NULL: from the start */
    struct text first; /* a key that was there, at or behind all that is listed */
    struct text empty; /* no key from here to the gap's end; at NULL: not known */
    bool solid;        /* no cut is worth trying until its first key moves */
    unsigned probing;
};

/* Where two ranges meet, and the key behind it that each side saw. */
struct seam {
    uint64_t seen[2];
    bool known[2];
};

struct lane {
    bool used, asked;
    struct gap *gaps; /* ascending; gaps[0].cut is where the lane is */
    uint32_t gap_count, gap_room;
    struct text upto;                  /* at NULL: to the end */
    uint32_t seam_before, seam_behind; /* UINT32_MAX: none */
    bool begun;                        /* its first page has come */
    uint32_t fork;                     /* first byte in which the keys of its last page differ */
    double listed, guessed;            /* keys that came, and how many were expected for that way */
    double surplus;                    /* of late: keys that came where hardly any were expected */
};

struct probe {
    bool used;
    struct text cut;
};

struct hr_list_lanes {
    struct hr_ladder ladder;
    struct lane *lanes;
    uint32_t lane_room;  /* = most lanes ever */
    uint32_t lane_count; /* in use */
    unsigned width_max;
    double width;
    unsigned clean; /* answers since the width was last changed */
    unsigned deaf;  /* pages that were under way when it was: their troubles are the same trouble */
    struct probe *probes;
    uint32_t probe_room, probe_count;
    struct seam *seams;
    uint32_t seam_count, seam_room;
    double page_keys;
    uint64_t pages_in;
    struct hr_list_lanes_progress progress;
};

static struct hr_key view(struct text text)
{
    return (struct hr_key){text.at, text.len};
}

static int copy(struct hr_key key, struct text *ret)
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

static void lane_release(struct lane *lane)
{
    for (uint32_t i = 0; i < lane->gap_count; i++) {
        gap_release(&lane->gaps[i]);
    }
    free(lane->gaps);
    free(lane->upto.at);
    *lane = (struct lane){.used = false};
}

/* ---- beginning and end -----------------------------------------------------------------------------------
 */

int hr_list_lanes_new(uint32_t prefix_len, unsigned width, struct hr_list_lanes **ret)
{
    struct hr_list_lanes *lanes = calloc(1, sizeof(*lanes));
    if (lanes == NULL) {
        return -ENOMEM;
    }
    hr_ladder_init(&lanes->ladder, prefix_len);
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
        lane_release(&lanes->lanes[i]);
    }
    for (uint32_t i = 0; lanes->probes != NULL && i < lanes->probe_room; i++) {
        free(lanes->probes[i].cut.at);
    }
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

/* ---- how much is left ------------------------------------------------------------------------------------
 */

static struct hr_key gap_end(const struct lane *lane, uint32_t number)
{
    if (lane->gaps[number].empty.at != NULL) {
        return view(lane->gaps[number].empty);
    }
    return number + 1 < lane->gap_count ? view(lane->gaps[number + 1].cut) : view(lane->upto);
}

/* How far off the guesses have been where this lane went. */
static double correction(const struct hr_list_lanes *lanes, const struct lane *lane)
{
    double doubt = 2 * lanes->page_keys;
    double factor = (lane->listed + doubt) / (lane->guessed + doubt);
    return factor < 0.1 ? 0.1 : factor > 50 ? 50 : factor;
}

static double gap_keys(struct hr_list_lanes *lanes, const struct lane *lane, uint32_t number)
{
    const struct gap *gap = &lane->gaps[number];
    struct hr_key end = gap_end(lane, number);
    if (gap->first.at == NULL || (end.at != NULL && hr_key_compare(view(gap->first), end) >= 0)) {
        return 0;
    }
    return hr_ladder_between(&lanes->ladder, view(gap->first), end) * correction(lanes, lane) +
           lane->surplus / lane->gap_count;
}

static double lane_keys(struct hr_list_lanes *lanes, const struct lane *lane)
{
    double sum = 0;
    for (uint32_t i = 0; i < lane->gap_count; i++) {
        sum += gap_keys(lanes, lane, i);
    }
    return sum;
}

/* ---- stealing --------------------------------------------------------------------------------------------
 */

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

/* The cut that leaves about half of the lane's keys on each side; 0: none is worth it. */
static uint32_t middle_gap(struct hr_list_lanes *lanes, const struct lane *lane)
{
    double total = lane_keys(lanes, lane);
    double before = 0;
    double best = 0;
    uint32_t pick = 0;
    for (uint32_t i = 1; i < lane->gap_count; i++) {
        before += gap_keys(lanes, lane, i - 1);
        double behind = total - before;
        double least = before < behind ? before : behind;
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
    if (gaps == NULL || copy(view(victim->gaps[from].cut), &border) < 0 || new_seam(lanes, &seam) < 0) {
        free(gaps);
        free(border.at);
        return -ENOMEM;
    }
    memcpy(gaps, victim->gaps + from, moved * sizeof(*gaps));
    double factor = correction(lanes, victim);
    *thief = (struct lane){.used = true,
                           .gaps = gaps,
                           .gap_count = moved,
                           .gap_room = moved + 2,
                           .upto = victim->upto,
                           .seam_before = seam,
                           .seam_behind = victim->seam_behind,
                           .listed = factor * 2 * lanes->page_keys,
                           .guessed = 2 * lanes->page_keys,
                           .surplus = victim->surplus / 2};
    victim->surplus /= 2;
    victim->gap_count = from;
    victim->upto = border;
    victim->seam_behind = seam;
    lanes->lane_count++;
    return 0;
}

/* An idle lane takes half of the largest range that is worth it. 1: one did, 0, -ENOMEM. */
static int steal(struct hr_list_lanes *lanes)
{
    struct lane *victim = NULL;
    double most = STEAL_PAGES * lanes->page_keys;
    uint32_t at = 0;

    for (uint32_t i = 0; i < lanes->lane_room; i++) {
        struct lane *lane = &lanes->lanes[i];
        if (!lane->used || lane->gap_count < 2) {
            continue;
        }
        double keys = lane_keys(lanes, lane);
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

/* ---- probing ---------------------------------------------------------------------------------------------
 */

/* Few at first, then as pages come: up to 2 a page, in a long listing 1 in 6 pages. */
static uint64_t probes_allowed(const struct hr_list_lanes *lanes)
{
    uint64_t pages = lanes->pages_in;
    uint64_t early = pages * 16 < 512 ? pages * 16 : 512;
    uint64_t later = pages * 3 / 2 < 1500 ? pages * 3 / 2 : 1500;
    return PROBES_FIRST + early + later + pages / 6;
}

static bool room_for_probe(const struct hr_list_lanes *lanes)
{
    unsigned most = lanes->pages_in < 2 ? PROBES_FIRST : (unsigned)(PROBES_A_LANE * lanes->width) + 8;
    return lanes->probe_count < most && lanes->probe_count < lanes->probe_room &&
           lanes->progress.probes < probes_allowed(lanes);
}

static bool being_probed(const struct hr_list_lanes *lanes, struct hr_key cut)
{
    for (uint32_t i = 0; i < lanes->probe_room; i++) {
        if (lanes->probes[i].used && hr_key_compare(view(lanes->probes[i].cut), cut) == 0) {
            return true;
        }
    }
    return false;
}

static int send_probe(struct hr_list_lanes *lanes, struct hr_key cut, struct hr_list_lanes_ask *ret)
{
    uint32_t number = 0;
    while (lanes->probes[number].used) {
        number++;
    }
    struct probe *probe = &lanes->probes[number];
    int rc = copy(cut, &probe->cut);
    if (rc < 0) {
        return rc;
    }
    probe->used = true;
    lanes->probe_count++;
    lanes->progress.probes++;
    *ret = (struct hr_list_lanes_ask){.probe = true, .probe_number = number, .after = view(probe->cut)};
    return 1;
}

/* Looks behind every node that the lane's last key stands on, from where its range ends up to where its keys
 * branch now. */
static int look_up(struct hr_list_lanes *lanes, struct lane *lane, struct hr_list_lanes_ask *ret)
{
    char cut[HR_LADDER_CUT_MAX];
    struct hr_key low = view(lane->gaps[0].first);
    struct hr_key end = gap_end(lane, 0);
    uint32_t at = end.at != NULL ? hr_key_shared(low, end) : lanes->ladder.prefix_len;

    for (; at < low.len && at <= lane->fork; at++) {
        for (unsigned nth = 0; nth < LOOKS_A_LEVEL; nth++) {
            uint32_t len = nth == 0
                               ? hr_ladder_leave(low, at, cut)
                               : hr_ladder_ahead(&lanes->ladder, low, at, (double)nth / LOOKS_A_LEVEL, cut);
            struct hr_key key = {cut, len};
            if (len > 0 && (end.at == NULL || hr_key_compare(key, end) < 0) && !being_probed(lanes, key)) {
                lane->gaps[0].probing++;
                return send_probe(lanes, key, ret);
            }
        }
    }
    return 0;
}

/* A cut inside the gap that nobody asks about yet. */
static int probe_gap(struct hr_list_lanes *lanes, struct lane *lane, uint32_t number, double pieces,
                     struct hr_list_lanes_ask *ret)
{
    char cut[HR_LADDER_CUT_MAX];
    struct gap *gap = &lane->gaps[number];
    unsigned parts = pieces > PROBES_A_GAP ? PROBES_A_GAP + 1 : (unsigned)pieces + 1;

    for (unsigned i = 1; i < parts; i++) {
        uint32_t len =
            hr_ladder_cut(&lanes->ladder, view(gap->first), gap_end(lane, number), (double)i / parts, cut);
        struct hr_key key = {cut, len};
        if (len > 0 && !being_probed(lanes, key)) {
            gap->probing++;
            return send_probe(lanes, key, ret);
        }
    }
    gap->solid = gap->probing == 0;
    return 0;
}

/* Asks about the largest gap that is too large. 1, 0 or -ENOMEM. */
static int look_ahead(struct hr_list_lanes *lanes, struct hr_list_lanes_ask *ret)
{
    double total = 0;
    for (uint32_t i = 0; i < lanes->lane_room; i++) {
        total += lanes->lanes[i].used ? lane_keys(lanes, &lanes->lanes[i]) : 0;
    }
    double fair = total / (GAPS_A_LANE * lanes->width);
    double enough = fair > STEAL_PAGES * lanes->page_keys ? fair : STEAL_PAGES * lanes->page_keys;

    for (uint32_t i = 0; i < lanes->lane_room; i++) {
        struct lane *lane = &lanes->lanes[i];
        if (!lane->used) {
            continue;
        }
        if (lane->begun && lanes->lane_count < (unsigned)lanes->width &&
            lane->surplus > SURPLUS_PAGES * lanes->page_keys) {
            int rc = look_up(lanes, lane, ret);
            if (rc != 0) {
                return rc;
            }
        }
        for (uint32_t j = 0; j < lane->gap_count; j++) {
            struct gap *gap = &lane->gaps[j];
            double keys = gap->solid || gap->first.at == NULL ? 0 : gap_keys(lanes, lane, j);
            if (keys > enough && gap->probing < keys / enough && gap->probing < PROBES_A_GAP) {
                int rc = probe_gap(lanes, lane, j, keys / enough + 1, ret);
                if (rc != 0) {
                    return rc;
                }
            }
        }
    }
    return 0;
}

/* ---- asking ----------------------------------------------------------------------------------------------
 */

static int ask_page(struct hr_list_lanes *lanes, struct hr_list_lanes_ask *ret)
{
    if (lanes->progress.listing >= (unsigned)lanes->width) {
        return 0;
    }
    for (uint32_t i = 0; i < lanes->lane_room; i++) {
        struct lane *lane = &lanes->lanes[i];
        if (lane->used && !lane->asked) {
            lane->asked = true;
            lanes->progress.pages++;
            if (++lanes->progress.listing > lanes->progress.listing_max) {
                lanes->progress.listing_max = lanes->progress.listing;
            }
            *ret = (struct hr_list_lanes_ask){.lane = i, .after = view(lane->gaps[0].cut)};
            return 1;
        }
    }
    return 0;
}

int hr_list_lanes_next(struct hr_list_lanes *lanes, struct hr_list_lanes_ask *ret)
{
    int rc = ask_page(lanes, ret);
    while (rc == 0 && lanes->pages_in > 0 && lanes->lane_count < (unsigned)lanes->width &&
           lanes->lane_count > 0) {
        rc = steal(lanes);
        if (rc <= 0) {
            break;
        }
        rc = ask_page(lanes, ret);
    }
    if (rc != 0 || lanes->width_max < 2 || lanes->pages_in == 0 || lanes->lane_count == 0 ||
        !room_for_probe(lanes)) {
        return rc;
    }
    if (lanes->pages_in == 1) {
        rc = look_up(lanes, lanes->lanes, ret);
    }
    return rc != 0 || lanes->pages_in < 2 ? rc : look_ahead(lanes, ret);
}

/* ---- answers ---------------------------------------------------------------------------------------------
 */

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
    struct hr_key before = lane->begun ? view(lane->gaps[0].first) : (struct hr_key){NULL, 0};
    for (uint32_t i = 0; i < count; i++) {
        struct hr_key key = listed_key(&listed[i]);
        if (before.at != NULL) {
            hr_ladder_neighbours(&lanes->ladder, before, key);
        } else {
            hr_ladder_seen(&lanes->ladder, before, key);
        }
        before = key;
    }
}

/* The lane stands behind `key` now. */
static int advance(struct lane *lane, struct hr_key key)
{
    struct gap *gap = &lane->gaps[0];
    uint32_t passed = 0;

    while (passed + 1 < lane->gap_count && hr_key_compare(view(lane->gaps[passed + 1].cut), key) <= 0) {
        passed++;
    }
    for (uint32_t i = 0; i < passed; i++) {
        gap_release(&lane->gaps[i]);
    }
    lane->gap_count -= passed;
    memmove(lane->gaps, lane->gaps + passed, lane->gap_count * sizeof(*lane->gaps));
    gap->solid = false;
    int rc = copy(key, &gap->cut);
    return rc < 0 ? rc : copy(key, &gap->first);
}

static void finish_lane(struct hr_list_lanes *lanes, struct lane *lane)
{
    lane_release(lane);
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

int hr_list_lanes_page(struct hr_list_lanes *lanes, uint32_t number, const struct hr_listed *listed,
                       uint32_t count, bool truncated, uint32_t *ret_take)
{
    struct lane *lane = &lanes->lanes[number];
    uint32_t take = count;
    int rc = 0;

    lane->asked = false;
    lanes->progress.listing--;
    lanes->pages_in++;
    widen(lanes);
    if (lanes->pages_in == 1 ? count > 0 : count > lanes->page_keys) {
        lanes->page_keys = count;
    }
    while (take > 0 && lane->upto.at != NULL &&
           hr_key_compare(listed_key(&listed[take - 1]), view(lane->upto)) > 0) {
        take--;
    }
    if (!lane->begun) {
        rc = see(lanes, lane->seam_before, 1, count > 0 ? listed_key(&listed[0]) : (struct hr_key){NULL, 0});
    }
    bool over = take < count || !truncated;
    if (rc == 0 && over) {
        rc = see(lanes, lane->seam_behind, 0,
                 take < count ? listed_key(&listed[take]) : (struct hr_key){NULL, 0});
    }
    if (rc < 0) {
        return rc;
    }
    learn(lanes, lane, listed, take);
    *ret_take = take;
    if (over) {
        finish_lane(lanes, lane);
        return 0;
    }
    if (take > 0) {
        struct hr_key last = listed_key(&listed[take - 1]);
        lane->fork = hr_key_shared(listed_key(&listed[0]), last);
        if (lane->begun) {
            double guess = hr_ladder_between(&lanes->ladder, view(lane->gaps[0].first), last);
            double over_guess = take - 2 * guess * correction(lanes, lane);
            lane->surplus = over_guess > 0 ? lane->surplus + SURPLUS_GROWTH * over_guess : lane->surplus / 2;
            lane->guessed += guess;
            lane->listed += take;
        }
        rc = advance(lane, last);
    }
    lane->begun = true;
    return rc;
}

/* The lane and gap that a string lies in: behind the cut, up to the next. */
static struct lane *find_gap(struct hr_list_lanes *lanes, struct hr_key at, uint32_t *ret_gap)
{
    for (uint32_t i = 0; i < lanes->lane_room; i++) {
        struct lane *lane = &lanes->lanes[i];
        if (!lane->used ||
            (lane->gaps[0].cut.at != NULL && hr_key_compare(view(lane->gaps[0].cut), at) >= 0) ||
            (lane->upto.at != NULL && hr_key_compare(at, view(lane->upto)) >= 0)) {
            continue;
        }
        uint32_t gap = lane->gap_count - 1;
        while (gap > 0 && hr_key_compare(view(lane->gaps[gap].cut), at) >= 0) {
            gap--;
        }
        *ret_gap = gap;
        return lane;
    }
    return NULL;
}

static int insert_gap(struct lane *lane, uint32_t at, struct hr_key cut, struct hr_key first)
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
    if (copy(cut, &made.cut) < 0 || copy(first, &made.first) < 0) {
        gap_release(&made);
        return -ENOMEM;
    }
    made.empty = lane->gaps[at].empty;
    lane->gaps[at].empty = (struct text){NULL, 0};
    memmove(lane->gaps + at + 2, lane->gaps + at + 1, (lane->gap_count - at - 1) * sizeof(*lane->gaps));
    lane->gaps[at + 1] = made;
    lane->gap_count++;
    return 0;
}

/* Probes under way inside the gap. */
static void count_probing(const struct hr_list_lanes *lanes, struct lane *lane, uint32_t number)
{
    struct gap *gap = &lane->gaps[number];
    struct hr_key end = gap_end(lane, number);

    gap->probing = 0;
    for (uint32_t i = 0; i < lanes->probe_room; i++) {
        struct hr_key cut = view(lanes->probes[i].cut);
        gap->probing += lanes->probes[i].used && hr_key_compare(cut, view(gap->first)) > 0 &&
                        (end.at == NULL || hr_key_compare(cut, end) < 0);
    }
}

/* What a probe found: a new cut with a real key behind it, or that the rest of a gap holds nothing. */
static int note_probe(struct hr_list_lanes *lanes, struct lane *lane, uint32_t number, struct hr_key cut,
                      struct hr_key key)
{
    struct hr_key end = gap_end(lane, number);
    int rc = 0;

    lane->gaps[number].solid = false;
    if (key.at != NULL && (end.at == NULL || hr_key_compare(key, end) <= 0)) {
        rc = insert_gap(lane, number, cut, key);
        if (rc == 0) {
            count_probing(lanes, lane, number + 1);
        }
    } else if (end.at == NULL || hr_key_compare(cut, end) < 0) {
        rc = copy(cut, &lane->gaps[number].empty);
    }
    count_probing(lanes, lane, number);
    return rc;
}

int hr_list_lanes_probe(struct hr_list_lanes *lanes, uint32_t probe_number, struct hr_key key)
{
    struct probe *probe = &lanes->probes[probe_number];
    hr_cleanup_free char *bytes = hr_steal_pointer(probe->cut.at);
    struct hr_key cut = {bytes, probe->cut.len};
    uint32_t gap = 0;

    probe->used = false;
    lanes->probe_count--;
    if (key.at != NULL && hr_key_compare(key, cut) <= 0) {
        return -EPROTO;
    }
    struct lane *lane = find_gap(lanes, cut, &gap);
    if (key.at != NULL) {
        hr_ladder_seen(&lanes->ladder, lane != NULL ? view(lane->gaps[gap].first) : (struct hr_key){NULL, 0},
                       key);
    }
    if (lane == NULL || hr_key_compare(cut, view(lane->gaps[gap].first)) <= 0) {
        return 0;
    }
    return note_probe(lanes, lane, gap, cut, key);
}

void hr_list_lanes_throttled(struct hr_list_lanes *lanes)
{
    lanes->clean = 0;
    if (lanes->deaf == 0) {
        lanes->deaf = (unsigned)lanes->width;
        lanes->width = lanes->width > 2 ? lanes->width / 2 : 1;
    }
}
