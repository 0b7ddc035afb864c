/* The width of an endpoint against simulated servers, in simulated time: where it settles, and what it never
 * does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fetch/store/width.h"

#define IN_FLIGHT_MAX 1024
#define MS 1000ll
#define S 1000000ll

enum outcome { ANSWERED, THROTTLED };

struct flight {
    int64_t sent_us, back_us;
    enum outcome outcome;
};

/* A server with `rate` answers a second at most (0: any number), `latency_us` beside, and SlowDown for what
 * is beyond `allowed` requests a second (0: all are). */
struct sim {
    struct hr_width width;
    int64_t now_us;
    int64_t latency_us;
    double rate, allowed;
    bool vary; /* each answer between half and twice the latency */
    double free_us;
    double tokens;
    int64_t tokens_us;
    uint32_t random;
    struct flight flights[IN_FLIGHT_MAX];
    unsigned in_flight, in_flight_max, width_min, width_max;
    uint64_t answers, throttled;
};

static void begin(struct sim *sim, unsigned ceiling)
{
    memset(sim, 0, sizeof(*sim));
    hr_width_init(&sim->width, ceiling);
    sim->latency_us = 30 * MS;
    sim->random = 1;
    sim->width_min = UINT32_MAX;
}

static double unit(struct sim *sim)
{
    sim->random = sim->random * 1664525u + 1013904223u;
    return (double)(sim->random >> 8) / (1 << 24);
}

static bool is_allowed(struct sim *sim)
{
    if (sim->allowed <= 0) {
        return true;
    }
    double most = sim->allowed / 10; /* a tenth of a second's worth may come at once */
    sim->tokens += (double)(sim->now_us - sim->tokens_us) / S * sim->allowed;
    sim->tokens = sim->tokens < most ? sim->tokens : most;
    sim->tokens_us = sim->now_us;
    if (sim->tokens < 1) {
        return false;
    }
    sim->tokens--;
    return true;
}

static void ask(struct sim *sim)
{
    struct flight *flight = &sim->flights[sim->in_flight++];
    double latency_us = (double)sim->latency_us;
    if (sim->vary) {
        double at = unit(sim);
        latency_us *= at < 0.5 ? 0.5 + at : at * 2;
    }
    flight->sent_us = sim->now_us;
    flight->outcome = is_allowed(sim) ? ANSWERED : THROTTLED;
    if (sim->rate > 0 && flight->outcome == ANSWERED) {
        double begins_us = sim->free_us > (double)sim->now_us ? sim->free_us : (double)sim->now_us;
        sim->free_us = begins_us + S / sim->rate;
        latency_us += sim->free_us - (double)sim->now_us;
    }
    flight->back_us = sim->now_us + (int64_t)latency_us;
    hr_width_started(&sim->width, sim->now_us);
    if (sim->in_flight > sim->in_flight_max) {
        sim->in_flight_max = sim->in_flight;
    }
}

/* The next answer, out of the list. */
static struct flight take(struct sim *sim)
{
    unsigned first = 0;
    for (unsigned i = 1; i < sim->in_flight; i++) {
        if (sim->flights[i].back_us < sim->flights[first].back_us) {
            first = i;
        }
    }
    struct flight flight = sim->flights[first];
    sim->flights[first] = sim->flights[--sim->in_flight];
    return flight;
}

/* As many requests as the width allows, but at most `most`, for so long. */
static void go(struct sim *sim, int64_t for_us, unsigned most)
{
    int64_t end_us = sim->now_us + for_us;
    sim->width_min = UINT32_MAX;
    sim->width_max = sim->in_flight_max = 0;
    sim->answers = sim->throttled = 0;
    while (sim->now_us < end_us) {
        while (sim->in_flight < most && sim->in_flight < IN_FLIGHT_MAX && hr_width_room(&sim->width, true)) {
            ask(sim);
        }
        struct flight flight = take(sim);
        sim->now_us = flight.back_us > sim->now_us ? flight.back_us : sim->now_us;
        hr_width_ended(&sim->width, sim->now_us);
        if (flight.outcome == THROTTLED) {
            sim->throttled++;
            hr_width_throttled(&sim->width, flight.sent_us, sim->now_us);
        } else {
            sim->answers++;
            hr_width_answered(&sim->width, flight.sent_us, (uint64_t)(sim->now_us - flight.sent_us),
                              sim->now_us);
        }
        unsigned now = sim->width.probing ? sim->width_min : hr_width_now(&sim->width);
        sim->width_min = now < sim->width_min ? now : sim->width_min;
        now = hr_width_now(&sim->width);
        sim->width_max = now > sim->width_max ? now : sim->width_max;
    }
}

static void the_first_batch_is_not_delayed(void **state)
{
    (void)state;
    struct hr_width width;
    hr_width_init(&width, 256);
    for (int i = 0; i < 64; i++) {
        assert_true(hr_width_room(&width, false));
        hr_width_started(&width, 1000);
    }
    hr_width_init(&width, 8);
    assert_int_equal(hr_width_now(&width), 8);
    hr_width_init(&width, 1);
    assert_int_equal(hr_width_now(&width), 1);
    assert_true(hr_width_room(&width, false));
    hr_width_started(&width, 1000);
    assert_false(hr_width_room(&width, true));
}

static void some_room_is_left_to_who_waits(void **state)
{
    (void)state;
    struct hr_width width;
    unsigned unasked = 0, asked = 0;
    hr_width_init(&width, 64);
    for (; hr_width_room(&width, false); unasked++) {
        hr_width_started(&width, 1000);
    }
    for (; hr_width_room(&width, true); asked++) {
        hr_width_started(&width, 1000);
    }
    assert_int_equal(unasked, 60);
    assert_int_equal(asked, 4);
}

/* A cloud: what the answers take does not depend on us. */
static void a_fixed_latency_gets_all(void **state)
{
    (void)state;
    static struct sim sim;
    static const int64_t latencies_us[] = {3 * MS, 30 * MS, 110 * MS};
    for (size_t i = 0; i < 3; i++) {
        for (int vary = 0; vary < 2; vary++) {
            begin(&sim, 512);
            sim.latency_us = latencies_us[i];
            sim.vary = vary;
            go(&sim, 4 * latencies_us[i], IN_FLIGHT_MAX);
            assert_true(hr_width_now(&sim.width) >= 256); /* within four round trips */
            go(&sim, 40 * latencies_us[i], IN_FLIGHT_MAX);
            go(&sim, 200 * latencies_us[i], IN_FLIGHT_MAX);
            assert_int_equal(sim.width_max, 512);
            assert_true(sim.width_min >= 384);
        }
    }
}

/* The first answers tell the distance, and what it is worth goes out at once. */
static void a_far_store_is_filled_in_two_round_trips(void **state)
{
    (void)state;
    static struct sim sim;
    for (int vary = 0; vary < 2; vary++) {
        begin(&sim, 1024);
        sim.latency_us = 110 * MS;
        sim.vary = vary;
        go(&sim, 115 * MS, IN_FLIGHT_MAX);
        assert_true(sim.in_flight_max >= (vary ? 300 : 600)); /* varied, the first come in half the time */
        go(&sim, 220 * MS, IN_FLIGHT_MAX);
        assert_true(sim.in_flight_max >= 600);
        assert_int_equal(sim.width.cuts, 0);
    }
}

static void a_slow_store_is_not_taken_for_a_far_one(void **state)
{
    (void)state;
    static struct sim sim;
    begin(&sim, 1024);
    sim.latency_us = 2 * S;
    go(&sim, 2 * S + MS, IN_FLIGHT_MAX);
    assert_true(sim.in_flight_max < 2 * HR_WIDTH_START);
    begin(&sim, 1024);
    sim.latency_us = 3 * MS; /* the queue of the first batch is no distance, either */
    sim.rate = 500;
    go(&sim, S, IN_FLIGHT_MAX);
    assert_true(sim.in_flight_max < 2 * HR_WIDTH_START);
}

/* What S3 allows is not passed by the first bursts. */
static void the_promised_rate_from_afar_is_not_refused(void **state)
{
    (void)state;
    static struct sim sim;
    begin(&sim, 512);
    sim.latency_us = 110 * MS;
    sim.allowed = HR_WIDTH_RATE;
    sim.tokens = sim.allowed; /* nothing was asked before */
    hr_width_listed(&sim.width, 110 * MS);
    go(&sim, 20 * S, IN_FLIGHT_MAX);
    assert_int_equal(sim.throttled, 0);
    assert_int_equal(sim.width_max, 512);
}

static void a_listing_tells_the_distance_before_the_first_object(void **state)
{
    (void)state;
    static const struct {
        uint64_t answer_us;
        unsigned ceiling, width;
    } rows[] = {
        {30 * MS, 512, HR_WIDTH_START},
        {80 * MS, 512, 220},
        {110 * MS, 512, HR_WIDTH_FAR},
        {110 * MS, 64, 64},
        {5 * S, 512, 128}, /* a slow listing tells nothing */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct hr_width width;
        hr_width_init(&width, rows[i].ceiling);
        hr_width_listed(&width, rows[i].answer_us);
        assert_int_equal(hr_width_now(&width), rows[i].width);
        hr_width_started(&width, 60 * S);
        assert_int_equal(hr_width_now(&width), rows[i].width);
    }
    struct hr_width width;
    hr_width_init(&width, 512);
    hr_width_started(&width, 60 * S);
    hr_width_answered(&width, 60 * S, 3 * MS, 60 * S + 3 * MS); /* an object knows better */
    hr_width_listed(&width, 110 * MS);
    assert_int_equal(hr_width_now(&width), HR_WIDTH_START);
}

/* 2,000 answers a second, 3 ms beside: 6 in flight would do. More than the start only queue. */
static void a_saturated_server_is_not_flooded(void **state)
{
    (void)state;
    static struct sim sim;
    begin(&sim, 1024);
    sim.latency_us = 3 * MS;
    sim.rate = 2000;
    go(&sim, 20 * S, IN_FLIGHT_MAX);
    assert_true(sim.in_flight_max <= 2 * HR_WIDTH_START);
    go(&sim, 20 * S, IN_FLIGHT_MAX);
    assert_true(sim.in_flight_max <= HR_WIDTH_START);
    assert_true(sim.answers >= 19 * 2000); /* and nothing is lost by it */
    assert_true(sim.width.probes > 0);
}

/* 5,500 a second at 30 ms: 165 in flight fill it. */
static void the_knee_is_found(void **state)
{
    (void)state;
    static struct sim sim;
    for (int vary = 0; vary < 2; vary++) {
        begin(&sim, 1024);
        sim.rate = 5500;
        sim.vary = vary;
        go(&sim, 20 * S, IN_FLIGHT_MAX);
        go(&sim, 20 * S, IN_FLIGHT_MAX);
        assert_true(sim.in_flight_max <= 3 * 165);
        assert_true((double)sim.answers >= 0.97 * 20 * 5500);
    }
}

static void throttling_is_obeyed(void **state)
{
    (void)state;
    static struct sim sim;
    begin(&sim, 1024);
    sim.allowed = 2000; /* at 30 ms: 60 in flight */
    go(&sim, 5 * S, IN_FLIGHT_MAX);
    assert_true(hr_width_troubled(&sim.width, sim.now_us));
    go(&sim, 60 * S, IN_FLIGHT_MAX);
    assert_true(sim.width_min >= HR_WIDTH_FLOOR);
    assert_true(sim.width_max <= 128);
    assert_true((double)sim.answers >= 0.75 * 60 * 2000);
    assert_true((double)sim.throttled <= 0.02 * (double)sim.answers);
    sim.allowed = 0; /* the store has split the prefix */
    go(&sim, 120 * S, IN_FLIGHT_MAX);
    assert_true(sim.width_max >= 512);
    assert_false(hr_width_troubled(&sim.width, sim.now_us));
}

static void a_burst_of_refusals_counts_once(void **state)
{
    (void)state;
    struct hr_width width;
    hr_width_init(&width, 256);
    for (int i = 0; i < 100; i++) {
        hr_width_started(&width, 1000);
    }
    for (int i = 0; i < 100; i++) {
        hr_width_throttled(&width, 1000, 50000 + i);
    }
    assert_int_equal(hr_width_now(&width), HR_WIDTH_START / 2);
    assert_int_equal(width.cuts, 1);
    assert_int_equal(width.throttled, 100);
    for (int i = 0; i < 20; i++) {
        hr_width_throttled(&width, 100000 + i * 1000, 100500 + i * 1000);
    }
    assert_int_equal(hr_width_now(&width), HR_WIDTH_FLOOR);
}

/* Answers take longer for a reason that is not ours (other objects, another path): no width is lost for good.
 */
static void a_slower_server_is_no_queue(void **state)
{
    (void)state;
    static struct sim sim;
    begin(&sim, 512);
    sim.latency_us = 10 * MS;
    go(&sim, 5 * S, IN_FLIGHT_MAX);
    assert_int_equal(sim.width_max, 512);
    sim.latency_us = 100 * MS;
    go(&sim, 30 * S, IN_FLIGHT_MAX);
    go(&sim, 10 * S, IN_FLIGHT_MAX);
    assert_int_equal(sim.width_max, 512);
    assert_true(sim.width_min >= 384);
}

static void few_requests_change_nothing(void **state)
{
    (void)state;
    static struct sim sim;
    begin(&sim, 256);
    sim.vary = true;
    go(&sim, 30 * S, 4);
    assert_int_equal(hr_width_now(&sim.width), HR_WIDTH_START);
    assert_int_equal(sim.width.grown + sim.width.cuts + sim.width.probes, 0);
}

static void a_pause_starts_anew(void **state)
{
    (void)state;
    static struct sim sim;
    begin(&sim, 256);
    sim.allowed = 20;
    go(&sim, 10 * S, IN_FLIGHT_MAX);
    assert_true(hr_width_now(&sim.width) < 16);
    while (sim.in_flight > 0) {
        (void)take(&sim);
        hr_width_ended(&sim.width, sim.now_us);
    }
    sim.now_us += 60 * S;
    hr_width_started(&sim.width, sim.now_us);
    assert_int_equal(hr_width_now(&sim.width), HR_WIDTH_START);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_batch_is_not_delayed),
        cmocka_unit_test(some_room_is_left_to_who_waits),
        cmocka_unit_test(a_fixed_latency_gets_all),
        cmocka_unit_test(a_far_store_is_filled_in_two_round_trips),
        cmocka_unit_test(a_slow_store_is_not_taken_for_a_far_one),
        cmocka_unit_test(the_promised_rate_from_afar_is_not_refused),
        cmocka_unit_test(a_listing_tells_the_distance_before_the_first_object),
        cmocka_unit_test(a_saturated_server_is_not_flooded),
        cmocka_unit_test(the_knee_is_found),
        cmocka_unit_test(throttling_is_obeyed),
        cmocka_unit_test(a_burst_of_refusals_counts_once),
        cmocka_unit_test(a_slower_server_is_no_queue),
        cmocka_unit_test(few_requests_change_nothing),
        cmocka_unit_test(a_pause_starts_anew),
    };
    return cmocka_run_group_tests_name("store/width", tests, NULL, NULL);
}
