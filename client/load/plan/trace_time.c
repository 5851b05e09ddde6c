#include "client/load/plan/trace_time.h"

#include <ctype.h>

#define SECONDS_MAX INT64_C(100000000000)

struct cursor {
    const char *at, *end;
};

static bool take(struct cursor *c, char wanted)
{
    if (c->at == c->end || *c->at != wanted) {
        return false;
    }
    c->at++;
    return true;
}

static bool next_is_digit(const struct cursor *c)
{
    return c->at < c->end && isdigit((unsigned char)*c->at);
}

/* Takes exactly n digits. */
static bool take_digits(struct cursor *c, unsigned n, int64_t *out)
{
    *out = 0;
    for (unsigned i = 0; i < n; i++) {
        if (!next_is_digit(c)) {
            return false;
        }
        *out = *out * 10 + (*c->at++ - '0');
    }
    return true;
}

static bool take_fraction(struct cursor *c, int64_t *us)
{
    int64_t unit = 100000;

    *us = 0;
    if (!take(c, '.')) {
        return true;
    }
    if (!next_is_digit(c)) {
        return false;
    }
    for (; next_is_digit(c); c->at++) {
        *us += (*c->at - '0') * unit;
        unit /= 10;
    }
    return true;
}

static bool take_seconds(struct cursor *c, int64_t *us)
{
    int64_t s = 0, part;

    if (!next_is_digit(c)) {
        return false;
    }
    while (next_is_digit(c) && s < SECONDS_MAX) {
        s = s * 10 + (*c->at++ - '0');
    }
    if (s >= SECONDS_MAX || !take_fraction(c, &part)) {
        return false;
    }
    *us = s * 1000000 + part;
    return c->at == c->end;
}

/* ---- dates ---- */

static bool is_leap(int64_t y)
{
    return (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
}

static int64_t days_of(int64_t y, int64_t m)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return days[m - 1] + (m == 2 && is_leap(y) ? 1 : 0);
}

/* Returns the days since the first of 1970. */
static int64_t days_before(int64_t y, int64_t m, int64_t d)
{
    int64_t past = y - 1;
    int64_t days = 365 * past + past / 4 - past / 100 + past / 400 - 719162;

    for (int64_t i = 1; i < m; i++) {
        days += days_of(y, i);
    }
    return days + d - 1;
}

static bool take_date(struct cursor *c, int64_t *days)
{
    int64_t y, m, d;

    if (!take_digits(c, 4, &y) || !take(c, '-') || !take_digits(c, 2, &m) ||
        !take(c, '-') || !take_digits(c, 2, &d)) {
        return false;
    }
    if (y < 1970 || m < 1 || m > 12 || d < 1 || d > days_of(y, m)) {
        return false;
    }
    *days = days_before(y, m, d);
    return true;
}

static bool take_clock(struct cursor *c, int64_t *us)
{
    int64_t h, m, s, part;

    if (!take_digits(c, 2, &h) || !take(c, ':') || !take_digits(c, 2, &m) ||
        !take(c, ':') || !take_digits(c, 2, &s) || !take_fraction(c, &part)) {
        return false;
    }
    *us = ((h * 60 + m) * 60 + s) * 1000000 + part;
    return h < 24 && m < 60 && s <= 60;
}

/* Takes an offset from UTC, if there is one. */
static bool take_zone(struct cursor *c, int64_t *us)
{
    int64_t h, m = 0, sign = 1;

    *us = 0;
    if (c->at == c->end || take(c, 'Z')) {
        return true;
    }
    if (take(c, '-')) {
        sign = -1;
    } else if (!take(c, '+')) {
        return false;
    }
    if (!take_digits(c, 2, &h)) {
        return false;
    }
    (void)take(c, ':');
    if (c->at < c->end && !take_digits(c, 2, &m)) {
        return false;
    }
    *us = sign * (h * 60 + m) * 60000000;
    return h < 24 && m < 60;
}

bool trace_time(const char *text, size_t n, int64_t *us)
{
    struct cursor c = {text, text + n};
    int64_t days, clock, zone;

    if (n < 5 || text[4] != '-') {
        return take_seconds(&c, us);
    }
    if (!take_date(&c, &days) || !(take(&c, ' ') || take(&c, 'T')) ||
        !take_clock(&c, &clock) || !take_zone(&c, &zone)) {
        return false;
    }
    *us = days * INT64_C(86400000000) + clock - zone;
    return c.at == c.end;
}
