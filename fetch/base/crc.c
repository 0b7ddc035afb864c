/* CRCs by eight tables (eight bytes a step); CRC32C by the CPU's instruction where there is one. */
#include "fetch/base/digest.h"

#include <pthread.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define CRC32_POLY 0xedb88320u             /* ISO-HDLC, reflected */
#define CRC32C_POLY 0x82f63b78u            /* Castagnoli, reflected */
#define CRC64NVME_POLY 0x9a6c9329ac4bc9b5u /* NVM Express (Rocksoft), reflected */
#define STEP_BYTES 8

/* All three are reflected, so one 64-bit routine serves them; the 32-bit ones leave the upper half zero. */
struct tables {
    uint64_t of[STEP_BYTES][256];
};
static struct tables crc32_tables, crc32c_tables, crc64_tables;
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void make_tables(struct tables *tables, uint64_t poly)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        uint64_t crc = byte;
        for (int bit = 0; bit < 8; bit++) {
            crc = crc & 1 ? crc >> 1 ^ poly : crc >> 1;
        }
        tables->of[0][byte] = crc;
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        for (int step = 1; step < STEP_BYTES; step++) {
            uint64_t crc = tables->of[step - 1][byte];
            tables->of[step][byte] = crc >> 8 ^ tables->of[0][crc & 255];
        }
    }
}

static void make_all_tables(void)
{
    make_tables(&crc32_tables, CRC32_POLY);
    make_tables(&crc32c_tables, CRC32C_POLY);
    make_tables(&crc64_tables, CRC64NVME_POLY);
}

static uint64_t load_le64(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

static uint64_t by_tables(const struct tables *tables, uint64_t crc, const uint8_t *at, size_t len)
{
    (void)pthread_once(&tables_once, make_all_tables);
    for (; len >= STEP_BYTES; at += STEP_BYTES, len -= STEP_BYTES) {
        uint64_t word = crc ^ load_le64(at);
        crc = tables->of[7][word & 255] ^ tables->of[6][word >> 8 & 255] ^ tables->of[5][word >> 16 & 255] ^
              tables->of[4][word >> 24 & 255] ^ tables->of[3][word >> 32 & 255] ^
              tables->of[2][word >> 40 & 255] ^ tables->of[1][word >> 48 & 255] ^ tables->of[0][word >> 56];
    }
    for (; len > 0; at++, len--) {
        crc = crc >> 8 ^ tables->of[0][(crc ^ *at) & 255];
    }
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc32c_by_cpu(uint32_t crc, const uint8_t *at, size_t len)
{
    uint64_t wide = crc;
    for (; len >= 8; at += 8, len -= 8) {
        wide = _mm_crc32_u64(wide, load_le64(at));
    }
    crc = (uint32_t)wide;
    for (; len > 0; at++, len--) {
        crc = _mm_crc32_u8(crc, *at);
    }
    return crc;
}
#endif

uint32_t hr_crc32(uint32_t crc, const void *bytes, size_t len)
{
    return ~(uint32_t)by_tables(&crc32_tables, (uint32_t)~crc, bytes, len);
}

uint32_t hr_crc32c(uint32_t crc, const void *bytes, size_t len)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) {
        return ~crc32c_by_cpu(~crc, bytes, len);
    }
#endif
    return ~(uint32_t)by_tables(&crc32c_tables, (uint32_t)~crc, bytes, len);
}

uint64_t hr_crc64nvme(uint64_t crc, const void *bytes, size_t len)
{
    return ~by_tables(&crc64_tables, ~crc, bytes, len);
}
