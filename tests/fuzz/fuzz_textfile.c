/* A file that is plain or gzip, whole, cut off or damaged: the same bytes and the same end whatever the
 * pieces, and a whole gzip file gives what was put in. Input: how (1 byte), where it is changed (2), to what
 * (1), bytes. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "fetch/list/textfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEAD_BYTES 4
#define OUT_MAX (4u << 20) /* of what a few bytes unpack to */

enum how { HOW_PLAIN, HOW_GZIP, HOW_GZIP_CUT, HOW_GZIP_CHANGED, HOW_COUNT };

static void must(bool truth)
{
    if (!truth) {
        abort();
    }
}

/* All of the file in pieces of `room`: its bytes' count or -errno; the bytes' Adler-32 as far as they came.
 */
static int64_t read_all(const char *path, size_t room, uint32_t *ret_sum)
{
    struct hr_textfile *file;
    char *piece = malloc(room);
    int64_t total = 0, got = 1;
    must(piece != NULL && hr_textfile_open(path, &file) == 0);
    *ret_sum = 0;
    while (got > 0 && total < OUT_MAX) {
        got = hr_textfile_read(file, piece, room);
        must(got <= (int64_t)room && (got >= 0 || got == -EBADMSG));
        if (got > 0) {
            *ret_sum = (uint32_t)adler32(*ret_sum, (const Bytef *)piece, (unsigned)got);
            total += got;
        }
    }
    hr_textfile_close(file);
    free(piece);
    return got < 0 ? got : total;
}

static uint8_t *packed(const uint8_t *bytes, size_t len, size_t *ret_len)
{
    z_stream stream = {0};
    must(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK); /* 16: gzip's head */
    size_t room = deflateBound(&stream, len) + 32;
    uint8_t *out = malloc(room);
    must(out != NULL);
    stream.next_in = (Bytef *)(uintptr_t)bytes;
    stream.avail_in = (unsigned)len;
    stream.next_out = out;
    stream.avail_out = (unsigned)room;
    must(deflate(&stream, Z_FINISH) == Z_STREAM_END);
    *ret_len = stream.total_out;
    deflateEnd(&stream);
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    uint32_t sum, again;
    if (size < HEAD_BYTES) {
        return 0;
    }
    enum how how = data[0] % HOW_COUNT;
    size_t len = size - HEAD_BYTES, file_len = len;
    const uint8_t *bytes = data + HEAD_BYTES;
    uint8_t *gzip = how == HOW_PLAIN ? NULL : packed(bytes, len, &file_len);
    size_t at = (data[1] | (size_t)data[2] << 8) % (file_len ? file_len : 1);
    if (how == HOW_GZIP_CHANGED) {
        gzip[at] = data[3];
    }
    file_len = how == HOW_GZIP_CUT ? at : file_len;
    int fd = memfd_create("text", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, gzip ? gzip : bytes, file_len) == (ssize_t)file_len);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int64_t total = read_all(path, 1 << 20, &sum);
    int64_t total_again = read_all(path, 1 + data[3] * 7u, &again);
    if (total < OUT_MAX && total_again < OUT_MAX) {
        must(total == total_again && (total < 0 || sum == again));
    }
    if (how == HOW_GZIP) {
        must(total == (int64_t)len && sum == (uint32_t)adler32(0, bytes, (unsigned)len));
    }
    if (how == HOW_GZIP_CUT && at >= 2) { /* one byte of it is no gzip yet */
        must(total == -EBADMSG);
    }
    close(fd);
    free(gzip);
    return 0;
}
