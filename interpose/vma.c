#include "interpose/vma.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>

#include "interpose/sys.h"
#include "interpose/tiny.h"
#include "interpose/inner.h"

#define LINE_MAX_BYTES (PATH_MAX + 128) /* addresses, offset, device and inode before a path */
#define ID_DIGITS 16

/* Text that is read from its front. */
struct text {
    const char *at, *end;
};

static bool take_hex(struct text *text, uint64_t *ret)
{
    const char *start = text->at;
    *ret = 0;
    for (; text->at < text->end; text->at++) {
        char c = *text->at;
        if (c >= '0' && c <= '9') {
            *ret = *ret << 4 | (uint64_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            *ret = *ret << 4 | (uint64_t)(c - 'a' + 10);
        } else {
            break;
        }
    }
    return text->at > start;
}

static bool take_char(struct text *text, char c)
{
    bool there = text->at < text->end && *text->at == c;
    text->at += there;
    return there;
}

static bool take_prot(struct text *text, struct hr_vma *ret)
{
    if (text->end - text->at < 4) {
        return false;
    }
    ret->prot = (text->at[0] == 'r' ? PROT_READ : 0) | (text->at[1] == 'w' ? PROT_WRITE : 0) |
                (text->at[2] == 'x' ? PROT_EXEC : 0);
    ret->shared = text->at[3] == 's';
    text->at += 4;
    return true;
}

/* ".../objects/XX/ID" -> ID, else 0. */
static uint64_t object_of(const char *path, const char *end)
{
    static const char gone[] = " (deleted)";
    static const char folder[] = "/objects/";
    const size_t tail = sizeof(folder) - 1 + 2 + 1 + ID_DIGITS;
    char digits[ID_DIGITS + 1];
    uint64_t id;
    if ((size_t)(end - path) > sizeof(gone) - 1 &&
        memcmp(end - (sizeof(gone) - 1), gone, sizeof(gone) - 1) == 0) {
        end -= sizeof(gone) - 1;
    }
    if ((size_t)(end - path) <= tail || memcmp(end - tail, folder, sizeof(folder) - 1) != 0) {
        return 0;
    }
    memcpy(digits, end - ID_DIGITS, ID_DIGITS);
    digits[ID_DIGITS] = '\0';
    return hr_hex_parse(digits, ID_DIGITS, &id) ? id : 0;
}

bool hr_vma_parse(const char *line, size_t len, struct hr_vma *ret)
{
    struct text text = {line, line + len};
    uint64_t start, end;
    if (!take_hex(&text, &start) || !take_char(&text, '-') || !take_hex(&text, &end) ||
        !take_char(&text, ' ') || !take_prot(&text, ret) || !take_char(&text, ' ') ||
        !take_hex(&text, &ret->offset)) {
        return false;
    }
    ret->start = (uintptr_t)start;
    ret->end = (uintptr_t)end;
    const char *path = memchr(text.at, '/', (size_t)(text.end - text.at));
    ret->object = path ? object_of(path, text.end) : 0;
    return true;
}

bool hr_vma_find(uintptr_t address, struct hr_vma *ret)
{
    char buffer[LINE_MAX_BYTES];
    size_t used = 0;
    bool found = false;
    long fd = HR_SYS4(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    long got;
    while (!found && fd >= 0 && (got = HR_SYS3(SYS_read, fd, buffer + used, sizeof(buffer) - used)) > 0) {
        size_t start = 0;
        used += (size_t)got;
        for (;;) {
            const char *newline = memchr(buffer + start, '\n', used - start);
            if (!newline) {
                break;
            }
            size_t len = (size_t)(newline - (buffer + start));
            struct hr_vma vma;
            found = hr_vma_parse(buffer + start, len, &vma) && vma.start <= address && address < vma.end;
            if (found) {
                *ret = vma;
                break;
            }
            start += len + 1;
        }
        used -= start;
        memmove(buffer, buffer + start, used);
    }
    if (fd >= 0) {
        HR_SYS1(SYS_close, fd);
    }
    return found;
}
