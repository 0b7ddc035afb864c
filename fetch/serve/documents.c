#include "fetch/serve/documents.h"

#include <jansson.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static bool refused;

static void *take(size_t bytes)
{
    void *taken = malloc(bytes);
    refused |= !taken;
    return taken;
}

static void zero_free(void *pointer)
{
    if (pointer) {
        explicit_bzero(pointer, malloc_usable_size(pointer));
        free(pointer);
    }
}

void hr_documents_init(void)
{
    json_set_alloc_funcs(take, zero_free);
}

bool hr_documents_short(void)
{
    bool was = refused;
    refused = false;
    return was;
}
