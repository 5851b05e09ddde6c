/* tick.c - One turn of the worker.  Results come first, so that the plans of
 * the same turn can use what they free.  Messages come last, so that they
 * report both. */
#include <inttypes.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/minmax.h"
#include "common/base/plant.h"
#include "worker/core_state.h"
#include "worker/sequences/ending.h"
#include "worker/sequences/report.h"
#include "worker/sequences/step.h"

#define STOPPING_LOOK_US 10000    /* between looks for the last results */
#define REAP_US          60000000 /* between looks for leaks */

static void node_opened(void *node, struct peer_id from)
{
    struct worker_core *w = node;

    if (!w->base.stopping && !edges_opened(&w->stages.edges, from)) {
        session_opened(&w->base.session, from);
    }
}

static void node_recv(void *node, struct peer_id from, struct frame **f)
{
    struct worker_core *w = node;

    if (w->base.stopping) {
        frame_free(f);
        return;
    }
    if (!edges_recv(&w->stages.edges, from, f)) {
        session_recv(&w->base.session, from, f);
    }
}

static void node_lost(void *node, struct peer_id from)
{
    struct worker_core *w = node;

    if (!w->base.stopping && !edges_lost(&w->stages.edges, from)) {
        session_lost(&w->base.session, from);
    }
}

/* A dead engine, or one that lost its device, ends the worker: the router moves
 * its sequences, and the supervisor restarts the process. */
static bool engine_is_dead(struct worker_core *w, int64_t now_us)
{
    const struct sequences *q = &w->sequences;

    watch_look(&w->watch, step_ticks(q), step_n_planned(q) > 0, now_us);
    if (w->base.lost) {
        return true;
    }
    if (!watch_is_dead(&w->watch) || PLANT(DEAD_IGNORED)) {
        return false;
    }
    log_error("engine-dead",
              "worker=%s still_ms=%" PRId64 " plans=%" PRIu32 " step=%" PRIu64
              " plan_age_ms=%" PRIu64,
              w->base.o.name, w->watch.still_us / 1000, step_n_planned(q),
              step_oldest(q)->plan.step, step_age_us(q, now_us) / 1000);
    w->base.failed = true;
    return true;
}

static int64_t tick_stopping(struct worker_core *w, int64_t now_us)
{
    struct sequences *q = &w->sequences;

    q->role.ops->take_results(q->role.self);
    return step_n_planned(q) == 0 || engine_is_dead(w, now_us)
               ? NODE_STOP
               : now_us + STOPPING_LOOK_US;
}

/* Opens no new session while the engine is stalled, because the sequences of
 * that session would stall too. */
static int64_t tick_session(struct worker_core *w, int64_t now_us)
{
    if (w->base.session.state == SESSION_CLOSED &&
        watch_is_stalled(&w->watch)) {
        return NODE_IDLE;
    }
    return session_tick(&w->base.session, now_us);
}

/* Frees what neither a sequence nor the index owns.  There is nothing such, but
 * for a bug; then the pool heals, and the log names it. */
static int64_t reap(struct worker_core *w, int64_t now_us)
{
    struct sequences *q = &w->sequences;

    if (now_us >= w->reap_us) {
        if (w->reap_us > 0 &&
            ledger_reap(&q->ledger, &q->pool, &q->table) > 0) {
            q->report.changed = true;
        }
        w->reap_us = now_us + REAP_US;
    }
    return w->reap_us;
}

static int64_t node_tick(void *node, int64_t now_us)
{
    struct worker_core *w = node;
    struct sequences *q = &w->sequences;
    int64_t due;

    /* A stopping worker only waits for the plans that read its memory. */
    if (w->base.stopping || leave_tick(&w->leave, now_us)) {
        return tick_stopping(w, now_us);
    }
    /* The session ends here and not where it broke, because that may have been
     * within one of its callbacks. */
    if (w->base.broken != NULL) {
        session_restart(&w->base.session, w->base.broken);
        w->base.broken = NULL;
    }
    q->role.ops->take_results(q->role.self);
    if (w->base.lost) {
        return NODE_STOP;
    }
    ending_expire(q, now_us);
    q->role.ops->submit_plans(q->role.self);
    if (engine_is_dead(w, now_us)) {
        worker_stop(w);
        return NODE_STOP;
    }
    stages_settle(&w->stages, now_us);
    leave_send(&w->leave);
    due = report_send(q, now_us);
    due = min_i64(due, publish_send(q, now_us));
    due = min_i64(due, reap(w, now_us));
    due = min_i64(due, edges_tick(&w->stages.edges, now_us));
    due = min_i64(due, timers_due(&q->timers));
    due = min_i64(due, leave_due(&w->leave));
    due = min_i64(due, watch_due(&w->watch));
    due = min_i64(due, tick_session(w, now_us));
    if (q->report.sent_us == now_us) {
        FP(WORKER_REPORT_SENT);
    }
    return due;
}

const struct node_ops worker_node_ops = {.opened = node_opened,
                                         .recv = node_recv,
                                         .lost = node_lost,
                                         .tick = node_tick};
