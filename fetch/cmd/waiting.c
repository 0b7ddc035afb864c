#include "fetch/cmd/waiting.h"

#include "fetch/base/clock.h"
#include "fetch/cmd/cmd.h"

#define HR_LASTS_MS 5000 /* as for programs: store/run.h */

static bool told;

void hr_waiting_tell_beside(const struct hr_job *job, uint32_t tree, struct hr_progress *progress)
{
    struct hr_job plain = *job;
    char message[HR_MESSAGE_BYTES];
    json_t *answer = NULL;
    plain.silent = NULL; /* this question has no question about itself */
    if (told ||
        hr_client_ask(&plain, false, json_pack("{s:s, s:I}", "op", "trouble", "tree", (json_int_t)tree),
                      &answer, message) < 0) {
        return;
    }
    const char *text = json_string_value(json_object_get(answer, "text"));
    long long left_ms = json_integer_value(json_object_get(answer, "left_ms"));
    if (text) {
        told = true;
        if (progress) {
            hr_progress_clear(progress);
        }
        hr_complain("still waiting, for up to %lld s: %s", left_ms / 1000 + 1, text);
    }
    json_decref(answer);
}

void hr_waiting_tell(const struct hr_job *job, uint32_t tree)
{
    hr_waiting_tell_beside(job, tree, NULL);
}

void hr_waiting_begin(struct hr_waiting *waiting)
{
    *waiting = (struct hr_waiting){.since_ms = hr_clock_ms()};
}

bool hr_waiting_lasts(struct hr_waiting *waiting, uint64_t figure)
{
    int64_t now_ms = hr_clock_ms();
    if (figure != waiting->figure) {
        waiting->figure = figure;
        waiting->since_ms = now_ms;
    }
    return now_ms - waiting->since_ms >= HR_LASTS_MS;
}
