#include "router/admission.h"

#include <inttypes.h>

#include "router/router.h"
#include "router/routing.h"
#include "router/submit.h"

enum status admission_queue(struct router_core *r, const struct model *m,
                            uint32_t *retry_after_ms, struct error *e)
{
    if (r->n_waiting >= r->options.max_waiting) {
        *retry_after_ms = model_retry_ms(m);
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "%" PRIu32 " requests wait for room, at most %" PRIu32
                         " may; try again in %" PRIu32 " ms",
                         r->n_waiting, r->options.max_waiting, *retry_after_ms);
    }
    return ST_OK;
}

static enum status check_ids(const struct request *q, struct error *e)
{
    for (uint32_t i = 0; i < q->n_prompt; i++) {
        if (q->ids[i] >= q->model->vocab) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "prompt: token %" PRIu32 " is %" PRIu32
                             ", the vocabulary of %s has %" PRIu32,
                             i, q->ids[i], q->model->name, q->model->vocab);
        }
    }
    return ST_OK;
}

/* max_tokens = 0: the client named none. */
static enum status check_length(struct request *q, struct error *e)
{
    uint32_t context = q->model->context;

    if (q->n_prompt == 0) {
        return error_set(e, ST_INVALID_ARGUMENT, "the prompt is empty");
    }
    if (q->n_prompt >= context) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the prompt has %" PRIu32 " tokens, the context of %s "
                         "is %" PRIu32 " and one token more is needed",
                         q->n_prompt, q->model->name, context);
    }
    if (q->max_tokens == 0) {
        uint32_t left = context - q->n_prompt;
        q->max_tokens = left < GENERATE_MAX_TOKENS ? left : GENERATE_MAX_TOKENS;
    }
    if (request_tokens(q) > context) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "prompt (%" PRIu32 ") and max_tokens (%" PRIu32
                         ") are more than the context of %s, %" PRIu32
                         " tokens",
                         q->n_prompt, q->max_tokens, q->model->name, context);
    }
    return ST_OK;
}

static enum status no_fit(const struct request *q, const struct worker *best,
                          struct error *e)
{
    struct need n = worker_need(best, request_tokens(q));
    const struct class_ledger *k = best->ledger.classes;

    return error_set(
        e, ST_RESOURCE_EXHAUSTED,
        "%" PRIu64 " tokens (prompt %" PRIu32 ", max_tokens %" PRIu32
        ") need %" PRIu64 " blocks and %" PRIu64
        " slots, the largest pool of %s has %" PRIu32 " and %" PRIu32
        ": it can never run",
        request_tokens(q), q->n_prompt, q->max_tokens, n.of[BLOCKS],
        n.of[SLOTS], q->model->name, k[BLOCKS].total, k[SLOTS].total);
}

enum status admission_possible(struct router_core *r, const struct request *q,
                               struct error *e)
{
    const struct worker *best = NULL;

    for (uint32_t i = 0; i < r->n_workers; i++) {
        const struct worker *w = r->workers[i];
        if (w->model != q->model) {
            continue;
        }
        if (worker_fits_ever(w, request_tokens(q))) {
            return ST_OK;
        }
        if (best == NULL || w->ledger.classes[BLOCKS].total >
                                best->ledger.classes[BLOCKS].total) {
            best = w;
        }
    }
    if (best == NULL) {
        return error_set(e, ST_UNAVAILABLE, "no worker of model %s is up",
                         q->model->name);
    }
    return no_fit(q, best, e);
}

enum status admission_check(struct router_core *r, struct request *q,
                            uint32_t *retry_after_ms, struct error *e)
{
    enum status st = ST_OK;

    if (q->model->n_workers == 0) {
        *retry_after_ms = RETRY_MS_MIN;
        return error_set(e, ST_UNAVAILABLE, "no worker of model %s is up",
                         q->model->name);
    }
    st = check_length(q, e);
    if (st == ST_OK) {
        st = check_ids(q, e);
    }
    if (st == ST_OK) {
        st = admission_possible(r, q, e);
    }
    if (st == ST_OK) {
        st = admission_queue(r, q->model, retry_after_ms, e);
    }
    return st;
}

void admission_run(struct router_core *r, struct model *m)
{
    while (!list_empty(&m->waiting)) {
        struct request *q = LIST_OF(m->waiting.next, struct request, queue);
        struct worker *w = routing_pick(r, m, request_tokens(q));

        if (w == NULL || submit_send(r, w, q) != ST_OK) {
            return;
        }
    }
}
