/* clock.h - Virtual time: events in an order that the seed fixes.
 *
 * Events of equal time run in the order of their scheduling.  An event refers
 * to its subjects by number, never by address, so the handler can detect that a
 * subject is gone.  An alarm is a single event that is often rescheduled, such
 * as the next tick of a node. */
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
    uint32_t soonest;                  /* number of alarms that are set */
};

void clock_init(struct clock *c, int64_t now_us);
void clock_fini(struct clock *c);

/* Schedules an event; at_us earlier than now means now. */
void clock_add(struct clock *c, int64_t at_us, event_fn *fn, uint32_t a,
               uint64_t b);

/* Sets alarm a to an event, in place of its previous one. */
void clock_alarm(struct clock *c, int64_t at_us, event_fn *fn, uint32_t a,
                 uint64_t b);
void clock_alarm_off(struct clock *c, uint32_t a);

/* Takes the next event and advances the time to it; false if there is none. */
bool clock_next(struct clock *c, struct event *out);

#endif
