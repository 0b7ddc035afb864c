/* Answers: to whoever asked, once. The ring of the control file is one kind of asker. */
#include "fetch/plan/inner.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void ring_answer(void *owner, uint32_t ticket, const struct hr_answer *answer)
{
    struct hr_plan *plan = owner;
    if (answer->error == -ECANCELED) {
        return; /* we are ending: whoever waits sees it and asks the next daemon */
    }
    struct hr_answer *slot = &plan->options.control->answers[ticket % HR_ANSWERS];
    uint32_t word = atomic_load_explicit(&slot->word, memory_order_relaxed);
    if ((int32_t)(ticket - word) <= 0) {
        return; /* a newer answer lies here already: that asker asks again */
    }
    /* No ticket of this slot: readers of the older answer see that it goes, the new one's go on waiting. */
    atomic_store_explicit(&slot->word, ticket - 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    slot->error = answer->error;
    slot->kind = answer->kind;
    slot->flags = answer->flags;
    slot->size = answer->size;
    slot->mtime_ns = answer->mtime_ns;
    slot->file_id = answer->file_id;
    slot->offset = answer->offset;
    atomic_store_explicit(&slot->word, ticket, memory_order_release);
    syscall(SYS_futex, &slot->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

struct hr_asker hr_plan_ring_asker(struct hr_plan *plan, uint32_t ticket)
{
    return (struct hr_asker){.fn = ring_answer, .owner = plan, .ticket = ticket};
}

void hr_answer_error(const struct hr_asker *asker, int error)
{
    struct hr_answer answer = {.error = error};
    if (asker) {
        asker->fn(asker->owner, asker->ticket, &answer);
    }
}

void hr_waiters_add(struct hr_waiter **list, const struct hr_asker *asker)
{
    struct hr_waiter *waiter = malloc(sizeof *waiter);
    if (!waiter) {
        hr_answer_error(asker, -ENOMEM);
        return;
    }
    waiter->asker = *asker;
    waiter->next = *list;
    *list = waiter;
}

void hr_waiters_answer(struct hr_waiter **list, const struct hr_answer *answer)
{
    struct hr_waiter *waiter = *list;
    *list = NULL;
    while (waiter) {
        struct hr_waiter *next = waiter->next;
        waiter->asker.fn(waiter->asker.owner, waiter->asker.ticket, answer);
        free(waiter);
        waiter = next;
    }
}

static void answered_nobody(void *owner, uint32_t ticket, const struct hr_answer *answer)
{
    (void)owner;
    (void)ticket;
    (void)answer;
}

struct hr_asker hr_asker_nobody(void)
{
    return (struct hr_asker){.fn = answered_nobody};
}
