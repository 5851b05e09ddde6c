#include "router/schedule/trial.h"

#include "common/base/plant.h"
#include "router/replicas/place.h"
#include "router/schedule/schedule.h"

/* Returns true if any stage of the place w is in doubt for e (trial.h). */
static bool is_doubtful(const struct worker *w, const struct queue_entry *e)
{
    for (uint32_t i = 0; i < worker_n_stages(w); i++) {
        const struct life *l = &worker_stage(w, i)->life;

        if (l->probation || l->hash == e->trial.lineage) {
            return true;
        }
    }
    return false;
}

static bool could_hold(const struct worker *w, const struct queue_entry *e)
{
    return w->model == e->model && worker_can_serve(w) && !place_ended(w) &&
           place_fits_ever(w, e->n_tokens);
}

/* Returns true if a worker that is not in doubt could hold e.  Free room does
 * not matter: waiting for it is better than a trial at a doubtful worker. */
static bool trusted_elsewhere(const struct schedule *s,
                              const struct queue_entry *e)
{
    for (uint32_t i = 0; i < s->fleet->n_workers; i++) {
        const struct worker *w = s->fleet->workers[i];
        if (could_hold(w, e) && place_state(w) == WORKER_UP &&
            !place_drained(w) && !is_doubtful(w, e)) {
            return true;
        }
    }
    return false;
}

bool trial_allows(const struct schedule *s, const struct worker *w,
                  const struct queue_entry *e)
{
    if (!e->trial.suspect || PLANT(TRIAL_CROWD)) {
        return true;
    }
    /* With two suspects at one place, a death would not show which is to
     * blame. */
    return w->on_trial == NULL &&
           (!is_doubtful(w, e) || !trusted_elsewhere(s, e));
}

bool trial_waits(const struct schedule *s, const struct queue_entry *e)
{
    if (!e->trial.suspect) {
        return false;
    }
    for (uint32_t i = 0; i < s->fleet->n_workers; i++) {
        const struct worker *w = s->fleet->workers[i];
        /* If some place would take it, e waits for room like any other. */
        if (could_hold(w, e) && place_takes(w) && place_readmitted(w) &&
            trial_allows(s, w, e)) {
            return false;
        }
    }
    return true;
}

void trial_granted(struct worker *w, struct queue_entry *e,
                   uint32_t n_generated)
{
    /* A suspect set aside by trial_found() runs beside the one on trial. */
    e->trial.n_at_grant = n_generated;
    if (e->trial.suspect && !e->trial.aside) {
        e->trial.at = w;
        w->on_trial = e;
    }
}

/* Ends the trial, so that the place may try the next suspect. */
static void step_down(struct schedule *s, struct queue_entry *e)
{
    struct worker *w = e->trial.at;

    e->trial.at = NULL;
    if (w != NULL && w->on_trial == e) {
        w->on_trial = NULL;
        model_touch(s->fleet, e->model);
    }
}

static void clear_trial(struct schedule *s, struct queue_entry *e)
{
    step_down(s, e);
    /* The deaths it took part in stay marked: they are no mercy for it
     * later. */
    e->trial = (struct trial){.n_at_grant = e->trial.n_at_grant,
                              .aboard = e->trial.aboard};
}

bool trial_proven(const struct queue_entry *e, uint32_t n_generated)
{
    return n_generated - e->trial.n_at_grant >= TRIAL_TOKENS;
}

void trial_made(struct schedule *s, struct queue_entry *e, uint32_t n_generated)
{
    if (e->trial.suspect && trial_proven(e, n_generated)) {
        clear_trial(s, e);
    }
}

void trial_ended(struct schedule *s, struct queue_entry *e)
{
    clear_trial(s, e);
}

void trial_left(struct schedule *s, struct queue_entry *e)
{
    e->trial.aside = false;
    step_down(s, e);
}

_Static_assert(
    TRIAL_RING > TRIAL_DEATHS_ALL + TRIAL_MERCY_MAX,
    "the deaths of one sequence would push those of others out of the ring");

uint32_t trial_remember(struct schedule *s, struct worker *w)
{
    struct deaths *d = &w->model->deaths;
    uint32_t slot = (uint32_t)(d->n++ % TRIAL_RING);

    d->at_us[slot] = s->base->now_us;
    d->life[slot] = w->life.number;
    return slot;
}

/* Returns the recent deaths of the model's workers that e had no part in. */
static uint32_t mercy(const struct schedule *s, const struct queue_entry *e)
{
    const struct deaths *d = &e->model->deaths;
    uint32_t n = 0;

    for (uint32_t i = 0; i < TRIAL_RING; i++) {
        n += d->at_us[i] > s->base->now_us - TRIAL_WINDOW_US &&
             (e->trial.aboard >> i & 1) == 0;
    }
    return n < TRIAL_MERCY_MAX ? n : TRIAL_MERCY_MAX;
}

/* A suspect that was not on trial has its newest death replaced, not one more:
 * beside another sequence its part in the death is unproven. */
void trial_count(struct schedule *s, const struct worker *w,
                 struct queue_entry *e, bool tried)
{
    struct trial *t = &e->trial;

    if (tried && t->n_deaths < TRIAL_DEATHS_ALL) {
        t->n_deaths++;
    }
    t->suspect = true;
    t->indicted = tried && t->n_deaths >= TRIAL_DEATHS + mercy(s, e);
    t->lives[t->n_deaths] = w->life.number;
    t->lineage = w->life.hash;
}

bool trial_indicted(const struct queue_entry *e)
{
    return e->trial.indicted && !PLANT(TRIAL_FORGOTTEN);
}

void trial_explain(const struct queue_entry *e)
{
    struct deaths *d = &e->model->deaths;

    for (uint32_t i = 0; i < TRIAL_RING; i++) {
        if (e->trial.aboard >> i & 1) {
            d->at_us[i] = INT64_MIN;
        }
    }
}

void trial_absolve(struct schedule *s, struct queue_entry *e, uint64_t life)
{
    struct trial *t = &e->trial;
    uint32_t n = 0;

    if (!t->suspect) {
        return;
    }
    t->indicted = false;
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
        clear_trial(s, e);
    } else {
        t->n_deaths = n - 1;
    }
}

void trial_found(struct schedule *s, const struct worker *w,
                 struct queue_entry *e)
{
    trial_absolve(s, e, w->life.number);
    e->trial.aside = e->trial.suspect && w->on_trial != NULL;
}

static void forget_life(struct deaths *d, uint64_t life)
{
    for (uint32_t i = 0; i < TRIAL_RING; i++) {
        if (d->life[i] == life) {
            d->at_us[i] = INT64_MIN;
        }
    }
}

void trial_forget(struct schedule *s, uint64_t life)
{
    for (uint32_t i = 0; i < s->fleet->n_models; i++) {
        forget_life(&s->fleet->models[i]->deaths, life);
    }
}
