/* What would help a job, told from its report by rules. */
#ifndef HR_CMD_ADVICE_H
#define HR_CMD_ADVICE_H

#include <jansson.h>

#define HR_ADVICE_LINES 8   /* the rules are about as many */
#define HR_ADVICE_BYTES 320 /* a line for people; longer ones are cut */

/* A number of a document by its dotted name; 0 where there is none. */
double hr_report_figure(const json_t *document, const char *name);

/* Lines for people, what costs most first by the order of the rules; their number. */
unsigned hr_advice(const json_t *report, char ret[HR_ADVICE_LINES][HR_ADVICE_BYTES]);

#endif
