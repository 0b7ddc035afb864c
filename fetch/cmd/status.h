/* `headrace status` for people: what the planner does and why, then every figure by its name. */
#ifndef HR_CMD_STATUS_H
#define HR_CMD_STATUS_H

#include <jansson.h>

void hr_status_print(const json_t *document);

#endif
