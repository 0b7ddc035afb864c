/* Rows of the zero-poison test: each is one way by which bytes or names come out of a descriptor, run in a
 * child with an alarm. Its outcome is one line: "waits" (the alarm ended it), an errno's name, "good N" (N
 * bytes, each what the object has there), or what must never be: "end", "ZERO at OFFSET", "WRONG at OFFSET".
 */
#ifndef HR_POISON_H
#define HR_POISON_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

struct poison_row {
    const char *name;
    void (*run)(void);
};

/* What the rows work on. */
extern const char *poison_path;          /* the object */
extern const char *poison_dark;          /* a directory whose listing is held back */
extern const char *poison_scratch;       /* a folder to write into */
extern uint64_t poison_at;               /* where in the object the rows read */
extern size_t poison_len;                /* and how much; at most POISON_LEN_MAX */
extern char *poison_buffer;              /* of POISON_LEN_MAX bytes, filled with 0 */
#define POISON_LEN_MAX ((size_t)1 << 20) /* what a pipe holds at most without privileges */

/* The object's byte at an offset: never 0. */
unsigned char poison_byte(uint64_t offset);

/* The row's outcome; the last one said counts. */
void poison_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What a call that read `got` bytes from `offset` on returned; errno counts when got is negative. */
void poison_bytes(const void *buffer, ssize_t got, uint64_t offset);
/* The same of the poison buffer from poison_at on. */
void poison_got(ssize_t got);
/* Reads what is to come out of fd (pipe, socket, file from where it stands), at most poison_len, and says it.
 */
void poison_drain(int fd);
void poison_errno(int error);
/* A condition that a row needs: ends the row with "row: WHAT" otherwise. */
void poison_need(bool good, const char *what);

int poison_open(void);         /* the object, offset poison_at */
int poison_file(void);         /* a new empty file to write into, read-write */
void poison_pipe(int ends[2]); /* holds POISON_LEN_MAX */
pid_t poison_fork(void);       /* a child that dies with the row */
void poison_wait(pid_t pid);

/* Runs all rows of a table side by side (only: NULL or a part of their names), prints a line for each in
 * order. */
void poison_run(const struct poison_row *rows, const char *only, unsigned seconds);

#endif
