/* Which batches of an epoch were announced: queues that are understood late bring theirs late, and until then
 * nothing of them was read. */
#include "fetch/plan/known_epoch.h"

/* Batches that were told to queues which are not understood yet: of so many workers the first ones. What is
 * missing further back was lost, and read long ago. */
#define LATE_NUMBERS 128u

bool hr_epoch_was_noted(const struct hr_epoch *epoch, uint32_t number)
{
    return number < HR_KNOWN_FIRST_NUMBERS && epoch->numbers[number / 64] >> number % 64 & 1;
}

void hr_epoch_note_number(struct hr_epoch *epoch, uint32_t number)
{
    epoch->last_number = number > epoch->last_number ? number : epoch->last_number;
    if (number < HR_KNOWN_FIRST_NUMBERS) {
        epoch->numbers[number / 64] |= UINT64_C(1) << number % 64;
    }
}

static bool is_over(const struct hr_epoch *epoch, uint32_t number)
{
    return number < HR_KNOWN_FIRST_NUMBERS ? hr_epoch_was_noted(epoch, number) : number <= epoch->last_number;
}

uint32_t hr_epoch_unannounced(const struct hr_epoch *epoch, uint32_t position)
{
    if (epoch->opens || epoch->batch_size == 0) {
        return position;
    }
    uint32_t late = epoch->last_number > LATE_NUMBERS ? epoch->last_number - LATE_NUMBERS : 0;
    uint32_t number = (position + epoch->lead) / epoch->batch_size;
    uint32_t free = number > late ? number : late;
    while (is_over(epoch, free)) {
        free++;
    }
    return free == number ? position : hr_epoch_first(epoch, free);
}
