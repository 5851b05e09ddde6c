#include "worker/engine/plan_check.h"

static enum status check_table(const struct plan_bounds *b,
                               const struct plan *p, const struct plan_row *r,
                               struct error *e)
{
    uint64_t end = (uint64_t)r->position + r->n_tokens;

    /* Without an attention layer nothing reads the table. */
    if (!b->has_attention) {
        return ST_OK;
    }
    if ((uint64_t)r->block + r->n_blocks > p->n_blocks ||
        (uint64_t)r->n_blocks * b->block_tokens < end) {
        return error_set(e, ST_INTERNAL,
                         "table of %u blocks for %llu positions", r->n_blocks,
                         (unsigned long long)end);
    }
    for (uint32_t i = 0; i < r->n_blocks; i++) {
        if (p->blocks[r->block + i] >= b->n_blocks) {
            return error_set(e, ST_INTERNAL, "block %u of %u",
                             p->blocks[r->block + i], b->n_blocks);
        }
    }
    return ST_OK;
}

static bool is_stage(const struct plan_bounds *b)
{
    return plan_takes_hidden(b) || plan_gives_hidden(b);
}

static enum status check_chain(const struct plan_bounds *b,
                               const struct plan_row *r, struct error *e)
{
    if (is_stage(b)) {
        return error_set(e, ST_INTERNAL,
                         "chained to row %u, but layers %u-%u of %u do not "
                         "have its token",
                         r->chain_row, b->begin, b->end, b->shape->n_layers);
    }
    if (r->n_tokens != 1 || r->chain_row >= b->n_last ||
        b->last[r->chain_row] == TOKEN_NONE) {
        return error_set(e, ST_INTERNAL,
                         "chained to row %u, which sampled no token",
                         r->chain_row);
    }
    return ST_OK;
}

static enum status check_tokens(const struct plan_bounds *b,
                                const struct plan *p, const struct plan_row *r,
                                struct error *e)
{
    if (r->n_tokens == 0 || (uint64_t)r->token + r->n_tokens > p->n_tokens) {
        return error_set(e, ST_INTERNAL, "%u tokens at %u of %u", r->n_tokens,
                         r->token, p->n_tokens);
    }
    if (r->chained) {
        return check_chain(b, r, e);
    }
    for (uint32_t i = 0; i < r->n_tokens && !plan_takes_hidden(b); i++) {
        if (p->tokens[r->token + i] >= b->shape->vocab) {
            return error_set(e, ST_INTERNAL, "token id %u of %u",
                             p->tokens[r->token + i], b->shape->vocab);
        }
    }
    return ST_OK;
}

/* Checks the page numbers only; the forward pass checks the ids when it reads
 * them. */
static enum status check_pages(const struct id_pages *p, uint32_t n,
                               struct error *e)
{
    uint32_t last = p->shift < 32 ? (n - 1) >> p->shift : 0;
    const uint32_t *root;

    if (p->memory == NULL || p->shift >= 32 || last >= 1u << p->shift ||
        p->root >= p->n_pages) {
        return error_set(e, ST_INTERNAL,
                         "history of %u ids in pages of 2^%u, its root is "
                         "page %u of %u",
                         n, p->shift, p->root, p->n_pages);
    }
    root = p->memory + ((size_t)p->root << p->shift);
    for (uint32_t i = 0; i <= last; i++) {
        if (root[i] >= p->n_pages) {
            return error_set(e, ST_INTERNAL, "history on page %u of %u",
                             root[i], p->n_pages);
        }
    }
    return ST_OK;
}

static enum status check_sampling(const struct plan_bounds *b,
                                  const struct plan_row *r, struct error *e)
{
    const struct plan_history *h = &r->history;
    uint64_t end = (uint64_t)r->position + r->n_tokens;

    if (plan_gives_hidden(b) || !r->sample) {
        return ST_OK;
    }
    if (r->sampling == NULL) {
        return error_set(e, ST_INTERNAL,
                         "the row samples but has no sampling parameters");
    }
    if (!sampling_penalises(r->sampling)) {
        return ST_OK;
    }
    /* Penalties count every id before the sampled one, so the history must
     * reach exactly to the row's end. */
    if (h->n_prompt == 0 || h->n_prompt > h->n ||
        (uint64_t)h->n + r->chained != end) {
        return error_set(e, ST_INTERNAL,
                         "history of %u ids, %u of a prompt, for %llu "
                         "positions",
                         h->n, h->n_prompt, (unsigned long long)end);
    }
    return check_pages(&h->pages, h->n, e);
}

static enum status check_row(const struct plan_bounds *b, const struct plan *p,
                             const struct plan_row *r, struct error *e)
{
    enum status st = check_tokens(b, p, r, e);

    if (st == ST_OK) {
        st = check_table(b, p, r, e);
    }
    if (st == ST_OK) {
        st = check_sampling(b, r, e);
    }
    if (st == ST_OK && b->has_deltanet && r->slot >= b->n_slots) {
        st = error_set(e, ST_INTERNAL, "slot %u of %u", r->slot, b->n_slots);
    }
    return st;
}

/* check_row() has checked that each row has at least one token. */
static enum status check_tiling(const struct plan *p, struct error *e)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < p->n_rows; i++) {
        if (p->rows[i].token != at) {
            return error_set(e, ST_INTERNAL,
                             "row %u, sequence %llu: tokens at %u, but those "
                             "of the previous rows end at %u",
                             i, (unsigned long long)p->rows[i].sequence,
                             p->rows[i].token, at);
        }
        at += p->rows[i].n_tokens;
    }
    return at == p->n_tokens
               ? ST_OK
               : error_set(e, ST_INTERNAL, "rows of %u tokens in a plan of %u",
                           at, p->n_tokens);
}

/* Hidden states are exchanged as one tensor, without an index of rows, so a
 * stage's rows must tile it. */
static enum status check_hidden(const struct plan_bounds *b,
                                const struct plan *p, struct error *e)
{
    if (plan_takes_hidden(b) != (p->hidden != NULL)) {
        return error_set(e, ST_INTERNAL,
                         p->hidden ? "hidden states for layers %u-%u of %u"
                                   : "no hidden states for layers %u-%u of %u",
                         b->begin, b->end, b->shape->n_layers);
    }
    if (plan_gives_hidden(b) && p->n_tokens > b->hidden_tokens) {
        return error_set(e, ST_INTERNAL,
                         "a plan of %u tokens, but hidden states of only %u "
                         "fit",
                         p->n_tokens, b->hidden_tokens);
    }
    return is_stage(b) ? check_tiling(p, e) : ST_OK;
}

enum status plan_check(const struct plan_bounds *b, const struct plan *p,
                       struct error *e)
{
    if (p->n_rows > PLAN_ROWS_MAX) {
        return error_set(e, ST_INTERNAL, "%u rows", p->n_rows);
    }
    for (uint32_t i = 0; i < p->n_rows; i++) {
        if (check_row(b, p, &p->rows[i], e) != ST_OK) {
            return error_wrap(e, "row %u, sequence %llu", i,
                              (unsigned long long)p->rows[i].sequence);
        }
    }
    /* Zeroing a slot outside the pool would overwrite foreign memory. */
    for (uint32_t i = 0; i < p->n_zero; i++) {
        if (p->zero_slots[i] >= b->n_slots) {
            return error_set(e, ST_INTERNAL, "slot %u of %u to zero",
                             p->zero_slots[i], b->n_slots);
        }
    }
    return check_hidden(b, p, e);
}
