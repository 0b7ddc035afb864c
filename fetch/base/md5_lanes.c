#include "fetch/base/md5_lanes.h"

#include <string.h>

#include "fetch/base/md5_words.h"

#define BLOCK_BYTES 64
/* Steps on vectors take two to three times as long as OpenSSL's on one message (110 KB: 245 us a vector of
 * AVX-512, 340 of AVX2, 131 alone). */
#define FEWEST 3

#ifdef __x86_64__
#define HR_BLOCK blocks_avx2
#define HR_BLOCK_LANES 8
#define HR_BLOCK_TARGET __attribute__((target("avx2")))
#define HR_BLOCK_WORDS hr_md5_words_avx2
#include "fetch/base/md5_block.h"
#undef HR_BLOCK
#undef HR_BLOCK_LANES
#undef HR_BLOCK_TARGET
#undef HR_BLOCK_WORDS

#define HR_BLOCK blocks_avx512
#define HR_BLOCK_LANES 16
#define HR_BLOCK_TARGET __attribute__((target("avx512f")))
#define HR_BLOCK_WORDS hr_md5_words_avx512
#include "fetch/base/md5_block.h"
#undef HR_BLOCK
#undef HR_BLOCK_LANES
#undef HR_BLOCK_TARGET
#undef HR_BLOCK_WORDS
#endif

static int one_by_one(struct hr_md5_message *messages, unsigned count)
{
    int r = 0;
    for (unsigned i = 0; i < count && r == 0; i++) {
        r = hr_digest(HR_DIGEST_MD5, messages[i].bytes, messages[i].len, messages[i].digest);
    }
    return r;
}

#ifdef __x86_64__
/* What one lane works on: the whole blocks of its message, then `tail`. */
struct lane {
    struct hr_md5_message *message; /* NULL: idle */
    const unsigned char *at;
    size_t blocks; /* left, from `at` */
    size_t tail_blocks;
    unsigned char tail[2 * BLOCK_BYTES]; /* the end of the message, padded; RFC 1321, 3.1 and 3.2 */
};

struct lanes {
    uint32_t state[4][HR_MD5_LANES_MAX];
    struct lane lane[HR_MD5_LANES_MAX];
    unsigned count, busy;
};

static void lane_begin(struct lanes *lanes, unsigned number, struct hr_md5_message *message)
{
    static const uint32_t first[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476}; /* RFC 1321, 3.3 */
    struct lane *lane = &lanes->lane[number];
    size_t left = message->len % BLOCK_BYTES;
    uint64_t bits = (uint64_t)message->len * 8;
    for (int word = 0; word < 4; word++) {
        lanes->state[word][number] = first[word];
    }
    lane->message = message;
    lane->at = message->bytes;
    lane->blocks = message->len / BLOCK_BYTES;
    lane->tail_blocks = left < BLOCK_BYTES - sizeof bits ? 1 : 2;
    memset(lane->tail, 0, sizeof lane->tail);
    if (left > 0) {
        memcpy(lane->tail, lane->at + message->len - left, left);
    }
    lane->tail[left] = 0x80;
    memcpy(lane->tail + lane->tail_blocks * BLOCK_BYTES - sizeof bits, &bits, sizeof bits);
    lanes->busy++;
}

/* Of the message's blocks none are left: the tail is next, or the message is done. */
static void lane_turn(struct lanes *lanes, unsigned number)
{
    struct lane *lane = &lanes->lane[number];
    if (lane->tail_blocks > 0) {
        lane->at = lane->tail;
        lane->blocks = lane->tail_blocks;
        lane->tail_blocks = 0;
        return;
    }
    for (int word = 0; word < 4; word++) {
        memcpy(lane->message->digest + word * 4, &lanes->state[word][number], 4);
    }
    lane->message = NULL;
    lanes->busy--;
}

/* As many blocks as every busy lane has; an idle lane repeats a busy one's. */
static void step(enum hr_vectors width, struct lanes *lanes)
{
    const unsigned char *at[HR_MD5_LANES_MAX];
    const struct lane *shortest = NULL;
    for (unsigned i = 0; i < lanes->count; i++) {
        const struct lane *lane = &lanes->lane[i];
        if (lane->message && (!shortest || lane->blocks < shortest->blocks)) {
            shortest = lane;
        }
    }
    size_t blocks = shortest->blocks;
    for (unsigned i = 0; i < lanes->count; i++) {
        at[i] = lanes->lane[i].message ? lanes->lane[i].at : shortest->at;
    }
    if (width == HR_VECTORS_AVX512) {
        blocks_avx512(lanes->state, at, blocks);
    } else {
        blocks_avx2(lanes->state, at, blocks);
    }
    for (unsigned i = 0; i < lanes->count; i++) {
        if (lanes->lane[i].message) {
            lanes->lane[i].at += blocks * BLOCK_BYTES;
            lanes->lane[i].blocks -= blocks;
        }
    }
}

/* Until every lane has a block to do, or there is nothing for it any more. */
static unsigned fill(struct lanes *lanes, struct hr_md5_message *messages, unsigned next, unsigned count)
{
    for (unsigned i = 0; i < lanes->count; i++) {
        const struct lane *lane = &lanes->lane[i];
        while (lane->message ? lane->blocks == 0 : next < count) {
            if (lane->message) {
                lane_turn(lanes, i);
            } else {
                lane_begin(lanes, i, &messages[next++]);
            }
        }
    }
    return next;
}

static void side_by_side(enum hr_vectors width, struct hr_md5_message *messages, unsigned count)
{
    struct lanes lanes = {.count = width == HR_VECTORS_AVX512 ? 16 : 8};
    unsigned next = fill(&lanes, messages, 0, count);
    while (lanes.busy > 0) {
        step(width, &lanes);
        next = fill(&lanes, messages, next, count);
    }
}
#endif

int hr_md5_many(enum hr_vectors width, struct hr_md5_message *messages, unsigned count)
{
#ifdef __x86_64__
    if (width != HR_VECTORS_NONE && count >= FEWEST) {
        side_by_side(width, messages, count);
        return 0;
    }
#endif
    (void)width;
    return one_by_one(messages, count);
}
