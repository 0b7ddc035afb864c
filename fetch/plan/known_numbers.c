/* Which batches of an epoch were announced: queues that are understood late bring theirs late, and until then
 * nothing of them was read. */
#include "fetch/plan/known_epoch.h"

/* Batches that were told to queues which are not understood yet: of so many workers the first ones. What is
 * missing further back was lost, and read long ago. */
#define LATE_NUMBERS 128u

static bool has(const uint64_t numbers[HR_KNOWN_FIRST_NUMBERS / 64], uint32_t number)
{
    return number < HR_KNOWN_FIRST_NUMBERS && numbers[number / 64] >> number % 64 & 1;
}

bool hr_epoch_was_noted(const struct hr_epoch *epoch, uint32_t number)
{
    return has(epoch->numbers, number);
}

bool hr_epoch_is_begun(const struct hr_epoch *epoch, uint32_t number)
{
    return has(epoch->numbers, number) || has(epoch->passed, number);
}

void hr_epoch_note_number(struct hr_epoch *epoch, uint32_t number)
{
    epoch->last_number = number > epoch->last_number ? number : epoch->last_number;
    if (number < HR_KNOWN_FIRST_NUMBERS) {
        epoch->numbers[number / 64] |= UINT64_C(1) << number % 64;
    }
}

void hr_epoch_add_numbers(struct hr_epoch *epoch, const struct hr_epoch *from)
{
    epoch->last_number = from->last_number > epoch->last_number ? from->last_number : epoch->last_number;
    for (unsigned i = 0; i < HR_KNOWN_FIRST_NUMBERS / 64; i++) {
        epoch->numbers[i] |= from->numbers[i];
        epoch->passed[i] |= from->passed[i];
    }
}

static bool is_over(const struct hr_epoch *epoch, uint32_t number)
{
    return number < HR_KNOWN_FIRST_NUMBERS ? hr_epoch_is_begun(epoch, number) : number <= epoch->last_number;
}

void hr_known_passed(struct hr_plan *plan, const struct hr_dataset *data, uint64_t iteration, uint32_t end)
{
    for (unsigned i = 0; plan->knowns && i < HR_KNOWN_EPOCHS_MAX; i++) {
        struct hr_epoch *epoch = &plan->knowns->epochs[i];
        if (!epoch->id || epoch->opens || epoch->iteration != iteration ||
            !hr_dataset_is(&epoch->data, data)) {
            continue;
        }
        for (uint32_t number = 0; number < end && number < HR_KNOWN_FIRST_NUMBERS; number++) {
            epoch->passed[number / 64] |= UINT64_C(1) << number % 64;
        }
    }
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
