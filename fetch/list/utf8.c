#include "fetch/list/utf8.h"

#include <stdbool.h>

uint32_t hr_utf8_bytes(uint8_t lead)
{
    if (lead < 0x80) {
        return 1;
    }
    if (lead < 0xc2 || lead > 0xf4) {
        return 0;
    }
    return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

static bool continuation_fits(const char *start, uint32_t at)
{
    uint8_t lead = (uint8_t)start[0];
    uint8_t byte = (uint8_t)start[at];
    uint8_t low = at == 1 && lead == 0xe0 ? 0xa0 : at == 1 && lead == 0xf0 ? 0x90 : 0x80;
    uint8_t high = at == 1 && lead == 0xed ? 0x9f : at == 1 && lead == 0xf4 ? 0x8f : 0xbf;
    return byte >= low && byte <= high;
}

uint32_t hr_utf8_valid(const char *text, uint32_t len)
{
    uint32_t at = 0;
    while (at < len) {
        uint32_t bytes = hr_utf8_bytes((uint8_t)text[at]);
        if (bytes == 0 || bytes > len - at) {
            break;
        }
        for (uint32_t i = 1; i < bytes; i++) {
            if (!continuation_fits(text + at, i)) {
                return at;
            }
        }
        at += bytes;
    }
    return at;
}

uint32_t hr_utf8_close(char *cut, uint32_t len, uint32_t start)
{
    uint32_t bytes = hr_utf8_bytes((uint8_t)cut[start]);
    while (bytes > 0 && len < start + bytes) {
        uint8_t lead = (uint8_t)cut[start];
        bool second = len == start + 1;
        cut[len++] = (char)(second && lead == 0xe0 ? 0xa0 : second && lead == 0xf0 ? 0x90 : 0x80);
    }
    return len;
}
