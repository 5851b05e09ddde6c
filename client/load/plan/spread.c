#include "client/load/plan/spread.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/quote.h"

#define NUMBER_MAX 40 /* characters of a number */

static size_t digits(const char *s)
{
    return strspn(s, "0123456789");
}

/* Returns the characters of a number.  "5..50" begins with "5". */
static size_t number_length(const char *s)
{
    size_t n = digits(s), more;

    if (s[n] == '.' && digits(s + n + 1) > 0) {
        n += 1 + digits(s + n + 1);
    }
    if (n > 0 && (s[n] == 'e' || s[n] == 'E')) {
        more = s[n + 1] == '+' || s[n + 1] == '-' ? 2 : 1;
        if (digits(s + n + more) > 0) {
            n += more + digits(s + n + more);
        }
    }
    return n;
}

bool spread_number(const char **text, double *out)
{
    size_t n = number_length(*text);
    char number[NUMBER_MAX + 1];

    if (n == 0 || n > NUMBER_MAX) {
        return false;
    }
    memcpy(number, *text, n);
    number[n] = '\0';
    *text += n;
    *out = strtod(number, NULL);
    return isfinite(*out);
}

bool spread_time(const char **text, double *us)
{
    static const struct {
        const char *name;
        double us;
    } units[] = {
        {"us", 1}, {"ms", 1e3}, {"s", 1e6}, {"m", 60e6}, {"h", 3600e6}};

    if (!spread_number(text, us)) {
        return false;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        size_t n = strlen(units[i].name);

        if (strncmp(*text, units[i].name, n) == 0) {
            *text += n;
            *us *= units[i].us;
            return true;
        }
    }
    *us *= 1e6;
    return true;
}

/* ---- parsing ---- */

static bool value(const char **text, bool time, double *out)
{
    return time ? spread_time(text, out) : spread_number(text, out);
}

static bool parse_plain(struct spread *s, const char *text, bool time)
{
    if (!value(&text, time, &s->a)) {
        return false;
    }
    s->b = s->a;
    s->kind = SPREAD_CONSTANT;
    if (strncmp(text, "..", 2) == 0) {
        text += 2;
        s->kind = SPREAD_UNIFORM;
        if (!value(&text, time, &s->b)) {
            return false;
        }
    }
    return *text == '\0' && s->b >= s->a;
}

static bool parse_named(struct spread *s, const char *text, bool time)
{
    static const struct {
        const char *name;
        enum spread_kind kind;
        bool two, second_is_time;
    } kinds[] = {{"normal:", SPREAD_NORMAL, true, true},
                 {"lognormal:", SPREAD_LOGNORMAL, true, false},
                 {"exp:", SPREAD_EXP, false, false}};

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t n = strlen(kinds[i].name);

        if (strncmp(text, kinds[i].name, n) != 0) {
            continue;
        }
        text += n;
        s->kind = kinds[i].kind;
        if (!value(&text, time, &s->a)) {
            return false;
        }
        if (kinds[i].two &&
            (*text++ != ',' ||
             !value(&text, time && kinds[i].second_is_time, &s->b))) {
            return false;
        }
        return *text == '\0';
    }
    return false;
}

static enum status refuse(const struct spread_range *r, const char *text,
                          struct error *e)
{
    return error_set(
        e, ST_INVALID_ARGUMENT,
        r->time ? "%s %s is no spread of times; give for example 500ms, "
                  "1s..5s, normal:2s,500ms, lognormal:2s,0.6 or exp:2s"
                : "%s %s is no spread; give for example 1024, 512..2048, "
                  "normal:1024,256, lognormal:1024,0.6 or exp:200",
        r->option, quote(text).text);
}

static bool whole(double x)
{
    return x == floor(x);
}

/* Returns whether the numbers of the text are within the range.  A mean or
 * deviation need only be possible. */
static bool in_range(const struct spread *s, const struct spread_range *r)
{
    if (s->kind == SPREAD_CONSTANT || s->kind == SPREAD_UNIFORM) {
        return s->a >= r->min && s->b <= r->max;
    }
    if (s->kind == SPREAD_LOGNORMAL && s->b > 10) {
        return false;
    }
    return s->a >= r->min && s->a <= r->max && s->b >= 0 && s->b <= r->max;
}

enum status spread_parse(struct spread *out, const char *text,
                         const struct spread_range *range, struct error *e)
{
    double unit = range->time ? 1e6 : 1;

    *out = (struct spread){.min = range->min, .max = range->max};
    if (!parse_plain(out, text, range->time) &&
        !parse_named(out, text, range->time)) {
        return refuse(range, text, e);
    }
    if (out->kind <= SPREAD_UNIFORM && !range->time &&
        (!whole(out->a) || !whole(out->b))) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s %s is not whole; give for example 1024 or "
                         "512..2048",
                         range->option, quote(text).text);
    }
    if (!in_range(out, range)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s %s is outside %.10g..%.10g%s", range->option,
                         quote(text).text, range->min / unit, range->max / unit,
                         range->time ? " s" : "");
    }
    return ST_OK;
}

struct spread spread_always(double x)
{
    return (struct spread){
        .kind = SPREAD_CONSTANT, .a = x, .b = x, .min = x, .max = x};
}

/* ---- drawing ---- */

static double raw(const struct spread *s, struct draw *d)
{
    switch (s->kind) {
    case SPREAD_CONSTANT:
        return s->a;
    case SPREAD_UNIFORM:
        return s->a + (double)draw_below(d, (uint64_t)(s->b - s->a) + 1);
    case SPREAD_NORMAL:
        return s->a + s->b * draw_normal(d);
    case SPREAD_LOGNORMAL:
        return s->a * exp(s->b * draw_normal(d));
    case SPREAD_EXP:
        return s->a * draw_exp(d);
    }
    return s->a;
}

int64_t spread_draw(const struct spread *s, struct draw *d)
{
    double x = raw(s, d);

    if (x < s->min) {
        x = s->min;
    } else if (x > s->max) {
        x = s->max;
    }
    return (int64_t)llround(x);
}

double spread_mean(const struct spread *s)
{
    switch (s->kind) {
    case SPREAD_UNIFORM:
        return (s->a + s->b) / 2;
    case SPREAD_LOGNORMAL:
        return s->a * exp(s->b * s->b / 2);
    case SPREAD_CONSTANT:
    case SPREAD_NORMAL:
    case SPREAD_EXP:
        break;
    }
    return s->a;
}

/* Quantiles of the normal (3.09) and of the exponential (ln 1000). */
double spread_high(const struct spread *s)
{
    double x = s->b;

    if (s->kind == SPREAD_NORMAL) {
        x = s->a + 3.1 * s->b;
    } else if (s->kind == SPREAD_LOGNORMAL) {
        x = s->a * exp(3.1 * s->b);
    } else if (s->kind == SPREAD_EXP) {
        x = s->a * 6.91;
    }
    return x < s->max ? x : s->max;
}
