/* An environment as a table of the test's. */
#ifndef TESTS_STORE_VARIABLES_H
#define TESTS_STORE_VARIABLES_H

#include <stddef.h>
#include <string.h>

struct variable {
    const char *name, *value;
};

/* The owner is the first of them; one without a name ends them. */
static inline const char *from_table(void *owner, const char *name)
{
    for (const struct variable *v = owner; v->name != NULL; v++) {
        if (strcmp(v->name, name) == 0) {
            return v->value;
        }
    }
    return NULL;
}

#endif
