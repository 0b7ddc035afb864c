#include "fetch/base/vectors.h"

bool hr_vectors_here(enum hr_vectors vectors)
{
    switch (vectors) {
    case HR_VECTORS_NONE:
        return true;
#ifdef __x86_64__
    case HR_VECTORS_AVX2:
        return __builtin_cpu_supports("avx2");
    case HR_VECTORS_AVX512:
        return __builtin_cpu_supports("avx512f");
#endif
    default:
        return false;
    }
}

enum hr_vectors hr_vectors_widest(void)
{
    enum hr_vectors vectors = HR_VECTORS_COUNT - 1;
    while (!hr_vectors_here(vectors)) {
        vectors--;
    }
    return vectors;
}
