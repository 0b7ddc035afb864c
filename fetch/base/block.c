#include "fetch/base/block.h"

#include <pthread.h>
#include <sys/mman.h>

#define MAPPED_BYTES (HR_BLOCK_BYTES + 4096) /* a page for the byte behind */

struct idle {
    struct idle *next; /* at the start of the block itself */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct idle *list;
static unsigned count; /* in the list... */
static unsigned least; /* ...and the least of it since the last trim: so many were not needed */

static struct idle *pop(void)
{
    struct idle *first = list;
    if (first) {
        list = first->next;
        count--;
    }
    return first;
}

char *hr_block_take(void)
{
    (void)pthread_mutex_lock(&lock);
    char *block = (char *)pop();
    least = count < least ? count : least;
    (void)pthread_mutex_unlock(&lock);
    if (!block) {
        void *fresh = mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        block = fresh == MAP_FAILED ? NULL : fresh;
    }
    return block;
}

void hr_block_give(char *block)
{
    struct idle *idle = (struct idle *)(void *)block;
    (void)pthread_mutex_lock(&lock);
    idle->next = list;
    list = idle;
    count++;
    (void)pthread_mutex_unlock(&lock);
}

void hr_blocks_trim(void)
{
    struct idle *spare = NULL;
    (void)pthread_mutex_lock(&lock);
    for (; least > 0; least--) {
        struct idle *one = pop();
        one->next = spare;
        spare = one;
    }
    least = count;
    (void)pthread_mutex_unlock(&lock);
    while (spare) {
        struct idle *next = spare->next;
        (void)munmap(spare, MAPPED_BYTES);
        spare = next;
    }
}

unsigned hr_blocks_idle(void)
{
    (void)pthread_mutex_lock(&lock);
    unsigned idle = count;
    (void)pthread_mutex_unlock(&lock);
    return idle;
}
