#include "interpose/demand.h"

#include <linux/futex.h>
#include <time.h>

#include "interpose/doze.h"
#include "interpose/sys.h"
#include "interpose/tiny.h"
#include "interpose/inner.h"

/* A wait looks for a dead daemon and a replaced index first after this time, then each time when it has
 * lasted as long again: each look is a moment in which a signal goes unnoticed (doze.h). */
#define LOOK_UP_MS 100
#define SLOT_CHECK_MS 100 /* without a free slot: how soon a dead daemon is noticed */
#define ASK_AGAIN_MS 1000 /* a request may be lost (torn slot, restarted daemon); asking is idempotent */
#define INTERRUPTIBLE_AFTER_MS 2000 /* DESIGN 4: local opens never return EINTR */
/* From then on the word is looked at by turns: at most this part of the wait's age too late. */
#define TURN_PART 64
#define TURN_MAX_MS 100
#define SLOT_RETRY_MS 1
#define OVERWRITTEN_TRIES 100 /* of an answer by 4096 later ones */

/* One wait, from its first request to its end. */
struct wait {
    const struct hr_session *session;
    uint64_t start_ms;
    uint64_t asked_ms;
    bool interrupted; /* a signal handler ran since start_ms */
    uint32_t tree;    /* of which news are said; HR_TREES_MAX: of all the process's maps */
    uint32_t heard;   /* told_of, when it was last looked at */
    struct hr_doze doze;
};

int hr_demand_claim(struct hr_slots *slots, uint32_t pid, uint32_t tid, uint32_t *ret_slot,
                    uint64_t *ret_claim)
{
    uint64_t claim = HR_CLAIM_MAKE(HR_CLAIM_CLAIMED, pid, hr_now_ms());
    /* Threads start at different places, so that they rarely meet. */
    uint32_t start = (uint32_t)hr_mix64(tid);
    for (uint32_t i = 0; i < HR_SLOTS; i++) {
        uint32_t slot = (start + i) & (HR_SLOTS - 1);
        uint64_t empty = 0;
        if (atomic_load_explicit(&slots->claims[slot], memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong(&slots->claims[slot], &empty, claim)) {
            *ret_slot = slot;
            *ret_claim = claim;
            return 0;
        }
    }
    return -EAGAIN;
}

bool hr_demand_announce(struct hr_slots *slots, uint32_t slot, uint64_t claim)
{
    uint64_t full = (claim & ~(uint64_t)3) | HR_CLAIM_FULL;
    if (!atomic_compare_exchange_strong(&slots->claims[slot], &claim, full)) {
        return false;
    }
    atomic_fetch_add(&slots->doorbell, 1);
    if (atomic_load(&slots->sleeping)) {
        HR_SYS3(SYS_futex, &slots->doorbell, FUTEX_WAKE, 1);
    }
    return true;
}

static uint32_t told_of_tree(const struct hr_session *session, uint32_t tree)
{
    return tree < HR_TREES_MAX
               ? atomic_load_explicit(&session->control->trees[tree].message_seq, memory_order_relaxed)
               : 0;
}

/* Changes with each message that the daemon writes for the trees that this wait is about. */
static uint32_t told_of(const struct hr_session *session, uint32_t tree)
{
    uint32_t sum = told_of_tree(session, tree);
    for (uint32_t map = 0;
         tree == HR_TREES_MAX && map < session->maps->map_count && map < HR_CONTEXT_MAPS_MAX; map++) {
        sum += told_of_tree(session, session->maps->tree[map]);
    }
    return sum;
}

static void say_all(const struct hr_session *session)
{
    for (uint32_t map = 0; map < session->maps->map_count && map < HR_CONTEXT_MAPS_MAX; map++) {
        if (session->maps->tree[map] < HR_TREES_MAX) {
            hr_session_say(session, session->maps->tree[map]);
        }
    }
}

/* What became known since the wait began: why it takes so long. */
static void hear(struct wait *wait)
{
    uint32_t now = told_of(wait->session, wait->tree);
    if (now == wait->heard) {
        return;
    }
    hr_doze_end(&wait->doze); /* stderr may be slow */
    if (wait->tree < HR_TREES_MAX) {
        hr_session_say(wait->session, wait->tree);
    } else {
        say_all(wait->session);
    }
    wait->heard = told_of(wait->session, wait->tree);
}

static struct wait wait_for(const struct hr_session *session, uint32_t tree)
{
    return (struct wait){
        .session = session, .start_ms = hr_now_ms(), .tree = tree, .heard = told_of(session, tree)};
}

/* A slice has passed: is there still somebody who will answer? 0, or what the request ends with. */
static int still_worth_waiting(struct wait *wait)
{
    if (wait->interrupted && hr_now_ms() - wait->start_ms >= INTERRUPTIBLE_AFTER_MS) {
        return -EINTR;
    }
    if (!hr_session_stale(wait->session->control)) {
        if (hr_now_ms() - wait->start_ms >= INTERRUPTIBLE_AFTER_MS) {
            hear(wait);
        }
        return 0;
    }
    struct hr_session now;
    hr_doze_end(&wait->doze); /* a new daemon may take a while */
    int error = hr_session_revive();
    if (error) {
        return error;
    }
    return hr_session_peek(&now) && now.control != wait->session->control ? -EAGAIN : 0;
}

/* One try to put a request into a slot. 0; -EAGAIN: none is free; -ECANCELED: it was taken back before it was
 * full. */
static int put_request(struct hr_slots *slots, const struct hr_slot *request, const void *payload)
{
    uint32_t number;
    uint64_t claim;
    int error = hr_demand_claim(slots, request->pid, request->tid, &number, &claim);
    if (error < 0) {
        return error;
    }
    struct hr_slot *slot = &slots->slots[number];
    memcpy(slot, request, offsetof(struct hr_slot, path));
    memcpy(slot->path, payload, request->path_len);
    slot->checksum = hr_slot_checksum(slot, request->path_len);
    return hr_demand_announce(slots, number, claim) ? 0 : -ECANCELED;
}

/* Puts a request where the daemon sees it; waits for a free slot. 0 or as still_worth_waiting. */
static int post(struct wait *wait, const struct hr_slot *request, const void *payload)
{
    struct hr_slots *slots = wait->session->slots;
    uint64_t checked_ms = hr_now_ms();
    for (;;) {
        int put = put_request(slots, request, payload);
        if (put == 0) {
            wait->asked_ms = hr_now_ms();
            return 0;
        }
        if (put == -ECANCELED) {
            continue;
        }
        struct timespec span = {.tv_nsec = SLOT_RETRY_MS * 1000000L};
        wait->interrupted |= HR_SYS2(SYS_nanosleep, &span, 0) == -EINTR;
        if (hr_now_ms() - checked_ms >= SLOT_CHECK_MS) {
            int error = still_worth_waiting(wait);
            if (error) {
                return error;
            }
            checked_ms = hr_now_ms();
        }
    }
}

/* Sleeps while *word == seen, but looks up now and then. */
static void sleep_on(struct wait *wait, const _Atomic uint32_t *word, uint32_t seen)
{
    uint64_t age_ms = hr_now_ms() - wait->start_ms;
    if (age_ms >= INTERRUPTIBLE_AFTER_MS) {
        uint64_t turn_ms = age_ms / TURN_PART;
        wait->interrupted |= hr_doze(&wait->doze, turn_ms < TURN_MAX_MS ? (unsigned)turn_ms : TURN_MAX_MS);
        return;
    }
    uint64_t left_ms = INTERRUPTIBLE_AFTER_MS - age_ms;
    uint64_t slice_ms = age_ms < LOOK_UP_MS ? LOOK_UP_MS : age_ms;
    slice_ms = slice_ms < left_ms ? slice_ms : left_ms;
    struct timespec slice = {.tv_sec = (time_t)(slice_ms / 1000),
                             .tv_nsec = (long)(slice_ms % 1000) * 1000000L};
    wait->interrupted |= HR_SYS4(SYS_futex, word, FUTEX_WAIT, seen, &slice) == -EINTR;
}

static void fill_request(struct hr_slot *request, const struct hr_session *session, enum hr_op op,
                         uint32_t tree)
{
    memset(request, 0, offsetof(struct hr_slot, path));
    request->op = op;
    request->tree = tree;
    request->pid = (uint32_t)HR_SYS0(SYS_getpid);
    request->tid = (uint32_t)HR_SYS0(SYS_gettid);
    request->context = session->context;
}

static bool is_there(uint32_t word)
{
    return HR_STATE_KIND(word) == HR_STATE_RESIDENT || HR_STATE_KIND(word) == HR_STATE_FACE;
}

static int await_entry(struct wait *wait, const struct hr_slot *request, const struct hr_tree_view *view,
                       uint32_t seen)
{
    const struct hr_session *session = wait->session;
    const _Atomic uint32_t *word = &view->states->states[request->entry].word;
    int error = post(wait, request, "");
    while (!error) {
        uint32_t now = atomic_load_explicit(word, memory_order_acquire);
        if (now != seen && is_there(now)) {
            return 0;
        }
        if (now != seen && HR_STATE_KIND(now) == HR_STATE_FAILED) {
            if (!HR_STATE_BY_NAME(now)) {
                hr_session_say(session, view->tree);
            }
            return HR_STATE_ERRNO(now) ? -(int)HR_STATE_ERRNO(now) : -EIO;
        }
        /* Here it is not what we want, whatever it was before: a change is the next thing to wait for. */
        seen = now;
        sleep_on(wait, word, seen);
        if (atomic_load_explicit(word, memory_order_acquire) != seen) {
            continue;
        }
        if (atomic_load_explicit(&session->control->trees[view->tree].gen, memory_order_acquire) !=
                view->gen ||
            atomic_load_explicit(&view->states->retired, memory_order_acquire)) {
            return -EAGAIN;
        }
        if (is_there(seen)) {
            return 0; /* the daemon stands by it: try the file again */
        }
        error = still_worth_waiting(wait);
        if (!error && hr_now_ms() - wait->asked_ms >= ASK_AGAIN_MS) {
            error = post(wait, request, "");
        }
    }
    return error;
}

int hr_demand_entry(const struct hr_session *session, const struct hr_tree_view *view, uint32_t entry,
                    uint32_t seen)
{
    struct hr_slot request;
    struct wait wait = wait_for(session, view->tree);
    fill_request(&request, session, HR_OP_FETCH, view->tree);
    request.gen = view->gen;
    request.entry = entry;
    int error = await_entry(&wait, &request, view, seen);
    hr_doze_end(&wait.doze);
    return error;
}

static uint32_t take_ticket(struct hr_slots *slots)
{
    uint32_t ticket;
    do {
        ticket = atomic_fetch_add(&slots->next_ticket, 1);
    } while (ticket == 0);
    return ticket;
}

/* Waits for one ticket's answer. 1: it was overwritten before we saw it. */
static int await_answer(struct wait *wait, const struct hr_slot *request, const void *payload,
                        struct hr_answer *ret)
{
    const struct hr_answer *answer = &wait->session->control->answers[request->ticket % HR_ANSWERS];
    int error = post(wait, request, payload);
    while (!error) {
        uint32_t word = atomic_load_explicit(&answer->word, memory_order_acquire);
        if (word == request->ticket) {
            hr_copy_shared(ret, answer, sizeof(*ret));
            return atomic_load_explicit(&answer->word, memory_order_relaxed) != request->ticket;
        }
        if ((int32_t)(word - request->ticket) > 0) {
            return 1;
        }
        sleep_on(wait, &answer->word, word);
        if (atomic_load_explicit(&answer->word, memory_order_acquire) != word) {
            continue;
        }
        error = still_worth_waiting(wait);
        if (!error && hr_now_ms() - wait->asked_ms >= ASK_AGAIN_MS) {
            error = post(wait, request, payload);
        }
    }
    return error;
}

/* Asks until there is an answer: 0 with *ret, or what the wait ended with. tree: struct wait's. */
static int ask(const struct hr_session *session, struct hr_slot *request, const void *payload, uint32_t tree,
               struct hr_answer *ret)
{
    struct hr_answer answer;
    struct wait wait = wait_for(session, tree);
    int error = 1;
    for (unsigned i = 0; error > 0 && i < OVERWRITTEN_TRIES; i++) {
        request->ticket = take_ticket(session->slots);
        error = await_answer(&wait, request, payload, &answer);
    }
    hr_doze_end(&wait.doze);
    if (error == 0) {
        *ret = answer;
    }
    return error > 0 ? -EIO : error;
}

int hr_demand_ask(const struct hr_session *session, enum hr_op op, uint32_t tree, uint64_t map_hash,
                  const char *path, uint32_t path_len, struct hr_answer *ret)
{
    struct hr_slot request;
    if (path_len > HR_KEY_MAX) {
        return -ENAMETOOLONG;
    }
    fill_request(&request, session, op, tree);
    request.map_hash = map_hash;
    request.path_len = path_len;
    int error = ask(session, &request, path, tree, ret);
    /* A missing name is an answer; anything else has a story. */
    if (!error && ret->error && ret->error != -ENOENT && ret->error != -ENOTDIR) {
        hr_session_say(session, tree);
    }
    return error;
}

int hr_demand_segment(const struct hr_session *session, enum hr_op op, const struct hr_segment_ask *wanted,
                      struct hr_answer *ret)
{
    struct hr_slot request;
    fill_request(&request, session, op, 0);
    request.path_len = sizeof(*wanted);
    int error = ask(session, &request, wanted, HR_TREES_MAX, ret); /* a face does not tell its tree */
    if (!error && ret->error) {
        say_all(session);
        error = ret->error < 0 ? ret->error : -EIO;
    }
    return error;
}

void hr_demand_hint(const struct hr_session *session, const struct hr_segment_ask *wanted, enum hr_hint hint)
{
    struct hr_slot request;
    fill_request(&request, session, HR_OP_SEGMENT, 0);
    request.entry = hint;
    request.ticket = take_ticket(session->slots);
    request.path_len = sizeof(*wanted);
    (void)put_request(session->slots, &request, wanted);
}

void hr_demand_announce_batch(const struct hr_session *session, uint64_t stream, uint32_t batch,
                              const uint32_t *indices, unsigned count)
{
    enum { PER_SLOT = HR_KEY_MAX / sizeof(uint32_t) };
    struct hr_slots *slots = session->slots;
    struct hr_slot request;
    fill_request(&request, session, HR_OP_ANNOUNCE, 0);
    request.entry = batch;
    request.map_hash = stream;
    request.ticket = (count + PER_SLOT - 1) / PER_SLOT;
    for (unsigned at = 0; at < count; at += PER_SLOT, request.gen++) {
        unsigned part = count - at < PER_SLOT ? count - at : PER_SLOT;
        request.path_len = part * (uint32_t)sizeof(*indices);
        if (put_request(slots, &request, indices + at) < 0) {
            return;
        }
    }
}
