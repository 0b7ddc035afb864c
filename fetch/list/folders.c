/* What requests with a delimiter tell: names of folders ahead, which are cuts that cost no probe. How many
 * keys a folder has is guessed by the folders of its depth that came. */
#include "fetch/list/lanes_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ASK_PAGES 1.5    /* a directory of more pages is worth a request, as far as is known; ours */
#define FOLDERS_KNOWN 2u /* from so many folders on their average is believed; ours */
#define ASK_AT_ONCE 6u   /* directories above one key that are asked for; ours */
#define PIECE_PAGES 0.45 /* cuts lie no closer; ours */
#define GAPS_MOST 4.0    /* nor more than so many a lane; ours */

static uint32_t depth_of(struct hr_key key)
{
    uint32_t depth = 0;
    for (uint32_t i = 0; i < key.len; i++) {
        depth += key.at[i] == '/';
    }
    return depth < FOLDERS_DEPTH ? depth : FOLDERS_DEPTH;
}

static bool lies_in(struct hr_key dir, struct hr_key key)
{
    return key.len > dir.len && (dir.len == 0 || memcmp(key.at, dir.at, dir.len) == 0);
}

void hr_folders_release(struct folders *folders)
{
    for (uint32_t i = 0; i < folders->count; i++) {
        free(folders->list[i].name.at);
    }
    for (uint32_t i = 0; i < folders->asked_count; i++) {
        free(folders->asked[i].at);
        free(folders->after[i].at);
    }
    free(folders->list);
    *folders = (struct folders){.count = 0};
}

/* ---- how many keys ---- */

void hr_folders_learn(struct hr_list_lanes *lanes, struct hr_key before, struct hr_key key)
{
    struct folders *folders = &lanes->folders;
    uint32_t shared = before.at != NULL ? hr_key_shared(before, key) : 0;
    uint32_t depth = 0;

    for (uint32_t i = 0; i < key.len; i++) {
        if (key.at[i] == '/' && depth < FOLDERS_DEPTH) {
            depth++;
            folders->keys[depth]++;
            folders->entered[depth] += i >= shared;
        }
    }
    folders->stale = true;
}

/* Keys of the folder in `name` from low on, by the picture. */
static double pictured(struct hr_list_lanes *lanes, struct hr_key low, struct hr_key name)
{
    char end[HR_KEY_MAX + 1];
    if (name.len == 0 || name.len > HR_KEY_MAX) {
        return 0;
    }
    memcpy(end, name.at, name.len);
    end[name.len - 1] = '/' + 1;
    return hr_ladder_between(&lanes->ladder, low, (struct hr_key){end, name.len});
}

/* Keys in a folder: as those of its depth have; while there is but one, which may go on, at least that. */
static double folder_keys(struct hr_list_lanes *lanes, const struct folder *folder)
{
    const struct folders *folders = &lanes->folders;
    uint64_t entered = folders->entered[folder->depth];
    if (folder->opened) {
        return 0;
    }
    if (entered >= FOLDERS_KNOWN) {
        return (double)folders->keys[folder->depth] / (double)entered;
    }
    double keys = pictured(lanes, hr_lane_view(folder->name), hr_lane_view(folder->name));
    double least = entered > 0 ? (double)folders->keys[folder->depth] / (double)entered : lanes->page_keys;
    return keys > least ? keys : least;
}

static void weigh(struct hr_list_lanes *lanes)
{
    struct folders *folders = &lanes->folders;

    if (!folders->stale) {
        return;
    }
    folders->all = 0;
    for (uint32_t i = 0; i < folders->count; i++) {
        folders->list[i].before = folders->all;
        folders->all += folder_keys(lanes, &folders->list[i]);
    }
    folders->stale = false;
}

static double keys_before(const struct folders *folders, uint32_t number)
{
    return number < folders->count ? folders->list[number].before : folders->all;
}

/* The first name behind key. */
static uint32_t behind(const struct folders *folders, struct hr_key key)
{
    uint32_t low = 0;
    uint32_t high = folders->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (hr_key_compare(hr_lane_view(folders->list[middle].name), key) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Keys behind the folder and all that lie beside it, by the picture. */
static double beyond(struct hr_list_lanes *lanes, const struct folder *folder, struct hr_key high)
{
    char end[HR_KEY_MAX + 1];
    struct hr_key name = hr_lane_view(folder->name);
    const char *slash = memrchr(name.at, '/', name.len - 1);
    uint32_t len = slash != NULL ? (uint32_t)(slash - name.at) + 1 : 0;

    if (folder->cut_off) {
        return hr_ladder_between(&lanes->ladder, name, high);
    }
    if (len <= lanes->ladder.prefix_len) {
        return 0;
    }
    memcpy(end, name.at, len);
    end[len - 1] = '/' + 1;
    struct hr_key from = {end, len};
    return high.at != NULL && hr_key_compare(from, high) >= 0 ? 0
                                                              : hr_ladder_between(&lanes->ladder, from, high);
}

/* Keys from low to the end of the folder that it lies in, of those beside folder `next`. */
static double rest_of_folder(struct hr_list_lanes *lanes, struct hr_key low, uint32_t next)
{
    const struct folders *folders = &lanes->folders;
    uint32_t shared = hr_key_shared(low, hr_lane_view(folders->list[next].name));
    const char *slash = memchr(low.at + shared, '/', low.len - shared);
    return slash != NULL ? pictured(lanes, low, (struct hr_key){low.at, (uint32_t)(slash - low.at) + 1}) : 0;
}

/* Keys of the folder up to high, and behind it what no name tells of. */
static double up_to(struct hr_list_lanes *lanes, uint32_t number, struct hr_key high)
{
    const struct folder *folder = &lanes->folders.list[number];
    struct hr_key name = hr_lane_view(folder->name);
    double whole = keys_before(&lanes->folders, number + 1) - folder->before;

    if (high.at != NULL && hr_key_compare(name, high) == 0) {
        return 0;
    }
    if (high.at != NULL && lies_in(name, high)) {
        double part = hr_ladder_between(&lanes->ladder, name, high);
        return part < whole ? part : whole;
    }
    return whole + beyond(lanes, folder, high);
}

double hr_lanes_between(struct hr_list_lanes *lanes, struct hr_key low, struct hr_key high)
{
    struct folders *folders = &lanes->folders;
    uint32_t first = folders->count > 0 ? behind(folders, low) : 0;
    uint32_t upto = high.at != NULL && folders->count > 0 ? behind(folders, high) : folders->count;
    bool at_name = first > 0 && hr_key_compare(hr_lane_view(folders->list[first - 1].name), low) == 0;

    if (first - at_name >= upto) {
        return hr_ladder_between(&lanes->ladder, low, high);
    }
    weigh(lanes);
    double own = at_name ? 0 : rest_of_folder(lanes, low, first);
    first -= at_name;
    return own + folders->list[upto - 1].before - folders->list[first].before + up_to(lanes, upto - 1, high);
}

/* ---- asking ---- */

static bool was_asked(const struct folders *folders, struct hr_key dir)
{
    for (uint32_t i = 0; i < folders->asked_count; i++) {
        if (folders->asked[i].len == dir.len &&
            (dir.len == 0 || memcmp(folders->asked[i].at, dir.at, dir.len) == 0)) {
            return true;
        }
    }
    return false;
}

static int want(struct folders *folders, struct hr_key dir, struct hr_key after)
{
    int rc = hr_lane_copy(dir, &folders->asked[folders->asked_count]);
    if (rc == 0) {
        rc = hr_lane_copy(after, &folders->after[folders->asked_count]);
    }
    folders->asked_count += rc == 0;
    return rc;
}

/* The prefix itself comes first. */
static int want_prefix(struct folders *folders)
{
    struct hr_key none = {NULL, 0};
    return folders->asked_count == 0 ? want(folders, none, none) : 0;
}

int hr_folders_wanted(struct hr_list_lanes *lanes, struct hr_key last)
{
    struct folders *folders = &lanes->folders;
    uint32_t depth = depth_of(last);
    unsigned count = 0;
    bool leaf = true;
    int rc = want_prefix(folders);

    for (uint32_t len = last.len; len > lanes->ladder.prefix_len && rc == 0; len--) {
        if (last.at[len - 1] != '/') {
            continue;
        }
        uint32_t of = depth < FOLDERS_DEPTH ? depth : FOLDERS_DEPTH;
        depth--;
        struct hr_key dir = {last.at, len};
        bool large = folders->entered[of] <= 1 ||
                     (double)folders->keys[of] > ASK_PAGES * lanes->page_keys * (double)folders->entered[of];
        if (!leaf && large && folders->asked_count < FOLDERS_ASKED && count < ASK_AT_ONCE &&
            !was_asked(folders, dir)) {
            rc = want(folders, dir, last);
            count++;
        }
        leaf = false;
    }
    return rc;
}

bool hr_folders_next(struct hr_list_lanes *lanes, struct hr_list_lanes_ask *ret)
{
    struct folders *folders = &lanes->folders;
    if (lanes->width_max < 2 || (lanes->pages_in == 0 && !lanes->hurry)) {
        return false;
    }
    if (want_prefix(folders) < 0 || folders->sent == folders->asked_count) {
        return false;
    }
    uint32_t number = folders->sent++;
    lanes->progress.folders++;
    *ret = (struct hr_list_lanes_ask){.folders = true,
                                      .dir = hr_lane_view(folders->asked[number]),
                                      .after = hr_lane_view(folders->after[number])};
    return true;
}

/* ---- answers ---- */

static struct hr_key listed_key(const struct hr_listed *listed)
{
    return (struct hr_key){listed->key, listed->key_len};
}

static bool sound(struct hr_key dir, const struct hr_listed *listed, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct hr_key key = listed_key(&listed[i]);
        if (!lies_in(dir, key) || key.len > HR_KEY_MAX ||
            memchr(key.at + dir.len, '/', key.len - dir.len) != key.at + key.len - 1 ||
            (i > 0 && hr_key_compare(listed_key(&listed[i - 1]), key) >= 0)) {
            return false;
        }
    }
    return true;
}

static int compare_folders(const void *a, const void *b)
{
    const struct folder *left = a;
    const struct folder *right = b;
    return hr_key_compare(hr_lane_view(left->name), hr_lane_view(right->name));
}

/* A folder may be told twice. */
static void sort_folders(struct folders *folders)
{
    uint32_t kept = 0;

    qsort(folders->list, folders->count, sizeof(*folders->list), compare_folders);
    for (uint32_t i = 0; i < folders->count; i++) {
        if (kept > 0 && compare_folders(&folders->list[kept - 1], &folders->list[i]) == 0) {
            folders->list[kept - 1].cut_off &= folders->list[i].cut_off;
            free(folders->list[i].name.at);
        } else {
            folders->list[kept++] = folders->list[i];
        }
    }
    folders->count = kept;
    for (uint32_t i = 0; i + 1 < kept; i++) {
        struct folder *folder = &folders->list[i];
        folder->opened = lies_in(hr_lane_view(folder->name), hr_lane_view(folder[1].name));
        folder->cut_off = folder->cut_off && folder[1].depth != folder->depth;
    }
}

/* The answer had no room for the folders behind this one: the next thousand. */
static int want_more(struct folders *folders, struct hr_key dir, struct hr_key name)
{
    char end[HR_KEY_MAX + 1];

    if (folders->asked_count == FOLDERS_ASKED) {
        return 0;
    }
    memcpy(end, name.at, name.len);
    end[name.len - 1] = '/' + 1;
    return want(folders, dir, (struct hr_key){end, name.len});
}

int hr_list_lanes_folders(struct hr_list_lanes *lanes, struct hr_key dir, const struct hr_listed *listed,
                          uint32_t count, bool truncated)
{
    struct folders *folders = &lanes->folders;

    if (count == 0 || !sound(dir, listed, count)) {
        return 0;
    }
    void *grown = reallocarray(folders->list, folders->count + count, sizeof(*folders->list));
    if (grown == NULL) {
        return -ENOMEM;
    }
    folders->list = grown;
    for (uint32_t i = 0; i < count; i++) {
        struct hr_key key = listed_key(&listed[i]);
        struct folder folder = {.depth = depth_of(key), .cut_off = truncated && i + 1 == count};
        if (hr_lane_copy(key, &folder.name) < 0) {
            return -ENOMEM;
        }
        folders->list[folders->count++] = folder;
    }
    sort_folders(folders);
    lanes->answers++;
    folders->stale = folders->fresh = true;
    return truncated ? want_more(folders, dir, listed_key(&listed[count - 1])) : 0;
}

/* ---- cutting ---- */

/* The name that leaves half of the gap's keys on each side. 0: one was cut there, -ENOENT: none is. */
static int cut_gap(struct hr_list_lanes *lanes, struct lane *lane, uint32_t number)
{
    struct folders *folders = &lanes->folders;
    struct hr_key end = hr_lane_gap_end(lane, number);
    uint32_t low = behind(folders, hr_lane_view(lane->gaps[number].first));
    uint32_t high = folders->count;
    if (end.at != NULL) {
        high = behind(folders, end);
        high -= high > 0 && hr_key_compare(hr_lane_view(folders->list[high - 1].name), end) == 0;
    }
    if (low >= high) {
        return -ENOENT;
    }
    weigh(lanes);
    double middle = (folders->list[low].before + keys_before(folders, high)) / 2;
    uint32_t pick = low;
    while (pick + 1 < high && folders->list[pick].before < middle) {
        pick++;
    }
    struct hr_key name = hr_lane_view(folders->list[pick].name);
    return hr_lane_insert_gap(lane, number, name, name);
}

int hr_folders_cut(struct hr_list_lanes *lanes)
{
    if (!lanes->folders.fresh || lanes->folders.count == 0 || lanes->pages_in == 0 ||
        lanes->lane_count >= (unsigned)lanes->width) {
        return 0;
    }
    lanes->folders.fresh = false;
    double fair = hr_lanes_keys(lanes) / (GAPS_MOST * lanes->width);
    double least = PIECE_PAGES * lanes->page_keys;
    double enough = 2 * (fair > least ? fair : least);
    for (uint32_t i = 0; i < lanes->lane_room; i++) {
        struct lane *lane = &lanes->lanes[i];
        for (uint32_t j = 0; j < lane->gap_count;) {
            bool cut = lane->gaps[j].first.at != NULL && hr_lane_gap_keys(lanes, lane, j) > enough;
            int rc = cut ? cut_gap(lanes, lane, j) : -ENOENT;
            if (rc < 0 && rc != -ENOENT) {
                return rc;
            }
            j += rc < 0;
        }
    }
    return 0;
}
