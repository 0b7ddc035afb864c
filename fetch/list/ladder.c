#include "fetch/list/ladder.h"

#include <string.h>

#include "fetch/list/utf8.h"

#define PARENTS_KNOWN 4u  /* from so many nodes on their average fan-out is believed; ours */
#define PLACE_LEAST 1e-15 /* a double has no finer places */
#define KNOWN_PARTS 12.0  /* the place of a byte that was seen, in places between two such; ours */
#define WAY_MOST 1e6      /* "very far"; ours */
#define CUT_STEPS 64.0    /* a cut is as fine as this part of what it divides; ours */

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

static uint8_t byte_at(struct hr_key key, uint32_t at)
{
    return (uint8_t)key.at[at];
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
    for (unsigned byte = byte_at(low, keep) + 1u; byte < 0xf5; byte++) {
        uint32_t len = make_cut(low, keep, byte, ret_cut);
        if (len > 0) {
            return len;
        }
    }
    return 0;
}

/* ---- sets of bytes ---- */

static void set_add(uint64_t set[4], uint8_t byte)
{
    set[byte / 64] |= 1ull << byte % 64;
}

static unsigned set_count(const uint64_t set[4])
{
    unsigned count = 0;
    for (unsigned i = 0; i < 4; i++) {
        count += (unsigned)__builtin_popcountll(set[i]);
    }
    return count;
}

/* Members below byte. */
static unsigned set_rank(const uint64_t set[4], unsigned byte)
{
    unsigned rank = 0;
    for (unsigned i = 0; i < byte / 64; i++) {
        rank += (unsigned)__builtin_popcountll(set[i]);
    }
    if (byte < 256) {
        rank += (unsigned)__builtin_popcountll(set[byte / 64] & ((1ull << byte % 64) - 1));
    }
    return rank;
}

static bool set_has(const uint64_t set[4], unsigned byte)
{
    return (set[byte / 64] >> byte % 64 & 1) != 0;
}

/* ---- levels ---- */

/* The level of the byte behind this one. */
static uint32_t next_level(uint32_t level, uint8_t byte)
{
    if (byte == '/') {
        uint32_t part = level / HR_LADDER_PART_BYTES + 1;
        return part < HR_LADDER_PARTS ? part * HR_LADDER_PART_BYTES : HR_LADDER_LEVELS - 1;
    }
    return level % HR_LADDER_PART_BYTES < HR_LADDER_PART_BYTES - 1 ? level + 1 : level;
}

static uint32_t level_at(const struct hr_ladder *ladder, struct hr_key key, uint32_t at)
{
    uint32_t level = 0;
    for (uint32_t i = ladder->prefix_len; i < at; i++) {
        level = next_level(level, byte_at(key, i));
    }
    return level;
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
    uint32_t level = level_at(ladder, key, from);
    for (uint32_t at = from; at < key.len; at++) {
        set_add(ladder->seen[level], byte_at(key, at));
        level = next_level(level, byte_at(key, at));
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
            set_add(ladder->seen[level], byte_at(key, at));
        }
        level = next_level(level, byte_at(key, at));
    }
    set_add(ladder->common, byte_at(key, shared));
    if (shared < before.len) {
        set_add(ladder->common, byte_at(before, shared));
    }
}

void hr_ladder_seen(struct hr_ladder *ladder, struct hr_key before, struct hr_key key)
{
    uint32_t shared = before.at != NULL ? hr_key_shared(before, key) : key.len;
    if (shared >= ladder->prefix_len && shared < key.len) {
        ladder->branched[level_at(ladder, key, shared)]++;
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
    unsigned seen = set_count(ladder->seen[level]);
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
    uint32_t level = level_at(ladder, key, from);
    double sum = 0;
    for (uint32_t at = from; at < key.len; at++) {
        if (ladder->unit[level] > 0) {
            sum += set_rank(ladder->seen[level], byte_at(key, at)) * ladder->unit[level];
        }
        level = next_level(level, byte_at(key, at));
    }
    return sum;
}

/* Keys of the node `key[:from]` that come behind key. */
static double after_in_node(const struct hr_ladder *ladder, struct hr_key key, uint32_t from)
{
    uint32_t level = level_at(ladder, key, from);
    double sum = 0;
    for (uint32_t at = from; at < key.len; at++) {
        if (ladder->unit[level] > 0) {
            unsigned upto = set_rank(ladder->seen[level], byte_at(key, at) + 1u);
            sum += (set_count(ladder->seen[level]) - upto) * ladder->unit[level];
        }
        level = next_level(level, byte_at(key, at));
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
    uint32_t level = level_at(ladder, high, at);
    unsigned from = at < low.len ? set_rank(ladder->seen[level], byte_at(low, at) + 1u) : 0;
    unsigned to = set_rank(ladder->seen[level], byte_at(high, at));
    double middle = to > from ? (to - from) * ladder->unit[level] : 0;
    return inside + middle + before_in_node(ladder, high, at + 1);
}

/* Bytes worth trying strictly between low's and high's there: those seen there, and where little is known
 * those seen at any fork. */
static unsigned candidates(const struct hr_ladder *ladder, uint32_t level, unsigned from, unsigned to,
                           uint8_t ret[256])
{
    bool known = set_count(ladder->seen[level]) > 2;
    unsigned count = 0;
    for (unsigned byte = from; byte < to; byte++) {
        if (set_has(ladder->seen[level], byte) || (!known && set_has(ladder->common, byte))) {
            ret[count++] = (uint8_t)byte;
        }
    }
    return count;
}

uint32_t hr_ladder_ahead(const struct hr_ladder *ladder, struct hr_key low, uint32_t keep, double fraction,
                         char *ret_cut)
{
    uint8_t choice[256];
    uint32_t level = level_at(ladder, low, keep);
    if (!set_has(ladder->common, byte_at(low, keep))) {
        return 0;
    }
    unsigned count = candidates(ladder, level, byte_at(low, keep) + 1u, 0x100, choice);
    return count > 0 ? make_cut(low, keep, choice[(unsigned)(count * fraction)], ret_cut) : 0;
}

/* One step of the ladder: a cut at this byte, or 0 and *wanted is what is left for the bytes behind it. */
static uint32_t cut_at(const struct hr_ladder *ladder, struct hr_key low, struct hr_key high, uint32_t at,
                       double *wanted, char *cut)
{
    uint8_t choice[256];
    uint32_t level = level_at(ladder, low, at);
    unsigned own = byte_at(low, at);
    unsigned to = high.at != NULL ? byte_at(high, at) : 0x100u;
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
        uint32_t level = level_at(ladder, low, at);
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

/* ---- by place alone ---- */

/* The bytes seen there; of text in UTF-8 only those that can follow: a character's first, or inside one.
 * */
static void digits_at(const struct hr_ladder *ladder, uint32_t level, unsigned inside, uint64_t ret[4])
{
    memcpy(ret, ladder->seen[level], sizeof(ladder->seen[level]));
    if (!ladder->any_bytes && inside > 0) {
        ret[0] = ret[1] = ret[3] = 0;
    } else if (!ladder->any_bytes) {
        ret[2] = 0;
    }
}

/* Bytes that its character still needs behind this one. */
static unsigned inside_after(unsigned inside, unsigned byte)
{
    uint32_t bytes = hr_utf8_bytes((uint8_t)byte);
    return inside > 0 ? inside - 1 : bytes > 0 ? bytes - 1 : 0;
}

/* Bytes from `from` on that belong to the character before. */
static unsigned inside_at(struct hr_key key, uint32_t from)
{
    uint32_t start = from;
    while (start > 0 && from - start < 3 && (byte_at(key, start - 1) & 0xc0) == 0x80) {
        start--;
    }
    uint32_t bytes = start > 0 ? hr_utf8_bytes(byte_at(key, start - 1)) : 0;
    return bytes > from - start + 1 ? bytes - (from - start + 1) : 0;
}

/* Where key lies among all strings that share its first `from` bytes, 0 to 1: a number whose digits are
 * the bytes seen there, and narrow places between them for all others. */
static double place_of(const struct hr_ladder *ladder, struct hr_key key, uint32_t from)
{
    uint32_t level = level_at(ladder, key, from);
    unsigned inside = inside_at(key, from);
    double place = 0;
    double unit = 1;

    for (uint32_t at = from; at < key.len && unit > PLACE_LEAST; at++) {
        uint64_t seen[4];
        digits_at(ladder, level, inside, seen);
        unsigned digits = set_count(seen);
        unsigned byte = byte_at(key, at);
        bool known = set_has(seen, byte);
        if (digits != 1 || !known) {
            unit /= digits * (KNOWN_PARTS + 1) + 1;
            place += unit * (set_rank(seen, byte) * (KNOWN_PARTS + 1) + (known ? 1 : 0.5));
            unit *= KNOWN_PARTS;
        }
        if (!known) {
            break;
        }
        level = next_level(level, (uint8_t)byte);
        inside = inside_after(inside, byte);
    }
    return place;
}

double hr_ladder_way(const struct hr_ladder *ladder, struct hr_key from, struct hr_key at, struct hr_key to)
{
    uint32_t base = to.at != NULL ? hr_key_shared(from, to) : ladder->prefix_len;
    double here = place_of(ladder, at, base);
    double done = here - place_of(ladder, from, base);
    double left = (to.at != NULL ? place_of(ladder, to, base) : 1) - here;
    return left <= 0 ? 0 : done < left / WAY_MOST ? WAY_MOST : left / done;
}

uint32_t hr_ladder_interpolate(struct hr_ladder *ladder, struct hr_key low, struct hr_key high,
                               double fraction, char *ret_cut)
{
    uint32_t len = high.at != NULL ? hr_key_shared(low, high) : ladder->prefix_len;
    uint32_t level = level_at(ladder, low, len);
    double from = place_of(ladder, low, len);
    double way = (high.at != NULL ? place_of(ladder, high, len) : 1) - from;
    double wanted = from + way * fraction;
    unsigned inside = inside_at(low, len);
    double unit = 1;

    memcpy(ret_cut, low.at, len);
    while (unit > way / CUT_STEPS && len < HR_KEY_MAX) {
        uint8_t choice[256];
        unsigned digits = 0;
        uint64_t seen[4];
        digits_at(ladder, level, inside, seen);
        for (unsigned byte = 1; byte < 256; byte++) {
            if (set_has(seen, byte)) {
                choice[digits++] = (uint8_t)byte;
            }
        }
        if (digits == 0) {
            break;
        }
        unsigned digit = 1;
        if (digits > 1) {
            unit /= digits * (KNOWN_PARTS + 1) + 1;
            double rank = (wanted / unit - 1) / (KNOWN_PARTS + 1);
            digit = rank < 0 ? 1 : rank >= digits - 1 ? digits : (unsigned)rank + 1;
            wanted -= unit * ((digit - 1) * (KNOWN_PARTS + 1) + 1);
            unit *= KNOWN_PARTS;
        }
        ret_cut[len++] = (char)choice[digit - 1];
        level = next_level(level, choice[digit - 1]);
        inside = inside_after(inside, choice[digit - 1]);
    }
    uint32_t whole = hr_utf8_valid(ret_cut, len);
    if (whole < len && hr_utf8_valid(low.at, low.len) == low.len) {
        len = hr_utf8_close(ret_cut, whole + 1, whole);
        len = hr_utf8_valid(ret_cut, len) == len ? len : 0;
    }
    struct hr_key cut = {ret_cut, len};
    bool between =
        len > 0 && hr_key_compare(cut, low) > 0 && (high.at == NULL || hr_key_compare(cut, high) < 0);
    return between ? len : 0;
}
