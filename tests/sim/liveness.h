/* liveness.h - Checks that dead workers are detected and live ones left alone.
 *
 *     fenced      its engine has stalled for long; a worker whose engine
 *                 ticks is never fenced, whatever else happens
 *     hung        a worker whose reports to the router have shown no tick for
 *                 the router's limit is fenced by then
 *     silent      a worker that has received nothing for long closes its
 *                 connection
 *     dead        a worker stops itself only after a long stall of its engine,
 *                 and no stall may outlast this limit
 *
 * As in the cores, only time in which the observer is awake counts: a paused
 * node receives nothing. */
#ifndef SIM_LIVENESS_H
#define SIM_LIVENESS_H

#include <stdint.h>

#include "proto/registry.pb-c.h"
#include "tests/sim/options.h"

struct sim;

struct liveness_seen {
    uint64_t hung; /* the router's count of hung workers */
    /* Engine state of each worker, from its reports to the router. */
    struct reported {
        uint64_t session, snapshot, ticks;
        uint32_t n_planned;
        int64_t received_us, still_us;
        int64_t limit_us; /* the greatest during still_us */
    } reported[SIM_WORKERS];
    /* Time for which each worker has received nothing. */
    struct silence {
        uint32_t conn;
        int64_t looked_us, silent_us, stood_us;
    } silences[SIM_WORKERS];
};

/* Records a report before its delivery to the router; a frame of the session
 * before its delivery to a worker or client. */
void liveness_report(struct sim *s, uint32_t conn, const Sluice__V1__Ledger *l,
                     const Sluice__V1__EngineState *e);
void liveness_received(struct sim *s, uint32_t node);

/* Check liveness after each action of the router, before sessions are compared;
 * after each tick of a worker. */
void liveness_router(struct sim *s);
void liveness_worker(struct sim *s, uint32_t w);

/* Checks a worker that stops because of its engine. */
void liveness_died(struct sim *s, uint32_t w);

#endif
