/* Memory for bodies that fill a cell, or nearly: it goes from one to the next without being given back in
 * between, because the first touch of fresh pages costs a body as much processor time as its way here.
 * Any thread. */
#ifndef HR_BASE_BLOCK_H
#define HR_BASE_BLOCK_H

#include "interpose/abi.h"

#define HR_BLOCK_BYTES HR_CELL_BYTES
/* Of less a block would hold much more memory than the budget knows of. */
#define HR_BLOCK_LEAST_BYTES (HR_BLOCK_BYTES / 8 * 7)

char *hr_block_take(void); /* HR_BLOCK_BYTES and one more, of any content; NULL: no memory */
void hr_block_give(char *block);
/* Gives back to the system what nobody has needed since the last call. */
void hr_blocks_trim(void);
/* How many are kept for the next body. */
unsigned hr_blocks_idle(void);

#endif
