/* Key sets of any size, computed on the fly: the i-th key in bytewise order, without a table of keys. Made
 * for the list server (listd.c) and for the unit tests of the lister. */
#ifndef HR_TEST_SCALE_SHAPES_H
#define HR_TEST_SCALE_SHAPES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHAPE_KEY_MAX 256
#define SHAPE_WORD_COUNT 100u

enum shape {
    SHAPE_SEQUENTIAL,
    SHAPE_HEX,
    SHAPE_IMAGENET,
    SHAPE_DEEP,
    SHAPE_FLAT,
    SHAPE_UNICODE,
    SHAPE_SKEWED,
    SHAPE_WORDS,
    SHAPE_COUNT
};

static const char *const shape_names[SHAPE_COUNT] = {"sequential", "hex",     "imagenet", "deep",
                                                     "flat",       "unicode", "skewed",   "words"};

struct shape_set {
    enum shape shape;
    uint64_t count;
    uint32_t classes[1000];           /* imagenet: ids, ascending */
    char words[SHAPE_WORD_COUNT][12]; /* words: names of folders, ascending */
};

static inline uint64_t shape_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

static inline int shape_compare_ids(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a;
    uint32_t right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

static inline int shape_compare_words(const void *a, const void *b)
{
    return strcmp(a, b);
}

static inline void shape_init_words(struct shape_set *set)
{
    for (uint32_t i = 0; i < SHAPE_WORD_COUNT; i++) {
        uint64_t r = shape_mix(i + 1);
        uint32_t len = 4 + (uint32_t)(r % 6);
        for (uint32_t j = 0; j < len; j++) {
            r = shape_mix(r + 1);
            set->words[i][j] = "aaabcdeeefghiiiklmnooprrsstttuvw"[r % 32];
        }
        set->words[i][len] = '\0';
    }
    qsort(set->words, SHAPE_WORD_COUNT, sizeof(*set->words), shape_compare_words);
}

/* Class ids lie like ImageNet's: most between n01440764 and n04613696, a few up to n15075141. */
static inline void shape_init(struct shape_set *set, enum shape shape, uint64_t count)
{
    set->shape = shape;
    set->count = count;
    shape_init_words(set);
    for (uint32_t i = 0; i < 1000; i++) {
        uint64_t r = shape_mix(i + 1);
        set->classes[i] = i < 900 ? 1440764 + (uint32_t)(r % 3172932) : 6000000 + (uint32_t)(r % 9075141);
    }
    qsort(set->classes, 1000, sizeof(*set->classes), shape_compare_ids);
    for (uint32_t i = 1; i < 1000; i++) {
        set->classes[i] +=
            set->classes[i] <= set->classes[i - 1] ? set->classes[i - 1] - set->classes[i] + 1 : 0;
    }
}

/* The i-th of the decimals 1..count in the order of their texts. */
static inline uint64_t shape_dictionary(uint64_t i, uint64_t count)
{
    uint64_t number = 1;
    while (i > 0) {
        uint64_t below = 0;
        for (uint64_t first = number, next = number + 1; first <= count; first *= 10, next *= 10) {
            below += (next <= count + 1 ? next : count + 1) - first;
        }
        if (below <= i) {
            i -= below;
            number++;
        } else {
            i--;
            number *= 10;
        }
    }
    return number;
}

static inline int shape_deep(uint64_t i, uint64_t count, char *key)
{
    static const char *const words[7] = {"alpha", "b", "charlie-x", "delta.d", "e_e", "foxtrot", "zulu"};
    uint64_t unit = 1;
    int len = sprintf(key, "tree");
    while (unit * 7 < (count + 4) / 5) {
        unit *= 7;
    }
    uint64_t leaf = i / 5;
    for (; unit > 0; unit /= 7) {
        len += sprintf(key + len, "/%s", words[leaf / unit % 7]);
    }
    return len + sprintf(key + len, "/part-%u.bin", (unsigned)(i % 5));
}

static inline int shape_unicode(uint64_t i, uint64_t count, char *key)
{
    static const char *const marks[16] = {"\x01",
                                          "\n",
                                          " ",
                                          "%",
                                          "+",
                                          "0",
                                          "=",
                                          "Z",
                                          "z",
                                          "\x7f",
                                          "\xc3\xa9",
                                          "\xd0\xb6",
                                          "\xe6\x97\xa5",
                                          "\xe6\x9c\xac",
                                          "\xef\xbf\xbd",
                                          "\xf0\x9f\x98\x80"};
    uint64_t unit = 1;
    int len = sprintf(key, "\xc3\xbcn\xc3\xaf/");
    while (unit * 16 < count) {
        unit *= 16;
    }
    for (; unit > 0; unit /= 16) {
        len += sprintf(key + len, "%s", marks[i / unit % 16]);
    }
    return len;
}

/* 5 % of the keys in 1000 small folders, the rest in one of them, hour by hour. */
static inline int shape_skewed(uint64_t i, uint64_t count, char *key)
{
    const uint64_t big = 377;
    uint64_t small = count / 20 / 1000 + 1;
    uint64_t large = count > 1000 * small ? count - 999 * small : small;
    if (i < big * small) {
        return sprintf(key, "logs/%04u/%08u", (unsigned)(i / small), (unsigned)(i % small));
    }
    i -= big * small;
    if (i < large) {
        return sprintf(key, "logs/%04u/2026-%02u/%016llx.json.gz", (unsigned)big, (unsigned)(i * 12 / large),
                       (unsigned long long)(i * 0x1000193u + shape_mix(i) % 0x1000193u));
    }
    i -= large;
    return sprintf(key, "logs/%04u/%08u", (unsigned)(big + 1 + i / small), (unsigned)(i % small));
}

/* Length of the i-th key, written to key (SHAPE_KEY_MAX). */
static inline uint32_t shape_key(const struct shape_set *set, uint64_t i, char *key)
{
    uint64_t count = set->count;
    uint64_t step;
    uint64_t each;

    switch (set->shape) {
    case SHAPE_SEQUENTIAL:
        return (uint32_t)sprintf(key, "train/img_%08llu.jpg", (unsigned long long)i);
    case SHAPE_HEX:
        step = UINT64_MAX / count;
        return (uint32_t)sprintf(key, "%016llx", (unsigned long long)(i * step + shape_mix(i) % step));
    case SHAPE_IMAGENET:
        each = (count + 999) / 1000;
        step = set->classes[i / each];
        return (uint32_t)sprintf(key, "imagenet/train/n%08u/n%08u_%llu.JPEG", (unsigned)step, (unsigned)step,
                                 (unsigned long long)shape_dictionary(i % each, each));
    case SHAPE_DEEP:
        return (uint32_t)shape_deep(i, count, key);
    case SHAPE_FLAT:
        return (uint32_t)sprintf(key, "all/%llu", (unsigned long long)shape_dictionary(i, count));
    case SHAPE_UNICODE:
        return (uint32_t)shape_unicode(i, count, key);
    case SHAPE_WORDS:
        each = (count + SHAPE_WORD_COUNT - 1) / SHAPE_WORD_COUNT;
        return (uint32_t)sprintf(key, "%s/%05llu.jpg", set->words[i / each], (unsigned long long)(i % each));
    default:
        return (uint32_t)shape_skewed(i, count, key);
    }
}

/* The number of keys up to and with `after`. */
static inline uint64_t shape_seek(const struct shape_set *set, const char *after, uint32_t after_len)
{
    char key[SHAPE_KEY_MAX];
    uint64_t low = 0;
    uint64_t high = set->count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        uint32_t len = shape_key(set, middle, key);
        int order = memcmp(key, after, len < after_len ? len : after_len);
        if (order < 0 || (order == 0 && len <= after_len)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

#endif
