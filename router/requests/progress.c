#include "router/requests/progress.h"

#include <inttypes.h>

#include "common/base/log.h"
#include "common/base/minmax.h"
#include "common/base/plant.h"
#include "common/wire/request_id.h"
#include "router/fleet/fleet.h"
#include "router/fleet/liveness.h"
#include "router/replicas/place.h"
#include "router/requests/request.h"

#define CUT_TOKENS 64 /* worker/plan/batcher.h, BATCHER_CUT */

/* Counts the steps that pass choice over from now on. */
static void count_from_now(struct requests *r, struct choice *choice)
{
    const struct worker *w = choice->grant.worker;

    choice->progress.since_us = r->base->now_us;
    choice->progress.step = w->counts.step;
    choice->progress.work = choices_of(w)->progress.work;
}

void progress_note(struct requests *r, struct choice *choice)
{
    choice->progress.idle_us =
        choices_of(choice->grant.worker)->progress.idle_us;
    count_from_now(r, choice);
}

/* Returns the tokens of prompts that a step of w computes at least. */
static uint32_t cut_of(struct worker *w)
{
    uint32_t cut = w->shard.cut_tokens > 0 ? w->shard.cut_tokens : CUT_TOKENS;

    for (uint32_t i = 0; i < worker_n_stages(w); i++) {
        const struct worker *s = worker_stage(w, i);

        if (s != NULL && s->shard.step_tokens > 0) {
            cut = min_u32(cut, s->shard.step_tokens);
        }
    }
    return cut;
}

void progress_enter(struct requests *r, struct choice *choice)
{
    struct worker *w = choice->grant.worker;

    choice->progress.own_work = 2 + choice->entry.n_tokens / cut_of(w);
    choices_of(w)->progress.work += choice->progress.own_work;
    progress_note(r, choice);
}

void progress_leave(struct choice *choice)
{
    choices_of(choice->grant.worker)->progress.work -=
        choice->progress.own_work;
}

/* ---- places ---- */

/* Returns whether no stage of the place has a plan, and sets *ticks to the sum
 * of their ticks.  A stage without an engine state counts as busy. */
static bool is_idle(struct worker *w, uint64_t *ticks)
{
    bool idle = true;

    *ticks = 0;
    for (uint32_t i = 0; i < worker_n_stages(w); i++) {
        const struct worker *s = worker_stage(w, i);

        idle = idle && s != NULL && s->live.reports && s->live.n_planned == 0;
        *ticks += s != NULL ? s->live.ticks : 0;
    }
    return idle;
}

/* Ticks never decrease, so equal sums at two ledgers show that nothing was
 * computed in between. */
static void measure(struct requests *r, struct worker *w)
{
    struct place_progress *place = &choices_of(w)->progress;
    int64_t gap_us = r->base->now_us - place->measured_us;
    uint64_t ticks;
    bool idle = is_idle(w, &ticks);

    if (idle && place->idle && ticks == place->ticks) {
        place->idle_us += min_i64(gap_us, HUNG_GAP_US);
    }
    place->idle = idle;
    place->ticks = ticks;
    place->measured_us = r->base->now_us;
}

/* ---- sequences ---- */

/* Returns whether the worker has all that it needs of us to go on. */
static bool is_up_to_worker(const struct choice *choice)
{
    return choice_may_have_run(choice) && !choice_is_kept(choice) &&
           choice->removal.state != REMOVAL_ENDS_UNSENT &&
           choice->removal.state != REMOVAL_MOVES_UNSENT;
}

/* A worker numbers its steps over all of its sessions.  Before the first step
 * of a session, a new router has no count of those before. */
static uint64_t steps_since(const struct worker *w,
                            const struct choice_progress *p)
{
    uint64_t first = choices_of(w)->progress.first_step;

    return first == 0 ? 0 : w->counts.step - max_u64(p->step, first - 1);
}

static bool is_stalled(const struct requests *r, const struct choice *choice)
{
    const struct worker *w = choice->grant.worker;
    const struct choice_progress *p = &choice->progress;
    uint64_t n_steps = steps_since(w, p);

    if (choices_of(w)->progress.idle_us - p->idle_us >=
        liveness_extend_us(r->fleet, w, STALL_IDLE_US)) {
        return true;
    }
    return choice->grant.state == GRANT_RUNS && w->live.reports &&
           r->base->now_us - p->since_us >= STALL_US &&
           n_steps >= STALL_STEPS + 2 * p->work;
}

static void fence(struct requests *r, struct worker *w,
                  const struct choice *choice)
{
    const struct choice_progress *p = &choice->progress;
    int64_t idle_us = choices_of(w)->progress.idle_us - p->idle_us;
    int64_t stalled_us = r->base->now_us - p->since_us;
    char id[REQUEST_ID_TEXT];

    request_id_format(choice->request->id, id);
    log_warn("worker-stalled",
             "worker=%s request=%s choice=%" PRIu32 " state=%s tokens=%" PRIu32
             " stalled_ms=%" PRId64 " idle_ms=%" PRId64 " steps=%" PRIu64,
             w->peer->name, id, choice->index, choice_state_word(choice),
             choice->out.n_generated, stalled_us / 1000, idle_us / 1000,
             steps_since(w, p));
    r->base->metrics.stalled++;
    worker_died(w, DEATH_HUNG);
    peers_end(r->fleet, w->peer,
              "it made no progress with a sequence for %" PRId64
              " ms, and was idle for %" PRId64 " ms of them",
              stalled_us / 1000, idle_us / 1000);
}

void progress_look(struct requests *r, struct worker *w)
{
    struct worker_choices *c = choices_of(w);

    if (w->peer->ended || !worker_can_serve(w)) {
        return;
    }
    measure(r, w);
    if (c->progress.first_step == 0) {
        c->progress.first_step = w->counts.step;
    }
    if (r->base->now_us - c->progress.looked_us < STALL_LOOK_US) {
        return;
    }
    c->progress.looked_us = r->base->now_us;
    for (struct list *at = c->running.next; at != &c->running; at = at->next) {
        struct choice *choice = LIST_OF(at, struct choice, grant.running);

        if (!is_up_to_worker(choice)) {
            progress_note(r, choice);
            continue;
        }
        if (w->ledger.n_suspended > 0) {
            count_from_now(r, choice);
        }
        choice->progress.work =
            max_u64(choice->progress.work, c->progress.work);
        if (is_stalled(r, choice) && !PLANT(STALL_IGNORED)) {
            fence(r, w, choice);
            return;
        }
    }
}
