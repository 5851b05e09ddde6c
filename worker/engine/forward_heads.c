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
               ? r->history.n + (source->chained ? 1 : 0) + r->n_drafts
               : 0;
}

/* Returns whether the newest token of the head call is of the same row, so that
 * the history is there already. */
static bool has_history(const struct forward *f, uint32_t plan_row)
{
    const struct heads *h = &f->heads;

    return h->n > 0 && h->plan_rows[h->n - 1] == plan_row;
}

/* Copies the history of a row into one array, with the chained id or the drafts
 * at its end. */
static enum status copy_history(struct forward *f, const struct plan *p,
                                const struct plan_row *r, struct error *e)
{
    const struct plan_row *source = plan_source(p, r);
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
    if (r->n_drafts > 0) {
        memcpy(ids + r->history.n, p->tokens + r->token + 1,
               r->n_drafts * sizeof *ids);
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
    h->n_history += n;
    return ST_OK;
}

/* Returns whether one more token of a row fits into the head call. */
static bool head_fits(const struct forward *f, const struct plan *p,
                      uint32_t plan_row)
{
    const struct heads *h = &f->heads;
    const struct plan_row *r = &p->rows[plan_row];

    return h->n < f->sizes.max_logits &&
           (has_history(f, plan_row) || history_ids(r, plan_source(p, r)) <=
                                            h->history_room - h->n_history);
}

bool forward_ends(const struct plan *p, const struct plan_row *r,
                  uint32_t token)
{
    for (uint32_t i = 0; i < p->n_eos && !r->sampling->ignore_eos; i++) {
        if (p->eos[i] == token) {
            return true;
        }
    }
    return sampling_stops(r->sampling, token);
}

/* Takes the row's token after `at` drafts, all of which it got. */
static void take_token(const struct plan_row *r, uint32_t row, uint32_t at,
                       const struct sample_result *s, struct plan_result *out)
{
    size_t top = r->sampling->n_top_logprobs * sizeof s->top[0];

    if (at > 0 && r->sampling->logprobs) {
        out->draft_logprobs[row][at - 1] = out->logprobs[row];
        memcpy(out->draft_top[row][at - 1], out->top[row], top);
    }
    out->n_accepted[row] = (uint8_t)at;
    out->tokens[row] = s->token;
    if (r->sampling->logprobs) {
        out->logprobs[row] = s->logprob;
        memcpy(out->top[row], s->top, top);
    }
}

/* Takes a token unless the row has ended: at the first token that differs from
 * the draft behind it, or ends the sequence.  A row whose later logits are not
 * finite ends before them: its sequence meets them again in its next row, as
 * without drafts. */
static void take_result(struct forward *f, const struct plan *p, uint32_t row,
                        uint32_t at, const struct sample_result *s,
                        struct plan_result *out)
{
    const struct plan_row *r = &p->rows[row];
    bool fails = at == 0 && FP_FAILS(ENGINE_ROW);

    if (f->heads.ended[row]) {
        return;
    }
    if (s->status != ST_OK || fails) {
        out->outcomes[row] = (uint8_t)(at == 0 ? ROW_NOT_FINITE : ROW_DONE);
        f->heads.ended[row] = true;
        return;
    }
    take_token(r, row, at, s, out);
    f->heads.ended[row] = at == r->n_drafts ||
                          p->tokens[r->token + 1 + at] != s->token ||
                          forward_ends(p, r, s->token);
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
        f->tap.logits(f->tap.ctx, f->kernels, h->plan_rows[i], h->at[i], i);
    }
    st = kernels_sample(f->kernels, h->rows, h->n, h->out, &out->error);
    for (uint32_t i = 0; st == ST_OK && i < h->n; i++) {
        uint32_t row = h->plan_rows[i];

        assert(row < p->n_rows);
        take_result(f, p, row, h->at[i], &h->out[i], out);
    }
    h->n = 0;
    h->n_history = 0;
    return st;
}

/* Gives the newest token of the head call its history: that of the row, up to
 * the drafts before it. */
static enum status add_history(struct forward *f, const struct plan *p,
                               uint32_t plan_row, bool has, struct error *e)
{
    const struct plan_row *r = &p->rows[plan_row];
    struct heads *h = &f->heads;
    struct sample_row *out = &h->rows[h->n - 1];
    enum status st = has ? ST_OK : copy_history(f, p, r, e);
    uint32_t n = history_ids(r, plan_source(p, r));

    if (st != ST_OK) {
        return error_wrap(e, "row %u, sequence %llu", plan_row,
                          (unsigned long long)r->sequence);
    }
    out->ids = h->history + h->n_history - n;
    out->n_ids = n - r->n_drafts + h->at[h->n - 1];
    out->n_prompt = r->history.n_prompt;
    return ST_OK;
}

/* Adds a row's token after `at` drafts, whose logits are those of a token of
 * the pass, to the next head call. */
static enum status add_head(struct forward *f, const struct plan *p,
                            uint32_t plan_row, uint32_t at, uint32_t token,
                            struct plan_result *result)
{
    const struct plan_row *r = &p->rows[plan_row];
    struct heads *h = &f->heads;
    enum status st = ST_OK;
    bool has;

    if (h->n > 0 && !head_fits(f, p, plan_row)) {
        st = run_heads(f, p, result);
    }
    if (st != ST_OK) {
        return st;
    }
    has = has_history(f, plan_row);
    h->tokens[h->n] = token;
    h->plan_rows[h->n] = plan_row;
    h->at[h->n] = at;
    h->rows[h->n++] = (struct sample_row){
        .sampling = r->sampling,
        .choice = r->sampling->draw_choice + r->choice,
        .index = r->sampling->draw_index + r->index + at,
    };
    return sampling_penalises(r->sampling)
               ? add_history(f, p, plan_row, has, &result->error)
               : ST_OK;
}

/* Adds the tokens of a row whose last token is `last` of the pass. */
static enum status add_row(struct forward *f, const struct plan *p,
                           uint32_t plan_row, uint32_t last,
                           struct plan_result *out)
{
    uint32_t n_drafts = p->rows[plan_row].n_drafts;
    enum status st = ST_OK;

    for (uint32_t at = 0; at <= n_drafts && st == ST_OK; at++) {
        st = add_head(f, p, plan_row, at, last - n_drafts + at, out);
    }
    return st;
}

/* Adds the twins of a row: the head takes its token once for each. */
static enum status add_twins(struct forward *f, const struct plan *p,
                             uint32_t plan_row, uint32_t token,
                             struct plan_result *out)
{
    enum status st = ST_OK;

    for (uint32_t i = 0; i < f->n_twins && st == ST_OK; i++) {
        if (p->rows[f->twins[i]].source == plan_row) {
            st = add_head(f, p, f->twins[i], 0, token, out);
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
            st = add_row(f, p, row, last, out);
            st = st == ST_OK ? add_twins(f, p, row, last, out) : st;
        }
    }
    return st == ST_OK ? run_heads(f, p, out) : st;
}
