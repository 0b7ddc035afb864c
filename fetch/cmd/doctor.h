/* `headrace doctor`: its findings and its parts. One line each on stdout, in the order of a first start. */
#ifndef HR_CMD_DOCTOR_H
#define HR_CMD_DOCTOR_H

#include <stdbool.h>

#include "fetch/cmd/client.h"

enum hr_finding { HR_FINDING_OK, HR_FINDING_NOTE, HR_FINDING_WRONG };

struct hr_doctor {
    struct hr_job job;
    bool wrong; /* something was */
};

void hr_doctor_say(struct hr_doctor *doctor, enum hr_finding finding, const char *what, const char *format,
                   ...) __attribute__((format(printf, 4, 5)));

/* Open files, memory, address space of this process and its cgroup. */
void hr_doctor_limits(struct hr_doctor *doctor);
/* Each map's endpoint, credentials, clock, and whether names and bytes may be read. */
void hr_doctor_stores(struct hr_doctor *doctor);

#endif
