#include "fetch/auth/way.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hr_way_release(struct hr_way *way)
{
    hr_credentials_release(&way->credentials);
    for (int i = 0; i < HR_WAY_TEXTS; i++) {
        hr_secret_free(way->text[i]);
    }
    for (int i = 0; i < HR_WAY_VARIABLES_MAX; i++) {
        hr_secret_free(way->variables[i]);
    }
    if (way->base != NULL) {
        hr_way_release(way->base);
        free(way->base);
    }
    *way = (struct hr_way){0};
}

int hr_way_set(struct hr_way *way, enum hr_way_text which, const char *value)
{
    char *copy = NULL;

    if (value != NULL && value[0] != '\0') {
        copy = strdup(value);
        if (copy == NULL) {
            return -ENOMEM;
        }
    }
    hr_secret_free(way->text[which]);
    way->text[which] = copy;
    return 0;
}

int hr_way_print(struct hr_way *way, enum hr_way_text which, const char *format, ...)
{
    char *made = NULL;
    va_list args;
    int len;

    va_start(args, format);
    len = vasprintf(&made, format, args);
    va_end(args);
    if (len < 0) {
        return -ENOMEM;
    }
    hr_secret_free(way->text[which]);
    way->text[which] = made;
    return 0;
}
