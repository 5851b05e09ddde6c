#include "router/schedule/routing.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/minmax.h"
#include "router/replicas/place.h"
#include "router/schedule/bypass.h"
#include "router/schedule/claims.h"
#include "router/schedule/policy.h"
#include "router/schedule/predict.h"

/* Returns the stage with the fewest free pages: it limits the whole place. */
static const struct worker *tightest(const struct worker *w)
{
    const struct worker *least = w;

    for (uint32_t i = 1; i < worker_n_stages(w); i++) {
        const struct worker *s = worker_stage(w, i);
        least = worker_room(s, PAGES) < worker_room(least, PAGES) ? s : least;
    }
    return least;
}

static uint64_t tokens_of(const struct queue_entry *e)
{
    return (uint64_t)e->n_prompt + e->n_generated;
}

/* A place that could take e, in the order of preference. */
struct candidate {
    struct worker *w;
    uint64_t compute, pages;
    int64_t end; /* in grains */
};

/* Parts that do not depend on the place. */
struct question {
    const struct queue_entry *e;
    uint32_t n_output;
    int64_t grain_us;
};

static struct candidate candidate_of(struct schedule *s,
                                     const struct question *q, struct worker *w)
{
    struct candidate c = {.w = w};
    struct prediction p;

    c.compute = tokens_of(q->e) - prefixes_restorable(s, q->e, w);
    p = predict_at(w, c.compute, q->n_output);
    /* Fewer tokens than a unit do not change the order by themselves. */
    c.end = p.prompt_us / q->grain_us +
            (p.end_us - p.prompt_us + p.others_us) / q->grain_us;
    c.pages = worker_room(tightest(w), PAGES);
    return c;
}

/* Equal ones stay in order of arrival, so that the same events always lead to
 * the same choice. */
static bool is_better(const struct candidate *a, const struct candidate *b)
{
    if (b->w == NULL || a->end != b->end) {
        return b->w == NULL || a->end < b->end;
    }
    if (a->compute / PREFIX_UNIT != b->compute / PREFIX_UNIT) {
        return a->compute < b->compute;
    }
    return a->pages > b->pages;
}

static const char *no_room(const struct worker *w, const struct need *need)
{
    if (need->of[PAGES] > 0 && place_room(w, SLOTS) < need->of[SLOTS] &&
        place_room(w, BLOCKS) >= need->of[BLOCKS]) {
        return "all its slots are taken";
    }
    return "too few of its pages are free";
}

/* Returns why e cannot be granted c at w now, the policy's admission aside;
 * NULL: it can. */
static const char *why_not(struct schedule *s, const struct queue_entry *e,
                           const struct worker *w, const struct claim *c)
{
    const char *why = place_refuses(w);

    if (e->keeper != NULL && e->keeper != w) {
        return "another worker keeps what the sequence continues";
    }
    if (why != NULL) {
        return why;
    }
    if (charges_of(w)->reserved == s->n_runs && e->keeper != w) {
        return "its room is reserved for a sequence that continues one there";
    }
    if (!place_readmitted(w)) {
        return "it is on probation after crashes";
    }
    if (!trial_allows(s->placement, w, &e->trial, e->n_tokens)) {
        return "a suspect of a worker's death may not be tried there now";
    }
    if (e->n_tokens > worker_context(w)) {
        return "its context is too short";
    }
    if (!place_speaks(w, e->continued.minor)) {
        return "its version of the wire has no draw_index";
    }
    /* One that grows must fit at last. */
    if (c->grows && !place_fits_ever(w, e->n_tokens)) {
        return "its pool is too small";
    }
    if (!place_has_room(w, &c->need)) {
        return no_room(w, &c->need);
    }
    if (!bypass_allows(s, e, w, c)) {
        return "its room is kept for a request that waits for longer";
    }
    return claim_refused(s, e, w, c);
}

static void describe(struct schedule *s, const struct queue_entry *e,
                     const struct worker *w, struct routing_place *out)
{
    const struct worker *stage = tightest(w);
    struct claim c = claim_at(s, e, w);
    struct need share = place_share(stage, &c.need);

    *out = (struct routing_place){.n_running = w->n_running,
                                  .room_pages = worker_room(stage, PAGES),
                                  .need_pages = share.of[PAGES],
                                  .most_pages = c.grows ? c.most.of[PAGES] : 0,
                                  .restorable = prefixes_restorable(s, e, w)};
    memcpy(out->name, w->peer->name, sizeof out->name);
    out->n_wait = tokens_of(e) - out->restorable + charges_of(w)->n_backlog;
    out->expected =
        predict_at(w, tokens_of(e) - out->restorable, predict_output(e));
    out->why_not = why_not(s, e, w, &c);
}

void routing_describe(struct schedule *s, const struct queue_entry *e,
                      const struct worker *w, struct routing_place *out)
{
    struct claim c = claim_at(s, e, w);

    describe(s, e, w, out);
    if (out->why_not == NULL && !s->policy->admit(s, e, w, &c.expected)) {
        out->why_not = "its room is kept for the loss of another worker";
    }
}

static uint32_t count_places(const struct schedule *s, const struct model *m)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->fleet->n_workers; i++) {
        const struct worker *w = s->fleet->workers[i];
        n += w->model == m && worker_can_serve(w);
    }
    return n < EXPLAIN_PLACES_MAX ? n : EXPLAIN_PLACES_MAX;
}

/* Leaves out the policy's admission, which would cost O(workers) for each
 * place. */
static void record(struct schedule *s, struct queue_entry *e,
                   const struct worker *chosen)
{
    uint32_t n = count_places(s, e->model);
    struct routing_record *x =
        realloc(e->record, sizeof *x + n * sizeof x->places[0]);

    if (x == NULL) {
        return; /* for people alone */
    }
    e->record = x;
    x->n = 1;
    describe(s, e, chosen, &x->places[0]);
    for (uint32_t i = 0; i < s->fleet->n_workers && x->n < n; i++) {
        const struct worker *w = s->fleet->workers[i];

        if (w != chosen && w->model == e->model && worker_can_serve(w)) {
            describe(s, e, w, &x->places[x->n++]);
        }
    }
}

/* Returns the best place for e now; NULL: none. */
static struct worker *best_of(struct schedule *s, const struct queue_entry *e)
{
    struct question q = {e, predict_output(e), predict_grain_us(e->model)};
    struct candidate best = {.w = NULL};

    for (uint32_t i = 0; i < s->fleet->n_workers; i++) {
        struct worker *w = s->fleet->workers[i];
        struct candidate c;
        struct claim claim;

        if (w->model != e->model || !worker_can_serve(w)) {
            continue;
        }
        claim = claim_at(s, e, w);
        if (why_not(s, e, w, &claim) != NULL) {
            continue;
        }
        c = candidate_of(s, &q, w);
        /* The policy is asked last: its headroom check walks all workers
         * again. */
        if (is_better(&c, &best) &&
            s->policy->admit(s, e, w, &claim.expected)) {
            best = c;
        }
    }
    return best.w;
}

struct worker *routing_pick(struct schedule *s, struct queue_entry *e)
{
    struct worker *w = best_of(s, e);

    if (w != NULL) {
        record(s, e, w);
    } else if (e->keeper != NULL) {
        s->events->crowded(s->above, e);
    }
    return w;
}

bool routing_possible(struct schedule *s, const struct queue_entry *e)
{
    bypass_begin(s);
    return best_of(s, e) != NULL;
}

void routing_charge(struct schedule *s, struct queue_entry *e, struct worker *w)
{
    assert(e->computing.at == NULL);
    e->computing.at = w;
    e->computing.n = tokens_of(e) - prefixes_restorable(s, e, w);
    charges_of(w)->n_backlog += e->computing.n;
    charges_of(w)->n_computing++;
    predict_granted(e, e->computing.n);
    e->prompt->mate = w->peer->session;
}

void routing_release(struct queue_entry *e)
{
    if (e->computing.at != NULL) {
        struct place_charges *at = charges_of(e->computing.at);

        at->n_backlog -= e->computing.n;
        at->n_computed -= min_u64(at->n_computed, e->computing.n);
        at->n_computing--;
        e->computing.at = NULL;
    }
}
