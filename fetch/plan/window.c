/* How each thread reads each large object, as far as it shows: a reader asks when it leaves what it has. One
 * that goes on where it was gets whole cells and a growing window of cells behind them; one that jumps gets
 * what it asks for. A run that began with a jump is believed by its length, so that records of some hundred
 * KiB, read in small steps, do not cost cells. */
#include "fetch/plan/inner.h"

#include <stdlib.h>

#include "fetch/base/clock.h"
#include "fetch/base/least.h"
#include "fetch/plan/runs.h"
#include "fetch/plan/shards.h"

#define HR_READERS 1024          /* threads times objects; then the one that was quiet longest is forgotten */
#define HR_READER_WAYS 4         /* places that one reader may have */
#define HR_READER_QUIET_MS 10000 /* reads nothing: it needs no share of the window */
/* A read this near to the start begins at the start: a header was skipped. */
#define HR_START_BYTES (64u << 10)
#define HR_SKIP_BYTES (1u << 20)  /* gap that reading on may have: what a request costs, in bytes */
#define HR_HOLE_BYTES (64u << 10) /* smaller ones are none */
/* Buffered readers take whole blocks of what they were asked for, then a block for the rest: less than this
 * part behind a jump is of that kind. */
#define HR_TRAIL_SHARE 4
#define HR_RUN_BYTES (1u << 20) /* so much that was read in order goes on... */
#define HR_RUN_STEPS 2          /* ...when it went on so often: of many jumps two are neighbours by chance */
#define HR_RUN_SHARE 2          /* ...and holes are not more than what was read of it */
#define HR_RUN_GROWS 3          /* before: a piece is so many times what was read behind the last hole */
#define HR_WINDOW_STREAM_STEP 1 /* who begins what is nearly always read to its end begins there... */
#define HR_WINDOW_TOLD_STEP 2   /* ...who says that he reads on, or begins with a read of HR_RUN_BYTES... */
#define HR_WINDOW_FULL_STEP 4   /* ...where others were read whole; the rest step by step */
#define HR_WINDOW_SHARE 4       /* windows fill at most this part of the cache... */
#define HR_WINDOW_DEPTH 2       /* ...and so many times what `memory` holds */

/* Cells ahead with each step. Not all at once: what is needed next would come no sooner than the last of
 * them. 54 are half as many again as the 37 that `memory` lets be on their way (1.4 GB/s for the 200 ms that
 * a cell takes from afar): those asked for together come together, and the next requests must not wait until
 * their reader has come to them. */
static const unsigned window_cells[] = {1, 4, 16, 36, 54};
/* Who begins a stream asks again one cell later: with so many a reader of 250 MB/s has something to read
 * until those come, from afar, too. */
#define HR_WINDOW_STREAM_CELLS 6

struct reader {
    uint64_t face_id;
    uint32_t pid, tid; /* tid 0: no thread, it holds what the process said */
    enum hr_hint said;
    int64_t asked_ms;
    uint64_t began;      /* of its last read; a long one asks several times */
    uint64_t ordered;    /* what it had read in order up to there, without holes... */
    uint64_t before;     /* ...and up to the last hole */
    uint64_t offset;     /* of its last ask... */
    uint64_t wanted;     /* ...and as far as that went */
    uint64_t end;        /* of the file that answered it */
    unsigned went_on;    /* so often, before it was believed */
    unsigned step;       /* of its window, since */
    struct hr_runs runs; /* of those that it jumped to */
    uint64_t trail;      /* so much further it wanted than before... */
    uint64_t behind;     /* ...and nothing more, after jumps: it comes with what is asked for */
    bool trails;         /* that is little: no reading on */
    uint64_t until;      /* so far it is thought to go on */
    bool cells;          /* it is believed */
    bool from_start;     /* it has left nothing out so far */
    bool ended;          /* it has the object's end, or is about to have it: nothing is left to be brought */
};

struct hr_readers {
    struct reader sets[HR_READERS / HR_READER_WAYS][HR_READER_WAYS];
};

static struct reader *find(struct hr_plan *plan, const struct hr_reader *who, uint64_t face_id,
                           struct reader **ret_oldest)
{
    uint64_t hash = hr_mix64(face_id ^ hr_mix64((uint64_t)who->pid << 32 | who->tid));
    struct reader *set = plan->readers->sets[hash % (HR_READERS / HR_READER_WAYS)];
    struct reader *oldest = set;
    for (unsigned i = 0; i < HR_READER_WAYS; i++) {
        if (set[i].face_id == face_id && set[i].pid == who->pid && set[i].tid == who->tid) {
            return &set[i];
        }
        oldest = set[i].asked_ms < oldest->asked_ms ? &set[i] : oldest;
    }
    *ret_oldest = oldest;
    return NULL;
}

/* What it said of the object. */
static enum hr_hint said_by(struct hr_plan *plan, const struct hr_reader *who, uint64_t face_id)
{
    const struct hr_reader process = {.pid = who->pid};
    struct reader *oldest;
    struct reader *said = plan->readers ? find(plan, &process, face_id, &oldest) : NULL;
    if (said) {
        said->asked_ms = hr_clock_ms();
    }
    return said ? said->said : HR_HINT_NONE;
}

static struct reader *find_or_make(struct hr_plan *plan, const struct hr_reader *who, uint64_t face_id)
{
    struct reader *oldest = NULL;
    if (!plan->readers) {
        plan->readers = calloc(1, sizeof *plan->readers);
    }
    struct reader *reader = plan->readers ? find(plan, who, face_id, &oldest) : NULL;
    if (!reader && oldest) {
        *oldest = (struct reader){.face_id = face_id, .pid = who->pid, .tid = who->tid, .offset = UINT64_MAX};
        reader = oldest;
    }
    return reader;
}

static unsigned reading_on(const struct hr_plan *plan)
{
    int64_t since_ms = hr_clock_ms() - HR_READER_QUIET_MS;
    unsigned count = 0;
    const struct reader *all = plan->readers ? plan->readers->sets[0] : NULL;
    for (unsigned i = 0; all && i < HR_READERS; i++) {
        count += all[i].cells && !all[i].ended && all[i].asked_ms >= since_ms;
    }
    return count ? count : 1;
}

static unsigned ahead_of(const struct reader *reader, bool begins)
{
    bool stream = begins && reader->step == HR_WINDOW_STREAM_STEP;
    return stream ? HR_WINDOW_STREAM_CELLS : window_cells[reader->step];
}

unsigned hr_window_bound(const struct hr_plan *plan)
{
    struct hr_cache_stats cache;
    hr_cache_stats(plan->cache, &cache);
    uint64_t readers = reading_on(plan),
             memory_cells = plan->options.memory_bytes * HR_WINDOW_DEPTH / HR_CELL_BYTES / readers;
    uint64_t cells = cache.budget_bytes / HR_WINDOW_SHARE / HR_CELL_BYTES / readers;
    /* Else one window has all memory, and the cells that other readers wait for come behind it. */
    cells = hr_least(cells, memory_cells ? memory_cells : 1);
    return (unsigned)hr_least(cells, plan->options.connections);
}

/* It reads what begins there: how much comes along is a guess, by the read, the name and what else lies
 * there. */
static unsigned first_step(struct hr_plan *plan, const struct hr_segment_ask *ask)
{
    struct hr_shard_opening opening;
    hr_shard_begun(plan, ask->face_id, &opening);
    unsigned step = opening.read_whole           ? HR_WINDOW_FULL_STEP
                    : ask->bytes >= HR_RUN_BYTES ? HR_WINDOW_TOLD_STEP
                    : opening.stream             ? HR_WINDOW_STREAM_STEP
                                                 : 0;
    return opening.trusted ? step : 0;
}

/* It is about to jump, or over a hole. What it read of an object's start is no rule for the rest. */
static void run_ended(struct reader *reader, bool known)
{
    if (known && !reader->from_start) {
        uint64_t read = reader->ordered - reader->before + reader->wanted - reader->began;
        uint64_t most = reader->end > reader->wanted ? read + reader->end - reader->wanted : read;
        hr_runs_end(&reader->runs, read, most, reader->wanted, reader->cells);
    }
}

/* A jump's run goes on with this ask; until now it reached as far as `far`. */
static void run_goes_on(struct reader *reader, const struct hr_segment_ask *ask, uint64_t far)
{
    uint64_t last = reader->wanted - reader->began, more = 0;
    bool hole = ask->offset > far + HR_HOLE_BYTES;
    if (hole) {
        run_ended(reader, true);
        hr_runs_skip(&reader->runs);
    }
    reader->ordered += hr_least(ask->offset, far) - reader->began;
    reader->before = hole ? reader->ordered : reader->before;
    reader->trail = ask->offset + ask->bytes > reader->wanted ? ask->offset + ask->bytes - reader->wanted : 0;
    reader->trails = reader->trail < last / HR_TRAIL_SHARE;
    if (!hole && !reader->trails) {
        more = hr_runs_go_on(&reader->runs, reader->ordered - reader->before);
    }
    reader->until = more ? ask->offset + more : 0;
    bool dense = reader->ordered >= (ask->offset - reader->runs.start) / HR_RUN_SHARE;
    reader->cells = ++reader->went_on >= HR_RUN_STEPS && reader->ordered >= HR_RUN_BYTES && dense && !more;
}

/* Where the run stands with this ask. True: it begins with it. */
static bool follow(struct hr_plan *plan, struct reader *reader, const struct hr_segment_ask *ask)
{
    bool known = reader->offset != UINT64_MAX;
    uint64_t far = reader->wanted > reader->end ? reader->wanted : reader->end;
    bool again = known && ask->offset >= reader->offset && ask->offset < reader->end;
    bool same_read = known && ask->offset >= reader->offset && ask->offset < reader->wanted;
    bool reads_on = known && ask->offset >= reader->end && ask->offset <= far + HR_SKIP_BYTES;
    if (again || same_read) {
        return false; /* a long read goes on, or its file was gone: nothing new about the reader */
    }
    if (!reads_on) {
        run_ended(reader, known);
        hr_runs_begin(&reader->runs, ask->offset);
        reader->until = ask->offset + hr_runs_first(&reader->runs, ask->bytes);
        if (reader->trails && reader->went_on == 1 && reader->trail <= HR_HOLE_BYTES) {
            reader->behind = reader->trail;
        }
        reader->trails = false;
        reader->ordered = reader->before = 0;
        reader->went_on = 0;
        reader->cells = ask->offset < HR_START_BYTES;
        reader->from_start = reader->cells;
        reader->ended = false;
        reader->step = reader->cells ? first_step(plan, ask) : 0;
    } else if (reader->cells) {
        reader->ordered += hr_least(ask->offset, far) - reader->began;
        hr_shard_read_on(plan, ask->face_id);
        reader->step += reader->step < HR_WINDOW_FULL_STEP;
    } else {
        run_goes_on(reader, ask, far);
    }
    reader->began = ask->offset;
    return !reads_on;
}

void hr_window_advise(struct hr_plan *plan, const struct hr_reader *who, uint64_t face_id)
{
    const struct hr_reader process = {.pid = who->pid};
    struct reader *reader = find_or_make(plan, &process, face_id);
    if (reader) {
        reader->said = who->hint;
        reader->asked_ms = hr_clock_ms();
    }
}

bool hr_window_shared(const struct hr_plan *plan, const struct hr_reader *who, uint64_t face_id)
{
    int64_t since_ms = hr_clock_ms() - HR_READER_QUIET_MS;
    const struct reader *all = plan->readers ? plan->readers->sets[0] : NULL;
    for (unsigned i = 0; all && i < HR_READERS; i++) {
        bool other = all[i].pid != who->pid || all[i].tid != who->tid;
        if (all[i].face_id == face_id && all[i].tid != 0 && other && all[i].asked_ms >= since_ms) {
            return true;
        }
    }
    return false;
}

/* What it said counts more than what shows. */
static void heed(struct reader *reader, enum hr_hint said)
{
    if (said == HR_HINT_SEQUENTIAL) {
        reader->cells = true;
        reader->step = reader->step > HR_WINDOW_TOLD_STEP ? reader->step : HR_WINDOW_TOLD_STEP;
    } else if (said == HR_HINT_RANDOM) {
        reader->cells = false;
        reader->step = 0;
    }
}

void hr_window_note(struct hr_plan *plan, const struct hr_reader *who, const struct hr_segment_ask *ask,
                    struct hr_pattern *ret)
{
    struct reader *reader = find_or_make(plan, who, ask->face_id);
    *ret = (struct hr_pattern){.piece_bytes = ask->bytes};
    if (!reader) {
        return;
    }
    enum hr_hint said = said_by(plan, who, ask->face_id);
    bool begins = follow(plan, reader, ask);
    heed(reader, said);
    reader->asked_ms = hr_clock_ms();
    reader->offset = ask->offset;
    reader->wanted = ask->bytes > UINT64_MAX - ask->offset ? UINT64_MAX : ask->offset + ask->bytes;
    reader->end = ask->offset; /* until it is answered */
    ret->cells = reader->cells;
    ret->to_end = reader->from_start && reader->cells;
    ret->begins = begins && ret->to_end && reader->step > 0;
    ret->exact = said == HR_HINT_RANDOM;
    if (reader->cells) {
        ret->ahead_cells = (unsigned)hr_least(ahead_of(reader, ret->begins), hr_window_bound(plan));
        if (!reader->from_start && said == HR_HINT_NONE) {
            uint64_t ahead = hr_runs_ahead(&reader->runs, ask->offset);
            ret->ahead_cells = (unsigned)hr_least(ret->ahead_cells, ahead / HR_CELL_BYTES);
        }
    } else if (!ret->exact && reader->until > ask->offset) {
        ret->run_bytes = reader->until - ask->offset;
    } else if (!ret->exact && reader->went_on == 0) {
        ret->piece_bytes = ask->bytes + reader->behind;
    } else if (!ret->exact && !reader->trails) {
        ret->piece_bytes = hr_most(ask->bytes, (reader->ordered - reader->before) * HR_RUN_GROWS);
    }
}

void hr_window_served(struct hr_plan *plan, const struct hr_reader *who, uint64_t face_id, uint64_t end)
{
    struct reader *oldest;
    struct reader *reader = plan->readers ? find(plan, who, face_id, &oldest) : NULL;
    if (reader) {
        const struct hr_cached *face = hr_cache_by_id(plan->cache, face_id);
        bool ended = face && end >= face->size;
        if (ended && !reader->ended && reader->from_start) {
            hr_shard_read_whole(plan, face_id);
        }
        reader->end = end;
        reader->ended = ended;
    }
}

void hr_windows_free(struct hr_plan *plan)
{
    free(plan->readers);
    plan->readers = NULL;
}
