/* Whatever a program writes to a pipe: no read or write out of bounds, no more indices than there is room
 * for. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "interpose/pickle.c"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    uint32_t indices[64];
    uint64_t batch;
    if (hr_pickle_batch(bytes, len, &batch, indices, 64) > 64) {
        abort();
    }
    return 0;
}
