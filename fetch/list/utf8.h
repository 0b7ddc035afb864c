/* Keys as UTF-8: a store may refuse a start-after that is none, so a cut through a character is filled up.
 * */
#ifndef HR_LIST_UTF8_H
#define HR_LIST_UTF8_H

#include <stdint.h>

/* Length of the character that starts with this byte; 0: none does. */
uint32_t hr_utf8_bytes(uint8_t lead);
/* Bytes at the start that are whole characters. */
uint32_t hr_utf8_valid(const char *text, uint32_t len);
/* Fills up the character that begins at `start`, where text ends, with the smallest bytes that fit (text
 * has 3 bytes more); the new length. */
uint32_t hr_utf8_close(char *text, uint32_t len, uint32_t start);

#endif
