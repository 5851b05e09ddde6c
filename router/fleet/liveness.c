#include "router/fleet/liveness.h"

#include <inttypes.h>

#include "common/base/log.h"
#include "common/base/plant.h"
#include "router/fleet/fleet.h"
#include "router/fleet/workers.h"

/* ---- limits ---- */

int64_t liveness_extend_us(const struct fleet *fleet, const struct worker *w,
                           int64_t limit_us)
{
    int64_t us = PATIENCE_DELAYS * (fleet->base->late.us + w->live.late.us);

    return us < LISTEN_US ? limit_us
                          : min_i64(limit_us + us, PATIENCE_FACTOR * limit_us);
}

int64_t liveness_silent_us(const struct fleet *fleet, const struct worker *w)
{
    return liveness_extend_us(fleet, w, fleet->base->options.silent_us);
}

int64_t liveness_lost_us(const struct fleet *fleet, const struct worker *w)
{
    return liveness_extend_us(fleet, w, fleet->base->options.lost_us);
}

int64_t liveness_hung_us(const struct fleet *fleet, const struct worker *w)
{
    return liveness_extend_us(
        fleet, w, fleet->base->options.hung_us << w->live.n_returns);
}

/* ---- silence ---- */

/* Returns true, once per silence, if this timer is late.  The router itself was
 * stalled then, and frames of the worker may wait in its sockets unread. */
static bool was_away(const struct fleet *fleet, const struct event *e,
                     struct liveness *l)
{
    bool is_late = fleet->base->now_us - e->timer.due_us > LISTEN_US;

    if (!is_late || l->excused) {
        return false;
    }
    l->excused = true;
    return true;
}

/* A frame only updates heard_us and does not move this timer, because moving a
 * timer costs a walk of the heap per frame.  The timer compares heard_us with
 * the clock instead, and rearms itself. */
static void silence_fire(void *room, struct event *e)
{
    struct fleet *fleet = room;
    struct worker *w = EVENT_OF(e, struct worker, live.silence);
    int64_t silent_us = fleet->base->now_us - w->peer->heard_us;
    int64_t lost_us = liveness_lost_us(fleet, w);
    int64_t limit_us = liveness_silent_us(fleet, w);

    if (silent_us >= limit_us && was_away(fleet, e, &w->live)) {
        event_set(fleet->base, e, fleet->base->now_us + LISTEN_US);
    } else if (silent_us >= lost_us) {
        worker_died(w, DEATH_LOST);
        peers_end(fleet, w->peer,
                  "no frame came for %" PRId64 " ms (limit %" PRId64 " ms)",
                  silent_us / 1000, lost_us / 1000);
    } else if (silent_us >= limit_us) {
        if (w->state != WORKER_SILENT) {
            worker_move(w, WORKER_SILENT);
            log_warn("worker-silent", "worker=%s silent_ms=%" PRId64,
                     w->peer->name, silent_us / 1000);
        }
        event_set(fleet->base, e, w->peer->heard_us + lost_us);
    } else {
        event_set(fleet->base, e, w->peer->heard_us + limit_us);
    }
}

void liveness_heard(struct fleet *fleet, struct worker *w)
{
    w->live.excused = false;
    if (w->state == WORKER_SILENT) {
        worker_move(w, WORKER_UP);
        event_set(fleet->base, &w->live.silence,
                  fleet->base->now_us + liveness_silent_us(fleet, w));
        model_touch(fleet, w->model);
    }
}

/* ---- hung ---- */

/* Returns how long the ticks have not advanced if no report comes before
 * now_us.  Only HUNG_GAP_US of the time since the last report count: the worker
 * may have sent reports that are delayed on the way. */
static int64_t still_by(const struct liveness *l, int64_t now_us)
{
    int64_t gap = now_us - l->reported_us;

    return l->still_us + (gap < HUNG_GAP_US ? gap : HUNG_GAP_US);
}

/* Ends the session.  The process may still run, so its sequences go on
 * elsewhere and its frames are ignored from here on. */
static void fence(struct fleet *fleet, struct worker *w, int64_t still_us)
{
    const struct liveness *l = &w->live;

    if (w->peer->ended || PLANT(HUNG_IGNORED)) {
        return;
    }
    log_warn("worker-hung",
             "worker=%s hung_ms=%" PRId64 " plans=%" PRIu32
             " plan_age_ms=%" PRIu64 " ticks=%" PRIu64,
             w->peer->name, still_us / 1000, l->n_planned,
             l->plan_age_us / 1000, l->ticks);
    fleet->base->metrics.hung++;
    worker_died(w, DEATH_HUNG);
    peers_end(fleet, w->peer,
              "its engine made no progress for %" PRId64 " ms (limit %" PRId64
              " ms)",
              still_us / 1000, liveness_hung_us(fleet, w) / 1000);
}

/* Fires between two reports, where waiting for the next report would exceed
 * the limit.  A late timer proves nothing: a report may have come while
 * the router was stalled, and is read next. */
static void hung_fire(void *room, struct event *e)
{
    struct fleet *fleet = room;
    struct worker *w = EVENT_OF(e, struct worker, live.hung);
    int64_t still_us = still_by(&w->live, fleet->base->now_us);
    bool is_late = fleet->base->now_us - e->timer.due_us > LISTEN_US;

    if (still_us >= liveness_hung_us(fleet, w) && !is_late) {
        fence(fleet, w, still_us);
    }
}

/* If more than HUNG_GAP_US are missing to the limit, no gap between two reports
 * can reach it, and no timer is needed. */
static void check_hung(struct fleet *fleet, struct worker *w)
{
    struct liveness *l = &w->live;
    int64_t left_us = liveness_hung_us(fleet, w) - l->still_us;

    if (left_us <= 0) {
        fence(fleet, w, l->still_us);
    } else if (left_us <= HUNG_GAP_US) {
        event_set(fleet->base, &l->hung, fleet->base->now_us + left_us);
    }
}

/* ---- slow ---- */

void liveness_step(struct worker *w, uint32_t device_us)
{
    w->live.step_us[w->live.n_steps++ % SLOW_STEPS] = device_us;
}

/* The p99 by nearest rank: n - ceil(99 n / 100) of n steps are longer.  That is
 * at most one step, because SLOW_STEPS is below 200. */
uint32_t liveness_p99_us(const struct worker *w)
{
    const struct liveness *l = &w->live;
    uint32_t n = l->n_steps < SLOW_STEPS ? (uint32_t)l->n_steps : SLOW_STEPS;
    uint32_t longest = 0, second = 0;

    if (n < SLOW_STEPS_MIN) {
        return 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t us = l->step_us[i];

        if (us > longest) {
            second = longest;
            longest = us;
        } else if (us > second) {
            second = us;
        }
    }
    return n - (99 * n + 99) / 100 == 0 ? longest : second;
}

/* The age is the reported one and does not grow between reports: a worker whose
 * reports are delayed would look slow otherwise. */
static bool is_slow(const struct worker *w)
{
    const struct liveness *l = &w->live;
    uint64_t p99_us;

    if (l->n_planned == 0 || l->plan_age_us <= SLOW_MIN_US) {
        return false;
    }
    p99_us = liveness_p99_us(w);
    return p99_us > 0 && l->plan_age_us > SLOW_FACTOR * p99_us;
}

/* A silent worker stays silent: only a frame, through liveness_heard(), makes
 * it UP again. */
static void update_slow(struct fleet *fleet, struct worker *w)
{
    bool now_slow = is_slow(w);

    if (now_slow && w->state == WORKER_UP) {
        worker_move(w, WORKER_SLOW);
        log_info("worker-slow",
                 "worker=%s plan_age_ms=%" PRIu64 " step_p99_us=%" PRIu32,
                 w->peer->name, w->live.plan_age_us / 1000, liveness_p99_us(w));
    } else if (!now_slow && w->state == WORKER_SLOW) {
        worker_move(w, WORKER_UP);
        model_touch(fleet, w->model);
    }
}

/* ---- engine reports ---- */

enum status liveness_check(const struct worker *w,
                           const Sluice__V1__EngineState *s, struct error *e)
{
    const struct liveness *l = &w->live;

    if (s != NULL &&
        (s->n_planned > PLANS_MAX || s->plan_age_us > PLAN_AGE_US_MAX)) {
        return error_set(e, ST_DATA_LOSS,
                         "its engine has %" PRIu32 " plans in flight, the "
                         "oldest for %" PRIu64 " us; at most %d and %" PRIu64
                         " us are possible",
                         s->n_planned, s->plan_age_us, PLANS_MAX,
                         (uint64_t)PLAN_AGE_US_MAX);
    }
    if (s != NULL && l->reports && s->ticks < l->ticks) {
        return error_set(e, ST_DATA_LOSS,
                         "its engine's tick count went back from %" PRIu64
                         " to %" PRIu64,
                         l->ticks, s->ticks);
    }
    return ST_OK;
}

void liveness_take(struct fleet *fleet, struct worker *w,
                   const Sluice__V1__EngineState *s)
{
    struct liveness *l = &w->live;
    /* Plans must be in flight in both reports: an idle engine does not tick. */
    bool stood = s != NULL && l->reports && l->n_planned > 0 &&
                 s->n_planned > 0 &&
                 (s->ticks == l->ticks || PLANT(TICKS_IGNORED));

    l->still_us = stood ? still_by(l, fleet->base->now_us) : 0;
    delay_add(&l->late, fleet->base->now_us,
              max_i64(fleet->base->now_us - l->reported_us - REPORT_DUE_US, 0));
    l->reported_us = fleet->base->now_us;
    l->reports = s != NULL;
    l->ticks = s != NULL ? s->ticks : 0;
    l->n_planned = s != NULL ? s->n_planned : 0;
    l->plan_age_us = l->n_planned > 0 ? s->plan_age_us : 0;
    event_clear(fleet->base, &l->hung);
    if (stood) {
        check_hung(fleet, w);
    }
    update_slow(fleet, w);
}

/* ---- start and end ---- */

void liveness_open(struct fleet *fleet, struct worker *w)
{
    w->live.reported_us = w->live.late.at_us = fleet->base->now_us;
    event_init(&w->live.silence, silence_fire, fleet);
    event_init(&w->live.hung, hung_fire, fleet);
    event_set(fleet->base, &w->live.silence,
              fleet->base->now_us + liveness_silent_us(fleet, w));
}

void liveness_close(struct fleet *fleet, struct worker *w)
{
    event_clear(fleet->base, &w->live.silence);
    event_clear(fleet->base, &w->live.hung);
}
