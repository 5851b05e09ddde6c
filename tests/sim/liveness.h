/* liveness.h - is who is dead found out, and who lives left alone?
 *
 *     fenced      its engine really stood still for long; one that ticks is
 *                 never fenced, whatever else happens
 *     hung        a worker of which the router has heard for WORKER_HUNG_US
 *                 that its ticks stand is fenced by then
 *     silent      a worker that has heard nothing for long gives its
 *                 connection up
 *     dead        a worker ends itself only if its engine stood for long, and
 *                 no engine stands for longer
 *
 * As the cores do, only time in which somebody was awake counts: a node that
 * is paused hears nothing. */
#ifndef SIM_LIVENESS_H
#define SIM_LIVENESS_H

#include <stdint.h>

#include "proto/registry.pb-c.h"
#include "tests/sim/options.h"

struct sim;

struct liveness_seen {
    uint64_t hung; /* as the router counts */
    /* What the router has heard of each worker's engine. */
    struct reported {
        uint64_t session, snapshot, ticks;
        uint32_t n_planned;
        int64_t heard_us, still_us;
    } reported[SIM_WORKERS];
    /* How long each worker has heard nothing. */
    struct ear {
        uint32_t conn;
        int64_t looked_us, silent_us, stood_us;
    } ears[SIM_WORKERS];
};

/* A report is about to be delivered to the router; a frame of its session to
 * a worker or client. */
void liveness_report(struct sim *s, uint32_t conn, const Sluice__V1__Ledger *l,
                     const Sluice__V1__EngineState *e);
void liveness_word(struct sim *s, uint32_t node);

/* After each thing that the router does, before sessions are looked at; after
 * each tick of a worker. */
void liveness_router(struct sim *s);
void liveness_worker(struct sim *s, uint32_t w);

/* The worker ends because of its engine. */
void liveness_died(struct sim *s, uint32_t w);

#endif
