/* clock.h - virtual time: what happens next, in an order that a seed fixes.
 *
 * Events of equal time run in the order of their scheduling.  An event names
 * what it concerns by number, never by an address, so what has gone in the
 * meantime is recognised by who handles it. */
#ifndef SIM_CLOCK_H
#define SIM_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct sim;

typedef void event_fn(struct sim *s, uint32_t a, uint64_t b);

struct event {
    int64_t at_us;
    uint64_t serial;
    event_fn *fn;
    uint32_t a;
    uint64_t b;
};

struct clock {
    int64_t now_us;
    uint64_t serial;
    struct event *heap; /* [n] from heap[1] */
    uint32_t n, capacity;
};

void clock_init(struct clock *c, int64_t now_us);
void clock_fini(struct clock *c);

/* at_us earlier than now means now. */
void clock_add(struct clock *c, int64_t at_us, event_fn *fn, uint32_t a,
               uint64_t b);

/* Take the next event and move the time to it; false if there is none. */
bool clock_next(struct clock *c, struct event *out);

#endif
