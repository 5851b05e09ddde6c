/* liveness.h - Liveness of workers and progress of their engines.
 *
 *     silent  no frame has come for --worker-silent.  After --worker-lost the
 *             session ends.
 *     hung    the engine's tick count has not changed for --worker-hung, and
 *             every report in that time had plans in flight.  The session
 *             ends.
 *     slow    the ticks advance, but the oldest plan is older than SLOW_MIN_US
 *             and than SLOW_FACTOR times the p99 of the last steps.  The
 *             worker receives no new grants until a report ends the condition.
 *
 * A step whose ticks advance never ends a session, however long it takes.  A
 * worker that reports no engine state can only become silent.
 *
 * On a machine that is short of time, a healthy worker is slow too.  All three
 * limits are therefore extended by PATIENCE_DELAYS times the mean delay of the
 * router's timers and of the worker's reports (delay.h), up to PATIENCE_FACTOR
 * times the limit.  Less than LISTEN_US is nothing, so that a quiet machine has
 * the limits as given.  A worker that was ended as hung and comes back in the
 * same life had progressed after all: each such return doubles its limit of
 * progress, HUNG_RETURNS_MAX times at most.
 *
 * Two rules protect workers from single delays that are not theirs:
 *
 *     - At most HUNG_GAP_US between two reports count towards hung, so reports
 *       that arrive late and together end no session.
 *     - If a timer fires more than LISTEN_US late, the router itself was
 *       stalled.  It then waits LISTEN_US, once, for frames that have arrived
 *       in the meantime.
 *
 * Threading: the core's.  Memory: in struct worker; no call allocates.
 * Limits: the last SLOW_STEPS step times are kept. */
#ifndef ROUTER_FLEET_LIVENESS_H
#define ROUTER_FLEET_LIVENESS_H

#include "common/base/status.h"
#include "proto/registry.pb-c.h"
#include "router/base/router_limits.h"
#include "router/fleet/peers.h"

struct fleet;
struct worker;

struct liveness {
    struct event silence; /* the next check for silence */
    struct delay late;    /* how late its reports come */
    uint32_t n_returns;   /* as hung, in this life: lineage.h */
    bool excused;         /* this silence was excused by LISTEN_US already */
    struct event hung;    /* the check for hung, if due before a report */
    bool reports;         /* the newest report had an engine state */
    uint64_t ticks;       /* tick count in the newest report */
    uint32_t n_planned;   /* plans in flight in the newest report */
    uint64_t plan_age_us; /* age of the oldest plan in that report */
    int64_t reported_us;  /* arrival of that report */
    int64_t still_us;     /* time without ticks up to that report */
    uint32_t step_us[SLOW_STEPS]; /* device time of step i: i % SLOW_STEPS */
    uint64_t n_steps;             /* steps measured so far */
};

/* Starts the check for silence of a new worker. */
void liveness_open(struct fleet *fleet, struct worker *w);

/* Clears the timers of a worker that is about to be freed. */
void liveness_close(struct fleet *fleet, struct worker *w);

/* Records that a frame of w's session came: a silent worker is up again. */
void liveness_heard(struct fleet *fleet, struct worker *w);

/* Checks an engine state (NULL: none) against the last one.  Returns DATA_LOSS
 * and the reason in *e if the tick count went back, or if a number is out of
 * range. */
MUST_CHECK enum status liveness_check(const struct worker *w,
                                      const Sluice__V1__EngineState *s,
                                      struct error *e);

/* Applies a checked engine state (NULL: none) of the newest report.  May end
 * the session of w, or change its state between UP and SLOW. */
void liveness_take(struct fleet *fleet, struct worker *w,
                   const Sluice__V1__EngineState *s);

/* Returns limit_us, extended by the delays of this machine and of w. */
int64_t liveness_extend_us(const struct fleet *fleet, const struct worker *w,
                           int64_t limit_us);

/* Return the limits of w at present, in us. */
int64_t liveness_silent_us(const struct fleet *fleet, const struct worker *w);
int64_t liveness_lost_us(const struct fleet *fleet, const struct worker *w);
int64_t liveness_hung_us(const struct fleet *fleet, const struct worker *w);

/* Records the device time of a step of w, in us. */
void liveness_step(struct worker *w, uint32_t device_us);

/* Returns the p99 of the last SLOW_STEPS step times in us; 0 before
 * SLOW_STEPS_MIN steps. */
uint32_t liveness_p99_us(const struct worker *w);

#endif
