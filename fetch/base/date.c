/* The two date forms of the wire, parsed without the C library's locale and time zone. */
#include "fetch/base/text.h"

#include <errno.h>
#include <string.h>

/* int64_t nanoseconds since 1970 reach from 1677 to 2262; whole years inside that. */
#define YEAR_MIN 1678
#define YEAR_MAX 2261

struct reader {
    const char *at;
    const char *end;
};

static bool read_char(struct reader *in, char c)
{
    if (in->at == in->end || *in->at != c) {
        return false;
    }
    in->at++;
    return true;
}

/* Exactly `digits` digits whose value lies in [low, high]. */
static bool read_number(struct reader *in, int digits, int low, int high, int *ret)
{
    int value = 0;
    if (in->end - in->at < digits) {
        return false;
    }
    for (int i = 0; i < digits; i++) {
        char c = in->at[i];
        if (c < '0' || c > '9') {
            return false;
        }
        value = value * 10 + (c - '0');
    }
    if (value < low || value > high) {
        return false;
    }
    in->at += digits;
    *ret = value;
    return true;
}

/* Which of `count` three-letter names comes next; the letters are case-sensitive on the wire. */
static bool read_name(struct reader *in, const char *names, int count, int *ret)
{
    if (in->end - in->at < 3) {
        return false;
    }
    for (int i = 0; i < count; i++) {
        if (memcmp(in->at, names + 3 * i, 3) == 0) {
            in->at += 3;
            *ret = i;
            return true;
        }
    }
    return false;
}

static int days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap);
}

struct moment {
    int year, month, day, hour, minute, second;
    int64_t fraction_ns;
    int offset_minutes; /* east of UTC */
};

static int moment_to_ns(const struct moment *when, int64_t *ret_ns)
{
    if (when->day > days_in_month(when->year, when->month)) {
        return -EINVAL;
    }
    /* Days since 1970-01-01: the year starts in March, so that the leap day is its last. */
    int64_t year = when->month <= 2 ? when->year - 1 : when->year;
    int64_t month = (when->month + 9) % 12;
    int64_t days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 306 + 5) / 10 + when->day - 1;
    days -= 719468; /* the same count for 1970-01-01 */
    int64_t minutes = days * 1440 + when->hour * 60 + when->minute - when->offset_minutes;
    *ret_ns = (minutes * 60 + when->second) * 1000000000 + when->fraction_ns;
    return 0;
}

/* ":SS" may be 60 in a leap second. */
static bool read_clock(struct reader *in, struct moment *ret)
{
    return read_number(in, 2, 0, 23, &ret->hour) && read_char(in, ':') &&
           read_number(in, 2, 0, 59, &ret->minute) && read_char(in, ':') &&
           read_number(in, 2, 0, 60, &ret->second);
}

/* ".1" to ".123456789" */
static bool read_fraction(struct reader *in, int64_t *ret_ns)
{
    int64_t ns = 0, unit = 100000000;
    const char *first = in->at;
    while (in->at < in->end && *in->at >= '0' && *in->at <= '9' && unit > 0) {
        ns += unit * (*in->at - '0');
        unit /= 10;
        in->at++;
    }
    *ret_ns = ns;
    return in->at > first;
}

/* "Z" or "+HH:MM"; credential tools write the second. */
static bool read_zone(struct reader *in, int *ret_minutes)
{
    if (read_char(in, 'Z')) {
        *ret_minutes = 0;
        return true;
    }
    int sign = read_char(in, '+') ? 1 : read_char(in, '-') ? -1 : 0;
    int hours, minutes;
    if (sign == 0 || !read_number(in, 2, 0, 23, &hours) || !read_char(in, ':') ||
        !read_number(in, 2, 0, 59, &minutes)) {
        return false;
    }
    *ret_minutes = sign * (hours * 60 + minutes);
    return true;
}

int hr_date_iso8601(const char *text, size_t len, int64_t *ret_ns)
{
    struct reader in = {text, text + len};
    struct moment when = {0};
    bool ok = read_number(&in, 4, YEAR_MIN, YEAR_MAX, &when.year) && read_char(&in, '-') &&
              read_number(&in, 2, 1, 12, &when.month) && read_char(&in, '-') &&
              read_number(&in, 2, 1, 31, &when.day) && read_char(&in, 'T') && read_clock(&in, &when);
    if (ok && read_char(&in, '.')) {
        ok = read_fraction(&in, &when.fraction_ns);
    }
    ok = ok && read_zone(&in, &when.offset_minutes) && in.at == in.end;
    return ok ? moment_to_ns(&when, ret_ns) : -EINVAL;
}

int hr_date_http(const char *text, size_t len, int64_t *ret_ns)
{
    struct reader in = {text, text + len};
    struct moment when = {0};
    int weekday, month = 0;
    bool ok = read_name(&in, "SunMonTueWedThuFriSat", 7, &weekday) && read_char(&in, ',') &&
              read_char(&in, ' ') && read_number(&in, 2, 1, 31, &when.day) && read_char(&in, ' ') &&
              read_name(&in, "JanFebMarAprMayJunJulAugSepOctNovDec", 12, &month) && read_char(&in, ' ') &&
              read_number(&in, 4, YEAR_MIN, YEAR_MAX, &when.year) && read_char(&in, ' ') &&
              read_clock(&in, &when) && read_char(&in, ' ') && read_char(&in, 'G') && read_char(&in, 'M') &&
              read_char(&in, 'T') && in.at == in.end;
    when.month = month + 1;
    return ok ? moment_to_ns(&when, ret_ns) : -EINVAL;
}
