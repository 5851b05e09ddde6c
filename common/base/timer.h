/* timer.h - many deadlines, one question: which is due next?
 *
 * A binary heap of intrusive timers.  Threading: none.  Memory: one array
 * that grows with the number of armed timers and is kept. */
#ifndef COMMON_BASE_TIMER_H
#define COMMON_BASE_TIMER_H

#include <stdint.h>

struct timer {
    int64_t due_us;
    uint32_t index; /* in the heap, from 1; 0: not armed */
};

struct timers {
    struct timer **heap; /* [n] from heap[1] */
    uint32_t n, capacity;
};

void timers_init(struct timers *ts);
void timers_fini(struct timers *ts);

/* Arm, or move if armed.  due_us = INT64_MAX disarms. */
void timer_set(struct timers *ts, struct timer *t, int64_t due_us);
void timer_clear(struct timers *ts, struct timer *t);

/* The earliest, INT64_MAX if none. */
int64_t timers_due(const struct timers *ts);

/* Take out one timer that is due at now_us, NULL if none is. */
struct timer *timers_pop(struct timers *ts, int64_t now_us);

#endif
