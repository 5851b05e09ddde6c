#include "router/schedule/overcommit.h"

#include <assert.h>
#include <stdlib.h>

#include "common/base/plant.h"
#include "router/replicas/place.h"
#include "router/schedule/lengths.h"

static bool is_overcommitted(const struct schedule *s, const struct worker *w)
{
    return s->base->options.overcommit > 1 && w->replica == NULL &&
           w->peer->minor >= GROWS_MINOR;
}

static uint32_t max_tokens_of(const struct queue_entry *e)
{
    return (uint32_t)(e->n_tokens - e->n_prompt);
}

struct claim overcommit_claim(const struct schedule *s,
                              const struct queue_entry *e,
                              const struct worker *w)
{
    struct claim c = {.n_expected = max_tokens_of(e),
                      .block_tokens = w->shard.block_tokens,
                      .window_pages = w->shard.window_pages};

    c.most = c.need = place_need(w, e->n_tokens);
    if (is_overcommitted(s, w)) {
        c.n_expected =
            lengths_expect(e->model->lengths, e->n_generated, max_tokens_of(e));
        c.need = place_need(w, (uint64_t)e->n_prompt + c.n_expected);
        c.grows = c.need.of[PAGES] < c.most.of[PAGES];
    }
    return c;
}

struct claim overcommit_claim_of_live(const struct queue_entry *e,
                                      const struct worker *w, bool grows)
{
    struct claim c = {.n_expected = max_tokens_of(e),
                      .grows = grows,
                      .block_tokens = w->shard.block_tokens,
                      .window_pages = w->shard.window_pages};

    c.most = c.need = place_need(w, e->n_tokens);
    if (grows) {
        c.n_expected = e->n_generated;
        c.need = place_need(w, (uint64_t)e->n_prompt + e->n_generated);
    }
    return c;
}

uint64_t overcommit_bound(const struct schedule *s, const struct worker *w)
{
    return is_overcommitted(s, w) ? (uint64_t)s->base->options.overcommit *
                                        w->ledger.classes[PAGES].total
                                  : 0;
}

const char *overcommit_refuses(const struct schedule *s, const struct worker *w,
                               const struct claim *c)
{
    uint64_t bound = overcommit_bound(s, w);

    if (w->ledger.n_suspended > 0 && !PLANT(SUSPENDED_PASSED)) {
        return "it has suspended sequences, which come back first";
    }
    if (bound > 0 && w->greatest + c->most.of[PAGES] > bound &&
        !PLANT(OVERCOMMIT_UNBOUND)) {
        return "its sequences could need more than --overcommit allows";
    }
    return NULL;
}

void overcommit_charge(struct queue_entry *e, struct worker *w)
{
    assert(e->committed == NULL);
    e->committed = w;
    w->greatest += e->claim.most.of[PAGES];
    w->grew = w->grew || e->claim.grows;
}

void overcommit_release(struct queue_entry *e)
{
    if (e->committed != NULL) {
        e->committed->greatest -= e->claim.most.of[PAGES];
        e->committed = NULL;
    }
}

/* Returns the model that learns from e. */
static struct model *learner(const struct fleet *fleet,
                             const struct queue_entry *e)
{
    return PLANT(LENGTHS_MIXED) ? fleet->models[0] : e->model;
}

void overcommit_learn(const struct schedule *s, const struct queue_entry *e,
                      uint32_t n_generated, bool by_itself)
{
    struct model *m = learner(s->fleet, e);

    if (m->lengths == NULL) {
        m->lengths = malloc(sizeof *m->lengths);
        assert(m->lengths != NULL);
        lengths_init(m->lengths);
    }
    if (by_itself) {
        lengths_ended(m->lengths, n_generated, max_tokens_of(e));
    } else {
        lengths_cut(m->lengths, n_generated, max_tokens_of(e));
    }
}
