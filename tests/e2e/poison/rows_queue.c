/* Streams over a descriptor, POSIX's asynchronous reads, and rings. */
#include <aio.h>
#include <stdio_ext.h>

#include "tests/e2e/poison/ring.h"
#include "tests/e2e/poison/rows.h"

extern int __uflow(FILE *file);
extern size_t __fread_chk(void *buffer, size_t room, size_t size, size_t count, FILE *file);

static FILE *stream(void)
{
    FILE *file = fdopen(poison_open(), "r");
    if (!file) {
        poison_errno(errno);
        _exit(0);
    }
    return file;
}

/* What a stream gave: bytes, its error, or its end. */
static void streamed(FILE *file, size_t got)
{
    if (got == 0 && !ferror(file)) {
        errno = 0;
    }
    poison_got(got == 0 && ferror(file) ? -1 : (ssize_t)got);
}

/* A row that is one call on a stream and gives a number of bytes. */
#define ROW(name, call)                                                                                      \
    static void name(void)                                                                                   \
    {                                                                                                        \
        FILE *file = stream();                                                                               \
        streamed(file, (call));                                                                              \
    }

ROW(do_fread, fread(poison_buffer, 1, poison_len, file))
ROW(do_fread_unlocked, fread_unlocked(poison_buffer, 1, poison_len, file))
ROW(do_fread_chk, __fread_chk(poison_buffer, POISON_LEN_MAX, 1, poison_len, file))

/* The content has lines of some hundred bytes and no zero. */
ROW(do_fgets, fgets(poison_buffer, (int)poison_len, file) ? strlen(poison_buffer) : 0)
ROW(do_fscanf, fscanf(file, "%100c", poison_buffer) == 1 ? 100 : 0)

static size_t line(FILE *file, int end)
{
    char *text = NULL;
    size_t room = 0;
    ssize_t got = getdelim(&text, &room, end, file);
    if (got > 0) {
        memcpy(poison_buffer, text, (size_t)got);
    }
    return got > 0 ? (size_t)got : 0;
}

static size_t whole_line(FILE *file)
{
    char *text = NULL;
    size_t room = 0;
    ssize_t got = getline(&text, &room, file);
    if (got > 0) {
        memcpy(poison_buffer, text, (size_t)got);
    }
    return got > 0 ? (size_t)got : 0;
}

static size_t one(int byte)
{
    poison_buffer[0] = (char)byte;
    return byte == EOF ? 0 : 1;
}

static size_t word(FILE *file)
{
    int got = getw(file);
    memcpy(poison_buffer, &got, sizeof(got));
    return feof(file) || ferror(file) ? 0 : sizeof(got);
}

ROW(do_getline, whole_line(file))
ROW(do_getdelim, line(file, 7))
ROW(do_fgetc, one(fgetc(file)))
ROW(do_getc_unlocked, one(getc_unlocked(file)))
ROW(do_fgetc_unlocked, one(fgetc_unlocked(file)))
ROW(do_uflow, one(__uflow(file)))
ROW(do_getw, word(file))

/* Streams by path stand where the row reads after a seek. */
static void by_path(FILE *file)
{
    if (!file || fseeko(file, (off_t)poison_at, SEEK_SET) != 0) {
        poison_errno(errno);
        return;
    }
    streamed(file, fread(poison_buffer, 1, poison_len, file));
}

static void do_fopen(void)
{
    by_path(fopen(poison_path, "r"));
}

static void do_fopen64(void)
{
    by_path(fopen64(poison_path, "re"));
}

/* "m": glibc reads by a mapping that it makes itself. */
static void do_fopen_mapped(void)
{
    by_path(fopen(poison_path, "rm"));
}

static void do_freopen(void)
{
    by_path(freopen(poison_path, "r", stdin));
}

static void do_freopen64(void)
{
    by_path(freopen64(poison_path, "r", stdin));
}

static void do_freopen_same(void)
{
    by_path(freopen(NULL, "r", stream()));
}

static void do_stdin(void)
{
    dup2(poison_open(), 0);
    streamed(stdin, fread(poison_buffer, 1, poison_len, stdin));
}

static void after_aio(int error, struct aiocb *block)
{
    const struct aiocb *list[] = {block};
    if (error != 0) {
        poison_errno(errno);
        return;
    }
    while (aio_error(block) == EINPROGRESS) {
        aio_suspend(list, 1, NULL);
    }
    errno = aio_error(block);
    poison_got(errno ? -1 : aio_return(block));
}

static struct aiocb block_of(void)
{
    return (struct aiocb){.aio_fildes = poison_open(),
                          .aio_buf = poison_buffer,
                          .aio_nbytes = poison_len,
                          .aio_offset = (off_t)poison_at,
                          .aio_lio_opcode = LIO_READ,
                          .aio_sigevent.sigev_notify = SIGEV_NONE};
}

static void do_aio_read(void)
{
    struct aiocb block = block_of();
    after_aio(aio_read(&block), &block);
}

static void do_lio_listio(void)
{
    struct aiocb block = block_of(), *list[] = {&block};
    int error = lio_listio(LIO_WAIT, list, 1, NULL);
    after_aio(error != 0 && errno != EIO ? -1 : 0, &block);
}

static void do_lio_nowait(void)
{
    struct aiocb block = block_of(), *list[] = {&block};
    after_aio(lio_listio(LIO_NOWAIT, list, 1, NULL), &block);
}

static void negative(ssize_t got)
{
    errno = got < 0 ? (int)-got : errno;
    poison_got(got);
}

static void do_ring(void)
{
    negative(poison_ring_read(poison_open(), poison_buffer, poison_len, poison_at));
}

static void do_ring_fixed(void)
{
    negative(poison_ring_read_fixed(poison_open(), poison_buffer, poison_len, poison_at));
}

static void do_submit(void)
{
    negative(poison_submit_read(poison_open(), poison_buffer, poison_len, poison_at));
}

const struct poison_row rows_queue[] = {{"fdopen, fread", do_fread},
                                        {"fdopen, fread_unlocked", do_fread_unlocked},
                                        {"fdopen, __fread_chk", do_fread_chk},
                                        {"fdopen, fgets", do_fgets},
                                        {"fdopen, fscanf", do_fscanf},
                                        {"fdopen, getline", do_getline},
                                        {"fdopen, getdelim", do_getdelim},
                                        {"fdopen, fgetc", do_fgetc},
                                        {"fdopen, getc_unlocked", do_getc_unlocked},
                                        {"fdopen, fgetc_unlocked", do_fgetc_unlocked},
                                        {"fdopen, __uflow", do_uflow},
                                        {"fdopen, getw", do_getw},
                                        {"fopen", do_fopen},
                                        {"fopen64", do_fopen64},
                                        {"fopen mapped", do_fopen_mapped},
                                        {"freopen", do_freopen},
                                        {"freopen64", do_freopen64},
                                        {"freopen of the same", do_freopen_same},
                                        {"stdin", do_stdin},
                                        {"aio_read", do_aio_read},
                                        {"lio_listio", do_lio_listio},
                                        {"lio_listio LIO_NOWAIT", do_lio_nowait},
                                        {"io_uring", do_ring},
                                        {"io_uring, registered file", do_ring_fixed},
                                        {"io_submit", do_submit},
                                        {NULL, NULL}};
