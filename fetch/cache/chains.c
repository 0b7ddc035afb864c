#include "fetch/cache/chains.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define PAGE_HEADS 1024u /* 8 KiB: what the least table takes, and a step of growth */
#define PAGES_FEW 16u

static struct hr_chained **head_at(const struct hr_chains *chains, uint32_t number)
{
    return &chains->pages[number / PAGE_HEADS][number % PAGE_HEADS];
}

/* In this round of splits the chains below have got theirs, and one bit of the hash more counts. */
static struct hr_chained **head_of(const struct hr_chains *chains, uint32_t hash)
{
    uint32_t number = hash & chains->mask;
    return head_at(chains, number < chains->heads ? number : number & (chains->mask >> 1));
}

/* Is there memory for one head more? */
static bool has_page(struct hr_chains *chains)
{
    uint32_t page = chains->heads / PAGE_HEADS;
    if (chains->heads % PAGE_HEADS) {
        return true;
    }
    if (page == chains->page_room) {
        uint32_t room = page ? page * 2 : PAGES_FEW;
        struct hr_chained ***more = reallocarray(chains->pages, room, sizeof(struct hr_chained **));
        if (!more) {
            return false;
        }
        chains->pages = more;
        chains->page_room = room;
    }
    chains->pages[page] = calloc(PAGE_HEADS, sizeof(struct hr_chained *));
    return chains->pages[page] != NULL;
}

/* One chain more: what belongs to it comes out of the one that had it until now. */
static void split(struct hr_chains *chains)
{
    if (chains->heads > UINT32_MAX / 2 || !has_page(chains)) {
        return;
    }
    uint32_t number = chains->heads;
    chains->mask |= number;
    struct hr_chained **from = head_at(chains, number & (chains->mask >> 1));
    struct hr_chained **to = head_at(chains, number);
    chains->heads++;
    while (*from) {
        struct hr_chained *item = *from;
        if ((chains->hash(item) & chains->mask) == number) {
            *from = item->next;
            item->next = *to;
            *to = item;
        } else {
            from = &item->next;
        }
    }
}

int hr_chains_init(struct hr_chains *chains, uint32_t (*hash)(const struct hr_chained *item))
{
    *chains = (struct hr_chains){.hash = hash};
    if (!has_page(chains)) {
        free(chains->pages);
        *chains = (struct hr_chains){0};
        return -ENOMEM;
    }
    chains->heads = PAGE_HEADS;
    chains->mask = PAGE_HEADS - 1;
    return 0;
}

void hr_chains_release(struct hr_chains *chains)
{
    for (uint32_t number = 0; number < chains->heads; number += PAGE_HEADS) {
        free(chains->pages[number / PAGE_HEADS]);
    }
    free(chains->pages);
    *chains = (struct hr_chains){0};
}

void hr_chains_add(struct hr_chains *chains, struct hr_chained *item)
{
    struct hr_chained **head = head_of(chains, chains->hash(item));
    item->next = *head;
    *head = item;
    if (++chains->count > (uint64_t)chains->heads * HR_CHAIN_LOAD) {
        split(chains);
    }
}

void hr_chains_remove(struct hr_chains *chains, struct hr_chained *item)
{
    struct hr_chained **at = head_of(chains, chains->hash(item));
    while (*at != item) {
        at = &(*at)->next;
    }
    *at = item->next;
    item->next = NULL;
    chains->count--;
}

struct hr_chained *hr_chains_of(const struct hr_chains *chains, uint32_t hash)
{
    return *head_of(chains, hash);
}

struct hr_chained *hr_chains_at(const struct hr_chains *chains, uint32_t number)
{
    return *head_at(chains, number);
}
