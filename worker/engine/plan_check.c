#include "worker/engine/plan_check.h"

#include "common/base/minmax.h"
#include "kernels/kernels.h"
#include "worker/engine/plan_drafts.h"
#include "worker/engine/plan_pages.h"

/* Marks pages as written; refuses any that is marked already.  The range is
 * inside the pool. */
static enum status mark_pages(const struct plan_bounds *b, uint32_t first,
                              uint32_t n, struct error *e)
{
    return plan_mark(b->marks, first, n, "page", e);
}

/* ---- rows ---- */

/* Returns the end of the positions whose KV the row writes.  Drafts that it
 * proposes are past its own tokens. */
static uint64_t end_of(const struct plan_bounds *b, const struct plan_row *r)
{
    return (uint64_t)r->position + r->n_tokens +
           (plan_proposes(b, r) ? r->propose : 0);
}

static enum status check_table(const struct plan_bounds *b,
                               const struct plan *p, const struct plan_row *r,
                               struct error *e)
{
    uint64_t end = end_of(b, r);

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
        if (p->blocks[r->block + i] >= b->n_pages) {
            return error_set(e, ST_INTERNAL, "block at page %u of %u",
                             p->blocks[r->block + i], b->n_pages);
        }
    }
    return ST_OK;
}

/* Returns the first position that the window of the row's first token has. */
static uint32_t window_begin(const struct plan_bounds *b,
                             const struct plan_row *r)
{
    uint32_t window = b->shape->window;

    return r->position < window ? 0 : r->position - window + 1;
}

/* Checks the tables of the row's window blocks: they cover the windows of all
 * of its tokens. */
static enum status check_windows(const struct plan_bounds *b,
                                 const struct plan *p, const struct plan_row *r,
                                 struct error *e)
{
    uint64_t end = (uint64_t)r->position + r->n_tokens;
    uint64_t all = (uint64_t)b->window_pages * r->n_window;
    uint32_t first = b->window_pages > 0 ? window_begin(b, r) : 0;

    if (b->window_pages == 0) {
        return ST_OK;
    }
    if (r->window + all > p->n_blocks ||
        r->window_first > first / b->block_tokens ||
        ((uint64_t)r->window_first + r->n_window) * b->block_tokens < end) {
        return error_set(e, ST_INTERNAL,
                         "%u tables of %u window blocks from %u on for "
                         "positions %u to %llu",
                         b->window_pages, r->n_window, r->window_first, first,
                         (unsigned long long)end);
    }
    for (uint64_t i = 0; i < all; i++) {
        if (p->blocks[r->window + i] >= b->n_pages) {
            return error_set(e, ST_INTERNAL, "window block at page %u of %u",
                             p->blocks[r->window + i], b->n_pages);
        }
    }
    return ST_OK;
}

/* The row writes the blocks of its own positions only; the ones before may be
 * in many tables. */
static enum status mark_blocks(const struct plan_bounds *b,
                               const struct plan *p, const struct plan_row *r,
                               struct error *e)
{
    uint64_t end = end_of(b, r);
    uint64_t begin = r->position / b->block_tokens * b->block_tokens;
    enum status st = ST_OK;

    for (uint64_t at = begin; b->has_attention && at < end && st == ST_OK;
         at += b->block_tokens) {
        st = mark_pages(b, p->blocks[r->block + at / b->block_tokens], 1, e);
    }
    return st;
}

static enum status mark_windows(const struct plan_bounds *b,
                                const struct plan *p, const struct plan_row *r,
                                struct error *e)
{
    uint64_t end = (uint64_t)r->position + r->n_tokens;
    enum status st = ST_OK;

    for (uint32_t i = 0; i < b->window_pages; i++) {
        uint64_t table = r->window + (uint64_t)i * r->n_window;
        uint64_t at = r->position / b->block_tokens;

        for (; at * b->block_tokens < end && st == ST_OK; at++) {
            st = mark_pages(b, p->blocks[table + at - r->window_first], 1, e);
        }
    }
    return st;
}

static enum status check_save(const struct plan_bounds *b,
                              const struct plan_row *r, uint32_t after,
                              const struct plan_save *s, struct error *e)
{
    uint64_t end = (uint64_t)r->position + r->n_tokens;
    enum status st;

    if (s->position <= after || s->position > end ||
        s->position % KERNELS_SAVE_CUT != 0) {
        return error_set(e, ST_INTERNAL,
                         "save at position %u, which is not a multiple of %u "
                         "past %u and at most %llu",
                         s->position, KERNELS_SAVE_CUT, after,
                         (unsigned long long)end);
    }
    st = plan_check_slot(b, s->page, "checkpoint", e);
    return st == ST_OK ? mark_pages(b, s->page, b->pages_per_slot, e) : st;
}

/* Checks the slot and the checkpoints of a row. */
static enum status check_state(const struct plan_bounds *b,
                               const struct plan *p, const struct plan_row *r,
                               struct error *e)
{
    uint32_t after = r->position;
    enum status st;

    if (!b->has_deltanet) {
        return ST_OK;
    }
    if (r->n_saves > PLAN_SAVES_MAX ||
        (uint64_t)r->save + r->n_saves > p->n_saves) {
        return error_set(e, ST_INTERNAL, "%u saves at %u of %u; at most %u",
                         r->n_saves, r->save, p->n_saves, PLAN_SAVES_MAX);
    }
    st = plan_check_slot(b, r->slot, "slot", e);
    if (st == ST_OK) {
        st = mark_pages(b, r->slot, b->pages_per_slot, e);
    }
    for (uint32_t i = 0; i < r->n_saves && st == ST_OK; i++) {
        const struct plan_save *s = &p->saves[r->save + i];

        st = check_save(b, r, after, s, e);
        after = s->position;
    }
    return st;
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
    if ((uint64_t)r->token + r->n_tokens > p->n_tokens) {
        return error_set(e, ST_INTERNAL, "%u tokens at %u of %u", r->n_tokens,
                         r->token, p->n_tokens);
    }
    if (r->chained) {
        return check_chain(b, r, e);
    }
    for (uint32_t i = 0; i < r->n_tokens && plan_reads_ids(b, r); i++) {
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
                                  const struct plan *p,
                                  const struct plan_row *r, struct error *e)
{
    const struct plan_history *h = &r->history;
    const struct plan_row *from = plan_source(p, r);
    uint64_t end = (uint64_t)from->position + from->n_tokens;

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
     * reach exactly to the row's end, or to its drafts. */
    if (h->n_prompt == 0 || h->n_prompt > h->n ||
        (uint64_t)h->n + from->chained + r->n_drafts != end) {
        return error_set(e, ST_INTERNAL,
                         "history of %u ids, %u of a prompt, for %llu "
                         "positions",
                         h->n, h->n_prompt, (unsigned long long)end);
    }
    return check_pages(&h->pages, h->n, e);
}

/* The logits of the source must exist; an earlier stage reads no `sample`. */
static enum status check_twin(const struct plan_bounds *b, const struct plan *p,
                              const struct plan_row *r, struct error *e)
{
    uint32_t row = (uint32_t)(r - p->rows);
    bool samples = plan_gives_hidden(b);

    if (r->source < row && !plan_is_twin(&p->rows[r->source])) {
        samples = samples || (r->sample && p->rows[r->source].sample &&
                              p->rows[r->source].n_drafts == 0);
    } else {
        samples = false;
    }
    if (!samples || r->chained || r->n_drafts > 0) {
        return error_set(e, ST_INTERNAL,
                         "no tokens, and row %u is not a row before it that "
                         "samples as it does",
                         r->source);
    }
    return check_sampling(b, p, r, e);
}

static enum status check_row(const struct plan_bounds *b, const struct plan *p,
                             const struct plan_row *r, struct error *e)
{
    enum status st;

    if (plan_is_twin(r)) {
        return check_twin(b, p, r, e);
    }
    st = check_tokens(b, p, r, e);
    if (st == ST_OK) {
        st = check_table(b, p, r, e);
    }
    if (st == ST_OK) {
        st = check_windows(b, p, r, e);
    }
    if (st == ST_OK) {
        st = mark_blocks(b, p, r, e);
    }
    if (st == ST_OK) {
        st = mark_windows(b, p, r, e);
    }
    if (st == ST_OK) {
        st = check_state(b, p, r, e);
    }
    if (st == ST_OK) {
        st = plan_check_drafts(b, r, e);
    }
    return st == ST_OK ? check_sampling(b, p, r, e) : st;
}

/* A twin has no tokens, so its place is not read. */
static enum status check_tiling(const struct plan *p, struct error *e)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < p->n_rows; i++) {
        if (plan_is_twin(&p->rows[i])) {
            continue;
        }
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

/* ---- the plan's orders around its rows ---- */

/* Returns whether both ranges exist; inside the pool they must be apart. */
static bool is_copy(const struct plan_bounds *b, const struct plan_copy *c)
{
    bool apart =
        c->from < c->to ? c->n <= c->to - c->from : c->n <= c->from - c->to;

    switch (c->kind) {
    case COPY_PAGES:
        return in_range_u32(c->from, c->n, b->n_pages) &&
               in_range_u32(c->to, c->n, b->n_pages) && apart;
    case COPY_OUT:
        return in_range_u32(c->from, c->n, b->n_pages) &&
               in_range_u32(c->to, c->n, b->n_host);
    case COPY_IN:
        return in_range_u32(c->from, c->n, b->n_host) &&
               in_range_u32(c->to, c->n, b->n_pages);
    }
    return false;
}

static const char *kind_name(enum copy_kind kind)
{
    static const char *const names[] = {"", " out to the host tier",
                                        " in from the host tier"};

    return (unsigned)kind <= COPY_IN ? names[kind] : " of no kind";
}

static enum status check_copies(const struct plan_bounds *b,
                                const struct plan_copy *c, uint32_t n,
                                const char *what, struct error *e)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!is_copy(b, &c[i])) {
            return error_set(e, ST_INTERNAL,
                             "copy %u %s the rows: %u pages from %u to %u%s of "
                             "%u, %u in the host tier",
                             i, what, c[i].n, c[i].from, c[i].to,
                             kind_name(c[i].kind), b->n_pages, b->n_host);
        }
    }
    return ST_OK;
}

/* Writing to a page outside the pool would overwrite foreign memory. */
static enum status check_before(const struct plan_bounds *b,
                                const struct plan *p, struct error *e)
{
    for (uint32_t i = 0; i < p->n_poison; i++) {
        if (!plan_in_pool(b, p->poison[i].from, p->poison[i].n)) {
            return error_set(e, ST_INTERNAL, "poison for %u pages at %u of %u",
                             p->poison[i].n, p->poison[i].from, b->n_pages);
        }
    }
    for (uint32_t i = 0; i < p->n_zero; i++) {
        enum status st =
            plan_check_slot(b, p->zero_slots[i], "slot to zero", e);

        if (st != ST_OK) {
            return st;
        }
    }
    return check_copies(b, p->before, p->n_before, "before", e);
}

static enum status check_after(const struct plan_bounds *b,
                               const struct plan *p, struct error *e)
{
    enum status st = check_copies(b, p->after, p->n_after, "after", e);

    for (uint32_t i = 0; i < p->n_after && st == ST_OK; i++) {
        if (p->after[i].kind != COPY_PAGES) {
            return error_set(e, ST_INTERNAL, "copy %u after the rows is%s", i,
                             kind_name(p->after[i].kind));
        }
        if (mark_pages(b, p->after[i].to, p->after[i].n, e) != ST_OK) {
            st = error_wrap(e, "copy %u after the rows", i);
        }
    }
    return st;
}

static enum status check_counts(const struct plan_bounds *b,
                                const struct plan *p, struct error *e)
{
    const struct {
        const char *what;
        uint32_t n, most;
    } counts[] = {
        {"rows", p->n_rows, PLAN_ROWS_MAX},
        {"slots to zero", p->n_zero, PLAN_ROWS_MAX},
        {"saves", p->n_saves, PLAN_SAVES_MAX * PLAN_ROWS_MAX},
        {"copies before the rows", p->n_before, PLAN_COPIES_MAX},
        {"copies after the rows", p->n_after,
         (2 + b->window_pages) * PLAN_ROWS_MAX},
        {"ranges to poison", p->n_poison, PLAN_COPIES_MAX},
        {"replays", p->n_replays, PLAN_ROWS_MAX},
    };

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (counts[i].n > counts[i].most) {
            return error_set(e, ST_INTERNAL, "%u %s; at most %u", counts[i].n,
                             counts[i].what, counts[i].most);
        }
    }
    return ST_OK;
}

enum status plan_check(const struct plan_bounds *b, const struct plan *p,
                       struct error *e)
{
    enum status st = check_counts(b, p, e);

    st = st == ST_OK ? plan_check_replays(b, p, e) : st;
    plan_clear_marks(b->marks, b->n_pages);
    if (st == ST_OK) {
        st = check_before(b, p, e);
    }
    for (uint32_t i = 0; i < p->n_rows && st == ST_OK; i++) {
        if (check_row(b, p, &p->rows[i], e) != ST_OK) {
            st = error_wrap(e, "row %u, sequence %llu", i,
                            (unsigned long long)p->rows[i].sequence);
        }
    }
    if (st == ST_OK) {
        st = check_after(b, p, e);
    }
    return st == ST_OK ? check_hidden(b, p, e) : st;
}
