#include "fetch/cmd/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fetch/base/clock.h"

#define HR_TELL_TERMINAL_MS 200 /* quick enough for an eye */
#define HR_TELL_LINE_MS 5000    /* in a log */
#define HR_SAMPLE_MS 500        /* 32 of them: the rate of the last 16 s */
#define HR_BAR_CELLS 20
#define HR_BAR_FRAME 9 /* its ends and the part in words */
#define HR_LINE_BYTES 256

void hr_progress_begin(struct hr_progress *progress, const char *what, bool with_bytes)
{
    *progress = (struct hr_progress){.what = what, .with_bytes = with_bytes};
    progress->terminal = isatty(STDERR_FILENO);
    progress->started_ms = hr_clock_ms();
}

static void sample(struct hr_progress *progress, const struct hr_progress_figures *figures, int64_t now_ms)
{
    unsigned count = progress->sample_count;
    if (count > 0 && now_ms - progress->samples[(count - 1) % HR_PROGRESS_SAMPLES].at_ms < HR_SAMPLE_MS) {
        return;
    }
    unsigned at = count % HR_PROGRESS_SAMPLES;
    progress->samples[at].at_ms = now_ms;
    progress->samples[at].items = figures->items;
    progress->samples[at].bytes = figures->bytes;
    progress->sample_count++;
}

/* A second, since the oldest sample; all in all when `last`. 0: nothing can be said yet. */
static void rates(const struct hr_progress *progress, const struct hr_progress_figures *figures,
                  int64_t now_ms, bool last, double *ret_items, double *ret_bytes)
{
    unsigned count = progress->sample_count;
    unsigned oldest = count > HR_PROGRESS_SAMPLES ? count % HR_PROGRESS_SAMPLES : 0;
    int64_t since_ms = progress->started_ms;
    uint64_t items = 0, bytes = 0;
    if (!last && count > 0) {
        since_ms = progress->samples[oldest].at_ms;
        items = progress->samples[oldest].items;
        bytes = progress->samples[oldest].bytes;
    }
    double seconds = (double)(now_ms - since_ms) / 1000;
    bool known = seconds > 0 && figures->items >= items && figures->bytes >= bytes;
    *ret_items = known ? (double)(figures->items - items) / seconds : 0;
    *ret_bytes = known ? (double)(figures->bytes - bytes) / seconds : 0;
}

static void append(char *text, unsigned room, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void append(char *text, unsigned room, const char *format, ...)
{
    size_t len = strlen(text);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text + len, room - len, format, args);
    va_end(args);
}

static void append_time(char *text, unsigned room, double seconds)
{
    unsigned whole = (unsigned)(seconds + 0.5);
    if (whole >= 3600) {
        append(text, room, "%u:%02u:%02u", whole / 3600, whole / 60 % 60, whole % 60);
    } else {
        append(text, room, "%u:%02u", whole / 60, whole % 60);
    }
}

/* Of what is left, by the slower of the two. -1: not known. */
static double seconds_left(const struct hr_progress_figures *figures, double items_rate, double bytes_rate)
{
    double by_items = -1, by_bytes = -1;
    if (figures->items_total > figures->items && items_rate > 0) {
        by_items = (double)(figures->items_total - figures->items) / items_rate;
    }
    if (figures->bytes_total > figures->bytes && bytes_rate > 0) {
        by_bytes = (double)(figures->bytes_total - figures->bytes) / bytes_rate;
    }
    return by_items > by_bytes ? by_items : by_bytes;
}

void hr_progress_line(struct hr_progress *progress, const struct hr_progress_figures *figures, int64_t now_ms,
                      bool last, char *ret, unsigned room)
{
    double items_rate, bytes_rate;
    sample(progress, figures, now_ms);
    rates(progress, figures, now_ms, last, &items_rate, &bytes_rate);
    double left = seconds_left(figures, items_rate, bytes_rate);
    ret[0] = '\0';
    append(ret, room, "%llu", (unsigned long long)figures->items);
    if (figures->items_total) {
        append(ret, room, " of %llu", (unsigned long long)figures->items_total);
    }
    append(ret, room, " %s", progress->what);
    if (progress->with_bytes) {
        append(ret, room, ", %.1f", (double)figures->bytes / (1 << 20));
        if (figures->bytes_total) {
            append(ret, room, " of %.1f", (double)figures->bytes_total / (1 << 20));
        }
        append(ret, room, " MiB");
    }
    if (items_rate > 0) {
        append(ret, room, ", %.0f/s", items_rate);
    }
    if (progress->with_bytes && bytes_rate > 0) {
        append(ret, room, ", %.1f MiB/s", bytes_rate / (1 << 20));
    }
    if (last) {
        append(ret, room, ", in ");
        append_time(ret, room, (double)(now_ms - progress->started_ms) / 1000);
    } else if (left >= 0) {
        append(ret, room, ", ");
        append_time(ret, room, left);
        append(ret, room, " left");
    }
}

/* "[=====>    ] 46 % ", as wide as there is room. */
static void bar(const struct hr_progress *progress, const struct hr_progress_figures *figures, unsigned width,
                char *ret, unsigned room)
{
    bool by_bytes = progress->with_bytes && figures->bytes_total > 0;
    uint64_t total = by_bytes ? figures->bytes_total : figures->items_total;
    uint64_t done = by_bytes ? figures->bytes : figures->items;
    unsigned count = width < HR_BAR_FRAME + HR_BAR_CELLS ? width - HR_BAR_FRAME : HR_BAR_CELLS;
    ret[0] = '\0';
    if (total == 0 || width < HR_BAR_FRAME) {
        return;
    }
    double part = done < total ? (double)done / (double)total : 1;
    unsigned cells = (unsigned)(part * count);
    append(ret, room, count ? "[" : "");
    for (unsigned i = 0; i < count; i++) {
        append(ret, room, "%s", i < cells ? "=" : i == cells ? ">" : " ");
    }
    append(ret, room, "%s%3.0f %% ", count ? "] " : "", part * 100);
}

static unsigned columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1u : 79;
}

void hr_progress_tell(struct hr_progress *progress, const struct hr_progress_figures *figures, bool last,
                      const char *more)
{
    int64_t now_ms = hr_clock_ms();
    int64_t period_ms = progress->terminal ? HR_TELL_TERMINAL_MS : HR_TELL_LINE_MS;
    if (!last && now_ms - (progress->told_ms ? progress->told_ms : progress->started_ms) < period_ms) {
        return;
    }
    progress->told_ms = now_ms;
    char line[HR_LINE_BYTES], drawn[HR_LINE_BYTES] = "", whole[2 * HR_LINE_BYTES];
    hr_progress_line(progress, figures, now_ms, last, line, sizeof line);
    if (!progress->terminal) {
        fprintf(stderr, "%s%s\n", line, more ? more : "");
        return;
    }
    unsigned room = columns(), used = (unsigned)(strlen(line) + (more ? strlen(more) : 0));
    bar(progress, figures, used < room ? room - used : 0, drawn, sizeof drawn);
    snprintf(whole, sizeof whole, "%s%s%s", drawn, line, more ? more : "");
    unsigned len = (unsigned)strlen(whole);
    len = len < room ? len : room;
    unsigned blank = progress->shown_len > len ? progress->shown_len - len : 0;
    fprintf(stderr, "\r%.*s%*s%s", (int)len, whole, (int)blank, "", last ? "\n" : "");
    fflush(stderr);
    progress->shown_len = last ? 0 : len;
}

void hr_progress_clear(struct hr_progress *progress)
{
    if (progress->shown_len > 0) {
        fprintf(stderr, "\r%*s\r", (int)progress->shown_len, "");
        fflush(stderr);
        progress->shown_len = 0;
    }
}
