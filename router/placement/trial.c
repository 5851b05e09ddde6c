#include "router/placement/trial.h"

#include "common/base/plant.h"
#include "common/base/state_machine.h"
#include "router/placement/placement.h"
#include "router/replicas/place.h"

/* The states in trial.h as a table. */
static const struct sm_row trial_rows[TRIAL_STATES] = {
    [TRIAL_FREE] = {"free", SM_TO(TRIAL_SUSPECT)},
    [TRIAL_SUSPECT] = {"suspect", SM_TO(TRIAL_TRIED) | SM_TO(TRIAL_ASIDE) |
                                      SM_TO(TRIAL_INDICTED) |
                                      SM_TO(TRIAL_FREE)},
    [TRIAL_ASIDE] = {"aside", SM_TO(TRIAL_SUSPECT) | SM_TO(TRIAL_FREE)},
    [TRIAL_TRIED] = {"tried", SM_TO(TRIAL_SUSPECT) | SM_TO(TRIAL_INDICTED) |
                                  SM_TO(TRIAL_FREE)},
    [TRIAL_INDICTED] = {"indicted", SM_TO(TRIAL_TRIED) | SM_TO(TRIAL_SUSPECT) |
                                        SM_TO(TRIAL_FREE)},
};

/* No-op if t is in that state already. */
static void move(struct trial *t, enum trial_state to)
{
    if (t->state != to) {
        sm_check(trial_rows, t->state, to, "trial", t->model->name);
        t->state = to;
    }
}

/* Returns true if any stage of the place w is in doubt for e (trial.h). */
static bool is_doubtful(const struct worker *w, const struct trial *t)
{
    for (uint32_t i = 0; i < worker_n_stages(w); i++) {
        const struct worker *s = worker_stage(w, i);

        if (lineage_probation(s) || s->life.hash == t->lineage) {
            return true;
        }
    }
    return false;
}

static bool could_hold(const struct worker *w, const struct trial *t,
                       uint64_t n_tokens)
{
    return w->model == t->model && worker_can_serve(w) && !place_ended(w) &&
           place_fits_ever(w, n_tokens);
}

/* Returns true if a worker that is not in doubt could hold e.  Free room does
 * not matter: waiting for it is better than a trial at a doubtful worker. */
static bool trusted_elsewhere(const struct placement *x, const struct trial *t,
                              uint64_t n_tokens)
{
    for (uint32_t i = 0; i < x->fleet->n_workers; i++) {
        const struct worker *w = x->fleet->workers[i];
        if (could_hold(w, t, n_tokens) && place_state(w) == WORKER_UP &&
            !place_drained(w) && !is_doubtful(w, t)) {
            return true;
        }
    }
    return false;
}

bool trial_allows(const struct placement *x, const struct worker *w,
                  const struct trial *t, uint64_t n_tokens)
{
    if (!trial_suspected(t) || PLANT(TRIAL_CROWD)) {
        return true;
    }
    /* With two suspects at one place, a death would not show which is to
     * blame. */
    return placement_of(w)->on_trial == NULL &&
           (!is_doubtful(w, t) || !trusted_elsewhere(x, t, n_tokens));
}

bool trial_waits(const struct placement *x, const struct trial *t,
                 uint64_t n_tokens)
{
    if (!trial_suspected(t)) {
        return false;
    }
    for (uint32_t i = 0; i < x->fleet->n_workers; i++) {
        const struct worker *w = x->fleet->workers[i];
        /* If some place would take it, e waits for room like any other. */
        if (could_hold(w, t, n_tokens) && place_takes(w) &&
            place_readmitted(w) && trial_allows(x, w, t, n_tokens)) {
            return false;
        }
    }
    return true;
}

void trial_granted(struct worker *w, struct trial *t, uint32_t n_generated)
{
    /* A suspect set aside by trial_found() runs beside the one on trial. */
    t->n_at_grant = n_generated;
    if (trial_suspected(t) && t->state != TRIAL_ASIDE) {
        move(t, TRIAL_TRIED);
        t->at = w;
        placement_of(w)->on_trial = t;
    }
}

/* Ends the trial, so that the place may try the next suspect. */
static void step_down(struct placement *x, struct trial *t)
{
    struct worker *w = t->at;

    t->at = NULL;
    if (w != NULL && placement_of(w)->on_trial == t) {
        placement_of(w)->on_trial = NULL;
        model_touch(x->fleet, t->model);
    }
}

static void clear_trial(struct placement *x, struct trial *t)
{
    step_down(x, t);
    move(t, TRIAL_FREE);
    /* The deaths it took part in stay marked: they are no mercy for it
     * later. */
    *t = (struct trial){
        .model = t->model, .n_at_grant = t->n_at_grant, .aboard = t->aboard};
}

bool trial_proven(const struct trial *t, uint32_t n_generated)
{
    return n_generated - t->n_at_grant >= TRIAL_TOKENS;
}

void trial_made(struct placement *x, struct trial *t, uint32_t n_generated)
{
    if (trial_suspected(t) && trial_proven(t, n_generated)) {
        clear_trial(x, t);
    }
}

void trial_ended(struct placement *x, struct trial *t)
{
    clear_trial(x, t);
}

void trial_left(struct placement *x, struct trial *t)
{
    step_down(x, t);
    if (trial_suspected(t) && t->state != TRIAL_INDICTED) {
        move(t, TRIAL_SUSPECT);
    }
}

_Static_assert(
    TRIAL_RING > TRIAL_DEATHS_ALL + TRIAL_MERCY_MAX,
    "the deaths of one sequence would push those of others out of the ring");

uint32_t trial_remember(struct placement *x, struct worker *w)
{
    struct deaths *d = deaths_of(w->model);
    uint32_t slot = (uint32_t)(d->n++ % TRIAL_RING);

    d->at_us[slot] = x->base->now_us;
    d->life[slot] = w->life.number;
    return slot;
}

/* Returns the recent deaths of the model's workers that e had no part in. */
static uint32_t mercy(const struct placement *x, const struct trial *t)
{
    const struct deaths *d = deaths_of(t->model);
    uint32_t n = 0;

    for (uint32_t i = 0; i < TRIAL_RING; i++) {
        n += i < d->n && d->at_us[i] > x->base->now_us - TRIAL_WINDOW_US &&
             (t->aboard >> i & 1) == 0;
    }
    return n < TRIAL_MERCY_MAX ? n : TRIAL_MERCY_MAX;
}

/* A sequence that took part in a death is a suspect, at the least. */
static void acquit(struct trial *t)
{
    if (t->state == TRIAL_FREE || t->state == TRIAL_INDICTED) {
        move(t, t->at != NULL ? TRIAL_TRIED : TRIAL_SUSPECT);
    }
}

/* A suspect that was not on trial has its newest death replaced, not one more:
 * beside another sequence its part in the death is unproven. */
void trial_count(struct placement *x, const struct worker *w, struct trial *t,
                 bool tried)
{
    if (tried && t->n_deaths < TRIAL_DEATHS_ALL) {
        t->n_deaths++;
    }
    if (tried && t->n_deaths >= TRIAL_DEATHS + mercy(x, t)) {
        move(t, TRIAL_INDICTED);
    } else {
        acquit(t);
    }
    t->lives[t->n_deaths] = w->life.number;
    t->lineage = w->life.hash;
}

bool trial_indicted(const struct trial *t)
{
    return t->state == TRIAL_INDICTED && !PLANT(TRIAL_FORGOTTEN);
}

void trial_explain(const struct trial *t)
{
    struct deaths *d = deaths_of(t->model);

    for (uint32_t i = 0; i < TRIAL_RING; i++) {
        if (t->aboard >> i & 1) {
            d->at_us[i] = INT64_MIN;
        }
    }
}

void trial_absolve(struct placement *x, struct trial *t, uint64_t life)
{
    uint32_t n = 0;

    if (!trial_suspected(t)) {
        return;
    }
    acquit(t);
    if (t->lives[t->n_deaths] == life) {
        t->lineage = 0;
    }
    /* lives[0] made it a suspect, so n lives left are n - 1 deaths on trial. */
    for (uint32_t i = 0; i <= t->n_deaths; i++) {
        if (t->lives[i] != life) {
            t->lives[n++] = t->lives[i];
        }
    }
    if (n == 0) {
        clear_trial(x, t);
    } else {
        t->n_deaths = n - 1;
    }
}

void trial_found(struct placement *x, const struct worker *w, struct trial *t)
{
    trial_absolve(x, t, w->life.number);
    if (trial_suspected(t)) {
        move(t,
             placement_of(w)->on_trial != NULL ? TRIAL_ASIDE : TRIAL_SUSPECT);
    }
}

static void forget_life(struct deaths *d, uint64_t life)
{
    for (uint32_t i = 0; i < TRIAL_RING; i++) {
        if (d->life[i] == life) {
            d->at_us[i] = INT64_MIN;
        }
    }
}

void trial_forget(struct placement *x, uint64_t life)
{
    for (uint32_t i = 0; i < x->fleet->n_models; i++) {
        forget_life(deaths_of(x->fleet->models[i]), life);
    }
}
