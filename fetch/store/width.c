#include "fetch/store/width.h"

#define NO_CEILING 4096u /* the largest that `connections` may be */
#define SPARE_SHARE 16u  /* of the width, for requests that somebody waits for */
#define BLIND_MOST (HR_WIDTH_START * 3 / 2)
#define LISTED_PART 2.0      /* of a listing's time is not the way: the store's own work */
#define FIRST_ANSWERS 8      /* so few of many that were asked at once have hardly queued behind each other */
#define WAY_MOST_US 250000.0 /* ours: to the other side of the earth; who takes longer is slow, not far */
#define ROUND_ANSWERS_MIN 16 /* fewer make no average */
/* The queue at the endpoint, in requests plus a part of the width: up to the first pair the width grows,
 * beyond the second it shrinks. The part leaves room for answers that vary by themselves; the constant keeps
 * a small server's cores busy. */
#define GROW_QUEUE 16.0
#define GROW_PART 3.0
#define SHRINK_QUEUE 32.0
#define SHRINK_PART 2.0
#define STEP_PART 8.0                 /* a round changes the width by this part of it... */
#define CALM_STEP_PART 32.0           /* ...and lets it grow by this one while it was throttled lately */
#define CALM_US (30 * 1000000ll)      /* S3 splits a busy prefix in minutes, not in seconds */
#define TROUBLED_US (10 * 1000000ll)  /* no hedges for so long */
#define RECENT_GAIN (1.0 / 16)        /* of the running average that ends the start */
#define OUTLIER 8.0                   /* times base_us: what one answer counts at most */
#define PROBE_AFTER_ROUNDS 16         /* so many full rounds without growth: perhaps the base is not true */
#define PROBE_PART 4.0                /* deep enough that a queue of four times the knee shows */
#define BASE_KEPT_US (60 * 1000000ll) /* a base that nothing confirmed is forgotten */
#define IDLE_US (10 * 1000000ll)      /* after so long without a request it starts anew */

static double least(double a, double b)
{
    return a < b ? a : b;
}

static void begin_round(struct hr_width *width, int64_t now_us)
{
    width->round_us = now_us;
    width->round_answers = 0;
    width->round_sum_us = 0;
    width->round_full = false;
    width->round_needs = hr_width_now(width);
    if (width->round_needs < ROUND_ANSWERS_MIN) {
        width->round_needs = ROUND_ANSWERS_MIN;
    }
}

static void begin(struct hr_width *width, int64_t now_us)
{
    if (width->width < HR_WIDTH_START) {
        width->width = HR_WIDTH_START < width->ceiling ? HR_WIDTH_START : width->ceiling;
    }
    width->starting = true;
    width->probing = false;
    width->base_us = width->recent_us = 0;
    width->first_answers = 0;
    width->first_sum_us = 0;
    width->held_rounds = 0;
    begin_round(width, now_us);
}

void hr_width_init(struct hr_width *width, unsigned ceiling)
{
    *width = (struct hr_width){
        .ceiling = ceiling > 0 && ceiling < NO_CEILING ? ceiling : NO_CEILING,
        .cut_us = INT64_MIN,
        .throttled_us = INT64_MIN,
    };
    begin(width, 0);
}

static void set(struct hr_width *width, double to)
{
    double floor = HR_WIDTH_FLOOR < width->ceiling ? HR_WIDTH_FLOOR : width->ceiling;
    to = least(to, width->ceiling);
    width->grown += to > width->width;
    width->cuts += to < width->width;
    width->width = to > floor ? to : floor;
}

unsigned hr_width_now(const struct hr_width *width)
{
    double now = width->probing ? width->width / PROBE_PART : width->width;
    return now > HR_WIDTH_FLOOR ? (unsigned)now : (unsigned)least(HR_WIDTH_FLOOR, width->ceiling);
}

static unsigned spare_of(unsigned now)
{
    return now / SPARE_SHARE > 0 ? now / SPARE_SHARE : 1;
}

bool hr_width_room(const struct hr_width *width, bool waited_for)
{
    unsigned now = hr_width_now(width);
    return width->calls < now && (waited_for || width->calls == 0 || width->calls + spare_of(now) < now);
}

void hr_width_started(struct hr_width *width, int64_t now_us)
{
    if (width->calls == 0 && now_us - width->idle_since_us > IDLE_US) {
        begin(width, now_us);
    }
    width->calls++;
    unsigned now = hr_width_now(width);
    width->round_full |= width->calls + spare_of(now) >= now;
}

void hr_width_ended(struct hr_width *width, int64_t now_us)
{
    width->calls--;
    width->idle_since_us = now_us;
}

static double queue_of(const struct hr_width *width, double answer_us)
{
    return answer_us > width->base_us ? width->width * (1 - width->base_us / answer_us) : 0;
}

static bool may_grow(const struct hr_width *width, double answer_us)
{
    return queue_of(width, answer_us) < GROW_QUEUE + width->width / GROW_PART;
}

static void end_full_round(struct hr_width *width, double average_us, int64_t now_us)
{
    if (may_grow(width, average_us)) {
        bool calm = width->throttled_us != INT64_MIN && now_us - width->throttled_us < CALM_US;
        double step = width->width / (calm ? CALM_STEP_PART : STEP_PART);
        set(width, width->width + (width->starting ? 0 : step > 1 ? step : 1));
        width->held_rounds = 0;
        return;
    }
    width->starting = false;
    if (queue_of(width, average_us) > SHRINK_QUEUE + width->width / SHRINK_PART) {
        set(width, width->width - width->width / STEP_PART);
    }
    if (++width->held_rounds >= PROBE_AFTER_ROUNDS) {
        width->held_rounds = 0;
        width->probing = true;
        width->probes++;
    }
}

static void end_round(struct hr_width *width, int64_t now_us)
{
    double average_us = width->round_sum_us / width->round_answers;
    bool old = !width->round_full && now_us - width->base_at_us > BASE_KEPT_US;
    bool was_probing = width->probing;
    width->probing = false;
    if (was_probing || old || width->base_us <= 0 || average_us < width->base_us) {
        width->recent_us = width->base_us > 0 ? width->recent_us : average_us;
        width->base_us = average_us;
        width->base_at_us = now_us;
    }
    if (width->round_full && !was_probing) {
        end_full_round(width, average_us, now_us);
    }
    begin_round(width, now_us);
}

/* Requests in flight that give the rate which S3 promises; 0: the time tells no distance. */
static double width_for(double answer_us)
{
    return answer_us <= WAY_MOST_US ? HR_WIDTH_RATE / 1e6 * answer_us : 0;
}

/* While it starts: one more for each answer, doubling in a round trip. Before there is a base only a little,
 * but what the first answers' time is worth at once: from afar doubling would take several round trips. */
static void grow_at_start(struct hr_width *width)
{
    bool blind = width->base_us <= 0;
    if (!width->starting || !width->round_full) {
        return;
    }
    double worth =
        blind && width->first_answers == FIRST_ANSWERS ? width_for(width->first_sum_us / FIRST_ANSWERS) : 0;
    if (worth > width->width + 1) {
        set(width, worth);
    } else if (blind ? width->width < BLIND_MOST : may_grow(width, width->recent_us)) {
        set(width, width->width + 1);
    }
}

void hr_width_answered(struct hr_width *width, int64_t sent_us, uint64_t answer_us, int64_t now_us)
{
    double us = answer_us > 0 ? (double)answer_us : 1;
    if (width->base_us > 0) {
        us = least(us, OUTLIER * width->base_us);
        width->recent_us += (us - width->recent_us) * RECENT_GAIN;
    }
    if (width->first_answers < FIRST_ANSWERS) {
        width->first_sum_us += us;
        width->first_answers++;
    }
    grow_at_start(width);
    if (sent_us < width->round_us) {
        return; /* it met another width */
    }
    width->round_sum_us += us;
    if (++width->round_answers >= width->round_needs) {
        end_round(width, now_us);
    }
}

void hr_width_listed(struct hr_width *width, uint64_t answer_us)
{
    double worth = least(width_for((double)answer_us / LISTED_PART), HR_WIDTH_FAR);
    bool unknown = width->starting && width->base_us <= 0 && width->first_answers == 0;
    if (unknown && worth > width->width) {
        set(width, worth);
    }
}

void hr_width_throttled(struct hr_width *width, int64_t sent_us, int64_t now_us)
{
    width->throttled++;
    width->throttled_us = now_us;
    width->starting = false;
    if (sent_us <= width->cut_us) {
        return; /* sent at the width that has been halved already */
    }
    width->cut_us = now_us;
    width->probing = false;
    set(width, width->width / 2);
    begin_round(width, now_us);
}

bool hr_width_troubled(const struct hr_width *width, int64_t now_us)
{
    return width->throttled_us != INT64_MIN && now_us - width->throttled_us < TROUBLED_US;
}
