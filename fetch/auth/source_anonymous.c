/* The last row: nobody gave credentials, so requests go out unsigned. */
#include "fetch/auth/source.h"

static int load(const struct hr_source_input *input, char ret_message[256], struct hr_way *ret)
{
    (void)input;
    (void)ret_message;
    ret->credentials = (struct hr_credentials){.source = hr_source_anonymous.name};
    return 0;
}

const struct hr_source hr_source_anonymous = {"anonymous", load, NULL};
