/* The tables of rows; each ends with a row without a name. */
#ifndef HR_POISON_ROWS_H
#define HR_POISON_ROWS_H

#include "tests/e2e/poison/poison.h"

extern const struct poison_row rows_read[];  /* read and its kin, by any name of the descriptor */
extern const struct poison_row rows_move[];  /* mmap, sendfile, splice and what moves bytes by itself */
extern const struct poison_row rows_queue[]; /* stdio, aio, rings */
extern const struct poison_row rows_hand[];  /* the descriptor handed to another process */
extern const struct poison_row rows_names[]; /* sizes, positions, names */

#endif
