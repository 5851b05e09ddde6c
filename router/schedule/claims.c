#include "router/schedule/claims.h"

#include <assert.h>

#include "common/base/plant.h"
#include "router/replicas/place.h"
#include "router/schedule/fair.h"
#include "router/schedule/forecast.h"

void claims_open(struct worker *w)
{
    list_init(&charges_of(w)->granted);
}

bool claims_grow(const struct schedule *s, const struct worker *w)
{
    return s->base->options.admission == ADMISSION_EXPECTED &&
           member_of(w)->replica == NULL && w->peer->minor >= GROWS_MINOR;
}

struct claim claim_at(const struct schedule *s, const struct queue_entry *e,
                      const struct worker *w)
{
    struct claim c = {.n_expected = entry_max_tokens(e),
                      .block_tokens = w->shard.block_tokens,
                      .window_pages = w->shard.window_pages};

    c.most = c.expected = c.need = place_need(w, e->n_tokens);
    if (claims_grow(s, w) && (!e->guaranteed || PLANT(GUARANTEE_FORGOTTEN))) {
        c.n_expected =
            lengths_expect(lengths_for(e), e->n_generated, entry_max_tokens(e));
        c.expected = place_need(w, (uint64_t)e->n_prompt + c.n_expected);
        c.need = place_need(w, (uint64_t)e->n_prompt + e->n_generated + 1);
        c.grows = c.need.of[PAGES] < c.most.of[PAGES];
    }
    return c;
}

struct claim claim_of_live(const struct queue_entry *e, const struct worker *w,
                           bool grows)
{
    struct claim c = {.n_expected = entry_max_tokens(e),
                      .grows = grows,
                      .block_tokens = w->shard.block_tokens,
                      .window_pages = w->shard.window_pages};

    c.most = c.expected = c.need = place_need(w, e->n_tokens);
    if (grows) {
        c.n_expected = e->n_generated;
        c.expected = c.need =
            place_need(w, (uint64_t)e->n_prompt + e->n_generated);
    }
    return c;
}

const char *claim_refused(const struct schedule *s, const struct queue_entry *e,
                          const struct worker *w, const struct claim *c)
{
    if (w->ledger.n_suspended > 0 && !PLANT(SUSPENDED_PASSED)) {
        return "it has suspended sequences, which come back first";
    }
    /* Head-room has kept the room of those that ran before. */
    if (claims_grow(s, w) && !(s->base->options.headroom && e->ran) &&
        !forecast_fits(e, w, c)) {
        return "its sequences are expected to need the rest of its pages";
    }
    return NULL;
}

void claim_charge(struct queue_entry *e, struct worker *w)
{
    assert(e->committed == NULL);
    e->committed = w;
    charges_of(w)->greatest += e->claim.most.of[PAGES];
    charges_of(w)->n_granted++;
    e->order = ++charges_of(w)->n_ever;
    w->grew = w->grew || e->claim.grows;
    forecast_add(e, w);
}

void claim_release(struct queue_entry *e)
{
    if (e->committed != NULL) {
        forecast_remove(e);
        charges_of(e->committed)->greatest -= e->claim.most.of[PAGES];
        charges_of(e->committed)->n_granted--;
        e->committed = NULL;
    }
}

/* Returns the group that learns from e, and with it its tenant and model. */
static struct lengths *learner(const struct schedule *s,
                               const struct queue_entry *e)
{
    const struct group_ref none = {.number = 0};

    if (PLANT(GROUPS_MIXED)) {
        return length_groups_lengths(&scheduling_of(e->model)->lengths,
                                     METRIC_DEFAULT, &none);
    }
    return PLANT(LENGTHS_MIXED) ? lengths_of(s->fleet->models[0])
                                : lengths_for(e);
}

void claim_made(const struct schedule *s, struct queue_entry *e,
                uint32_t n_generated)
{
    struct lengths *l = learner(s, e);

    if (!e->begun) {
        e->begun = true;
        lengths_begun(l, e->n_made + 1);
        e->n_made++;
    }
    lengths_reached(l, e->n_made, n_generated);
    forecast_made(e, n_generated);
}

void claim_suspended(struct queue_entry *e)
{
    forecast_suspended(e);
}

void claim_dropped(struct queue_entry *e)
{
    fair_ended(e, 0);
}

void claim_learn(const struct schedule *s, struct queue_entry *e,
                 uint32_t n_generated, bool by_itself)
{
    if (by_itself && e->begun) {
        lengths_ended(learner(s, e), n_generated);
    } else {
        lengths_cut(learner(s, e));
    }
    forecast_ended(s, e);
    fair_ended(e, (uint64_t)e->n_prompt + n_generated);
}
