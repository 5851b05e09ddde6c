/* clock.h - virtual time: what happens next, in an order that a seed fixes.
 *
 * Events of equal time run in the order of their scheduling.  An event names
 * what it concerns by number, never by an address, so what has gone in the
 * meantime is recognised by who handles it.  An alarm is an event of which
 * there is one, and which is moved often: the next tick of a node. */
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

#define CLOCK_ALARMS 16

struct clock {
    int64_t now_us;
    uint64_t serial;
    struct event *heap; /* [n] from heap[1] */
    uint32_t n, capacity;
    struct event alarms[CLOCK_ALARMS]; /* at_us INT64_MAX: not set */
    uint32_t soonest;                  /* of them */
};

void clock_init(struct clock *c, int64_t now_us);
void clock_fini(struct clock *c);

/* at_us earlier than now means now. */
void clock_add(struct clock *c, int64_t at_us, event_fn *fn, uint32_t a,
               uint64_t b);

/* The same for alarm a, in place of when it was set to. */
void clock_alarm(struct clock *c, int64_t at_us, event_fn *fn, uint32_t a,
                 uint64_t b);
void clock_alarm_off(struct clock *c, uint32_t a);

/* Take the next event and move the time to it; false if there is none. */
bool clock_next(struct clock *c, struct event *out);

#endif
