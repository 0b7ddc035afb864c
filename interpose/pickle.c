#include "interpose/pickle.h"

#include <stdbool.h>

/* Opcodes: CPython's Lib/pickletools.py has the list. */
enum {
    OP_MARK = '(',
    OP_STOP = '.',
    OP_BININT = 'J',
    OP_BININT1 = 'K',
    OP_BININT2 = 'M',
    OP_EMPTY_LIST = ']',
    OP_APPEND = 'a',
    OP_APPENDS = 'e',
    OP_BINPUT = 'q',
    OP_LONG_BINPUT = 'r',
    OP_PROTO = 0x80,
    OP_TUPLE2 = 0x86,
    OP_LONG1 = 0x8a,
    OP_MEMOIZE = 0x94,
    OP_FRAME = 0x95
};

struct reader {
    const uint8_t *at, *end;
    bool bad;
};

static uint64_t take(struct reader *reader, unsigned bytes)
{
    uint64_t value = 0;
    if (reader->bad || (size_t)(reader->end - reader->at) < bytes) {
        reader->bad = true;
        return 0;
    }
    for (unsigned i = 0; i < bytes; i++) {
        value |= (uint64_t)*reader->at++ << (8 * i);
    }
    return value;
}

/* Frames and memo entries may stand anywhere and mean nothing to us. */
static unsigned next_op(struct reader *reader)
{
    for (;;) {
        unsigned op = (unsigned)take(reader, 1);
        if (op == OP_FRAME) {
            (void)take(reader, 8);
        } else if (op == OP_BINPUT) {
            (void)take(reader, 1);
        } else if (op == OP_LONG_BINPUT) {
            (void)take(reader, 4);
        } else if (op != OP_MEMOIZE || reader->bad) {
            return op;
        }
    }
}

static bool is_int(unsigned op)
{
    return op == OP_BININT || op == OP_BININT1 || op == OP_BININT2 || op == OP_LONG1;
}

/* The int whose opcode was just read; negative or over 63 bits is bad. */
static uint64_t take_int(struct reader *reader, unsigned op)
{
    unsigned bytes = op == OP_BININT1 ? 1 : op == OP_BININT2 ? 2 : 4;
    if (op == OP_LONG1) {
        bytes = (unsigned)take(reader, 1);
        if (bytes == 0 || bytes > 8) {
            reader->bad |= bytes != 0;
            return 0;
        }
    }
    uint64_t value = take(reader, bytes);
    bool is_signed = op == OP_BININT || op == OP_LONG1;
    if (is_signed && value >> (8 * bytes - 1)) {
        reader->bad = true;
    }
    return value;
}

/* Runs of "( int... e" and single "int a" up to the tuple. */
static unsigned take_list(struct reader *reader, uint32_t *ret, unsigned room)
{
    unsigned count = 0;
    bool in_run = false;
    for (;;) {
        unsigned op = next_op(reader);
        if (reader->bad) {
            return 0;
        }
        if (is_int(op)) {
            uint64_t value = take_int(reader, op);
            if (reader->bad || value > UINT32_MAX || count == room) {
                return 0;
            }
            ret[count++] = (uint32_t)value;
            if (!in_run && next_op(reader) != OP_APPEND) {
                return 0;
            }
        } else if (op == OP_MARK && !in_run) {
            in_run = true;
        } else if (op == OP_APPENDS && in_run) {
            in_run = false;
        } else {
            return op == OP_TUPLE2 && !in_run ? count : 0;
        }
    }
}

unsigned hr_pickle_batch(const uint8_t *bytes, size_t len, uint64_t *ret_batch, uint32_t *ret_indices,
                         unsigned room)
{
    struct reader reader = {.at = bytes, .end = bytes + len};
    if (take(&reader, 1) != OP_PROTO) {
        return 0;
    }
    uint64_t protocol = take(&reader, 1);
    unsigned op = next_op(&reader);
    if (protocol < 2 || protocol > 5 || !is_int(op)) {
        return 0;
    }
    uint64_t batch = take_int(&reader, op);
    if (next_op(&reader) != OP_EMPTY_LIST) {
        return 0;
    }
    unsigned count = take_list(&reader, ret_indices, room);
    if (count == 0 || next_op(&reader) != OP_STOP || reader.bad || reader.at != reader.end) {
        return 0;
    }
    *ret_batch = batch;
    return count;
}
