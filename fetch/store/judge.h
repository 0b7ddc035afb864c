/* What one HTTP exchange means for its call: the results, or what to do next. The only place that believes
 * answers. */
#ifndef HR_STORE_JUDGE_H
#define HR_STORE_JUDGE_H

#include <stdint.h>

#include "fetch/store/endpoint.h"
#include "fetch/store/errors.h"
#include "fetch/store/quirks.h"
#include "fetch/store/store.h"

struct hr_judged {
    struct hr_verdict verdict;    /* action HR_ACTION_NONE: success, the call's results are filled */
    char text[200];               /* what happened, for people; "" on success */
    char region[HR_REGION_BYTES]; /* the bucket's, when the answer names it; "" */
    int64_t server_ms;            /* the answer's Date, wall clock; 0 */
    int64_t retry_after_ms;       /* -1: not said */
};

/* Fills the call's results (taking the request's body) only on success. */
void hr_judge(struct hr_call *call, struct hr_http_request *request, const struct hr_quirk *quirk,
              struct hr_judged *ret);

/* True: the headers of an answer to a range are those of all of it, and of an object that is longer. */
bool hr_judge_begun(const struct hr_call *call, const struct hr_http_request *request,
                    struct hr_call_begun *ret);

/* "bytes 0-9/100", "bytes 0-9" + "/" + "*", "bytes *" + "/100". 0 or -EINVAL. Not known: UINT64_MAX. */
struct hr_content_range {
    uint64_t first, last, total;
};
int hr_content_range_parse(const char *text, struct hr_content_range *ret);

#endif
