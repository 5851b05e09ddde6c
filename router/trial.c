#include "router/trial.h"

#include <inttypes.h>

#include "common/log.h"
#include "common/plant.h"
#include "common/request_id.h"
#include "router/generation.h"
#include "router/place.h"
#include "router/router.h"
#include "router/submit.h"

/* Of any stage of the place w. */
static bool doubtful(const struct worker *w, const struct request *q)
{
    for (uint32_t i = 0; i < worker_n_stages(w); i++) {
        const struct life *l = &worker_stage(w, i)->life;

        if (l->probation || l->hash == q->trial.lineage) {
            return true;
        }
    }
    return false;
}

static bool could_hold(const struct worker *w, const struct request *q)
{
    const struct generation *g = q->generation;

    return w->model == g->model && worker_can_serve(w) && !place_ended(w) &&
           place_fits_ever(w, generation_tokens(g));
}

/* Is there a worker without a doubt that could hold it one day? */
static bool elsewhere(const struct router_core *r, const struct request *q)
{
    for (uint32_t i = 0; i < r->n_workers; i++) {
        const struct worker *w = r->workers[i];
        if (could_hold(w, q) && place_state(w) == WORKER_UP &&
            !place_drained(w) && !doubtful(w, q)) {
            return true;
        }
    }
    return false;
}

bool trial_allows(const struct router_core *r, const struct worker *w,
                  const struct request *q)
{
    if (!q->trial.suspect || PLANT(TRIAL_CROWD)) {
        return true;
    }
    return w->on_trial == NULL && (!doubtful(w, q) || !elsewhere(r, q));
}

bool trial_waits(const struct router_core *r, const struct request *q)
{
    if (!q->trial.suspect) {
        return false;
    }
    for (uint32_t i = 0; i < r->n_workers; i++) {
        const struct worker *w = r->workers[i];
        if (could_hold(w, q) && submit_open(w) && lineage_open(w) &&
            trial_allows(r, w, q)) {
            return false;
        }
    }
    return true;
}

void trial_granted(struct worker *w, struct request *q)
{
    q->trial.n_at_grant = q->n_generated;
    if (q->trial.suspect && !q->trial.aside) {
        w->on_trial = q;
    }
}

/* Its worker may try the next one. */
static void step_down(struct router_core *r, struct request *q)
{
    if (q->worker != NULL && q->worker->on_trial == q) {
        q->worker->on_trial = NULL;
        model_touch(r, q->generation->model);
    }
}

static void clear(struct router_core *r, struct request *q)
{
    q->trial = (struct trial){.n_at_grant = q->trial.n_at_grant,
                              .aboard = q->trial.aboard};
    step_down(r, q);
}

static bool proven(const struct request *q)
{
    return q->n_generated - q->trial.n_at_grant >= TRIAL_TOKENS;
}

void trial_made(struct router_core *r, struct request *q)
{
    if (q->trial.suspect && proven(q)) {
        clear(r, q);
    }
}

void trial_ended(struct router_core *r, struct request *q)
{
    clear(r, q);
}

void trial_left(struct router_core *r, struct request *q)
{
    q->trial.aside = false;
    step_down(r, q);
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
    for (struct list *at = r->all_requests.next; at != &r->all_requests;
         at = at->next) {
        struct request *q = LIST_OF(at, struct request, all);
        if (q->generation->model == w->model) {
            q->trial.aboard &= ~(1u << slot);
        }
    }
    return slot;
}

/* Deaths that it had no part in. */
static uint32_t mercy(const struct router_core *r, const struct request *q)
{
    const struct deaths *d = &q->generation->model->deaths;
    uint32_t n = 0;

    for (uint32_t i = 0; i < TRIAL_RING; i++) {
        n += d->at_us[i] > r->now_us - TRIAL_WINDOW_US &&
             (q->trial.aboard >> i & 1) == 0;
    }
    return n < TRIAL_MERCY_MAX ? n : TRIAL_MERCY_MAX;
}

/* It has died with w.  One that was a suspect and not on trial there has its
 * newest death replaced, not one more. */
static void count(const struct router_core *r, const struct worker *w,
                  struct request *q, bool tried)
{
    struct trial *t = &q->trial;

    if (tried && t->n_deaths < TRIAL_DEATHS_ALL) {
        t->n_deaths++;
    }
    t->suspect = true;
    t->indicted = tried && t->n_deaths >= TRIAL_DEATHS + mercy(r, q);
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
        struct request *q = LIST_OF(at, struct request, running);
        bool tried = q == place->on_trial;

        if (PLANT(INNOCENT_CHARGED)) {
            tried = place->on_trial != NULL && at->next == &place->running;
        }
        if (!submit_may_have_run(q)) {
            continue;
        }
        q->trial.aboard |= 1u << slot;
        if (proven(q)) {
            continue;
        }
        charged = charged || tried;
        if (q->state == REQUEST_ENDING || q->state == REQUEST_ENDED) {
            continue; /* nobody will run it again */
        }
        r->metrics.suspects += !q->trial.suspect;
        count(r, w, q, tried);
    }
    return charged;
}

bool trial_indicted(const struct request *q)
{
    return q->trial.indicted && !PLANT(TRIAL_FORGOTTEN);
}

/* What q is blamed for is no mercy to others. */
static void explain(const struct request *q)
{
    struct deaths *d = &q->generation->model->deaths;

    for (uint32_t i = 0; i < TRIAL_RING; i++) {
        if (q->trial.aboard >> i & 1) {
            d->at_us[i] = INT64_MIN;
        }
    }
}

void trial_indict(struct router_core *r, struct request *q, const char *why)
{
    uint32_t n = q->trial.n_deaths + 1;
    char id[REQUEST_ID_TEXT];
    struct error e;

    request_id_format(q->generation->id, id);
    log_error("request-indicted",
              "request=%s choice=%" PRIu32 " deaths=%" PRIu32
              " worker=%s why=\"%s\"",
              id, q->choice, n, q->worker_name, why);
    error_set(&e, ST_ABORTED,
              "%" PRIu32 " workers died while they ran it, the last was %s%s "
              "(%s): it is not tried again",
              n, q->worker->replica != NULL ? "of the replica of " : "",
              q->worker_name, why);
    r->metrics.indicted++;
    explain(q);
    request_ungrant(r, q);
    request_fail(r, q, &e, 0);
}

/* The worker of this life has not died: what it made of q. */
static void absolve(struct router_core *r, struct request *q, uint64_t life)
{
    struct trial *t = &q->trial;
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
        clear(r, q);
    } else {
        t->n_deaths = n - 1;
    }
}

void trial_found(struct router_core *r, const struct worker *w,
                 struct request *q)
{
    absolve(r, q, w->life.number);
    q->trial.aside = q->trial.suspect && w->on_trial != NULL;
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
    struct list *at = r->all_requests.next;

    for (uint32_t i = 0; i < r->n_models; i++) {
        forget(&r->models[i]->deaths, life);
    }
    for (; at != &r->all_requests; at = at->next) {
        absolve(r, LIST_OF(at, struct request, all), life);
    }
}
