#include "fetch/list/ladder.h"

#include <string.h>

#include "fetch/list/ladder_inside.h"
#include "fetch/list/utf8.h"

#define PARENTS_KNOWN 4u /* from so many nodes on their average fan-out is believed; ours */
#define STEP_MOST 1.5    /* what comes between two steps, in steps; ours */
#define STEP_LEAST 0.5

/* ---- keys ---- */

int hr_key_compare(struct hr_key a, struct hr_key b)
{
    int order = memcmp(a.at, b.at, a.len < b.len ? a.len : b.len);
    if (order != 0) {
        return order;
    }
    return a.len < b.len ? -1 : a.len > b.len;
}

uint32_t hr_key_shared(struct hr_key a, struct hr_key b)
{
    uint32_t len = a.len < b.len ? a.len : b.len;
    uint32_t shared = 0;
    while (shared < len && a.at[shared] == b.at[shared]) {
        shared++;
    }
    return shared;
}

/* low's first `keep` bytes, then a character that starts with `byte`; 0: a store may refuse it. */
static uint32_t make_cut(struct hr_key low, uint32_t keep, unsigned byte, char *cut)
{
    if (byte == 0 || byte > 0xff || keep >= HR_KEY_MAX) {
        return 0;
    }
    memcpy(cut, low.at, keep);
    cut[keep] = (char)byte;
    uint32_t whole = hr_utf8_valid(cut, keep + 1);
    if (whole == keep + 1) {
        return keep + 1;
    }
    if (hr_utf8_valid(low.at, low.len) < low.len) { /* such a store takes any byte */
        return keep + 1;
    }
    uint32_t len = hr_utf8_close(cut, keep + 1, whole);
    return hr_utf8_valid(cut, len) == len ? len : 0;
}

uint32_t hr_ladder_leave(struct hr_key low, uint32_t keep, char *ret_cut)
{
    for (unsigned byte = hr_byte_at(low, keep) + 1u; byte < 0xf5; byte++) {
        uint32_t len = make_cut(low, keep, byte, ret_cut);
        if (len > 0) {
            return len;
        }
    }
    return 0;
}

/* ---- learning ---- */

void hr_ladder_init(struct hr_ladder *ladder, uint32_t prefix_len)
{
    memset(ladder, 0, sizeof(*ladder));
    ladder->prefix_len = prefix_len;
    ladder->stale = true;
}

static void add_bytes(struct hr_ladder *ladder, struct hr_key key, uint32_t from)
{
    uint32_t level = hr_ladder_level_at(ladder, key, from);
    for (uint32_t at = from; at < key.len; at++) {
        hr_set_add(ladder->seen[level], hr_byte_at(key, at));
        level = hr_ladder_next_level(level, hr_byte_at(key, at));
    }
}

void hr_ladder_neighbours(struct hr_ladder *ladder, struct hr_key before, struct hr_key key)
{
    uint32_t shared = hr_key_shared(before, key);

    ladder->stale = true;
    if (shared < ladder->prefix_len || shared >= key.len) {
        return;
    }
    uint32_t level = 0;
    for (uint32_t at = ladder->prefix_len; at < key.len; at++) {
        ladder->passed[level]++;
        if (at >= shared) {
            ladder->crossed[level] += at == shared;
            ladder->entered[level] += at > shared;
            hr_set_add(ladder->seen[level], hr_byte_at(key, at));
        }
        level = hr_ladder_next_level(level, hr_byte_at(key, at));
    }
    hr_set_add(ladder->common, hr_byte_at(key, shared));
    if (shared < before.len) {
        hr_set_add(ladder->common, hr_byte_at(before, shared));
    }
}

void hr_ladder_seen(struct hr_ladder *ladder, struct hr_key before, struct hr_key key)
{
    uint32_t shared = before.at != NULL ? hr_key_shared(before, key) : key.len;
    if (shared >= ladder->prefix_len && shared < key.len) {
        ladder->branched[hr_ladder_level_at(ladder, key, shared)]++;
    }
    add_bytes(ladder, key, ladder->prefix_len);
    ladder->any_bytes = ladder->any_bytes || hr_utf8_valid(key.at, key.len) < key.len;
    ladder->stale = true;
}

/* Keys below a node there and below each of its children: as counted where enough nodes were, else what
 * was seen times what lies below. A byte has at most as many values as were seen. */
static void weigh_level(struct hr_ladder *ladder, uint32_t level)
{
    double one = ladder->below[level + 1];
    double nodes = 1 + (double)ladder->entered[level];
    double children = 1 + (double)ladder->crossed[level] / nodes;
    unsigned seen = hr_set_count(ladder->seen[level]);
    bool known = nodes >= PARENTS_KNOWN;
    bool one_byte = level % HR_LADDER_PART_BYTES < HR_LADDER_PART_BYTES - 1;

    if (seen > 1 &&
        ((one_byte && children > seen) || (!known && children < seen && ladder->branched[level] > 0))) {
        children = seen;
        known = false;
    }
    double below = known ? (1 + (double)ladder->passed[level]) / nodes : one * children;
    ladder->below[level] = below;
    ladder->unit[level] = seen > 1 ? (below - below / children) / (seen - 1) : 0;
}

static void weigh(struct hr_ladder *ladder)
{
    if (!ladder->stale) {
        return;
    }
    ladder->below[HR_LADDER_LEVELS] = 1;
    for (uint32_t level = HR_LADDER_LEVELS; level-- > 0;) {
        weigh_level(ladder, level);
    }
    ladder->stale = false;
}

/* ---- guessing ---- */

/* Keys of the node `key[:from]` that come before key. */
static double before_in_node(const struct hr_ladder *ladder, struct hr_key key, uint32_t from)
{
    uint32_t level = hr_ladder_level_at(ladder, key, from);
    double sum = 0;
    for (uint32_t at = from; at < key.len; at++) {
        if (ladder->unit[level] > 0) {
            sum += hr_set_rank(ladder->seen[level], hr_byte_at(key, at)) * ladder->unit[level];
        }
        level = hr_ladder_next_level(level, hr_byte_at(key, at));
    }
    return sum;
}

/* Keys of the node `key[:from]` that come behind key. */
static double after_in_node(const struct hr_ladder *ladder, struct hr_key key, uint32_t from)
{
    uint32_t level = hr_ladder_level_at(ladder, key, from);
    double sum = 0;
    for (uint32_t at = from; at < key.len; at++) {
        if (ladder->unit[level] > 0) {
            unsigned upto = hr_set_rank(ladder->seen[level], hr_byte_at(key, at) + 1u);
            sum += (hr_set_count(ladder->seen[level]) - upto) * ladder->unit[level];
        }
        level = hr_ladder_next_level(level, hr_byte_at(key, at));
    }
    return sum;
}

double hr_ladder_between(struct hr_ladder *ladder, struct hr_key low, struct hr_key high)
{
    weigh(ladder);
    if (high.at == NULL) {
        return after_in_node(ladder, low, ladder->prefix_len);
    }
    if (hr_key_compare(low, high) >= 0) {
        return 0;
    }
    uint32_t at = hr_key_shared(low, high);
    double inside = at < low.len ? after_in_node(ladder, low, at + 1) : 0;
    uint32_t level = hr_ladder_level_at(ladder, high, at);
    unsigned from = at < low.len ? hr_set_rank(ladder->seen[level], hr_byte_at(low, at) + 1u) : 0;
    unsigned to = hr_set_rank(ladder->seen[level], hr_byte_at(high, at));
    double middle = to > from ? (to - from) * ladder->unit[level] : 0;
    return inside + middle + before_in_node(ladder, high, at + 1);
}

/* Bytes worth trying strictly between low's and high's there: those seen there, and where little is known
 * those seen at any fork. */
static unsigned candidates(const struct hr_ladder *ladder, uint32_t level, unsigned from, unsigned to,
                           uint8_t ret[256])
{
    bool known = hr_set_count(ladder->seen[level]) > 2;
    unsigned count = 0;
    for (unsigned byte = from; byte < to; byte++) {
        if (hr_set_has(ladder->seen[level], byte) || (!known && hr_set_has(ladder->common, byte))) {
            ret[count++] = (uint8_t)byte;
        }
    }
    return count;
}

uint32_t hr_ladder_ahead(const struct hr_ladder *ladder, struct hr_key low, uint32_t keep, double fraction,
                         char *ret_cut)
{
    uint8_t choice[256];
    uint32_t level = hr_ladder_level_at(ladder, low, keep);
    if (!hr_set_has(ladder->common, hr_byte_at(low, keep))) {
        return 0;
    }
    unsigned count = candidates(ladder, level, hr_byte_at(low, keep) + 1u, 0x100, choice);
    return count > 0 ? make_cut(low, keep, choice[(unsigned)(count * fraction)], ret_cut) : 0;
}

/* One step of the ladder: a cut at this byte, or 0 and *wanted is what is left for the bytes behind it. */
static uint32_t cut_at(const struct hr_ladder *ladder, struct hr_key low, struct hr_key high, uint32_t at,
                       double *wanted, char *cut)
{
    uint8_t choice[256];
    uint32_t level = hr_ladder_level_at(ladder, low, at);
    unsigned own = hr_byte_at(low, at);
    unsigned to = high.at != NULL ? hr_byte_at(high, at) : 0x100u;
    bool deeper = high.at != NULL && high.len > at + 1;
    double inside = after_in_node(ladder, low, at + 1);
    unsigned count = candidates(ladder, level, own + 1, to, choice);

    if (deeper && to > own) {
        choice[count++] = (uint8_t)to;
    }
    if (count == 0) {
        uint32_t len = *wanted >= inside || ladder->crossed[level] == 0 ? hr_ladder_leave(low, at, cut) : 0;
        return len > 0 && (high.at == NULL || hr_key_compare((struct hr_key){cut, len}, high) < 0) ? len : 0;
    }
    double unit = ladder->unit[level] > 0 ? ladder->unit[level] : ladder->below[level + 1];
    double over = (*wanted - inside) / unit;
    if (over < -0.5 && inside > unit / 4) {
        return 0;
    }
    double place = over < 0 ? 0 : over + 0.5;
    unsigned pick = place >= count ? count - 1 : (unsigned)place;
    return make_cut(low, at, choice[pick], cut);
}

uint32_t hr_ladder_cut(struct hr_ladder *ladder, struct hr_key low, struct hr_key high, double fraction,
                       char *ret_cut)
{
    weigh(ladder);
    double wanted = hr_ladder_between(ladder, low, high) * fraction;
    uint32_t at = high.at != NULL ? hr_key_shared(low, high) : ladder->prefix_len;

    for (uint32_t first = at; at < low.len; at++) {
        uint32_t level = hr_ladder_level_at(ladder, low, at);
        if (at > first && ladder->crossed[level] == 0 && ladder->branched[level] == 0) {
            continue; /* no two keys that share what is before it were seen to differ
                         there */
        }
        uint32_t len = cut_at(ladder, low, high, at, &wanted, ret_cut);
        if (len > 0 && hr_key_compare((struct hr_key){ret_cut, len}, low) > 0 &&
            (high.at == NULL || hr_key_compare((struct hr_key){ret_cut, len}, high) < 0)) {
            return len;
        }
        high = (struct hr_key){NULL, 0};
    }
    return 0;
}

/* ---- going on ---- */

struct steps {
    double each, passed; /* keys from one cut to the next, and since the last one */
    int (*take)(void *owner, struct hr_key cut);
    void *owner;
};

/* Bytes behind `own` that keys may have there. Behind what was listed nothing was seen yet: any at which keys
 * are known to branch, unless so many nodes were seen whole that theirs are all. */
static unsigned steps_at(const struct hr_ladder *ladder, uint32_t level, unsigned own, uint8_t ret[256])
{
    bool known = ladder->entered[level] >= PARENTS_KNOWN;
    unsigned count = 0;
    for (unsigned byte = own + 1; byte < 0x100; byte++) {
        if (hr_set_has(ladder->seen[level], byte) || (!known && hr_set_has(ladder->common, byte))) {
            ret[count++] = (uint8_t)byte;
        }
    }
    return count;
}

/* Cuts inside the node `cut[:len]` of so many keys. */
static int step_below(const struct hr_ladder *ladder, struct steps *steps, char *cut, uint32_t len,
                      double keys)
{
    uint8_t choice[256];
    uint32_t level = hr_ladder_level_at(ladder, (struct hr_key){cut, len}, len);
    unsigned count = steps_at(ladder, level, 0, choice);
    unsigned parts = (unsigned)(keys / steps->each + 0.999);

    parts = parts < count ? parts : count;
    for (unsigned i = 1; i < parts; i++) {
        if (choice[count * i / parts] >= 0x80) {
            break;
        }
        cut[len] = (char)choice[count * i / parts];
        int rc = steps->take(steps->owner, (struct hr_key){cut, len + 1});
        if (rc != 0) {
            return rc;
        }
        steps->passed = keys * (count - count * i / parts) / count;
    }
    return 0;
}

int hr_ladder_steps(struct hr_ladder *ladder, struct hr_key low, uint32_t fork, double each,
                    int (*take)(void *owner, struct hr_key cut), void *owner)
{
    struct steps steps = {.each = each, .take = take, .owner = owner};
    char cut[HR_LADDER_CUT_MAX];
    uint8_t choice[256];
    int rc = 0;

    weigh(ladder);
    for (uint32_t at = fork < low.len ? fork + 1 : low.len; at-- > ladder->prefix_len && rc == 0;) {
        uint32_t level = hr_ladder_level_at(ladder, low, at);
        double keys = ladder->below[level + 1];
        bool forks = hr_set_has(ladder->common, hr_byte_at(low, at));
        unsigned count = forks ? steps_at(ladder, level, hr_byte_at(low, at), choice) : 0;
        for (unsigned i = 0; i < count && rc == 0; i++) {
            uint32_t len = make_cut(low, at, choice[i], cut);
            if (len == 0) {
                continue;
            }
            if (steps.passed + keys > each * STEP_MOST && steps.passed > each * STEP_LEAST) {
                rc = take(owner, (struct hr_key){cut, len});
                steps.passed = 0;
            }
            steps.passed += keys;
            if (rc == 0 && keys > each * STEP_MOST) {
                rc = step_below(ladder, &steps, cut, len, keys);
            }
        }
    }
    return rc;
}
