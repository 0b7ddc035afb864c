#include "fetch/serve/documents.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/base/buf.h"
#include "fetch/base/text.h"
#include "interpose/abi.h"

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

json_t *hr_documents_name(const char *bytes, size_t len)
{
    struct hr_buf text = HR_BUF_INIT(4 * HR_KEY_MAX);
    int error = hr_percent_encode(bytes, len, true, &text);
    json_t *value = error == 0 ? json_string(text.data ? text.data : "") : NULL;
    hr_buf_release(&text);
    return value;
}
