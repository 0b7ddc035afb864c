/* How many requests one endpoint gets at a time. Pure: every moment is an argument; owned by one thread.
 *
 * The width grows while that brings more answers a second, and shrinks when the endpoint says 503 or takes
 * longer for each answer. At a full width the two are one question (requests in flight = rate x time), so
 * time is what is looked at: base_us is an answer's when the endpoint has nothing else to do, and what lies
 * above it is a queue there, of width x (1 - base / time) requests. A short queue keeps the endpoint busy; a
 * long one only makes programs wait for what they need next. */
#ifndef HR_STORE_WIDTH_H
#define HR_STORE_WIDTH_H

#include <stdbool.h>
#include <stdint.h>

#define HR_WIDTH_FLOOR 4u   /* ours: what a store that refuses most is still asked at a time */
#define HR_WIDTH_START 128u /* ours: the first batches of a job need no round trips to get going */
#define HR_WIDTH_FAR 256u   /* ours: the same, when a listing took so long that the store is far away */
#define HR_WIDTH_RATE 5500  /* GETs a second that S3 promises for a prefix */

struct hr_width {
    unsigned ceiling;
    unsigned calls; /* requests in flight */
    double width;
    bool starting;          /* grows by one an answer, until a queue shows */
    unsigned first_answers; /* since it started, until they are enough to tell the latency... */
    double first_sum_us;    /* ...by this */
    bool probing;           /* a quarter of the width, for one round: is base_us still true? */
    /* A round: as many answers as the width lets be in flight, to requests that were sent in it. */
    int64_t round_us;
    unsigned round_needs, round_answers;
    double round_sum_us;
    bool round_full; /* the width was what kept requests back */
    double base_us, recent_us;
    int64_t base_at_us, idle_since_us;
    unsigned held_rounds;         /* full rounds since it last grew */
    int64_t cut_us, throttled_us; /* INT64_MIN: never */
    uint64_t grown, cuts, probes; /* counted for status: rounds that grew it, that shrank it; probes */
    uint64_t throttled;
};

void hr_width_init(struct hr_width *width, unsigned ceiling); /* 0: none */
/* Requests that may be in flight now. */
unsigned hr_width_now(const struct hr_width *width);
/* May one more start? One that nobody waits for leaves a sixteenth to those that somebody does, and to
 * hedges. */
bool hr_width_room(const struct hr_width *width, bool waited_for);
void hr_width_started(struct hr_width *width, int64_t now_us);
void hr_width_ended(struct hr_width *width, int64_t now_us);
/* The first byte of an answer came answer_us after the request had gone out. */
void hr_width_answered(struct hr_width *width, int64_t sent_us, uint64_t answer_us, int64_t now_us);
/* A listing's first byte, after so long: before the first object, all that is known of the distance. */
void hr_width_listed(struct hr_width *width, uint64_t answer_us);
/* 503, 429 and kin. */
void hr_width_throttled(struct hr_width *width, int64_t sent_us, int64_t now_us);
/* Throttled lately. */
bool hr_width_troubled(const struct hr_width *width, int64_t now_us);

#endif
