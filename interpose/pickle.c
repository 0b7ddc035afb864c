#include "interpose/pickle.h"

#include <stdbool.h>

/* Opcodes: CPython's Lib/pickletools.py has the list. */
enum {
    OP_MARK = '(',
    OP_STOP = '.',
    OP_BININT = 'J',
    OP_BININT1 = 'K',
    OP_BININT2 = 'M',
    OP_NONE = 'N',
    OP_REDUCE = 'R',
    OP_BINUNICODE = 'X',
    OP_SHORT_BINBYTES = 'C',
    OP_BUILD = 'b',
    OP_GLOBAL = 'c',
    OP_BINGET = 'h',
    OP_LONG_BINGET = 'j',
    OP_TUPLE = 't',
    OP_EMPTY_LIST = ']',
    OP_APPEND = 'a',
    OP_APPENDS = 'e',
    OP_BINPUT = 'q',
    OP_LONG_BINPUT = 'r',
    OP_PROTO = 0x80,
    OP_TUPLE2 = 0x86,
    OP_TUPLE3 = 0x87,
    OP_NEWTRUE = 0x88,
    OP_NEWFALSE = 0x89,
    OP_LONG1 = 0x8a,
    OP_SHORT_BINUNICODE = 0x8c,
    OP_STACK_GLOBAL = 0x93,
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

static void skip(struct reader *reader, uint64_t bytes)
{
    if (reader->bad || (uint64_t)(reader->end - reader->at) < bytes) {
        reader->bad = true;
    } else {
        reader->at += bytes;
    }
}

static void skip_line(struct reader *reader)
{
    while (!reader->bad && take(reader, 1) != '\n') {
    }
}

/* A name or a dtype: of two characters ("i8") it must be one of whole numbers. */
static void skip_text(struct reader *reader, unsigned op)
{
    uint64_t len = take(reader, op == OP_SHORT_BINUNICODE ? 1 : 4);
    if (len == 2 && !reader->bad && reader->at < reader->end) {
        reader->bad |= *reader->at != 'i' && *reader->at != 'u';
    }
    skip(reader, len);
}

/* Does a numpy scalar begin so? The first one of a batch spells out whose it is, the others refer to that. */
static bool begins_scalar(unsigned op)
{
    return op == OP_GLOBAL || op == OP_SHORT_BINUNICODE || op == OP_BINGET || op == OP_LONG_BINGET;
}

/* One step towards the bytes of a numpy scalar. */
static void skip_op(struct reader *reader, unsigned op)
{
    switch (op) {
    case OP_GLOBAL:
        skip_line(reader);
        skip_line(reader);
        break;
    case OP_SHORT_BINUNICODE:
    case OP_BINUNICODE:
        skip_text(reader, op);
        break;
    case OP_BINGET:
    case OP_BININT1:
        skip(reader, 1);
        break;
    case OP_LONG_BINGET:
    case OP_BININT:
        skip(reader, 4);
        break;
    case OP_STACK_GLOBAL:
    case OP_NEWTRUE:
    case OP_NEWFALSE:
    case OP_NONE:
    case OP_MARK:
    case OP_TUPLE:
    case OP_TUPLE3:
    case OP_REDUCE:
    case OP_BUILD:
        break;
    default:
        reader->bad = true;
    }
}

/* scalar(dtype, bytes): a numpy integer of 4 or 8 bytes, whose first opcode was just read. */
static uint64_t take_scalar(struct reader *reader, unsigned op)
{
    for (; op != OP_SHORT_BINBYTES && !reader->bad; op = next_op(reader)) {
        skip_op(reader, op);
    }
    uint64_t bytes = take(reader, 1);
    reader->bad |= bytes != 4 && bytes != 8;
    uint64_t value = take(reader, reader->bad ? 0 : (unsigned)bytes);
    reader->bad |= next_op(reader) != OP_TUPLE2 || next_op(reader) != OP_REDUCE;
    return value;
}

/* Runs of "( int... e" and single "int a". *ret_op: what stands behind them. 0: not such a list. */
static unsigned take_list(struct reader *reader, uint32_t *ret, unsigned room, unsigned *ret_op)
{
    unsigned count = 0;
    bool in_run = false;
    for (;;) {
        unsigned op = next_op(reader);
        if (reader->bad) {
            return 0;
        }
        if (is_int(op) || begins_scalar(op)) {
            uint64_t value = is_int(op) ? take_int(reader, op) : take_scalar(reader, op);
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
            *ret_op = op;
            return in_run ? 0 : count;
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
    op = 0;
    unsigned count = take_list(&reader, ret_indices, room, &op);
    if (op == OP_NEWTRUE ||
        op == OP_NEWFALSE) { /* torchdata's StatefulDataLoader: (batch, (list, snapshot)) */
        op = next_op(&reader) == OP_TUPLE2 ? next_op(&reader) : 0;
    }
    if (count == 0 || op != OP_TUPLE2 || next_op(&reader) != OP_STOP || reader.bad ||
        reader.at != reader.end) {
        return 0;
    }
    *ret_batch = batch;
    return count;
}
