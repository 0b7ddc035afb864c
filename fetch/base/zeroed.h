/* Memory of all zeroes for what is made and freed for each object: as calloc's, and freed by free. calloc of
 * a glibc before 2.41 passes by the pieces that a thread has just freed, which malloc takes at once. */
#ifndef HR_BASE_ZEROED_H
#define HR_BASE_ZEROED_H

#include <stddef.h>

void *hr_zeroed(size_t bytes); /* NULL: no memory */

#endif
