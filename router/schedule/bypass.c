#include "router/schedule/bypass.h"

#include "common/base/minmax.h"
#include "common/base/plant.h"
#include "router/replicas/place.h"
#include "router/schedule/claims.h"
#include "router/schedule/fair.h"
#include "router/schedule/forecast.h"
#include "router/schedule/predict.h"

void bypass_begin(struct schedule *s)
{
    s->first = (struct reservation){.entry = NULL};
    s->refused_now = s->refused_most = UINT64_MAX;
}

static bool can_reserve(const struct worker *w, const struct queue_entry *e)
{
    return w->model == e->model && worker_can_serve(w) && !place_drained(w) &&
           !place_ended(w) && place_speaks(w, e->continued.minor) &&
           place_fits_ever(w, e->n_tokens);
}

/* Returns the place that e has reserved; NULL: none, or it is lost. */
static struct worker *reserved(const struct schedule *s,
                               const struct queue_entry *e)
{
    for (uint32_t i = 0; i < s->fleet->n_workers && e->wait.place != 0; i++) {
        struct worker *w = s->fleet->workers[i];

        if (w->peer->session == e->wait.place && can_reserve(w, e)) {
            return w;
        }
    }
    return NULL;
}

/* Reserves the place that will have room first.  Returns NULL if e fits into
 * none of those that are open. */
static struct worker *reserve(const struct schedule *s, struct queue_entry *e)
{
    struct worker *best = NULL;
    int64_t least_us = INT64_MAX;

    for (uint32_t i = 0; i < s->fleet->n_workers; i++) {
        struct worker *w = s->fleet->workers[i];
        struct claim c;
        int64_t us;

        if (!can_reserve(w, e)) {
            continue;
        }
        c = claim_at(s, e, w);
        us = predict_steps_us(w, forecast_steps(forecast_start(e, w, &c)));
        if (us < least_us) {
            best = w;
            least_us = us;
        }
    }
    if (best != NULL) {
        e->wait.place = best->peer->session;
        e->wait.elders = charges_of(best)->n_ever;
        /* Only the first reservation gives time to others. */
        if (e->wait.until_us == 0) {
            e->wait.until_us = s->base->now_us + least_us + least_us / 10;
        }
    }
    return best;
}

/* Returns the least that an elder of w, which was granted before first reserved
 * it, can need: the pages that are free again as soon as any of them ends.  0:
 * there are none. */
static uint64_t least_elder(const struct worker *w,
                            const struct queue_entry *first)
{
    const struct list *all = &charges_of(w)->granted, *l;
    uint64_t least = UINT64_MAX;

    for (l = all->next; l != all; l = l->next) {
        const struct queue_entry *e = LIST_OF(l, struct queue_entry, granted);

        if (e->order > first->wait.elders) {
            break; /* the list is in this order */
        }
        least = min_u64(least, e->claim.most.of[PAGES]);
    }
    return least == UINT64_MAX ? 0 : least;
}

/* Returns true if w, with n_pages more of others, has room for all of first and
 * of what runs there when an elder has ended that needs as many as `elder`. */
static bool costs_no_time(const struct worker *w,
                          const struct queue_entry *first, uint64_t elder,
                          uint64_t n_pages)
{
    uint64_t most = place_need(w, first->n_tokens).of[PAGES];

    return elder > 0 && forecast_greatest(w) + n_pages + most <=
                            place_room(w, PAGES) + elder;
}

static void begin_first(struct schedule *s, struct queue_entry *e)
{
    struct reservation *r = &s->first;

    r->entry = e;
    r->place = reserved(s, e);
    if (r->place == NULL) {
        r->place = reserve(s, e);
    }
    if (r->place != NULL) {
        r->claim = claim_at(s, e, r->place);
        r->at = forecast_start(e, r->place, &r->claim);
        r->elder = least_elder(r->place, e);
        r->over = s->base->now_us >= e->wait.until_us && !PLANT(BYPASS_UNBOUND);
    }
}

bool bypass_waits(struct schedule *s, struct queue_entry *e)
{
    if (s->first.entry == NULL) {
        begin_first(s, e);
        s->events->short_of_room(s->above, e);
    }
    s->refused_now =
        min_u64(s->refused_now, (uint64_t)e->n_prompt + e->n_generated);
    s->refused_most = min_u64(s->refused_most, e->n_tokens);
    return s->first.place != NULL;
}

bool bypass_skips(const struct schedule *s, const struct queue_entry *e)
{
    return (uint64_t)e->n_prompt + e->n_generated >= s->refused_now &&
           e->n_tokens >= s->refused_most;
}

bool bypass_allows(const struct schedule *s, const struct queue_entry *e,
                   const struct worker *w, const struct claim *c)
{
    const struct reservation *r = &s->first;

    if (r->entry == NULL || r->entry == e || r->place != w) {
        return true;
    }
    return costs_no_time(w, r->entry, r->elder, c->most.of[PAGES]) ||
           (!r->over && (PLANT(BYPASS_UNBOUND) ||
                         forecast_leaves(e, c, w, r->entry, &r->claim, r->at)));
}

uint64_t bypass_owner(const struct schedule *s, const struct worker *w,
                      bool *late)
{
    const struct queue_entry *e;

    *late = false;
    if (w->model->n_waiting == 0) {
        return 0;
    }
    e = LIST_OF(w->model->waiting.next, struct queue_entry, queue);
    *late = fair_turn_before(&e->turn, &charges_of(w)->newest) &&
            !costs_no_time(w, e, least_elder(w, e), 0);
    return e->wait.place == w->peer->session && e->wait.until_us != 0 &&
                   s->base->now_us >= e->wait.until_us &&
                   !trial_waits(s->placement, &e->trial, e->n_tokens)
               ? e->turn.number
               : 0;
}
