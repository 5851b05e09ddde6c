#include "router/schedule/admission.h"

#include <inttypes.h>
#include <stdio.h>

#include "router/replicas/place.h"
#include "router/schedule/fair.h"

enum status admission_queue(const struct schedule *s, const struct model *m,
                            uint32_t tenant, uint32_t n,
                            uint32_t *retry_after_ms, struct error *e)
{
    uint32_t max = s->base->options.max_waiting;
    uint32_t own = fair_waiting(m, tenant);

    if (n > max) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "the request has %" PRIu32 " choices, at most %" PRIu32
                         " may wait for room; lower n",
                         n, max);
    }
    if (m->n_waiting > max - n &&
        (uint64_t)own + n > fair_share(s, m, tenant, max)) {
        *retry_after_ms = model_retry_ms(m);
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "the queue of %s is full: %" PRIu32
                         " sequences wait for room, %" PRIu32
                         " of them the tenant's, at most %" PRIu32
                         " may, and the request adds %" PRIu32
                         "; retry in %" PRIu32 " ms",
                         m->name, m->n_waiting, own, max, n, *retry_after_ms);
    }
    return ST_OK;
}

#define NEED_TEXT 96

/* Writes the units of a need, for a sentence. */
static const char *needed(char out[NEED_TEXT], const struct need *n)
{
    if (n->of[WINDOWS] == 0) {
        snprintf(out, NEED_TEXT, "%" PRIu64 " blocks and %" PRIu64 " slots",
                 n->of[BLOCKS], n->of[SLOTS]);
    } else {
        snprintf(out, NEED_TEXT,
                 "%" PRIu64 " blocks, %" PRIu64 " window pages and %" PRIu64
                 " slots",
                 n->of[BLOCKS], n->of[WINDOWS], n->of[SLOTS]);
    }
    return out;
}

/* Names the stage of the replica that best leads which limits what the whole
 * place can hold. */
static enum status no_fit_stages(const struct demand *d,
                                 const struct worker *best, struct error *e)
{
    const struct worker *s = place_tightest(best, demand_tokens(d));
    struct need n = worker_need(s, demand_tokens(d));
    const struct class_ledger *k = s->ledger.classes;
    char text[NEED_TEXT];

    return error_set(
        e, ST_RESOURCE_EXHAUSTED,
        "%" PRIu64 " tokens (prompt %" PRIu32 ", max_tokens %" PRIu32
        ") need %s, %" PRIu64 " pages, of stage %" PRIu32
        " (worker %s), but in the largest replica "
        "of %s that stage has %" PRIu32 " pages for at most %" PRIu32
        " blocks and %" PRIu32
        " slots: it can never run; lower max_tokens or the prompt",
        demand_tokens(d), d->n_prompt, d->max_tokens, needed(text, &n),
        n.of[PAGES], member_of(s)->stage, s->peer->name, d->model->name,
        k[PAGES].total, k[BLOCKS].total, k[SLOTS].total);
}

static enum status no_fit(const struct demand *d, const struct worker *best,
                          struct error *e)
{
    struct need n = worker_need(best, demand_tokens(d));
    const struct class_ledger *k = best->ledger.classes;
    char text[NEED_TEXT];

    if (member_of(best)->replica != NULL) {
        return no_fit_stages(d, best, e);
    }
    return error_set(e, ST_RESOURCE_EXHAUSTED,
                     "%" PRIu64 " tokens (prompt %" PRIu32
                     ", max_tokens %" PRIu32 ") need %s, %" PRIu64
                     " pages, but the largest pool of %s has %" PRIu32
                     " pages for at most %" PRIu32 " blocks and %" PRIu32
                     " slots: it can never run; lower max_tokens or the prompt",
                     demand_tokens(d), d->n_prompt, d->max_tokens,
                     needed(text, &n), n.of[PAGES], d->model->name,
                     k[PAGES].total, k[BLOCKS].total, k[SLOTS].total);
}

/* The result of asking which places of a model could hold a demand if their
 * pools were empty. */
struct prospects {
    const struct worker
        *best;       /* place with the largest pool; NULL: the model has none */
    uint64_t most;   /* blocks of best */
    uint32_t n_open; /* places that are not drained */
    bool open, drained; /* whether a place that is open, or drained, fits it */
};

static struct prospects prospects_of(const struct fleet *fleet,
                                     const struct demand *d)
{
    struct prospects x = {.best = NULL};

    for (uint32_t i = 0; i < fleet->n_workers; i++) {
        const struct worker *w = fleet->workers[i];
        bool fits, drained;
        uint64_t blocks;

        if (w->model != d->model || !worker_can_serve(w)) {
            continue;
        }
        fits = place_fits_ever(w, demand_tokens(d));
        drained = place_drained(w);
        x.n_open += !drained;
        x.open = x.open || (fits && !drained);
        x.drained = x.drained || (fits && drained);
        blocks = place_total(w, BLOCKS);
        if (x.best == NULL || blocks > x.most) {
            x.best = w;
            x.most = blocks;
        }
    }
    return x;
}

enum status admission_absent(const struct model *m, struct error *e)
{
    if (m->n_places > 0) {
        return error_set(e, ST_UNAVAILABLE,
                         "every worker of model %s is drained", m->name);
    }
    if (m->n_loose > 0) {
        return error_set(e, ST_UNAVAILABLE,
                         "%" PRIu32 " workers of some layers of model %s are "
                         "up, and make no whole replica",
                         m->n_loose, m->name);
    }
    return error_set(e, ST_UNAVAILABLE, "no worker of model %s is up", m->name);
}

enum status admission_possible(const struct fleet *fleet,
                               const struct demand *d, struct error *e)
{
    struct prospects x = prospects_of(fleet, d);

    if (x.open) {
        return ST_OK;
    }
    /* A place exists and is too small even when empty: retrying cannot help. */
    if (x.best != NULL && !x.drained) {
        return no_fit(d, x.best, e);
    }
    if (x.n_open > 0) {
        return error_set(e, ST_UNAVAILABLE,
                         "only workers of model %s that are drained could hold "
                         "%" PRIu64 " tokens",
                         d->model->name, demand_tokens(d));
    }
    /* Without any place there is no pool size by which to refuse. */
    return model_waits(d->model) ? ST_OK : admission_absent(d->model, e);
}

bool admission_elsewhere(const struct fleet *fleet, const struct model *m,
                         uint64_t n_tokens, const struct worker *w)
{
    for (uint32_t i = 0; i < fleet->n_workers; i++) {
        const struct worker *u = fleet->workers[i];

        /* An ended place still has its pool figures, but its session is
         * over. */
        if (u != w && u->model == m && worker_can_serve(u) &&
            !place_drained(u) && !place_ended(u) &&
            place_fits_ever(u, n_tokens)) {
            return true;
        }
    }
    return false;
}

uint32_t admission_retry_ms(const struct error *e)
{
    return e->code == ST_UNAVAILABLE ? RETRY_MS_ABSENT : 0;
}
