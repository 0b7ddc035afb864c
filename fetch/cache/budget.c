#include "fetch/cache/budget.h"

#include <sys/statvfs.h>

#define BLOCK_BYTES 4096u /* the block of ext4, XFS and tmpfs: what a small file really takes */
/* A tenth of a second of a fast disk: the floor is passed by no more. */
#define ASK_AFTER_BYTES (64ull * 1024 * 1024)
#define ASK_AFTER_MS 1000 /* others fill the disk too; statvfs costs 1 us */

uint64_t hr_budget_charge(uint64_t size_bytes)
{
    if (size_bytes > UINT64_MAX - BLOCK_BYTES) {
        return UINT64_MAX;
    }
    uint64_t blocks = (size_bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
    return (blocks ? blocks : 1) * BLOCK_BYTES;
}

void hr_budget_refresh(struct hr_budget *budget, const char *dir, int64_t now_ms)
{
    struct statvfs fs;
    if (budget->asked_ms && budget->since_bytes < ASK_AFTER_BYTES &&
        now_ms - budget->asked_ms < ASK_AFTER_MS) {
        return;
    }
    budget->asked_ms = now_ms ? now_ms : 1;
    budget->since_bytes = 0;
    if (statvfs(dir, &fs) < 0) {
        return; /* the estimate goes on; a directory that is gone shows at the next write */
    }
    uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    uint64_t coming = budget->reserved_bytes - budget->landed_bytes;
    budget->free_bytes = (int64_t)(free_bytes + budget->leaving_bytes) - (int64_t)coming;
}

uint64_t hr_budget_lacks(const struct hr_budget *budget, uint64_t want_bytes)
{
    uint64_t taken = budget->used_bytes + budget->reserved_bytes;
    uint64_t over = taken + want_bytes > budget->limit_bytes ? taken + want_bytes - budget->limit_bytes : 0;
    int64_t below = (int64_t)(budget->floor_bytes + want_bytes) - budget->free_bytes;
    return below > 0 && (uint64_t)below > over ? (uint64_t)below : over;
}

bool hr_budget_possible(const struct hr_budget *budget, uint64_t want_bytes)
{
    if (want_bytes > budget->limit_bytes) {
        return false;
    }
    return hr_budget_lacks(budget, want_bytes) <= budget->used_bytes;
}

void hr_budget_reserve(struct hr_budget *budget, uint64_t charge)
{
    budget->reserved_bytes += charge;
    budget->since_bytes += charge;
    budget->free_bytes -= (int64_t)charge;
}

void hr_budget_land(struct hr_budget *budget, uint64_t bytes)
{
    budget->landed_bytes += bytes;
}

void hr_budget_settle(struct hr_budget *budget, uint64_t charge, uint64_t landed, bool kept)
{
    budget->reserved_bytes -= charge;
    budget->landed_bytes -= landed;
    if (kept) {
        budget->used_bytes += charge;
    } else {
        budget->free_bytes += (int64_t)charge;
    }
}

void hr_budget_adopt(struct hr_budget *budget, uint64_t charge)
{
    budget->used_bytes += charge;
}

void hr_budget_give_up(struct hr_budget *budget, uint64_t charge)
{
    budget->used_bytes -= charge;
    budget->leaving_bytes += charge;
    budget->free_bytes += (int64_t)charge;
}

void hr_budget_hold(struct hr_budget *budget, uint64_t charge)
{
    budget->used_bytes += charge;
    budget->leaving_bytes -= charge;
    budget->free_bytes -= (int64_t)charge;
}

void hr_budget_unlinked(struct hr_budget *budget, uint64_t charge)
{
    budget->leaving_bytes -= charge;
}
