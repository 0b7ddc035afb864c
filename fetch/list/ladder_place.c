/* Strings as numbers: where keys lie by place alone, for where the picture is wrong. */
#include "fetch/list/ladder.h"

#include <string.h>

#include "fetch/list/ladder_inside.h"
#include "fetch/list/utf8.h"

#define PLACE_LEAST 1e-15 /* a double has no finer places */
#define KNOWN_PARTS 12.0  /* the place of a byte that was seen, in places between two such; ours */
#define WAY_MOST 1e6      /* "very far"; ours */
#define CUT_STEPS 64.0    /* a cut is as fine as this part of what it divides; ours */

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
    while (start > 0 && from - start < 3 && (hr_byte_at(key, start - 1) & 0xc0) == 0x80) {
        start--;
    }
    uint32_t bytes = start > 0 ? hr_utf8_bytes(hr_byte_at(key, start - 1)) : 0;
    return bytes > from - start + 1 ? bytes - (from - start + 1) : 0;
}

/* Where key lies among all strings that share its first `from` bytes, 0 to 1: a number whose digits are
 * the bytes seen there, and narrow places between them for all others. */
static double place_of(const struct hr_ladder *ladder, struct hr_key key, uint32_t from)
{
    uint32_t level = hr_ladder_level_at(ladder, key, from);
    unsigned inside = inside_at(key, from);
    double place = 0;
    double unit = 1;

    for (uint32_t at = from; at < key.len && unit > PLACE_LEAST; at++) {
        uint64_t seen[4];
        digits_at(ladder, level, inside, seen);
        unsigned digits = hr_set_count(seen);
        unsigned byte = hr_byte_at(key, at);
        bool known = hr_set_has(seen, byte);
        if (digits != 1 || !known) {
            unit /= digits * (KNOWN_PARTS + 1) + 1;
            place += unit * (hr_set_rank(seen, byte) * (KNOWN_PARTS + 1) + (known ? 1 : 0.5));
            unit *= KNOWN_PARTS;
        }
        if (!known) {
            break;
        }
        level = hr_ladder_next_level(level, (uint8_t)byte);
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
    uint32_t level = hr_ladder_level_at(ladder, low, len);
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
            if (hr_set_has(seen, byte)) {
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
        level = hr_ladder_next_level(level, choice[digit - 1]);
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
