/* pace.h - A rate over time, and the time at which its integral has a value.
 *
 * The rate is piecewise linear.  Items are separated by commas, and the last
 * one lasts:
 *
 *     20             20 a second
 *     10x30s         10 a second for 30 s
 *     5..50/60s      rises from 5 to 50 in 60 s, then stays at 50
 *
 * Bursts "40x2s/20s" add 40 a second in the last 2 s of each 20 s.
 *
 * Threading: none.  Memory: the caller's.  Limits: PACE_ITEMS_MAX,
 * PACE_RATE_MAX, PACE_END_US. */
#ifndef CLIENT_LOAD_PLAN_PACE_H
#define CLIENT_LOAD_PLAN_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

#define PACE_ITEMS_MAX 256
#define PACE_RATE_MAX  1e7                       /* a second */
#define PACE_END_US    INT64_C(1000000000000000) /* 31 years: nothing later */

/* A straight part: rate + slope * (t - from). */
struct pace_part {
    double from; /* seconds */
    double rate, slope;
    double count; /* integral from 0 to its start, without bursts */
};

struct pace {
    struct pace_part parts[PACE_ITEMS_MAX + 1]; /* [n], the last is level */
    uint32_t n;
    double burst;         /* added rate; 0: no bursts */
    double burst_s, of_s; /* the last burst_s of each of_s seconds */
};

/* Parses a rate, and bursts if they are not NULL.  Returns ST_INVALID_ARGUMENT
 * and a sentence that names the option, the fault and a valid value. */
MUST_CHECK enum status pace_parse(struct pace *out, const char *rate,
                                  const char *bursts, struct error *e);

/* Multiplies the rate and the bursts by factor > 0. */
void pace_scale(struct pace *p, double factor);

/* Returns the integral from 0 to us. */
double pace_count(const struct pace *p, int64_t us);

/* A place in a pace, for values that ascend. */
struct pace_cursor {
    const struct pace *pace;
    uint32_t part; /* index */
    uint64_t edge; /* index of the next start or end of a burst */
    double from, to, rate, slope;
    double count, count_to; /* integrals at from and to */
};

void pace_begin(struct pace_cursor *c, const struct pace *p);

/* Sets *us to the time at which the integral reaches count.  Returns false if
 * this is never, or after PACE_END_US.  count must not descend. */
bool pace_reach(struct pace_cursor *c, double count, int64_t *us);

#endif
