#include "router/schedule/routing.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "router/replicas/place.h"
#include "router/schedule/overcommit.h"
#include "router/schedule/policy.h"

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
    uint64_t compute, wait, pages; /* wait: in units */
};

static struct candidate
candidate_of(struct schedule *s, const struct queue_entry *e, struct worker *w)
{
    struct candidate c = {.w = w};

    c.compute = tokens_of(e) - prefixes_restorable(s, e, w);
    c.wait = (c.compute + w->n_backlog) / PREFIX_UNIT;
    c.pages = worker_room(tightest(w), PAGES);
    return c;
}

/* Equal ones stay in order of arrival, so that the same events always lead to
 * the same choice. */
static bool is_better(const struct candidate *a, const struct candidate *b)
{
    if (b->w == NULL || a->wait != b->wait) {
        return b->w == NULL || a->wait < b->wait;
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
    if (w->reserved == s->n_runs && e->keeper != w) {
        return "its room is reserved for a sequence that continues one there";
    }
    if (!place_readmitted(w)) {
        return "it is on probation after crashes";
    }
    if (!trial_allows(s, w, e)) {
        return "a suspect of a worker's death may not be tried there now";
    }
    if (e->n_tokens > worker_context(w)) {
        return "its context is too short";
    }
    if (!place_has_room(w, &c->need)) {
        return no_room(w, &c->need);
    }
    return overcommit_refuses(s, w, c);
}

static void describe(struct schedule *s, const struct queue_entry *e,
                     const struct worker *w, struct routing_place *out)
{
    const struct worker *stage = tightest(w);
    struct claim c = overcommit_claim(s, e, w);
    struct need share = place_share(stage, &c.need);

    *out = (struct routing_place){.n_running = w->n_running,
                                  .room_pages = worker_room(stage, PAGES),
                                  .need_pages = share.of[PAGES],
                                  .most_pages = c.grows ? c.most.of[PAGES] : 0,
                                  .restorable = prefixes_restorable(s, e, w)};
    memcpy(out->name, w->peer->name, sizeof out->name);
    out->n_wait = tokens_of(e) - out->restorable + w->n_backlog;
    out->why_not = why_not(s, e, w, &c);
}

void routing_describe(struct schedule *s, const struct queue_entry *e,
                      const struct worker *w, struct routing_place *out)
{
    struct claim c = overcommit_claim(s, e, w);

    describe(s, e, w, out);
    if (out->why_not == NULL && !s->policy->admit(s, e, w, &c.need)) {
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

    assert(x != NULL);
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

struct worker *routing_pick(struct schedule *s, struct queue_entry *e)
{
    struct candidate best = {.w = NULL};

    for (uint32_t i = 0; i < s->fleet->n_workers; i++) {
        struct worker *w = s->fleet->workers[i];
        struct candidate c;
        struct claim claim;

        if (w->model != e->model || !worker_can_serve(w)) {
            continue;
        }
        claim = overcommit_claim(s, e, w);
        if (why_not(s, e, w, &claim) != NULL) {
            continue;
        }
        c = candidate_of(s, e, w);
        /* The policy is asked last: its headroom check walks all workers
         * again. */
        if (is_better(&c, &best) && s->policy->admit(s, e, w, &claim.need)) {
            best = c;
        }
    }
    if (best.w != NULL) {
        record(s, e, best.w);
    } else if (e->keeper != NULL) {
        s->events->crowded(s->above, e);
    }
    return best.w;
}

void routing_charge(struct schedule *s, struct queue_entry *e, struct worker *w)
{
    assert(e->computing == NULL);
    e->computing = w;
    e->n_computing = tokens_of(e) - prefixes_restorable(s, e, w);
    w->n_backlog += e->n_computing;
    e->prompt->mate = w->peer->session;
}

void routing_release(struct queue_entry *e)
{
    if (e->computing != NULL) {
        e->computing->n_backlog -= e->n_computing;
        e->computing = NULL;
    }
}
