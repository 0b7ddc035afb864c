#include "fetch/plan/iterations.h"

#include <string.h>

#define OVERTAKEN 4 /* numbers that an announcement comes too early or late */

struct hr_iteration *hr_iteration_find(struct hr_iterations *iterations, uint64_t id)
{
    for (unsigned i = 0; id && i < HR_ITERATIONS_MAX; i++) {
        if (iterations->all[i].id == id) {
            return &iterations->all[i];
        }
    }
    return NULL;
}

static struct hr_iteration *begin(struct hr_iterations *iterations, const struct stream *stream)
{
    struct hr_iteration *oldest = &iterations->all[0];
    for (unsigned i = 0; i < HR_ITERATIONS_MAX; i++) {
        oldest = iterations->all[i].id < oldest->id ? &iterations->all[i] : oldest;
    }
    *oldest = (struct hr_iteration){
        .id = ++iterations->last_id, .loader = hr_stream_loader(stream->id), .table = -1};
    return oldest;
}

static bool came(const struct hr_iteration *iteration, uint32_t number)
{
    return number < HR_ITERATION_FIRST && iteration->numbers[number / 64] >> number % 64 & 1;
}

/* Batches are dealt out by number: those of one queue are as far from each other as there are workers. Does
 * a queue that the iteration has already get this one? */
static bool is_taken(const struct hr_iteration *iteration, uint32_t number)
{
    bool taken = came(iteration, number);
    for (uint32_t i = number % (iteration->workers ? iteration->workers : 1);
         iteration->workers && i < HR_ITERATION_FIRST && !taken; i += iteration->workers) {
        taken = came(iteration, i);
    }
    return taken;
}

/* How likely the batch of a queue that is new to it is of the iteration; 0: it is not. A loader's queues are
 * written to by a thread each, so its first announcements come in any order; later one is left out now and
 * then. Queues of a loader that keeps its workers were of one iteration before, too (`old`, or NULL): two
 * that were of different ones are of two loaders. If not, what is known of their orders brings them together.
 */
static unsigned likeness(const struct hr_iteration *iteration, const struct stream *stream,
                         const struct hr_iteration *old, uint32_t number)
{
    bool beside = stream->iteration && iteration->before == stream->iteration;
    bool apart = old && !old->over && iteration->before && !beside;
    bool near = number <= iteration->next + OVERTAKEN && iteration->next <= number + OVERTAKEN;
    bool first = number < HR_ITERATION_FIRST && iteration->next <= HR_ITERATION_FIRST;
    if (iteration->over || iteration->id <= stream->iteration ||
        iteration->loader != hr_stream_loader(stream->id) || apart || (!near && !first) ||
        is_taken(iteration, number)) {
        return 0;
    }
    return 1u + 4u * beside + 2u * (iteration->next == number) + near;
}

/* A queue that has had a batch of an iteration has the later ones of it; one that is new, or whose number
 * went down, is of one that is just being dealt out, or begins one. */
static struct hr_iteration *place_of(struct hr_iterations *iterations, const struct stream *stream,
                                     uint32_t number)
{
    struct hr_iteration *old = hr_iteration_find(iterations, stream->iteration), *iteration = NULL;
    if (old && number > stream->last && !came(old, number)) {
        return old;
    }
    unsigned most = 0;
    for (unsigned i = 0; i < HR_ITERATIONS_MAX; i++) {
        struct hr_iteration *one = &iterations->all[i];
        unsigned like = one->id ? likeness(one, stream, old, number) : 0;
        if (like > most || (like > 0 && like == most && one->id > iteration->id)) {
            iteration = one;
            most = like;
        }
    }
    return iteration ? iteration : begin(iterations, stream);
}

struct hr_iteration *hr_iteration_note(struct hr_iterations *iterations, const struct stream *stream,
                                       uint32_t number)
{
    struct hr_iteration *before = hr_iteration_find(iterations, stream->iteration);
    struct hr_iteration *iteration = place_of(iterations, stream, number);
    if (iteration->id == stream->iteration) {
        uint32_t step = number - stream->last;
        iteration->workers = iteration->workers && iteration->workers < step ? iteration->workers : step;
    } else if (before && before->id == stream->iteration &&
               !before->over) { /* it may be in its place by now */
        before->over = true;
        iteration->before = iteration->before ? iteration->before : before->id;
    }
    iteration->next = number + 1 > iteration->next ? number + 1 : iteration->next;
    if (number < HR_ITERATION_FIRST) {
        iteration->numbers[number / 64] |= UINT64_C(1) << number % 64;
    }
    return iteration;
}

void hr_iteration_tie(struct stream *stream, const struct hr_iteration *iteration, uint32_t number)
{
    if (iteration->id != stream->iteration) { /* maybe another loader's queue */
        stream->before = stream->iteration;
        stream->iteration = iteration->id;
        memset(&stream->verdict, 0, sizeof stream->verdict);
    }
    stream->last = number;
}
