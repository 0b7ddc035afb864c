/* `headrace run --record|--replay`: the daemon records the job's opens, or follows an order that is read
 * here. */
#ifndef HR_CMD_ORDERS_H
#define HR_CMD_ORDERS_H

#include "fetch/cmd/client.h"

/* trees: of the job's maps, as hr_client_attach gives them. What is begun ends with this process, whatever it
 * executes. 0 or -errno with one line in message. */
int hr_order_record(const struct hr_job *job, const uint32_t *trees, const char *file,
                    char message[HR_MESSAGE_BYTES]);
/* Waits for the listings of the maps that the order names. */
int hr_order_replay(const struct hr_job *job, const uint32_t *trees, const char *file,
                    char message[HR_MESSAGE_BYTES]);

#endif
