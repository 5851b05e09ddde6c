/* forward_heads.c - the head and the sampler over a pass. */
#include <assert.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "worker/engine/forward_state.h"

static void read_pages(const struct id_pages *p, uint32_t *out, uint32_t n)
{
    const uint32_t *root = p->memory + ((size_t)p->root << p->shift);
    uint32_t page = 1u << p->shift;

    for (uint32_t at = 0; at < n; at += page) {
        uint32_t run = n - at < page ? n - at : page;

        memcpy(out + at, p->memory + ((size_t)root[at >> p->shift] << p->shift),
               run * sizeof *out);
    }
}

/* Returns the ids that the sampler reads for a row. */
static uint32_t history_ids(const struct plan_row *r,
                            const struct plan_row *source)
{
    return sampling_penalises(r->sampling)
               ? r->history.n + (source->chained ? 1 : 0)
               : 0;
}

/* Copies the history of a row into one array, with the chained id at its end.
 */
static enum status add_history(struct forward *f, const struct plan_row *r,
                               const struct plan_row *source,
                               struct sample_row *out, struct error *e)
{
    struct heads *h = &f->heads;
    uint32_t n = history_ids(r, source);
    uint32_t *ids = h->history + h->n_history;

    if (n > h->history_room - h->n_history) {
        return error_set(e, ST_INTERNAL, "histories of more than %zu ids",
                         h->history_room);
    }
    read_pages(&r->history.pages, ids, r->history.n);
    if (source->chained) {
        ids[n - 1] = f->last[source->chain_row];
    }
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] >= f->w->shape.vocab) {
            return error_set(
                e, ST_INTERNAL,
                "history has id %u, which is not below the vocabulary "
                "of %u",
                ids[i], f->w->shape.vocab);
        }
    }
    out->ids = ids;
    out->n_ids = n;
    out->n_prompt = r->history.n_prompt;
    h->n_history += n;
    return ST_OK;
}

/* Returns whether one more row fits into the head call. */
static bool head_fits(const struct forward *f, const struct plan_row *r,
                      const struct plan_row *source)
{
    const struct heads *h = &f->heads;

    return h->n < f->sizes.max_logits &&
           history_ids(r, source) <= h->history_room - h->n_history;
}

static void take_result(const struct plan_row *r, uint32_t row,
                        const struct sample_result *s, struct plan_result *out)
{
    if (s->status != ST_OK || FP_FAILS(ENGINE_ROW)) {
        out->outcomes[row] = ROW_NOT_FINITE;
        return;
    }
    out->tokens[row] = s->token;
    if (r->sampling->logprobs) {
        out->logprobs[row] = s->logprob;
        memcpy(out->top[row], s->top,
               r->sampling->n_top_logprobs * sizeof s->top[0]);
    }
}

/* Samples tokens for the rows gathered in heads. */
static enum status run_heads(struct forward *f, const struct plan *p,
                             struct plan_result *out)
{
    struct heads *h = &f->heads;
    enum status st;

    if (h->n == 0) {
        return ST_OK;
    }
    kernels_head(f->kernels, h->tokens, h->n);
    for (uint32_t i = 0; f->tap.logits && i < h->n; i++) {
        f->tap.logits(f->tap.ctx, f->kernels, h->plan_rows[i], i);
    }
    st = kernels_sample(f->kernels, h->rows, h->n, h->out, &out->error);
    for (uint32_t i = 0; st == ST_OK && i < h->n; i++) {
        uint32_t row = h->plan_rows[i];

        assert(row < p->n_rows);
        take_result(&p->rows[row], row, &h->out[i], out);
    }
    h->n = 0;
    h->n_history = 0;
    return st;
}

/* Adds a row whose logits are those of a token of the pass to the next head
 * call. */
static enum status add_head(struct forward *f, const struct plan *p,
                            uint32_t plan_row, uint32_t token,
                            struct plan_result *result)
{
    const struct plan_row *r = &p->rows[plan_row], *source = plan_source(p, r);
    struct heads *h = &f->heads;
    struct sample_row *out;
    enum status st = ST_OK;

    if (h->n > 0 && !head_fits(f, r, source)) {
        st = run_heads(f, p, result);
    }
    if (st != ST_OK) {
        return st;
    }
    out = &h->rows[h->n];
    h->tokens[h->n] = token;
    h->plan_rows[h->n++] = plan_row;
    *out = (struct sample_row){
        .sampling = r->sampling,
        .choice = r->choice,
        .index = r->index,
    };
    if (sampling_penalises(r->sampling) &&
        add_history(f, r, source, out, &result->error) != ST_OK) {
        return error_wrap(&result->error, "row %u, sequence %llu", plan_row,
                          (unsigned long long)r->sequence);
    }
    return ST_OK;
}

/* Adds the twins of a row: the head takes its token once for each. */
static enum status add_twins(struct forward *f, const struct plan *p,
                             uint32_t plan_row, uint32_t token,
                             struct plan_result *out)
{
    enum status st = ST_OK;

    for (uint32_t i = 0; i < f->n_twins && st == ST_OK; i++) {
        if (p->rows[f->twins[i]].source == plan_row) {
            st = add_head(f, p, f->twins[i], token, out);
        }
    }
    return st;
}

enum status forward_sample(struct forward *f, const struct plan *p,
                           struct plan_result *out)
{
    enum status st = ST_OK;

    f->heads.n = 0;
    f->heads.n_history = 0;
    for (uint32_t i = 0; i < f->pass.n_rows && st == ST_OK; i++) {
        const struct kernel_row *k = &f->pass.rows[i];
        uint32_t row = f->pass.plan_rows[i], last = k->first + k->n_tokens - 1;
        const struct plan_row *r = &p->rows[row];
        /* Only the last part of a row that was cut samples. */
        bool ends = k->position + k->n_tokens == r->position + r->n_tokens;

        if (r->sample && ends) {
            st = add_head(f, p, row, last, out);
            st = st == ST_OK ? add_twins(f, p, row, last, out) : st;
        }
    }
    return st == ST_OK ? run_heads(f, p, out) : st;
}
