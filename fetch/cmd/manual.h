/* The manual page headrace(1) on stdout, in man(7). */
#ifndef HR_CMD_MANUAL_H
#define HR_CMD_MANUAL_H

void hr_manual_print(void);

#endif
