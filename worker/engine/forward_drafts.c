/* forward_drafts.c - what follows a pass: replays, and the MTP layer. */
#include <stdlib.h>
#include <time.h>

#include "worker/engine/forward_state.h"

static const struct sampling greedy = {.top_p = 1, .repetition_penalty = 1};

bool forward_drafts_new(struct forward *f)
{
    struct forward_drafts *d = &f->drafts;
    size_t n = f->sizes.max_tokens;

    d->tokens = calloc(n, sizeof *d->tokens);
    d->from = calloc(n, sizeof *d->from);
    return d->tokens != NULL && d->from != NULL;
}

void forward_drafts_free(struct forward *f)
{
    free(f->drafts.from);
    free(f->drafts.tokens);
}

void forward_replay(struct forward *f, const struct plan_result *out)
{
    struct forward_drafts *d = &f->drafts;
    uint32_t n = 0;

    for (uint32_t i = 0; i < f->pass.n_rows; i++) {
        const struct kernel_row *k = &f->pass.rows[i];
        uint32_t row = f->pass.plan_rows[i];

        /* A row without a token leaves a slot that nobody reads. */
        if (k->keep && out->tokens[row] != TOKEN_NONE) {
            d->replays[n++] = (struct kernel_replay){k->slot, k->keep_at,
                                                     1u + out->n_accepted[row]};
        }
    }
    if (n > 0) {
        kernels_replay(f->kernels, d->replays, n);
    }
}

bool forward_has_mtp(const struct forward *f, const struct plan *p)
{
    for (uint32_t i = 0; i < f->pass.n_rows; i++) {
        if (plan_has_mtp(&f->bounds, &p->rows[f->pass.plan_rows[i]])) {
            return true;
        }
    }
    return false;
}

/* Returns how many tokens of a row of the pass the MTP layer computes: all but
 * refused drafts.  A row that got no token has none that counts. */
static uint32_t count_known(const struct plan_row *r, uint32_t row,
                            const struct kernel_row *k,
                            const struct plan_result *out)
{
    if (r->sample && out->outcomes[row] != ROW_DONE) {
        return 0;
    }
    return k->n_tokens - r->n_drafts + out->n_accepted[row];
}

/* Returns the token after the last known one of a row's part in the pass. */
static uint32_t token_after(const struct plan *p, uint32_t row,
                            const struct kernel_row *k, uint32_t n,
                            const struct plan_result *out)
{
    const struct plan_row *r = &p->rows[row];

    if (k->position + k->n_tokens < r->position + r->n_tokens) {
        return p->tokens[r->token + k->position - r->position + n];
    }
    return r->sample ? out->tokens[row] : r->next;
}

/* Adds n tokens of a row of the pass to the pass of the MTP layer. */
static void add_row(struct forward *f, const struct plan *p, uint32_t i,
                    uint32_t n, const struct plan_result *out)
{
    const struct kernel_row *k = &f->pass.rows[i];
    struct forward_drafts *d = &f->drafts;
    uint32_t row = f->pass.plan_rows[i];
    const uint32_t *ids =
        p->tokens + p->rows[row].token + k->position - p->rows[row].position;

    d->rows[d->n_rows] = (struct kernel_row){.first = d->n_tokens,
                                             .n_tokens = n,
                                             .position = k->position,
                                             .blocks = k->blocks,
                                             .generated = k->generated};
    d->plan_rows[d->n_rows++] = row;
    for (uint32_t t = 0; t < n; t++) {
        d->from[d->n_tokens] = k->first + t;
        d->tokens[d->n_tokens++] =
            t + 1 < n ? ids[t + 1] : token_after(p, row, k, n, out);
    }
}

/* Gathers the known tokens of the pass, each with the token behind it. */
static void gather_known(struct forward *f, const struct plan *p,
                         const struct plan_result *out)
{
    f->drafts.n_rows = f->drafts.n_tokens = 0;
    for (uint32_t i = 0; i < f->pass.n_rows; i++) {
        uint32_t row = f->pass.plan_rows[i];
        const struct plan_row *r = &p->rows[row];
        uint32_t n = count_known(r, row, &f->pass.rows[i], out);

        if (plan_has_mtp(&f->bounds, r) && n > 0) {
            add_row(f, p, i, n, out);
        }
    }
}

/* Returns whether a row gets a draft after `depth` others: not without its
 * token, which the last part of a cut row samples, and not after the end. */
static bool wants_draft(const struct plan *p, uint32_t row, uint32_t depth,
                        const struct plan_result *out)
{
    const struct plan_row *r = &p->rows[row];

    return r->sample && r->propose > depth && out->n_drafts[row] == depth &&
           out->tokens[row] != TOKEN_NONE &&
           !forward_ends(p, r, out->tokens[row]);
}

/* Chooses the best tokens of the rows gathered in heads. */
static enum status choose(struct forward *f, struct plan_result *out)
{
    struct heads *h = &f->heads;
    enum status st;

    if (h->n == 0) {
        return ST_OK;
    }
    kernels_head(f->kernels, h->tokens, h->n);
    for (uint32_t i = 0; f->tap.draft && i < h->n; i++) {
        f->tap.draft(f->tap.ctx, f->kernels, h->plan_rows[i], h->at[i], i);
    }
    st = kernels_sample(f->kernels, h->rows, h->n, h->out, &out->error);
    for (uint32_t i = 0; st == ST_OK && i < h->n; i++) {
        uint32_t row = h->plan_rows[i];

        if (h->out[i].status == ST_OK) {
            out->drafts[row][out->n_drafts[row]++] = h->out[i].token;
        }
    }
    h->n = 0;
    return st;
}

/* Chooses the drafts number `depth` of the rows that want one. */
static enum status choose_drafts(struct forward *f, const struct plan *p,
                                 uint32_t depth, struct plan_result *out)
{
    const struct forward_drafts *d = &f->drafts;
    struct heads *h = &f->heads;
    enum status st = ST_OK;

    h->n = 0;
    for (uint32_t i = 0; i < d->n_rows && st == ST_OK; i++) {
        if (!wants_draft(p, d->plan_rows[i], depth, out)) {
            continue;
        }
        h->tokens[h->n] = d->rows[i].first + d->rows[i].n_tokens - 1;
        h->plan_rows[h->n] = d->plan_rows[i];
        h->at[h->n] = depth;
        h->rows[h->n++] = (struct sample_row){.sampling = &greedy};
        st = h->n == f->sizes.max_logits ? choose(f, out) : ST_OK;
    }
    return st == ST_OK ? choose(f, out) : st;
}

/* Returns whether a row of the pass gets another draft after this one. */
static bool goes_on(const struct forward *f, const struct plan *p,
                    uint32_t depth, const struct plan_result *out)
{
    const struct forward_drafts *d = &f->drafts;

    for (uint32_t i = 0; i < d->n_rows; i++) {
        if (p->rows[d->plan_rows[i]].propose > depth + 1 &&
            wants_draft(p, d->plan_rows[i], depth, out)) {
            return true;
        }
    }
    return false;
}

/* Keeps the rows that want another draft, each with its newest one. */
static void gather_drafts(struct forward *f, const struct plan *p,
                          uint32_t depth, const struct plan_result *out)
{
    struct forward_drafts *d = &f->drafts;
    uint32_t n = 0;

    for (uint32_t i = 0; i < d->n_rows; i++) {
        struct kernel_row k = d->rows[i];
        uint32_t row = d->plan_rows[i];

        if (!wants_draft(p, row, depth, out)) {
            continue;
        }
        d->from[n] = k.first + k.n_tokens - 1;
        d->tokens[n] = out->drafts[row][depth - 1];
        k.position += k.n_tokens;
        k.first = n;
        k.n_tokens = 1;
        k.generated = true;
        d->plan_rows[n] = row;
        d->rows[n++] = k;
    }
    d->n_rows = d->n_tokens = n;
}

static enum status run_layer(struct forward *f, const struct plan *p,
                             uint32_t depth, struct plan_result *out)
{
    struct forward_drafts *d = &f->drafts;
    struct kernel_step step = {d->rows, d->n_rows, d->n_tokens};
    uint32_t layer = f->w->end - f->w->begin;

    kernels_begin(f->kernels, &step);
    kernels_draft_input(f->kernels, d->tokens, d->from);
    kernels_mixer(f->kernels, layer);
    kernels_ffn(f->kernels, layer);
    if (goes_on(f, p, depth, out)) {
        kernels_keep_hidden(f->kernels);
    }
    return forward_end(f, choose_drafts(f, p, depth, out), out);
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

enum status forward_draft(struct forward *f, const struct plan *p,
                          struct plan_result *out)
{
    uint64_t start = now_ns();
    enum status st = ST_OK;

    gather_known(f, p, out);
    for (uint32_t depth = 0; f->drafts.n_rows > 0 && st == ST_OK; depth++) {
        st = run_layer(f, p, depth, out);
        gather_drafts(f, p, depth + 1, out);
    }
    f->drafts.ns += now_ns() - start;
    return st;
}
