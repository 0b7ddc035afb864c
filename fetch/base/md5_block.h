/* MD5's rounds for md5_lanes.c at one width: included once for each, with HR_BLOCK (its name), HR_BLOCK_LANES
 * (32-bit lanes of a vector), HR_BLOCK_TARGET (the instructions it may use) and HR_BLOCK_WORDS (md5_words.h).
 * Text and not a function, because the compiler takes vectors apart before it inlines. Each lane has a
 * message of its own: one message's steps wait for each other, so that several side by side take hardly
 * longer than one. */
#include <string.h>

#include "fetch/base/md5_lanes.h"

#ifndef HR_BLOCK
#define HR_BLOCK md5_blocks
#define HR_BLOCK_LANES 4
#define HR_BLOCK_TARGET
#define HR_BLOCK_WORDS(w, at, offset)                                                                        \
    for (int i = 0; i < 16; i++) {                                                                           \
        for (int lane = 0; lane < HR_BLOCK_LANES; lane++) {                                                  \
            memcpy((uint32_t *)&(w)[i] + lane, (at)[lane] + (offset) + i * 4, 4);                            \
        }                                                                                                    \
    }
#endif

#define HR_PASTE2(a, b) a##b
#define HR_PASTE(a, b) HR_PASTE2(a, b)
#define HR_V HR_PASTE(HR_BLOCK, _lanes)

typedef uint32_t HR_V __attribute__((vector_size(HR_BLOCK_LANES * 4)));

/* RFC 1321, 3.4. */
#define HR_F(x, y, z) ((z) ^ ((x) & ((y) ^ (z))))
#define HR_G(x, y, z) ((y) ^ ((z) & ((x) ^ (y))))
#define HR_H(x, y, z) ((x) ^ (y) ^ (z))
#define HR_I(x, y, z) ((y) ^ ((x) | ~(z)))
/* What is known before the step begins is added first: from one step to the next every addition counts. */
#define HR_STEP(f, a, b, c, d, word, turn, sine)                                                             \
    a += word + sine;                                                                                        \
    __asm__("" : "+v"(a)); /* or the compiler adds in another order */                                       \
    a += f(b, c, d);                                                                                         \
    a = (a << turn | a >> (32 - turn)) + b;

/* `blocks` blocks of 64 bytes from each of at[]; state[word][lane]. */
__attribute__((unused)) HR_BLOCK_TARGET static void HR_BLOCK(uint32_t state[4][HR_MD5_LANES_MAX],
                                                             const unsigned char *const *at, size_t blocks)
{
    HR_V a, b, c, d, w[16];
    memcpy(&a, state[0], sizeof a);
    memcpy(&b, state[1], sizeof b);
    memcpy(&c, state[2], sizeof c);
    memcpy(&d, state[3], sizeof d);
    for (size_t block = 0; block < blocks; block++) {
        HR_V a0 = a, b0 = b, c0 = c, d0 = d;
        HR_BLOCK_WORDS(w, at, block * 64);
        HR_STEP(HR_F, a, b, c, d, w[0], 7, 0xd76aa478u)
        HR_STEP(HR_F, d, a, b, c, w[1], 12, 0xe8c7b756u)
        HR_STEP(HR_F, c, d, a, b, w[2], 17, 0x242070dbu)
        HR_STEP(HR_F, b, c, d, a, w[3], 22, 0xc1bdceeeu)
        HR_STEP(HR_F, a, b, c, d, w[4], 7, 0xf57c0fafu)
        HR_STEP(HR_F, d, a, b, c, w[5], 12, 0x4787c62au)
        HR_STEP(HR_F, c, d, a, b, w[6], 17, 0xa8304613u)
        HR_STEP(HR_F, b, c, d, a, w[7], 22, 0xfd469501u)
        HR_STEP(HR_F, a, b, c, d, w[8], 7, 0x698098d8u)
        HR_STEP(HR_F, d, a, b, c, w[9], 12, 0x8b44f7afu)
        HR_STEP(HR_F, c, d, a, b, w[10], 17, 0xffff5bb1u)
        HR_STEP(HR_F, b, c, d, a, w[11], 22, 0x895cd7beu)
        HR_STEP(HR_F, a, b, c, d, w[12], 7, 0x6b901122u)
        HR_STEP(HR_F, d, a, b, c, w[13], 12, 0xfd987193u)
        HR_STEP(HR_F, c, d, a, b, w[14], 17, 0xa679438eu)
        HR_STEP(HR_F, b, c, d, a, w[15], 22, 0x49b40821u)
        HR_STEP(HR_G, a, b, c, d, w[1], 5, 0xf61e2562u)
        HR_STEP(HR_G, d, a, b, c, w[6], 9, 0xc040b340u)
        HR_STEP(HR_G, c, d, a, b, w[11], 14, 0x265e5a51u)
        HR_STEP(HR_G, b, c, d, a, w[0], 20, 0xe9b6c7aau)
        HR_STEP(HR_G, a, b, c, d, w[5], 5, 0xd62f105du)
        HR_STEP(HR_G, d, a, b, c, w[10], 9, 0x02441453u)
        HR_STEP(HR_G, c, d, a, b, w[15], 14, 0xd8a1e681u)
        HR_STEP(HR_G, b, c, d, a, w[4], 20, 0xe7d3fbc8u)
        HR_STEP(HR_G, a, b, c, d, w[9], 5, 0x21e1cde6u)
        HR_STEP(HR_G, d, a, b, c, w[14], 9, 0xc33707d6u)
        HR_STEP(HR_G, c, d, a, b, w[3], 14, 0xf4d50d87u)
        HR_STEP(HR_G, b, c, d, a, w[8], 20, 0x455a14edu)
        HR_STEP(HR_G, a, b, c, d, w[13], 5, 0xa9e3e905u)
        HR_STEP(HR_G, d, a, b, c, w[2], 9, 0xfcefa3f8u)
        HR_STEP(HR_G, c, d, a, b, w[7], 14, 0x676f02d9u)
        HR_STEP(HR_G, b, c, d, a, w[12], 20, 0x8d2a4c8au)
        HR_STEP(HR_H, a, b, c, d, w[5], 4, 0xfffa3942u)
        HR_STEP(HR_H, d, a, b, c, w[8], 11, 0x8771f681u)
        HR_STEP(HR_H, c, d, a, b, w[11], 16, 0x6d9d6122u)
        HR_STEP(HR_H, b, c, d, a, w[14], 23, 0xfde5380cu)
        HR_STEP(HR_H, a, b, c, d, w[1], 4, 0xa4beea44u)
        HR_STEP(HR_H, d, a, b, c, w[4], 11, 0x4bdecfa9u)
        HR_STEP(HR_H, c, d, a, b, w[7], 16, 0xf6bb4b60u)
        HR_STEP(HR_H, b, c, d, a, w[10], 23, 0xbebfbc70u)
        HR_STEP(HR_H, a, b, c, d, w[13], 4, 0x289b7ec6u)
        HR_STEP(HR_H, d, a, b, c, w[0], 11, 0xeaa127fau)
        HR_STEP(HR_H, c, d, a, b, w[3], 16, 0xd4ef3085u)
        HR_STEP(HR_H, b, c, d, a, w[6], 23, 0x04881d05u)
        HR_STEP(HR_H, a, b, c, d, w[9], 4, 0xd9d4d039u)
        HR_STEP(HR_H, d, a, b, c, w[12], 11, 0xe6db99e5u)
        HR_STEP(HR_H, c, d, a, b, w[15], 16, 0x1fa27cf8u)
        HR_STEP(HR_H, b, c, d, a, w[2], 23, 0xc4ac5665u)
        HR_STEP(HR_I, a, b, c, d, w[0], 6, 0xf4292244u)
        HR_STEP(HR_I, d, a, b, c, w[7], 10, 0x432aff97u)
        HR_STEP(HR_I, c, d, a, b, w[14], 15, 0xab9423a7u)
        HR_STEP(HR_I, b, c, d, a, w[5], 21, 0xfc93a039u)
        HR_STEP(HR_I, a, b, c, d, w[12], 6, 0x655b59c3u)
        HR_STEP(HR_I, d, a, b, c, w[3], 10, 0x8f0ccc92u)
        HR_STEP(HR_I, c, d, a, b, w[10], 15, 0xffeff47du)
        HR_STEP(HR_I, b, c, d, a, w[1], 21, 0x85845dd1u)
        HR_STEP(HR_I, a, b, c, d, w[8], 6, 0x6fa87e4fu)
        HR_STEP(HR_I, d, a, b, c, w[15], 10, 0xfe2ce6e0u)
        HR_STEP(HR_I, c, d, a, b, w[6], 15, 0xa3014314u)
        HR_STEP(HR_I, b, c, d, a, w[13], 21, 0x4e0811a1u)
        HR_STEP(HR_I, a, b, c, d, w[4], 6, 0xf7537e82u)
        HR_STEP(HR_I, d, a, b, c, w[11], 10, 0xbd3af235u)
        HR_STEP(HR_I, c, d, a, b, w[2], 15, 0x2ad7d2bbu)
        HR_STEP(HR_I, b, c, d, a, w[9], 21, 0xeb86d391u)
        a += a0;
        b += b0;
        c += c0;
        d += d0;
    }
    memcpy(state[0], &a, sizeof a);
    memcpy(state[1], &b, sizeof b);
    memcpy(state[2], &c, sizeof c);
    memcpy(state[3], &d, sizeof d);
}

#undef HR_V
#undef HR_PASTE
#undef HR_PASTE2
#undef HR_F
#undef HR_G
#undef HR_H
#undef HR_I
#undef HR_STEP
