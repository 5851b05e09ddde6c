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

/* Keeps the least of each class that an elder can need. */
static void note_elder(struct spare *x, const struct need *most)
{
    for (int c = 0; c < FLEET_CLASSES; c++) {
        x->elder[c] = x->any ? min_u64(x->elder[c], most->of[c]) : most->of[c];
    }
    x->any = true;
}

/* Writes what w has left for others beside all that first can need, as soon as
 * any elder ends. */
static void measure_spare(const struct worker *w,
                          const struct queue_entry *first, struct spare *out)
{
    const struct list *all = &charges_of(w)->granted;
    struct need most = place_need(w, first->n_tokens);

    out->n_ever = charges_of(w)->n_ever;
    out->any = false;
    for (int c = 0; c < FLEET_CLASSES; c++) {
        out->of[c] =
            (int64_t)place_units(w, (enum fleet_class)c) - (int64_t)most.of[c];
    }
    for (const struct list *l = all->next; l != all; l = l->next) {
        const struct queue_entry *e = LIST_OF(l, struct queue_entry, granted);
        struct need now = place_need(w, (uint64_t)e->n_prompt + e->n_made);

        for (int c = 0; c < FLEET_CLASSES; c++) {
            uint64_t held = max_u64(now.of[c], e->claim.need.of[c]);

            out->of[c] -= (int64_t)(e->claim.most.of[c] -
                                    min_u64(held, e->claim.most.of[c]));
        }
        if (e->order <= first->wait.elders) {
            note_elder(out, &e->claim.most);
        }
    }
    for (int c = 0; c < FLEET_CLASSES; c++) {
        out->of[c] += out->any ? (int64_t)out->elder[c] : 0;
    }
}

/* Returns true if others can have all of `most` of it. */
static bool is_spare(const struct spare *x, const struct need *most)
{
    for (int c = 0; c < FLEET_CLASSES; c++) {
        if ((int64_t)most->of[c] > x->of[c]) {
            return false;
        }
    }
    return x->any;
}

/* Returns whether an entry that is granted c at the reserved place costs the
 * first one no time. */
static bool costs_no_time(const struct reservation *r, const struct claim *c)
{
    struct spare now = r->spare;

    /* Another one was granted since. */
    if (now.n_ever != charges_of(r->place)->n_ever) {
        measure_spare(r->place, r->entry, &now);
    }
    return is_spare(&now, &c->most);
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
        measure_spare(r->place, e, &r->spare);
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
    return costs_no_time(r, c) ||
           (!r->over && (PLANT(BYPASS_UNBOUND) ||
                         forecast_leaves(e, c, w, r->entry, &r->claim, r->at)));
}

void bypass_granted(const struct schedule *s, const struct queue_entry *e,
                    struct worker *w)
{
    static const struct need none;
    const struct queue_entry *first;
    struct spare spare;

    if (w->model->n_waiting == 0) {
        return;
    }
    first = LIST_OF(w->model->waiting.next, struct queue_entry, queue);
    if (first->wait.place != w->peer->session || first->wait.until_us == 0 ||
        s->base->now_us < first->wait.until_us || fair_before(e, first) ||
        trial_waits(s->placement, &first->trial, first->n_tokens)) {
        return;
    }
    measure_spare(w, first, &spare);
    charges_of(w)->n_late += !is_spare(&spare, &none);
}
