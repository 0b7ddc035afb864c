/* For md5_lanes.c: the same block of several messages, as one vector for each of its 16 words. Rows are
 * loaded whole and turned by shuffles; word after word, loads and stores took longer than the rounds.
 * Little-endian, as x86 is and MD5 wants it. */
#ifndef HR_BASE_MD5_WORDS_H
#define HR_BASE_MD5_WORDS_H

#ifdef __x86_64__
#include <immintrin.h>
#include <stddef.h>

/* Eight words of eight messages, from `offset` on. */
__attribute__((target("avx2"))) static inline void hr_md5_turn8(__m256i *w, const unsigned char *const *at,
                                                                size_t offset)
{
    __m256i pairs[8], fours[8];
    for (int i = 0; i < 8; i += 2) {
        __m256i even = _mm256_loadu_si256((const __m256i *)(const void *)(at[i] + offset));
        __m256i odd = _mm256_loadu_si256((const __m256i *)(const void *)(at[i + 1] + offset));
        pairs[i] = _mm256_unpacklo_epi32(even, odd);
        pairs[i + 1] = _mm256_unpackhi_epi32(even, odd);
    }
    /* fours[i]: word i of messages 0 to 3 in its lower half, i + 4 in the upper; fours[i + 4]: of 4 to 7. */
    for (int i = 0; i < 8; i += 4) {
        fours[i] = _mm256_unpacklo_epi64(pairs[i], pairs[i + 2]);
        fours[i + 1] = _mm256_unpackhi_epi64(pairs[i], pairs[i + 2]);
        fours[i + 2] = _mm256_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
        fours[i + 3] = _mm256_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        w[i] = _mm256_permute2x128_si256(fours[i], fours[i + 4], 0x20);
        w[i + 4] = _mm256_permute2x128_si256(fours[i], fours[i + 4], 0x31);
    }
}

__attribute__((target("avx2"))) static inline void hr_md5_words_avx2(void *w, const unsigned char *const *at,
                                                                     size_t offset)
{
    hr_md5_turn8(w, at, offset);
    hr_md5_turn8((__m256i *)w + 8, at, offset + 32);
}

__attribute__((target("avx512f"))) static inline void
hr_md5_words_avx512(void *w, const unsigned char *const *at, size_t offset)
{
    __m512i *words = w;
    __m512i pairs[16], fours[16];
    for (int i = 0; i < 16; i += 2) {
        __m512i even = _mm512_loadu_si512(at[i] + offset);
        __m512i odd = _mm512_loadu_si512(at[i + 1] + offset);
        pairs[i] = _mm512_unpacklo_epi32(even, odd);
        pairs[i + 1] = _mm512_unpackhi_epi32(even, odd);
    }
    /* fours[m + i]: of messages m to m + 3 the words i, i + 4, i + 8 and i + 12, a quarter each. */
    for (int i = 0; i < 16; i += 4) {
        fours[i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
        fours[i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
        fours[i + 2] = _mm512_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
        fours[i + 3] = _mm512_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        __m512i low = _mm512_shuffle_i32x4(fours[i], fours[i + 4], 0x44); /* words i, i + 4 of 0 to 7 */
        __m512i high = _mm512_shuffle_i32x4(fours[i], fours[i + 4], 0xee);
        __m512i low2 = _mm512_shuffle_i32x4(fours[i + 8], fours[i + 12], 0x44); /* of 8 to 15 */
        __m512i high2 = _mm512_shuffle_i32x4(fours[i + 8], fours[i + 12], 0xee);
        words[i] = _mm512_shuffle_i32x4(low, low2, 0x88);
        words[i + 4] = _mm512_shuffle_i32x4(low, low2, 0xdd);
        words[i + 8] = _mm512_shuffle_i32x4(high, high2, 0x88);
        words[i + 12] = _mm512_shuffle_i32x4(high, high2, 0xdd);
    }
}
#endif

#endif
