#include "router/schedule/admission.h"

#include <inttypes.h>

#include "router/replicas/place.h"
#include "router/requests/adoption.h"
#include "router/requests/submit.h"
#include "router/router_state.h"
#include "router/schedule/routing.h"

enum status admission_queue(struct router_core *r, const struct model *m,
                            uint32_t n, uint32_t *retry_after_ms,
                            struct error *e)
{
    uint32_t max = r->options.max_waiting;

    if (n > max) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "%" PRIu32 " choices are more than may wait for room, "
                         "%" PRIu32 " at most",
                         n, max);
    }
    if (r->n_waiting > max - n) {
        *retry_after_ms = model_retry_ms(m);
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "%" PRIu32 " sequences wait for room, at most %" PRIu32
                         " may, and these would be %" PRIu32
                         " more; try again in %" PRIu32 " ms",
                         r->n_waiting, max, n, *retry_after_ms);
    }
    return ST_OK;
}

static enum status check_ids(const struct request *request, struct error *e)
{
    for (uint32_t i = 0; i < request->n_prompt; i++) {
        if (request->prompt[i] >= request->model->vocab) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "prompt: token %" PRIu32 " is %" PRIu32
                             ", the vocabulary of %s has %" PRIu32,
                             i, request->prompt[i], request->model->name,
                             request->model->vocab);
        }
    }
    return ST_OK;
}

/* max_tokens = 0: the client named none. */
static enum status check_length(struct request *request, struct error *e)
{
    uint32_t context = request->model->context;

    if (request->n_prompt == 0) {
        return error_set(e, ST_INVALID_ARGUMENT, "the prompt is empty");
    }
    if (request->n_prompt >= context) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the prompt has %" PRIu32 " tokens, the context of %s "
                         "is %" PRIu32 " and one token more is needed",
                         request->n_prompt, request->model->name, context);
    }
    if (request->max_tokens == 0) {
        uint32_t left = context - request->n_prompt;
        request->max_tokens =
            left < GENERATE_MAX_TOKENS ? left : GENERATE_MAX_TOKENS;
    }
    if (request_tokens(request) > context) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "prompt (%" PRIu32 ") and max_tokens (%" PRIu32
                         ") are more than the context of %s, %" PRIu32
                         " tokens",
                         request->n_prompt, request->max_tokens,
                         request->model->name, context);
    }
    return ST_OK;
}

/* The same of a replica: the stage that it does not fit. */
static enum status no_fit_stages(const struct request *request,
                                 const struct worker *best, struct error *e)
{
    const struct worker *s = place_tightest(best, request_tokens(request));
    struct need n = worker_need(s, request_tokens(request));
    const struct class_ledger *k = s->ledger.classes;

    return error_set(
        e, ST_RESOURCE_EXHAUSTED,
        "%" PRIu64 " tokens (prompt %" PRIu32 ", max_tokens %" PRIu32
        ") need %" PRIu64 " blocks and %" PRIu64
        " slots of each stage, in the largest replica of %s stage %" PRIu32
        " (worker %s) has %" PRIu32 " and %" PRIu32 ": it can never run",
        request_tokens(request), request->n_prompt, request->max_tokens,
        n.of[BLOCKS], n.of[SLOTS], request->model->name, s->stage,
        s->peer->name, k[BLOCKS].total, k[SLOTS].total);
}

static enum status no_fit(const struct request *request,
                          const struct worker *best, struct error *e)
{
    struct need n = worker_need(best, request_tokens(request));
    const struct class_ledger *k = best->ledger.classes;

    if (best->replica != NULL) {
        return no_fit_stages(request, best, e);
    }
    return error_set(e, ST_RESOURCE_EXHAUSTED,
                     "%" PRIu64 " tokens (prompt %" PRIu32
                     ", max_tokens %" PRIu32 ") need %" PRIu64
                     " blocks and %" PRIu64
                     " slots, the largest pool of %s has %" PRIu32
                     " and %" PRIu32 ": it can never run",
                     request_tokens(request), request->n_prompt,
                     request->max_tokens, n.of[BLOCKS], n.of[SLOTS],
                     request->model->name, k[BLOCKS].total, k[SLOTS].total);
}

/* What the places of a model could hold of a sequence, were they empty. */
struct prospects {
    const struct worker *best; /* the largest pool, NULL: there is no place */
    uint64_t most;             /* its blocks */
    uint32_t n_open;           /* places that do not drain */
    bool open, drained;        /* one of these, of those, could hold it */
};

static struct prospects look(const struct router_core *r,
                             const struct request *request)
{
    struct prospects x = {.best = NULL};

    for (uint32_t i = 0; i < r->n_workers; i++) {
        const struct worker *w = r->workers[i];
        bool fits, drained;
        uint64_t blocks;

        if (w->model != request->model || !worker_can_serve(w)) {
            continue;
        }
        fits = place_fits_ever(w, request_tokens(request));
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

enum status admission_possible(struct router_core *r,
                               const struct request *request, struct error *e)
{
    struct prospects x = look(r, request);

    if (x.open) {
        return ST_OK;
    }
    if (x.best != NULL && !x.drained) {
        return no_fit(request, x.best, e);
    }
    if (x.n_open > 0) {
        return error_set(e, ST_UNAVAILABLE,
                         "only workers of model %s that are drained could hold "
                         "%" PRIu64 " tokens",
                         request->model->name, request_tokens(request));
    }
    return model_waits(request->model) ? ST_OK
                                       : admission_absent(request->model, e);
}

bool admission_elsewhere(const struct router_core *r,
                         const struct request *request, const struct worker *w)
{
    for (uint32_t i = 0; i < r->n_workers; i++) {
        const struct worker *u = r->workers[i];

        if (u != w && u->model == request->model && worker_can_serve(u) &&
            !place_drained(u) && !place_ended(u) &&
            place_fits_ever(u, request_tokens(request))) {
            return true;
        }
    }
    return false;
}

uint32_t admission_retry_ms(const struct error *e)
{
    return e->code == ST_UNAVAILABLE ? RETRY_MS_ABSENT : 0;
}

enum status admission_check(struct router_core *r, struct request *request,
                            uint32_t *retry_after_ms, struct error *e)
{
    enum status st = ST_OK;

    if (!model_waits(request->model)) {
        *retry_after_ms = RETRY_MS_ABSENT;
        return admission_absent(request->model, e);
    }
    st = check_length(request, e);
    if (st == ST_OK) {
        st = check_ids(request, e);
    }
    if (st == ST_OK) {
        st = admission_possible(r, request, e);
        *retry_after_ms = st == ST_OK ? 0 : admission_retry_ms(e);
    }
    if (st == ST_OK) {
        st = admission_queue(r, request->model, request->n_open, retry_after_ms,
                             e);
    }
    return st;
}

void admission_run(struct router_core *r, struct model *m)
{
    struct list *at;
    uint32_t n_aside = 0;

    adoption_run(r, m);
    at = m->waiting.next;

    while (at != &m->waiting) {
        struct choice *choice = LIST_OF(at, struct choice, queue);
        struct worker *w = routing_pick(r, choice);

        at = at->next;
        if (w == NULL && n_aside < TRIALS_ASIDE_MAX && trial_waits(r, choice)) {
            n_aside++;
        } else if (w == NULL || submit_send(r, w, choice) != ST_OK) {
            return;
        }
    }
}
