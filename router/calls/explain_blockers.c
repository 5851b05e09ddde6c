#include "router/calls/explain_blockers.h"

#include "router/replicas/place.h"
#include "router/requests/choice.h"
#include "router/schedule/claims.h"
#include "router/schedule/lengths.h"
#include "router/schedule/predict.h"

static const struct worker *awaited(const struct router_core *r,
                                    const struct queue_entry *e)
{
    const struct worker *first = NULL;

    for (uint32_t i = 0; i < r->fleet.n_workers; i++) {
        const struct worker *w = r->fleet.workers[i];

        if (w->model != e->model || !worker_can_serve(w) ||
            !place_fits_ever(w, e->n_tokens)) {
            continue;
        }
        if (w->peer->session == e->wait.place || w == e->keeper) {
            return w;
        }
        first = first == NULL ? w : first;
    }
    return first;
}

/* Inserts b in order of pages, if it is among the largest. */
static void insert(struct explain_blocker *out, uint32_t *n,
                   struct explain_blocker b)
{
    uint32_t i = *n < EXPLAIN_BLOCKERS ? (*n)++ : EXPLAIN_BLOCKERS;

    for (; i > 0 && out[i - 1].pages < b.pages; i--) {
        if (i < EXPLAIN_BLOCKERS) {
            out[i] = out[i - 1];
        }
    }
    if (i < EXPLAIN_BLOCKERS) {
        out[i] = b;
    }
}

uint32_t explain_blockers(const struct router_core *r,
                          const struct queue_entry *e,
                          struct explain_blocker out[EXPLAIN_BLOCKERS])
{
    const struct worker *w = awaited(r, e);
    const struct list *all = w != NULL ? &charges_of(w)->granted : NULL;
    uint32_t n = 0;

    for (const struct list *at = all; at != NULL && at->next != all;
         at = at->next) {
        const struct queue_entry *x =
            LIST_OF(at->next, struct queue_entry, granted);
        uint32_t left =
            lengths_mean(lengths_for(x), x->n_made, entry_max_tokens(x));
        struct need has = place_need(w, (uint64_t)x->n_prompt + x->n_made);

        insert(out, &n,
               (struct explain_blocker){LIST_OF(x, struct choice, entry), w,
                                        has.of[PAGES],
                                        predict_steps_us(w, left)});
    }
    return n;
}

/* Returns the most output tokens with which w has room for e now; 0: none. */
static uint32_t fitting(const struct router_core *r,
                        const struct queue_entry *e, const struct worker *w)
{
    uint32_t least = 0, most = entry_max_tokens(e);

    while (least < most) {
        uint32_t n = most - (most - least) / 2;
        struct queue_entry shorter = *e;
        struct claim c;

        shorter.n_tokens = (uint64_t)e->n_prompt + n;
        c = claim_at(&r->schedule, &shorter, w);
        if (place_has_room(w, &c.need) &&
            claim_refused(&r->schedule, &shorter, w, &c) == NULL) {
            least = n;
        } else {
            most = n - 1;
        }
    }
    return least;
}

const struct worker *explain_room(struct router_core *r,
                                  const struct queue_entry *e,
                                  uint32_t *max_tokens)
{
    const struct worker *best = NULL;

    *max_tokens = 0;
    for (uint32_t i = 0; i < r->fleet.n_workers && e->keeper == NULL; i++) {
        const struct worker *w = r->fleet.workers[i];
        uint32_t n;

        if (w->model != e->model || !worker_can_serve(w) || !place_takes(w)) {
            continue;
        }
        n = fitting(r, e, w);
        if (n > *max_tokens) {
            best = w;
            *max_tokens = n;
        }
    }
    return best;
}
