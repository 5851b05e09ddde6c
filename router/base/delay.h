/* delay.h - The mean delay of something that repeats: timers, reports.
 *
 * A mean over time, not over samples, so that a burst counts as one:
 *
 *     us += (sample - us) * min(time since the last sample, 1 s) / DELAY_US
 *
 * One long stall therefore raises it by an eighth of its length at most, while
 * delays that go on raise it to their mean within some DELAY_US.
 *
 * Threading: the core's.  Memory: the caller's; zero it to begin. */
#ifndef ROUTER_BASE_DELAY_H
#define ROUTER_BASE_DELAY_H

#include <stdint.h>

#include "common/base/minmax.h"

#define DELAY_US      8000000 /* the time that the mean covers */
#define DELAY_STEP_US 1000000

struct delay {
    int64_t us;    /* the mean */
    int64_t at_us; /* time of the last sample */
};

/* Adds a sample, not below 0, of the time now_us. */
static inline void delay_add(struct delay *d, int64_t now_us, int64_t us)
{
    int64_t weight = min_i64(now_us - d->at_us, DELAY_STEP_US);

    d->us += (us - d->us) * weight / DELAY_US;
    d->at_us = now_us;
}

#endif
