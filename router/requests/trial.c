#include "router/requests/trial.h"

#include <inttypes.h>

#include "common/base/log.h"
#include "common/base/plant.h"
#include "common/wire/request_id.h"
#include "router/replicas/place.h"
#include "router/requests/request.h"
#include "router/requests/submit.h"
#include "router/router_state.h"

/* Of any stage of the place w. */
static bool doubtful(const struct worker *w, const struct choice *choice)
{
    for (uint32_t i = 0; i < worker_n_stages(w); i++) {
        const struct life *l = &worker_stage(w, i)->life;

        if (l->probation || l->hash == choice->trial.lineage) {
            return true;
        }
    }
    return false;
}

static bool could_hold(const struct worker *w, const struct choice *choice)
{
    const struct request *request = choice->request;

    return w->model == request->model && worker_can_serve(w) &&
           !place_ended(w) && place_fits_ever(w, request_tokens(request));
}

/* Is there a worker without a doubt that could hold it one day? */
static bool elsewhere(const struct router_core *r, const struct choice *choice)
{
    for (uint32_t i = 0; i < r->n_workers; i++) {
        const struct worker *w = r->workers[i];
        if (could_hold(w, choice) && place_state(w) == WORKER_UP &&
            !place_drained(w) && !doubtful(w, choice)) {
            return true;
        }
    }
    return false;
}

bool trial_allows(const struct router_core *r, const struct worker *w,
                  const struct choice *choice)
{
    if (!choice->trial.suspect || PLANT(TRIAL_CROWD)) {
        return true;
    }
    return w->on_trial == NULL &&
           (!doubtful(w, choice) || !elsewhere(r, choice));
}

bool trial_waits(const struct router_core *r, const struct choice *choice)
{
    if (!choice->trial.suspect) {
        return false;
    }
    for (uint32_t i = 0; i < r->n_workers; i++) {
        const struct worker *w = r->workers[i];
        if (could_hold(w, choice) && submit_open(w) && lineage_open(w) &&
            trial_allows(r, w, choice)) {
            return false;
        }
    }
    return true;
}

void trial_granted(struct worker *w, struct choice *choice)
{
    choice->trial.n_at_grant = choice->n_generated;
    if (choice->trial.suspect && !choice->trial.aside) {
        w->on_trial = choice;
    }
}

/* Its worker may try the next one. */
static void step_down(struct router_core *r, struct choice *choice)
{
    if (choice->worker != NULL && choice->worker->on_trial == choice) {
        choice->worker->on_trial = NULL;
        model_touch(r, choice->request->model);
    }
}

static void clear(struct router_core *r, struct choice *choice)
{
    choice->trial = (struct trial){.n_at_grant = choice->trial.n_at_grant,
                                   .aboard = choice->trial.aboard};
    step_down(r, choice);
}

static bool proven(const struct choice *choice)
{
    return choice->n_generated - choice->trial.n_at_grant >= TRIAL_TOKENS;
}

void trial_made(struct router_core *r, struct choice *choice)
{
    if (choice->trial.suspect && proven(choice)) {
        clear(r, choice);
    }
}

void trial_ended(struct router_core *r, struct choice *choice)
{
    clear(r, choice);
}

void trial_left(struct router_core *r, struct choice *choice)
{
    choice->trial.aside = false;
    step_down(r, choice);
}

_Static_assert(TRIAL_RING > TRIAL_DEATHS_ALL + TRIAL_MERCY_MAX,
               "its own deaths would drive out those of others");

void deaths_init(struct deaths *d)
{
    for (uint32_t i = 0; i < TRIAL_RING; i++) {
        d->at_us[i] = INT64_MIN;
    }
}

/* One more in the ring of its model; which one. */
static uint32_t remember(struct router_core *r, struct worker *w)
{
    struct deaths *d = &w->model->deaths;
    uint32_t slot = (uint32_t)(d->n++ % TRIAL_RING);

    d->at_us[slot] = r->now_us;
    d->life[slot] = w->life.number;
    for (struct list *at = r->all_choices.next; at != &r->all_choices;
         at = at->next) {
        struct choice *choice = LIST_OF(at, struct choice, all);
        if (choice->request->model == w->model) {
            choice->trial.aboard &= ~(1u << slot);
        }
    }
    return slot;
}

/* Deaths that it had no part in. */
static uint32_t mercy(const struct router_core *r, const struct choice *choice)
{
    const struct deaths *d = &choice->request->model->deaths;
    uint32_t n = 0;

    for (uint32_t i = 0; i < TRIAL_RING; i++) {
        n += d->at_us[i] > r->now_us - TRIAL_WINDOW_US &&
             (choice->trial.aboard >> i & 1) == 0;
    }
    return n < TRIAL_MERCY_MAX ? n : TRIAL_MERCY_MAX;
}

/* It has died with w.  One that was a suspect and not on trial there has its
 * newest death replaced, not one more. */
static void count(const struct router_core *r, const struct worker *w,
                  struct choice *choice, bool tried)
{
    struct trial *t = &choice->trial;

    if (tried && t->n_deaths < TRIAL_DEATHS_ALL) {
        t->n_deaths++;
    }
    t->suspect = true;
    t->indicted = tried && t->n_deaths >= TRIAL_DEATHS + mercy(r, choice);
    t->lives[t->n_deaths] = w->life.number;
    t->lineage = w->life.hash;
}

bool trial_death(struct router_core *r, struct worker *w)
{
    const struct worker *place = worker_place(w);
    uint32_t slot = remember(r, w);
    bool charged = false;

    if (place == NULL) {
        return false;
    }
    for (struct list *at = place->running.next; at != &place->running;
         at = at->next) {
        struct choice *choice = LIST_OF(at, struct choice, running);
        bool tried = choice == place->on_trial;

        if (PLANT(INNOCENT_CHARGED)) {
            tried = place->on_trial != NULL && at->next == &place->running;
        }
        if (!submit_may_have_run(choice)) {
            continue;
        }
        choice->trial.aboard |= 1u << slot;
        if (proven(choice)) {
            continue;
        }
        charged = charged || tried;
        if (choice->state == CHOICE_ENDING || choice->state == CHOICE_ENDED) {
            continue; /* nobody will run it again */
        }
        r->metrics.suspects += !choice->trial.suspect;
        count(r, w, choice, tried);
    }
    return charged;
}

bool trial_indicted(const struct choice *choice)
{
    return choice->trial.indicted && !PLANT(TRIAL_FORGOTTEN);
}

/* What choice is blamed for is no mercy to others. */
static void explain(const struct choice *choice)
{
    struct deaths *d = &choice->request->model->deaths;

    for (uint32_t i = 0; i < TRIAL_RING; i++) {
        if (choice->trial.aboard >> i & 1) {
            d->at_us[i] = INT64_MIN;
        }
    }
}

void trial_indict(struct router_core *r, struct choice *choice, const char *why)
{
    uint32_t n = choice->trial.n_deaths + 1;
    char id[REQUEST_ID_TEXT];
    struct error e;

    request_id_format(choice->request->id, id);
    log_error("request-indicted",
              "request=%s choice=%" PRIu32 " deaths=%" PRIu32
              " worker=%s why=\"%s\"",
              id, choice->index, n, choice->worker_name, why);
    error_set(&e, ST_ABORTED,
              "%" PRIu32 " workers died while they ran it, the last was %s%s "
              "(%s): it is not tried again",
              n, choice->worker->replica != NULL ? "of the replica of " : "",
              choice->worker_name, why);
    r->metrics.indicted++;
    explain(choice);
    choice_ungrant(r, choice);
    choice_fail(r, choice, &e, 0);
}

/* The worker of this life has not died: what it made of q. */
static void absolve(struct router_core *r, struct choice *choice, uint64_t life)
{
    struct trial *t = &choice->trial;
    uint32_t n = 0;

    if (!t->suspect) {
        return;
    }
    t->indicted = false;
    if (t->lives[t->n_deaths] == life) {
        t->lineage = 0;
    }
    for (uint32_t i = 0; i <= t->n_deaths; i++) {
        if (t->lives[i] != life) {
            t->lives[n++] = t->lives[i];
        }
    }
    if (n == 0) {
        clear(r, choice);
    } else {
        t->n_deaths = n - 1;
    }
}

void trial_found(struct router_core *r, const struct worker *w,
                 struct choice *choice)
{
    absolve(r, choice, w->life.number);
    choice->trial.aside = choice->trial.suspect && w->on_trial != NULL;
}

/* It was no death. */
static void forget(struct deaths *d, uint64_t life)
{
    for (uint32_t i = 0; i < TRIAL_RING; i++) {
        if (d->life[i] == life) {
            d->at_us[i] = INT64_MIN;
        }
    }
}

void trial_alive(struct router_core *r, uint64_t life)
{
    struct list *at = r->all_choices.next;

    for (uint32_t i = 0; i < r->n_models; i++) {
        forget(&r->models[i]->deaths, life);
    }
    for (; at != &r->all_choices; at = at->next) {
        absolve(r, LIST_OF(at, struct choice, all), life);
    }
}
