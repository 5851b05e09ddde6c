/* tick.c - the turn: results first, so that what they free can be used by
 * the plans of the same turn; then plans; then what there is to say. */
#include <inttypes.h>
#include <stddef.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/plant.h"
#include "worker/sequences/orphans.h"

static void node_opened(void *node, struct peer_id who)
{
    struct worker_core *w = node;

    if (!w->stopping && !assembly_opened(w, who)) {
        session_opened(&w->session, who);
    }
}

static void node_recv(void *node, struct peer_id from, struct frame **f)
{
    struct worker_core *w = node;

    if (w->stopping) {
        frame_free(f);
        return;
    }
    if (!assembly_recv(w, from, f)) {
        session_recv(&w->session, from, f);
    }
}

static void node_lost(void *node, struct peer_id who)
{
    struct worker_core *w = node;

    if (!w->stopping && !assembly_lost(w, who)) {
        session_lost(&w->session, who);
    }
}

/* Leases of KEPT sequences that have run out, and the time of orphans. */
static void expire(struct worker_core *w, int64_t now_us)
{
    struct timer *t;

    while ((t = timers_pop(&w->timers, now_us)) != NULL) {
        char *at = (char *)t - offsetof(struct sequence, keep);
        struct sequence *s = (struct sequence *)(void *)at;

        if (s->orphan) {
            orphan_expire(w, s);
        } else {
            worker_let_go(w, s);
        }
    }
}

/* An engine that is dead, or has lost its device, takes the worker with it:
 * what it had is tried elsewhere, and whoever supervises it starts it anew. */
static bool engine_is_dead(struct worker_core *w, int64_t now_us)
{
    watch_look(&w->watch, step_ticks(w), step_planned(w) > 0, now_us);
    if (w->lost) {
        return true;
    }
    if (!watch_is_dead(&w->watch) || PLANT(DEAD_IGNORED)) {
        return false;
    }
    log_error("engine-dead",
              "worker=%s still_ms=%" PRId64 " plans=%" PRIu32 " step=%" PRIu64
              " plan_age_ms=%" PRIu64,
              w->o.name, w->watch.still_us / 1000, step_planned(w),
              step_oldest(w)->plan.step, step_age_us(w, now_us) / 1000);
    w->failed = true;
    return true;
}

static int64_t tick_stopping(struct worker_core *w, int64_t now_us)
{
    step_results(w);
    return step_planned(w) == 0 || engine_is_dead(w, now_us)
               ? NODE_STOP
               : now_us + WORKER_STEP_US;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* No new session while the engine stands: what it would be given would stand
 * with it. */
static int64_t tick_session(struct worker_core *w, int64_t now_us)
{
    if (w->session.state == SESSION_CLOSED && watch_stands(&w->watch)) {
        return NODE_IDLE;
    }
    return session_tick(&w->session, now_us);
}

static int64_t node_tick(void *node, int64_t now_us)
{
    struct worker_core *w = node;
    int64_t due;

    if (w->stopping || leave_tick(w, now_us)) {
        return tick_stopping(w, now_us);
    }
    if (w->broken != NULL) {
        session_restart(&w->session, w->broken);
        w->broken = NULL;
    }
    step_results(w);
    if (w->lost) {
        return NODE_STOP;
    }
    expire(w, now_us);
    step_plans(w);
    if (engine_is_dead(w, now_us)) {
        worker_stop(w);
        return NODE_STOP;
    }
    assembly_settle(w, now_us);
    leave_ask(w);
    due = report_send(w, now_us);
    due = least(due, assembly_tick(w, now_us));
    due = least(due, timers_due(&w->timers));
    due = least(due, leave_due(w));
    due = least(due, watch_due(&w->watch));
    due = least(due, tick_session(w, now_us));
    if (w->reported_us == now_us) {
        FP(WORKER_REPORT_SENT);
    }
    return due;
}

const struct node_ops worker_node_ops = {.opened = node_opened,
                                         .recv = node_recv,
                                         .lost = node_lost,
                                         .tick = node_tick};
