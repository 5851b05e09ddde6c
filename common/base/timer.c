#include "common/base/timer.h"

#include <stdlib.h>
#include <string.h>

void timers_init(struct timers *ts)
{
    memset(ts, 0, sizeof *ts);
}

void timers_fini(struct timers *ts)
{
    free(ts->heap);
    timers_init(ts);
}

/* Positions count from 1, so that the parent of i is i / 2 and 0 can mean
 * "not armed". */
static void place(struct timers *ts, uint32_t i, struct timer *t)
{
    ts->heap[i] = t;
    t->index = i;
}

static void sift_up(struct timers *ts, uint32_t i, struct timer *t)
{
    while (i > 1 && ts->heap[i / 2]->due_us > t->due_us) {
        place(ts, i, ts->heap[i / 2]);
        i /= 2;
    }
    place(ts, i, t);
}

static void sift_down(struct timers *ts, uint32_t i, struct timer *t)
{
    for (;;) {
        uint32_t child = 2 * i;

        if (child < ts->n &&
            ts->heap[child + 1]->due_us < ts->heap[child]->due_us) {
            child++;
        }
        if (child > ts->n || ts->heap[child]->due_us >= t->due_us) {
            break;
        }
        place(ts, i, ts->heap[child]);
        i = child;
    }
    place(ts, i, t);
}

/* Memory is kept, so arming stops allocating once the peak is reached. */
static void make_room(struct timers *ts)
{
    uint32_t capacity = ts->capacity == 0 ? 16 : 2 * ts->capacity;

    if (ts->n + 1 < ts->capacity) {
        return;
    }
    ts->heap = realloc(ts->heap, capacity * sizeof(struct timer *));
    if (ts->heap == NULL) {
        abort();
    }
    ts->capacity = capacity;
}

/* Puts t into the hole at i.  t may be due earlier or later than the timer
 * that was there, so it may have to move either way. */
static void settle(struct timers *ts, uint32_t i, struct timer *t)
{
    if (i > 1 && ts->heap[i / 2]->due_us > t->due_us) {
        sift_up(ts, i, t);
    } else {
        sift_down(ts, i, t);
    }
}

void timer_set(struct timers *ts, struct timer *t, int64_t due_us)
{
    /* Disarming by a due time spares callers a special case. */
    if (due_us == INT64_MAX) {
        timer_clear(ts, t);
        t->due_us = due_us;
        return;
    }
    t->due_us = due_us;
    if (t->index == 0) {
        make_room(ts);
        sift_up(ts, ++ts->n, t);
    } else {
        settle(ts, t->index, t);
    }
}

void timer_clear(struct timers *ts, struct timer *t)
{
    uint32_t i = t->index;
    struct timer *last;

    if (i == 0) {
        return;
    }
    t->index = 0;
    /* ;] The last timer fills the hole, which keeps the heap without gaps. */
    last = ts->heap[ts->n--];
    if (last != t) {
        settle(ts, i, last);
    }
}

int64_t timers_due(const struct timers *ts)
{
    return ts->n == 0 ? INT64_MAX : ts->heap[1]->due_us;
}

struct timer *timers_pop(struct timers *ts, int64_t now_us)
{
    struct timer *t;

    if (ts->n == 0 || ts->heap[1]->due_us > now_us) {
        return NULL;
    }
    t = ts->heap[1];
    timer_clear(ts, t);
    return t;
}
