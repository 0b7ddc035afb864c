/* Vector units that code is compiled for beyond what the compiler may use anywhere (SSE2, NEON), from the
 * narrowest; chosen at run time. Pure, any thread. */
#ifndef HR_BASE_VECTORS_H
#define HR_BASE_VECTORS_H

#include <stdbool.h>

enum hr_vectors { HR_VECTORS_NONE, HR_VECTORS_AVX2, HR_VECTORS_AVX512, HR_VECTORS_COUNT };

bool hr_vectors_here(enum hr_vectors vectors); /* does this processor have it? */
enum hr_vectors hr_vectors_widest(void);

#endif
