/* spread.h - Distributions of numbers and times, as text.
 *
 *     1024                 always 1024
 *     512..2048            uniform, both ends included
 *     normal:1024,256      mean and standard deviation
 *     lognormal:1024,0.6   median and sigma
 *     exp:200              mean
 *
 * The last three are cut at the ends of the range that the option allows.
 * A time has a unit: us, ms, s, m or h; without one it is in seconds.
 *
 * Threading: none.  Memory: the caller's. */
#ifndef CLIENT_LOAD_PLAN_SPREAD_H
#define CLIENT_LOAD_PLAN_SPREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "client/load/plan/draw.h"
#include "common/base/status.h"

#define SPREAD_US_MAX INT64_C(86400000000) /* a day */

enum spread_kind {
    SPREAD_CONSTANT,
    SPREAD_UNIFORM,
    SPREAD_NORMAL,
    SPREAD_LOGNORMAL,
    SPREAD_EXP
};

/* The range of an option.  Times are in microseconds. */
struct spread_range {
    const char *option; /* "--prompt" */
    double min, max;
    bool time;
};

struct spread {
    enum spread_kind kind;
    double a, b; /* as in the text; a time in microseconds */
    double min, max;
};

/* Parses text.  Returns ST_INVALID_ARGUMENT and a sentence that names the
 * option, the fault and a valid value. */
MUST_CHECK enum status spread_parse(struct spread *out, const char *text,
                                    const struct spread_range *range,
                                    struct error *e);

/* Returns a spread that is always x. */
struct spread spread_always(double x);

/* Returns a whole number within the range. */
int64_t spread_draw(const struct spread *s, struct draw *d);

/* Returns the mean, before the cut. */
double spread_mean(const struct spread *s);

/* Returns a number that at least 999 of 1000 draws do not exceed. */
double spread_high(const struct spread *s);

/* Reads a number at *text, without sign, and moves *text behind it.  Returns
 * false if there is none. */
bool spread_number(const char **text, double *out);

/* Reads a time at *text, in microseconds, and moves *text behind it. */
bool spread_time(const char **text, double *us);

#endif
