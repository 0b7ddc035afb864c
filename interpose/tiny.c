#include "interpose/tiny.h"

#include <endian.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "interpose/sys.h"
#include "interpose/inner.h"

#define LINE_BYTES 1024 /* one write of a pipe stays whole up to 4096 */

static struct stat stderr_at_start; /* st_mode 0: there was none */

void hr_out_init(struct hr_out *out, char *buffer, size_t room)
{
    *out = (struct hr_out){.text = buffer, .room = room, .full = room == 0};
    if (room) {
        buffer[0] = '\0';
    }
}

void hr_out_bytes(struct hr_out *out, const char *bytes, size_t len)
{
    if (out->full || len >= out->room - out->len) {
        out->full = true;
        return;
    }
    memcpy(out->text + out->len, bytes, len);
    out->len += len;
    out->text[out->len] = '\0';
}

void hr_out_text(struct hr_out *out, const char *text)
{
    hr_out_bytes(out, text, strlen(text));
}

#if defined(__SSE2__)
/* Sixteen digits at once: a nibble a byte, the highest first, then what makes a digit or a letter of each. */
void hr_hex16(uint64_t value, char ret_text[HR_HEX_DIGITS])
{
    const __m128i low = _mm_set1_epi8(0x0f);
    __m128i bytes = _mm_cvtsi64_si128((long long)htobe64(value));
    __m128i nibbles = _mm_and_si128(_mm_unpacklo_epi8(_mm_srli_epi16(bytes, 4), bytes), low);
    __m128i letters = _mm_and_si128(_mm_cmpgt_epi8(nibbles, _mm_set1_epi8(9)), _mm_set1_epi8('a' - '0' - 10));
    _mm_storeu_si128((__m128i *)(void *)ret_text,
                     _mm_add_epi8(_mm_add_epi8(nibbles, _mm_set1_epi8('0')), letters));
}
#else
/* Eight digits at once: a nibble a byte, then what makes a digit or a letter of each. */
static uint64_t hex_of(uint32_t value)
{
    const uint64_t ones = 0x0101010101010101ull;
    uint64_t nibbles = value;
    nibbles = (nibbles | nibbles << 16) & 0x0000ffff0000ffffull;
    nibbles = (nibbles | nibbles << 8) & 0x00ff00ff00ff00ffull;
    nibbles = (nibbles | nibbles << 4) & 0x0f0f0f0f0f0f0f0full;
    uint64_t letters = (nibbles + 6 * ones) >> 4 & ones;
    return nibbles + '0' * ones + letters * ('a' - '0' - 10);
}

void hr_hex16(uint64_t value, char ret_text[HR_HEX_DIGITS])
{
    const uint64_t halves[2] = {htobe64(hex_of((uint32_t)(value >> 32))), htobe64(hex_of((uint32_t)value))};
    memcpy(ret_text, halves, sizeof(halves));
}
#endif

void hr_out_hex(struct hr_out *out, uint64_t value, unsigned digits)
{
    char text[HR_HEX_DIGITS];
    if (digits > sizeof(text)) {
        digits = sizeof(text);
    }
    hr_hex16(value, text);
    hr_out_bytes(out, text + sizeof(text) - digits, digits);
}

void hr_out_decimal(struct hr_out *out, uint64_t value)
{
    char text[20];
    size_t at = sizeof(text);
    do {
        text[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    hr_out_bytes(out, text + at, sizeof(text) - at);
}

int hr_out_done(const struct hr_out *out)
{
    return out->full ? -ENAMETOOLONG : (int)out->len;
}

void hr_copy_shared(void *to, const void *from, size_t bytes)
{
    char *out = to;
    const char *in = from;
    for (; (uintptr_t)in % sizeof(uint64_t) == 0 && bytes >= sizeof(uint64_t);
         bytes -= sizeof(uint64_t), in += sizeof(uint64_t), out += sizeof(uint64_t)) {
        uint64_t word = __atomic_load_n((const uint64_t __attribute__((may_alias)) *)in, __ATOMIC_ACQUIRE);
        memcpy(out, &word, sizeof(word));
    }
    for (; bytes >= sizeof(uint32_t);
         bytes -= sizeof(uint32_t), in += sizeof(uint32_t), out += sizeof(uint32_t)) {
        uint32_t word = __atomic_load_n((const uint32_t __attribute__((may_alias)) *)in, __ATOMIC_ACQUIRE);
        memcpy(out, &word, sizeof(word));
    }
    for (; bytes > 0; bytes--) {
        *out++ = __atomic_load_n(in++, __ATOMIC_ACQUIRE);
    }
}

bool hr_hex_parse(const char *text, unsigned digits, uint64_t *ret)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < digits; i++) {
        char c = text[i];
        unsigned digit;
        if (c >= '0' && c <= '9') {
            digit = (unsigned)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            digit = (unsigned)(c - 'a') + 10;
        } else {
            return false;
        }
        value = value << 4 | digit;
    }
    *ret = value;
    return true;
}

const char *hr_env(const char *name)
{
    size_t len = strlen(name);
    for (char **at = environ; at && *at; at++) {
        if (strncmp(*at, name, len) == 0 && (*at)[len] == '=') {
            return *at + len + 1;
        }
    }
    return NULL;
}

uint64_t hr_now_ms(void)
{
    struct timespec now = {0};
    HR_SYS2(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void hr_sleep_ms(unsigned ms)
{
    struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    HR_SYS2(SYS_nanosleep, &span, 0);
}

void hr_say_init(void)
{
    if (HR_SYS2(SYS_fstat, STDERR_FILENO, &stderr_at_start) < 0) {
        stderr_at_start.st_mode = 0;
    }
}

/* The number may be another file's by now, a database's or a connection's: it must still be what it was, or
 * what is meant for people: a terminal, a pipe, a log that is appended to. */
static bool stderr_is_for_people(void)
{
    struct stat now;
    if (stderr_at_start.st_mode == 0 || HR_SYS2(SYS_fstat, STDERR_FILENO, &now) < 0) {
        return false;
    }
    return (now.st_dev == stderr_at_start.st_dev && now.st_ino == stderr_at_start.st_ino) ||
           S_ISCHR(now.st_mode) || S_ISFIFO(now.st_mode) ||
           (S_ISREG(now.st_mode) && (HR_SYS2(SYS_fcntl, STDERR_FILENO, F_GETFL) & O_APPEND));
}

void hr_say(const char *part, ...)
{
    char line[LINE_BYTES];
    struct hr_out out;
    va_list parts;

    if (!stderr_is_for_people()) {
        return;
    }
    /* The last byte of the room is the newline's. */
    hr_out_init(&out, line, sizeof(line) - 1);
    hr_out_text(&out, "headrace: ");
    va_start(parts, part);
    for (const char *text = part; text; text = va_arg(parts, const char *)) {
        size_t len = strlen(text);
        size_t left = out.room - 1 - out.len;
        hr_out_bytes(&out, text, len < left ? len : left);
    }
    va_end(parts);
    for (size_t i = 0; i < out.len; i++) {
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f) {
            line[i] = '?';
        }
    }
    line[out.len] = '\n';
    HR_SYS3(SYS_write, STDERR_FILENO, line, out.len + 1);
}
