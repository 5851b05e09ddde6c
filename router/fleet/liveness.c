#include "router/fleet/liveness.h"

#include <inttypes.h>

#include "common/base/log.h"
#include "common/base/plant.h"
#include "router/fleet/fleet.h"
#include "router/fleet/workers.h"

/* ---- silence ---- */

/* Was nothing heard because nobody listened? */
static bool was_away(const struct fleet *fleet, const struct event *e,
                     struct liveness *l)
{
    bool late = fleet->base->now_us - e->timer.due_us > LISTEN_US;

    if (!late || l->excused) {
        return false;
    }
    l->excused = true;
    return true;
}

/* Somebody who is heard is not timed: the timer looks when the last word was,
 * so that a message costs no walk of the heap. */
static void silence_fire(void *room, struct event *e)
{
    struct fleet *fleet = room;
    struct worker *w = EVENT_OF(e, struct worker, live.silence);
    int64_t quiet = fleet->base->now_us - w->peer->heard_us;

    if (quiet >= WORKER_SILENT_US && was_away(fleet, e, &w->live)) {
        event_set(fleet->base, e, fleet->base->now_us + LISTEN_US);
    } else if (quiet >= WORKER_LOST_US) {
        worker_died(w, DEATH_LOST);
        peers_end(fleet, w->peer, "nothing was heard for %" PRId64 " ms",
                  quiet / 1000);
    } else if (quiet >= WORKER_SILENT_US) {
        if (w->state != WORKER_SILENT) {
            worker_move(w, WORKER_SILENT);
            log_warn("worker-silent", "worker=%s silent_ms=%" PRId64,
                     w->peer->name, quiet / 1000);
        }
        event_set(fleet->base, e, w->peer->heard_us + WORKER_LOST_US);
    } else {
        event_set(fleet->base, e, w->peer->heard_us + WORKER_SILENT_US);
    }
}

void liveness_heard(struct fleet *fleet, struct worker *w)
{
    w->live.excused = false;
    if (w->state == WORKER_SILENT) {
        worker_move(w, WORKER_UP);
        event_set(fleet->base, &w->live.silence,
                  fleet->base->now_us + WORKER_SILENT_US);
        model_touch(fleet, w->model);
    }
}

/* ---- hung ---- */

/* How long its ticks have stood, if nothing else is heard by now. */
static int64_t still_by(const struct liveness *l, int64_t now_us)
{
    int64_t gap = now_us - l->reported_us;

    return l->still_us + (gap < HUNG_GAP_US ? gap : HUNG_GAP_US);
}

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
    peers_end(fleet, w->peer, "its engine stood still for %" PRId64 " ms",
              still_us / 1000);
}

/* Between two reports: the next would come too late to tell in time. */
static void hung_fire(void *room, struct event *e)
{
    struct fleet *fleet = room;
    struct worker *w = EVENT_OF(e, struct worker, live.hung);
    int64_t still_us = still_by(&w->live, fleet->base->now_us);
    bool late = fleet->base->now_us - e->timer.due_us > LISTEN_US;

    if (still_us >= WORKER_HUNG_US && !late) {
        fence(fleet, w, still_us);
    }
}

static void stands(struct fleet *fleet, struct worker *w)
{
    struct liveness *l = &w->live;

    if (l->still_us >= WORKER_HUNG_US) {
        fence(fleet, w, l->still_us);
    } else if (WORKER_HUNG_US - l->still_us <= HUNG_GAP_US) {
        event_set(fleet->base, &l->hung,
                  fleet->base->now_us + WORKER_HUNG_US - l->still_us);
    }
}

/* ---- slow ---- */

void liveness_step(struct worker *w, uint32_t device_us)
{
    w->live.step_us[w->live.n_steps++ % SLOW_STEPS] = device_us;
}

/* Of n steps, n - ceil(99 n / 100) are longer: one at most, as SLOW_STEPS is
 * below 200. */
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

static void judge_pace(struct fleet *fleet, struct worker *w)
{
    bool slow = is_slow(w);

    if (slow && w->state == WORKER_UP) {
        worker_move(w, WORKER_SLOW);
        log_info("worker-slow",
                 "worker=%s plan_age_ms=%" PRIu64 " step_p99_us=%" PRIu32,
                 w->peer->name, w->live.plan_age_us / 1000, liveness_p99_us(w));
    } else if (!slow && w->state == WORKER_SLOW) {
        worker_move(w, WORKER_UP);
        model_touch(fleet, w->model);
    }
}

/* ---- what it reports ---- */

enum status liveness_check(const struct worker *w,
                           const Sluice__V1__EngineState *s, struct error *e)
{
    const struct liveness *l = &w->live;

    if (s != NULL && l->reports && s->ticks < l->ticks) {
        return error_set(e, ST_DATA_LOSS,
                         "its engine had ticked %" PRIu64
                         " times, now it is %" PRIu64,
                         l->ticks, s->ticks);
    }
    return ST_OK;
}

void liveness_take(struct fleet *fleet, struct worker *w,
                   const Sluice__V1__EngineState *s)
{
    struct liveness *l = &w->live;
    bool stood = s != NULL && l->reports && l->n_planned > 0 &&
                 s->n_planned > 0 &&
                 (s->ticks == l->ticks || PLANT(TICKS_IGNORED));

    l->still_us = stood ? still_by(l, fleet->base->now_us) : 0;
    l->reported_us = fleet->base->now_us;
    l->reports = s != NULL;
    l->ticks = s != NULL ? s->ticks : 0;
    l->n_planned = s != NULL ? s->n_planned : 0;
    l->plan_age_us = l->n_planned > 0 ? s->plan_age_us : 0;
    event_clear(fleet->base, &l->hung);
    if (stood) {
        stands(fleet, w);
    }
    judge_pace(fleet, w);
}

/* ---- its life ---- */

void liveness_open(struct fleet *fleet, struct worker *w)
{
    event_init(&w->live.silence, silence_fire, fleet);
    event_init(&w->live.hung, hung_fire, fleet);
    event_set(fleet->base, &w->live.silence,
              fleet->base->now_us + WORKER_SILENT_US);
}

void liveness_close(struct fleet *fleet, struct worker *w)
{
    event_clear(fleet->base, &w->live.silence);
    event_clear(fleet->base, &w->live.hung);
}
