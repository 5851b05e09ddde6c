/* timer.h - A heap of deadlines.
 *
 * A binary heap of intrusive timers: a tree with the positions of an array,
 * whose links are in the timers.  To arm a timer therefore never needs memory.
 *
 * Threading: none.  Memory: none. */
#ifndef COMMON_BASE_TIMER_H
#define COMMON_BASE_TIMER_H

#include <stdint.h>

struct timer {
    int64_t due_us;
    uint32_t index; /* position in the heap, from 1; 0: not armed */
    struct timer *up, *child[2];
};

struct timers {
    struct timer *top; /* the earliest; NULL: none is armed */
    uint32_t n;
};

void timers_init(struct timers *ts);
void timers_fini(struct timers *ts);

/* Arms t, or moves it if it is armed.  due_us = INT64_MAX disarms it. */
void timer_set(struct timers *ts, struct timer *t, int64_t due_us);
void timer_clear(struct timers *ts, struct timer *t);

/* Returns the earliest deadline, INT64_MAX if no timer is armed. */
int64_t timers_due(const struct timers *ts);

/* Takes out one timer that is due at now_us.  Returns NULL if none is due. */
struct timer *timers_pop(struct timers *ts, int64_t now_us);

#endif
