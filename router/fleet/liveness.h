/* liveness.h - is a worker there, and does its engine move?
 *
 *     silent  no frame for WORKER_SILENT_US; for WORKER_LOST_US: its session
 *             ends
 *     hung    its ticks stood still for WORKER_HUNG_US, and every report in
 *             that time said that plans are in flight: its session ends
 *     slow    its ticks move, but its oldest plan is older than SLOW_FACTOR
 *             times the p99 of its last steps, and than SLOW_MIN_US: nothing
 *             new until that plan is back
 *
 * A step that ticks is never fenced, however long it takes.  A worker that
 * reports no engine is judged by silence alone.
 *
 * Only what could have been heard counts.  Between two reports at most
 * HUNG_GAP_US are counted as standing still, so that reports which come late
 * and all at once condemn nobody.  And a router that itself was away, as its
 * late timers show, first reads what has come meanwhile: LISTEN_US.
 *
 * Threading: the core's.  Memory: in struct worker; no call allocates. */
#ifndef ROUTER_FLEET_LIVENESS_H
#define ROUTER_FLEET_LIVENESS_H

#include "common/base/status.h"
#include "proto/registry.pb-c.h"
#include "router/base/router_limits.h"
#include "router/fleet/peers.h"

struct fleet;
struct worker;

struct liveness {
    struct event silence; /* no word for long */
    bool excused;         /* the router was away: it looks once more */
    struct event hung;    /* armed while the ticks stand */
    bool reports;         /* of its engine */
    uint64_t ticks;
    uint32_t n_planned;
    uint64_t plan_age_us;         /* of the oldest plan, as reported */
    int64_t reported_us;          /* when it was */
    int64_t still_us;             /* heard, and the ticks stood */
    uint32_t step_us[SLOW_STEPS]; /* of step i at i % SLOW_STEPS */
    uint64_t n_steps;
};

/* Of a new worker; before it is freed. */
void liveness_open(struct fleet *fleet, struct worker *w);
void liveness_close(struct fleet *fleet, struct worker *w);

/* A frame of its session came. */
void liveness_heard(struct fleet *fleet, struct worker *w);

/* Can that be, after what it said before?  s may be NULL.  A lie is a sentence
 * in e. */
MUST_CHECK enum status liveness_check(const struct worker *w,
                                      const Sluice__V1__EngineState *s,
                                      struct error *e);

/* Take what was checked, of a report newer than those before. */
void liveness_take(struct fleet *fleet, struct worker *w,
                   const Sluice__V1__EngineState *s);

/* A step of it took so long on its device. */
void liveness_step(struct worker *w, uint32_t device_us);

/* The p99 of its last steps; 0 before SLOW_STEPS_MIN of them. */
uint32_t liveness_p99_us(const struct worker *w);

#endif
