/* What one-key requests look at, and what their answers tell. */
#include "fetch/list/lanes_inside.h"

#include <errno.h>
#include <stdlib.h>

#include "fetch/base/cleanup.h"

#define PROBES_A_GAP 7u    /* in flight inside one gap */
#define LOOKS_FIRST 16u    /* cuts tried at each byte of the first page's last key, */
#define LOOKS_A_LEVEL 4u   /* and of later ones */
#define ASTRAY_PAGES 0.5   /* so many unexpected pages make a lane look up */
#define GAPS_A_LANE 4.0    /* cuts known ahead, so that a thief need not wait */
#define LOOK_UPS_FIRST 48u /* upwards; then one a page, */
#define LOOKED_ROUNDS 4u   /* until so many pages a lane have come */
#define PROBES_ANY 200.0   /* whatever the size, */
#define PROBES_A_PAGE 1.7  /* and for each page that the listing is thought to have */
#define LATE_ROUNDS 1.0    /* so many pages a lane are left: the end */

/* Most of them early, then as pages come, in a long listing one in 8 pages: below 3 a page of a million keys.
 */
static uint64_t probes_allowed(const struct hr_list_lanes *lanes)
{
    uint64_t pages = lanes->pages_in;
    uint64_t early = pages * 16 < 1024 ? pages * 16 : 1024;
    uint64_t later = pages * 3 / 2 < 1600 ? pages * 3 / 2 : 1600;
    return PROBES_FIRST + early + later + pages / 8;
}

static bool room_for_probe(const struct hr_list_lanes *lanes)
{
    unsigned most = lanes->pages_in < 2 ? PROBES_FIRST : (unsigned)(PROBES_A_LANE * lanes->width) + 8;
    return lanes->probe_count < most && lanes->probe_count < lanes->probe_room &&
           lanes->progress.probes < probes_allowed(lanes);
}

/* Looks upwards serve skewed key sets, which are worth them when they are large. */
static bool room_for_look_up(const struct hr_list_lanes *lanes)
{
    return lanes->pages_in > LOOKED_ROUNDS * lanes->width_max ||
           lanes->look_ups < lanes->pages_in + LOOK_UPS_FIRST;
}

static bool being_probed(const struct hr_list_lanes *lanes, struct hr_key cut)
{
    for (uint32_t i = 0; i < lanes->probe_room; i++) {
        if (lanes->probes[i].used && hr_key_compare(hr_lane_view(lanes->probes[i].cut), cut) == 0) {
            return true;
        }
    }
    return false;
}

int hr_lanes_send_probe(struct hr_list_lanes *lanes, struct hr_key cut, uint32_t lane,
                        struct hr_list_lanes_ask *ret)
{
    uint32_t number = 0;
    while (lanes->probes[number].used) {
        number++;
    }
    struct probe *probe = &lanes->probes[number];
    int rc = hr_lane_copy(cut, &probe->cut);
    if (rc < 0) {
        return rc;
    }
    probe->used = true;
    probe->lane = lane;
    lanes->probe_count++;
    lanes->progress.probes++;
    *ret =
        (struct hr_list_lanes_ask){.probe = true, .probe_number = number, .after = hr_lane_view(probe->cut)};
    return 1;
}

/* Looks behind every node that the lane's last key stands on, from where its range ends up to where its
 * keys branch now. */
static int look_up(struct hr_list_lanes *lanes, struct lane *lane, struct hr_list_lanes_ask *ret)
{
    char cut[HR_LADDER_CUT_MAX];
    struct hr_key low = hr_lane_view(lane->gaps[0].first);
    struct hr_key end = hr_lane_gap_end(lane, 0);
    uint32_t at = end.at != NULL ? hr_key_shared(low, end) : lanes->ladder.prefix_len;

    unsigned looks = lanes->pages_in == 1 ? LOOKS_FIRST : LOOKS_A_LEVEL;
    uint32_t first = at;
    for (unsigned nth = 0; nth < looks; nth++) {
        for (at = first; at < low.len && at <= lane->fork; at++) {
            uint32_t len = nth == 0 ? hr_ladder_leave(low, at, cut)
                                    : hr_ladder_ahead(&lanes->ladder, low, at, (double)nth / looks, cut);
            struct hr_key key = {cut, len};
            if (len > 0 && (end.at == NULL || hr_key_compare(key, end) < 0) && !being_probed(lanes, key)) {
                lane->gaps[0].probing++;
                return hr_lanes_send_probe(lanes, key, UINT32_MAX, ret);
            }
        }
    }
    return 0;
}

/* More came of late than the picture knew of; where lanes are idle, less of it is enough. */
static bool is_astray(const struct hr_list_lanes *lanes, const struct lane *lane)
{
    return lane->surplus > ASTRAY_PAGES * lanes->page_keys * lanes->lane_count / lanes->width;
}

/* A cut inside the gap that nobody asks about yet: where the picture has one, else by place alone. */
static int probe_gap(struct hr_list_lanes *lanes, struct lane *lane, uint32_t number, double pieces,
                     struct hr_list_lanes_ask *ret)
{
    char cut[HR_LADDER_CUT_MAX];
    struct gap *gap = &lane->gaps[number];
    unsigned parts = pieces > PROBES_A_GAP ? PROBES_A_GAP + 1 : (unsigned)pieces + 1;

    bool astray = is_astray(lanes, lane);
    struct hr_key low = hr_lane_view(gap->first);
    struct hr_key end = hr_lane_gap_end(lane, number);

    for (unsigned way = astray ? 1 : 0; way < 2; way++) {
        for (unsigned i = 1; i < parts; i++) {
            double fraction = (double)i / parts;
            uint32_t len = way == 0 ? hr_ladder_cut(&lanes->ladder, low, end, fraction, cut)
                                    : hr_ladder_interpolate(&lanes->ladder, low, end, fraction, cut);
            struct hr_key key = {cut, len};
            if (len > 0 && !being_probed(lanes, key)) {
                gap->probing++;
                return hr_lanes_send_probe(lanes, key, UINT32_MAX, ret);
            }
        }
    }
    gap->solid = true;
    return 0;
}

/* The gap with most keys for each probe in it, of those that hold more than `enough` for each. NULL: none. */
static struct lane *largest_gap(struct hr_list_lanes *lanes, double enough, uint32_t *ret_number)
{
    struct lane *largest = NULL;
    double most = enough;
    for (uint32_t i = 0; i < lanes->lane_room; i++) {
        struct lane *lane = &lanes->lanes[i];
        for (uint32_t j = 0; j < lane->gap_count; j++) {
            struct gap *gap = &lane->gaps[j];
            if (gap->solid || gap->first.at == NULL || gap->probing >= PROBES_A_GAP) {
                continue;
            }
            double keys = hr_lane_gap_keys(lanes, lane, j);
            double each = gap->probing > 0 ? keys / gap->probing : keys;
            if (each > most) {
                most = each;
                largest = lane;
                *ret_number = j;
            }
        }
    }
    return largest;
}

/* Asks about the largest gap that is too large. 1, 0 or -ENOMEM. */
static int look_ahead(struct hr_list_lanes *lanes, struct hr_list_lanes_ask *ret)
{
    double total = hr_lanes_keys(lanes);
    lanes->late = lanes->pages_in > EARLY_PAGES && total < LATE_ROUNDS * lanes->width * lanes->page_keys;
    double pages = (double)lanes->pages_in + total / lanes->page_keys;
    if ((double)lanes->progress.probes > PROBES_ANY + PROBES_A_PAGE * pages) {
        return 0;
    }
    double least = (lanes->late ? STEAL_LATE : STEAL_PAGES) * lanes->page_keys;
    double fair = total / (GAPS_A_LANE * lanes->width);
    double enough = fair > least ? fair : least;

    for (uint32_t i = 0; i < lanes->lane_room; i++) {
        struct lane *lane = &lanes->lanes[i];
        if (lane->used && lane->begun && lanes->lane_count < (unsigned)lanes->width &&
            is_astray(lanes, lane)) {
            int rc = room_for_look_up(lanes) ? look_up(lanes, lane, ret) : 0;
            if (rc != 0) {
                lanes->look_ups++;
                return rc;
            }
        }
    }
    struct lane *lane;
    uint32_t number;
    while ((lane = largest_gap(lanes, enough, &number)) != NULL) {
        double keys = hr_lane_gap_keys(lanes, lane, number);
        int rc = probe_gap(lanes, lane, number, keys / enough + 1, ret);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

int hr_lanes_next_probe(struct hr_list_lanes *lanes, struct hr_list_lanes_ask *ret)
{
    int rc = 0;
    if (lanes->width_max < 2 || lanes->pages_in == 0 || lanes->lane_count == 0 || !room_for_probe(lanes)) {
        return 0;
    }
    for (uint32_t i = 0; lanes->pages_in == 1 && i < lanes->lane_room && rc == 0; i++) {
        struct lane *lane = &lanes->lanes[i];
        rc = lane->used && (i == 0 || lane->upto.at == NULL) ? look_up(lanes, lane, ret) : 0;
    }
    if (rc != 0 || lanes->pages_in < 2 || !hr_lanes_room(lanes, lanes->lane_count)) {
        return rc;
    }
    return look_ahead(lanes, ret);
}

/* ---- answers ---- */

/* Probes under way inside the gap. */
static void count_probing(const struct hr_list_lanes *lanes, struct lane *lane, uint32_t number)
{
    struct gap *gap = &lane->gaps[number];
    struct hr_key end = hr_lane_gap_end(lane, number);

    gap->probing = 0;
    for (uint32_t i = 0; i < lanes->probe_room; i++) {
        struct hr_key cut = hr_lane_view(lanes->probes[i].cut);
        gap->probing += lanes->probes[i].used && hr_key_compare(cut, hr_lane_view(gap->first)) > 0 &&
                        (end.at == NULL || hr_key_compare(cut, end) < 0);
    }
}

/* What a probe found: a new cut with a real key behind it, or that the rest of a gap holds nothing. */
static int note_probe(struct hr_list_lanes *lanes, struct lane *lane, uint32_t number, struct hr_key cut,
                      struct hr_key key)
{
    struct hr_key end = hr_lane_gap_end(lane, number);
    int rc = 0;

    lane->gaps[number].solid = false;
    if (key.at != NULL && (end.at == NULL || hr_key_compare(key, end) <= 0)) {
        rc = hr_lane_insert_gap(lane, number, cut, key);
        if (rc == 0) {
            count_probing(lanes, lane, number + 1);
        }
    } else if (end.at == NULL || hr_key_compare(cut, end) < 0) {
        rc = hr_lane_copy(cut, &lane->gaps[number].empty);
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
    lanes->answers++;
    if (key.at != NULL && hr_key_compare(key, cut) <= 0) {
        return -EPROTO;
    }
    if (probe->lane != UINT32_MAX) {
        return hr_lane_tail(lanes, probe->lane, key);
    }
    struct lane *lane = hr_lane_find(lanes, cut, &gap);
    if (key.at != NULL) {
        hr_ladder_seen(&lanes->ladder,
                       lane != NULL ? hr_lane_view(lane->gaps[gap].first) : (struct hr_key){NULL, 0}, key);
    }
    if (lane == NULL || hr_key_compare(cut, hr_lane_view(lane->gaps[gap].first)) <= 0) {
        return 0;
    }
    return note_probe(lanes, lane, gap, cut, key);
}

bool hr_list_lanes_moot(struct hr_list_lanes *lanes, uint32_t probe_number)
{
    struct probe *probe = &lanes->probes[probe_number];
    struct hr_key cut = hr_lane_view(probe->cut);
    uint32_t number = 0;

    struct lane *lane = hr_lane_find(lanes, cut, &number);
    if (probe->lane != UINT32_MAX) {
        return false;
    }
    if (lane != NULL) {
        struct hr_key end = hr_lane_gap_end(lane, number);
        if (hr_key_compare(cut, hr_lane_view(lane->gaps[number].first)) > 0 &&
            (end.at == NULL || hr_key_compare(cut, end) < 0)) {
            return false;
        }
    }
    free(probe->cut.at);
    *probe = (struct probe){.used = false};
    lanes->probe_count--;
    lanes->progress.probes--;
    if (lane != NULL) {
        count_probing(lanes, lane, number);
    }
    return true;
}
